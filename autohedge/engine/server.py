"""The HTTP side of the sample engine: one connection, its requests in order, its answers played as scripts.

Rules
- A plain answer is written at once, without a task; only pauses, full slots and faults make one.
- When the client leaves, the work in progress is cancelled and counted: nothing goes on for nobody.
- Requests are answered in order; a pipelined one waits for the answer before it.

It must not know: dialects, models or which fault is on.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from typing import Protocol, cast

import httptools

from autohedge.engine.messages import FOREVER, Answer, Ending, Request
from autohedge.engine.render import immediate, script, whole
from autohedge.engine.state import State

LINGER = 0.2  # seconds
HIGH_WATER = 1 << 18  # bytes unsent before a stream waits for its reader


class Host(Protocol):
    """What a connection needs of the engine."""

    state: State
    connections: set[Connection]

    @property
    def listening(self) -> bool: ...
    def at_head(self, request: Request) -> Answer | None: ...
    def handle(self, request: Request) -> Answer: ...
    def head_of(self, answer: Answer) -> bytes: ...
    async def seat(self) -> None: ...
    def stand(self) -> None: ...


class Connection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, host: Host, loop: asyncio.AbstractEventLoop) -> None:
        self._host = host
        self._state = host.state
        self._loop = loop
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._request = Request(0)
        self._body: list[bytes] = []
        self._turn = 0
        self._queue: deque[Request] = deque()
        self._task: asyncio.Task[None] | None = None
        self._now: Request | None = None
        self._arrived = 0.0
        self._writable = asyncio.Event()
        self._writable.set()
        self._idle: asyncio.TimerHandle | None = None
        self._deaf = False  # answered before the body: the rest of it is read and dropped

    # --- asyncio --------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made = cast("asyncio.Transport", transport)  # uvloop's own class is none of asyncio's
        if not self._host.listening:  # it came in the moment of the stop: the kernel had accepted it, nobody serves it
            made.abort()
            return
        self._transport = made
        made.set_write_buffer_limits(HIGH_WATER)
        self._state.connections += 1
        self._host.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._host.connections.discard(self)
        if self._idle is not None:
            self._idle.cancel()
        if self._task is not None:
            self._task.cancel()
            if self._now is not None:
                self._state.cancelled[self._now.path] += 1
                self._state.cancel_times.append((self._now.path, self._loop.time() - self._arrived))
        self._queue.clear()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError:
            raise  # a bug of ours: the loop logs it and drops the connection
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            self.close()

    # --- httptools ------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._turn += 1
        self._request = Request(self._turn)
        self._body = []
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def on_url(self, url: bytes) -> None:
        self._request.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._request.headers.append((name, value))

    def on_headers_complete(self) -> None:
        request = self._request
        request.method = self._parser.get_method().decode()
        request.version = self._parser.get_http_version()
        request.keep_alive = self._parser.should_keep_alive()
        request.path = request.target.partition(b"?")[0].decode("latin-1")
        early = self._host.at_head(request)
        if early is not None:
            self._deaf = True
            self._begin(request, early)
        elif (request.header("expect") or "").lower() == "100-continue":
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        if self._deaf:
            return
        request = self._request
        request.body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        if self._task is not None or self._queue:
            self._queue.append(request)
        else:
            self._begin(request, self._host.handle(request))

    # --- answering ------------------------------------------------------------------------------------------------

    def _begin(self, request: Request, answer: Answer) -> None:
        state = self._state
        full = state.slots is not None and state.running >= state.slots and request.on == "work"
        if full or state.wedged or not immediate(answer):
            self._now, self._arrived = request, self._loop.time()
            self._task = self._loop.create_task(self._play(request, answer))
            return
        state.completed[request.path] += 1  # before the write: who has the answer finds it counted
        head = self._host.head_of(answer)
        if answer.pieces is None:
            self._write(whole(answer, head, request))
        else:
            self._write(b"".join([piece.data for piece in script(answer, head, request)]))
        if answer.begun is not None:
            answer.begun()
        self._end(request, answer)

    async def _play(self, request: Request, answer: Answer) -> None:
        """Send the script. Cancelled when the client leaves or the engine stops."""
        seated = request.on == "work"
        if seated:
            await self._host.seat()
        begun = answer.begun
        try:
            for piece in script(answer, self._host.head_of(answer), request):
                await self._rest(piece.pause)
                if begun is not None:
                    begun()
                    begun = None
                if piece.data:
                    self._write(piece.data)
                    await self._writable.wait()
        finally:
            if seated:
                self._host.stand()
        self._task = self._now = None
        if answer.ending is Ending.KEEP:
            self._state.completed[request.path] += 1
        self._end(request, answer)
        while self._queue and self._task is None and self._transport is not None:
            following = self._queue.popleft()
            self._begin(following, self._host.handle(following))

    async def _rest(self, pause: float) -> None:
        if self._state.wedged or pause == FOREVER:
            await asyncio.Event().wait()
        if pause:
            await asyncio.sleep(pause)
            await self._rest(0)  # wedged meanwhile (B20)

    def _end(self, request: Request, answer: Answer) -> None:
        if answer.ending is Ending.RESET:
            self.reset()
            return
        framed = answer.pieces is None or answer.claimed is not None or request.version == "1.1"
        stays = request.keep_alive and framed and not answer.close and not answer.unframed and answer.raw is None
        if self._deaf:  # let the client finish sending and read the answer, else it sees a reset
            self._idle = self._loop.call_later(LINGER, self.close)
        elif answer.ending is Ending.CUT or not stays or not self._host.listening:
            self.close()
        elif self._state.idle is not None:
            self._idle = self._loop.call_later(self._state.idle, self.close)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        """Send what is written, then FIN."""
        if self._transport is not None:
            self._transport.close()

    def leave(self) -> None:
        """The engine drains: an idle connection ends now, any other after its answer."""
        if self._task is None:
            self.close()

    def drop(self) -> asyncio.Task[None] | None:
        """The engine stops: cancel the work without counting it as the client's leaving. Returns that work."""
        task, self._task, self._now = self._task, None, None
        if task is not None:
            task.cancel()
        if self._transport is not None:
            self._transport.abort()
        return task

    def reset(self) -> None:
        """An RST, so that the client sees a reset connection and not an end."""
        if self._transport is None:
            return
        own = self._transport.get_extra_info("socket")
        if own is not None:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()
