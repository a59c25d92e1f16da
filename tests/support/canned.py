"""A worker that answers every POST with given bytes and keeps what it received: for answers that no engine would make up."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import cast

from autohedge.engine.sample import SampleEngine

ANSWER = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"one two"},"finish_reason":"stop"}]}'
STREAM = (
    b'data: {"choices":[{"index":0,"delta":{"content":"one"}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{"content":" two"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)
MODELS = b'{"object":"list","data":[{"id":"%b","object":"model"}]}'


class Canned:
    """`status`, `headers` and `body` are the answer of the moment, `wait` the seconds before it; `requests` what came: head, body.
    While `free` is not set, nothing is answered but the first `ahead` bytes of the body, with their head.

    It stands where a `SampleEngine` stands in `house(...)`.
    """

    host = "127.0.0.1"

    def __init__(self, model: str = "dex") -> None:
        self.model = model
        self.status = 200
        self.headers: list[tuple[str, str]] = [("content-type", "application/json")]
        self.body = b'{"model":"served","answers":{},"usage":{"input_tokens":1,"output_tokens":0}}'
        self.wait = 0.0
        self.free = asyncio.Event()
        self.free.set()
        self.ahead = 0
        self.port = 0
        self.received: Counter[str] = Counter()
        self.healthy = 200
        self.requests: list[tuple[bytes, bytes]] = []
        self.url = ""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def engine(self) -> SampleEngine:
        """For `house(...)`, which starts and stops it."""
        return cast("SampleEngine", self)

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, self.host, self.port)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.url = f"http://{host}:{port}"
        return self.url

    async def stop(self) -> None:
        """Listen no longer, and end the connections that stand."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.lower().split(b"\r\n")
                size = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
                body = await reader.readexactly(size)
                await self._answer(writer, head, body)
                await writer.drain()
        self._tasks.discard(task)
        writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, head: bytes, body: bytes) -> None:
        path = head.split(b" ")[1]
        self.received[path.decode()] += 1
        if head.startswith(b"POST"):
            self.requests.append((head, body))
            await asyncio.sleep(self.wait)
            answer, ahead = whole(self.status, self.headers, self.body), 0
            if self.ahead:
                ahead = len(answer) - len(self.body) + self.ahead
                writer.write(answer[:ahead])
            await self.free.wait()
            writer.write(answer[ahead:])
        elif path == b"/v1/models":
            writer.write(whole(200, [("content-type", "application/json")], MODELS % self.model.encode()))
        else:
            writer.write(whole(self.healthy if path.startswith(b"/health") else 404, [], b""))


def held(*, stream: bool = False) -> Canned:
    """A worker that answers chats with the model "m" when it is told to (`free.set()`), of a stream all but the first word."""
    worker = Canned("m")
    worker.free.clear()
    worker.body = ANSWER
    if stream:
        worker.headers = [("content-type", "text/event-stream")]
        worker.body, worker.ahead = STREAM, STREAM.index(b"\n\n") + 2
    return worker


def whole(status: int, headers: list[tuple[str, str]], body: bytes) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers), f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body
