"""An app with one behaviour per path, a protocol in a hurry, and servers for both event loops."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator
from typing import Any

from autohedge.wire.server import TIMES, Times
from tests.wire.raw import hold_up
from tests.wire.serving import Receive, Send, Server, read_body, reply

HOST = b"Host: a\r\n"
POST = b"POST / HTTP/1.1\r\n" + HOST
LAST = b"Connection: close\r\n\r\n"


def get(path: str, more: bytes = b"\r\n") -> bytes:
    return f"GET /{path} HTTP/1.1\r\n".encode() + HOST + more


TURN: contextvars.ContextVar[int] = contextvars.ContextVar("turn", default=0)


HASTY = Times(head=0.5, body=0.8, idle=1.2, write=1.0, linger=1.0, drain=2.0)  # the same rules in less time


class Lab:
    """An app with one behaviour per path."""

    def __init__(self) -> None:
        self.largest = 0
        self.peak = 0
        self.running = 0
        self.gate = threading.Event()
        self.meanwhile: Callable[[], None] = lambda: None
        self.context: list[int] = []

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            await getattr(self, scope["path"][1:].partition("/")[0] or "root")(scope, receive, send)
        finally:
            self.running -= 1

    async def opened(self) -> None:
        while not self.gate.is_set():  # noqa: ASYNC110  the test opens it, in another thread
            await asyncio.sleep(0.005)

    async def root(self, scope: Any, receive: Receive, send: Send) -> None:
        pieces = await read_body(receive)
        self.largest = max(self.largest, *map(len, pieces))
        await reply(send, str(sum(map(len, pieces))).encode())

    async def hang(self, scope: Any, receive: Receive, send: Send) -> None:
        await read_body(receive)
        await asyncio.sleep(60)

    async def stream(self, scope: Any, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"data: x\n\n", "more_body": True})
            await asyncio.sleep(0.01)

    async def stubborn(self, scope: Any, receive: Receive, send: Send) -> None:
        """Swallows its cancel and goes on."""
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        assert (await receive())["type"] == "http.disconnect"
        await reply(send, b"nobody hears this")

    async def wait(self, scope: Any, receive: Receive, send: Send) -> None:
        await self.opened()
        await reply(send, scope["path"].encode())

    async def held(self, scope: Any, receive: Receive, send: Send) -> None:
        """The loop itself is held up."""
        hold_up(self.meanwhile)
        await reply(send, b"held")

    async def slow(self, scope: Any, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.1)
        await reply(send, scope["path"].encode())

    async def after(self, scope: Any, receive: Receive, send: Send) -> None:
        """Works on after its answer."""
        await reply(send, b"done")
        await asyncio.sleep(0.1)

    async def early(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answers without reading."""
        await reply(send, b"too large", 413)

    async def deaf(self, scope: Any, receive: Receive, send: Send) -> None:
        """Reads one piece and then nothing for a while."""
        message = await receive()
        size = len(message["body"])
        await self.opened()
        if message["more_body"]:
            size += sum(map(len, await read_body(receive)))
        await reply(send, str(size).encode())

    async def flood(self, scope: Any, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})

    async def burst(self, scope: Any, receive: Receive, send: Send) -> None:
        await reply(send, b"x" * (8 << 20))

    async def count(self, scope: Any, receive: Receive, send: Send) -> None:
        """A context variable of one request is not seen by the next."""
        self.context.append(TURN.get())
        TURN.set(TURN.get() + 1)
        await asyncio.sleep(0.01)
        await reply(send, b"counted")


Start = Callable[..., Server]


def starting(loop: str) -> Iterator[Start]:
    """Starts servers for a test and stops them after it."""
    running: list[Server] = []

    def run(lab: Lab, times: Times = TIMES, **options: Any) -> Server:
        server = Server(lab, loop, times, **options)
        server.start()
        running.append(server)
        return server

    yield run
    for server in running:
        server.server.force_exit = True
        server.stop()
