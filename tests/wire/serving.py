"""A real uvicorn.Server with EdgeProtocol in a thread of its own, and raw sockets to talk to it."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import uvicorn

from autohedge.wire.server import TIMES, EdgeProtocol, Times

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Any, Receive, Send], Awaitable[None]]


class Server:
    """`cancelled` counts app tasks that saw a CancelledError, `ended` those that left the app at all."""

    def __init__(self, app: App, loop: str, times: Times = TIMES, **options: Any) -> None:
        self.cancelled = 0
        self.entered = 0
        self.ended = 0
        self.app = app
        settings: dict[str, Any] = {
            "port": 0,
            "loop": loop,
            "interface": "asgi3",
            "lifespan": "off",
            "log_config": None,
            "date_header": False,
            "server_header": False,
            "proxy_headers": False,
            **options,
        }
        self.server = uvicorn.Server(
            uvicorn.Config(self._counted, http=cast("Any", partial(EdgeProtocol, times=times)), **settings)
        )
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    async def _counted(self, scope: Any, receive: Receive, send: Send) -> None:
        self.entered += 1
        try:
            await self.app(scope, receive, send)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.ended += 1

    def start(self) -> None:
        self.thread.start()
        assert eventually(lambda: self.server.started)
        self.port: int = self.server.servers[0].sockets[0].getsockname()[1]

    def stop(self, within: float = 30.0) -> None:
        self.server.should_exit = True
        self.thread.join(within)
        assert not self.thread.is_alive()

    @property
    def connections(self) -> int:
        return len(self.server.server_state.connections)

    @property
    def tasks(self) -> int:
        return len(self.server.server_state.tasks)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    @contextmanager
    def open(self, data: bytes = b"") -> Iterator[socket.socket]:
        with self.connect() as sock:
            sock.sendall(data)
            yield sock

    def say(self, data: bytes) -> bytes:
        """Send, and read to the end of the connection."""
        with self.open(data) as sock:
            return to_end(sock)


def eventually(true: Callable[[], bool], within: float = 30.0) -> bool:
    end = time.monotonic() + within
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.002)
    return true()


def to_end(sock: socket.socket) -> bytes:
    """All bytes up to a clean end."""
    pieces = []
    while piece := sock.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def until(sock: socket.socket, mark: bytes, times: int = 1) -> bytes:
    data = b""
    while data.count(mark) < times:
        piece = sock.recv(65536)
        assert piece, f"the connection ended after {data!r}"
        data += piece
    return data


def answer(sock: socket.socket, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    """One answer, read by the standard library's client."""
    response = http.client.HTTPResponse(sock, method=method)
    response.begin()
    body = response.read()
    return response.status, {name.lower(): value for name, value in response.getheaders()}, body


def split(raw: bytes) -> tuple[int, dict[bytes, bytes], bytes]:
    """Status, headers and the untouched rest of an answer."""
    head, _, rest = raw.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    headers = dict(line.split(b": ", 1) for line in lines)
    return int(first.split()[1]), headers, rest


def is_refused(raw: bytes, status: int) -> None:
    """The answer to a bad request: JSON in OpenAI's envelope, one answer only, connection closed."""
    got, headers, body = split(raw)
    assert got == status, raw
    assert headers[b"connection"] == b"close"
    assert headers[b"content-type"] == b"application/json"
    error = json.loads(body)["error"]
    assert {**error, "message": ""} == {
        "message": "",
        "type": "invalid_request_error",
        "param": None,
        "code": "bad_request",
    }
    assert error["message"]


async def read_body(receive: Receive) -> list[bytes]:
    pieces = []
    while True:
        message = await receive()
        assert message["type"] == "http.request"
        pieces.append(message["body"])
        if not message["more_body"]:
            return pieces


async def reply(send: Send, body: bytes, status: int = 200, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers or []})
    await send({"type": "http.response.body", "body": body})


async def echo(scope: Any, receive: Receive, send: Send) -> None:
    """Answers with what it was given."""
    pieces = await read_body(receive)
    seen = {
        "method": scope["method"],
        "path": scope["path"],
        "raw_path": scope["raw_path"].decode(),
        "query": scope["query_string"].decode(),
        "version": scope["http_version"],
        "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]],
        "body": b"".join(pieces).decode("latin-1"),
        "pieces": len([piece for piece in pieces if piece]),
    }
    await reply(send, json.dumps(seen).encode())
