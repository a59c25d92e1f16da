"""One request and its answer on a connection of ours: ASGI's receive and send, and the task of the app.

Rules
- The head and the first piece of the body leave in one write, so a head waits for the first body message. An empty piece
  with `more_body` sends the head alone.
- The app's own content-length is kept and held to. Without one, a whole answer gets its length; a streamed one is chunked,
  or ends with the connection in HTTP/1.0 (never chunked there).
- An app that has its whole answer and this very exchange's `send` may call `whole` instead of sending two messages.
- A client that leaves cancels the app's task, once. Then nothing is logged, `send` does nothing, `receive` says disconnect.
- `send` waits while the client reads slower than the app writes; `receive` lets the client go on sending.
- An answer that breaks off is cut visibly: never a proper end of chunks, a short length, or a quiet close.

It must not know: the parser, timers, other requests of the connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Protocol

from uvicorn.server import ServerState

from autohedge.wire.server_rules import BODILESS, Header, answer_head, plain_head

LOGGER = logging.getLogger("autohedge.server")

Message = MutableMapping[str, Any]
App = Callable[[Any, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]

LAST = b"0\r\n\r\n"
UNREAD = 256 << 10  # bytes of request body that may wait for the app before the client is held


class AbortResponse(Exception):  # noqa: N818  a decision of the app, not a failure of the server
    """Raised by an app to cut an answer that it has begun, so that the client sees the cut. Not logged."""


# How the client finds the end of an answer's body. Plain numbers: an enum costs a microsecond per request here.
UNKNOWN = 0  # the head has not left yet
LENGTH = 1
CHUNKED = 2
CLOSE = 3
NONE = 4  # no body, whatever the app sends
WHOLE: Message = {}  # stands for the start of an answer that was sent whole


class Line(Protocol):
    """What an exchange needs of its connection."""

    congested: bool
    server_state: ServerState
    write: Callable[[bytes], None]

    async def drained(self) -> None:
        """Wait until the transport takes more."""

    def hold(self) -> None:
        """Let the client wait: the app has enough to read."""

    def taken(self) -> None:
        """The app took what waited."""

    def proceed(self) -> None:
        """The app wants the body that its client holds back."""

    def finished(self, exchange: Exchange) -> None:
        """The answer was written to its end."""

    def failed(self, exchange: Exchange) -> None:
        """The app failed."""

    def cut(self, exchange: Exchange) -> None:
        """The answer must be seen to break off."""


class Exchange:
    """`keep`: the client allows another request after this one. `expects`: it waits for a 100 before it sends its body."""

    __slots__ = (
        "_bare",
        "_chunks",
        "_left",
        "_line",
        "_start",
        "_told",
        "_unread",
        "_waiter",
        "done",
        "expects",
        "framing",
        "gone",
        "keep",
        "more",
        "old",
        "scope",
        "task",
    )

    def __init__(self, line: Line, scope: dict[str, Any], keep: bool, old: bool, expects: bool) -> None:
        self.scope = scope
        self.keep = keep
        self.old = old  # HTTP/1.0
        self.expects = expects
        self.more = True  # the request's body is not complete
        self.done = False  # the answer is written to its end
        self.gone = False  # nobody is there to answer
        self.framing = UNKNOWN
        self.task: asyncio.Task[None] | None = None
        self._bare = scope["method"] == "HEAD"  # kept apart: an app may change its scope
        self._line = line
        self._chunks: list[bytes] = []
        self._unread = 0
        self._told = False  # the app has the end of the body
        self._waiter: asyncio.Future[None] | None = None
        self._start: Message | None = None
        self._left = 0  # bytes still owed to the app's content-length

    # --- the connection's side --------------------------------------------------------------------------------------

    def add(self, body: bytes) -> None:
        """A piece of the request's body came."""
        self._chunks.append(body)
        self._unread += len(body)
        if self._unread > UNREAD:
            self._line.hold()
        if self._waiter is not None:
            self._wake()

    def end(self) -> None:
        """The request's body is complete."""
        self.more = False
        if self._waiter is not None:
            self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def abandon(self) -> None:
        """The client left: cancel the app's task, once. The task leaves the server's set when it has really ended."""
        if self.gone:
            return
        self.gone = True
        task = self.task
        if task is not None and not self.done:
            task.add_done_callback(self._line.server_state.tasks.discard)
            task.cancel()
        self._wake()

    async def run(self, app: App) -> None:
        """The app's task from start to end."""
        line = self._line
        try:
            await app(self.scope, self.receive, self.send)
            if not self.done and not self.gone:
                LOGGER.error("the app returned before its answer was complete")
                line.failed(self)
        except asyncio.CancelledError:
            if not self.done and not self.gone:
                line.cut(self)
            raise
        except Exception as error:
            if self.gone or self.done:
                LOGGER.exception("the app failed after its answer was complete or its client gone")
            elif _is_abort(error):
                line.cut(self)
            else:
                LOGGER.exception("the app failed")
                line.failed(self)
        finally:
            if self.task is not None:
                line.server_state.tasks.discard(self.task)
                self.task = None

    # --- the app's side ---------------------------------------------------------------------------------------------

    async def receive(self) -> Message:
        """The body as far as it came, in one piece; after its end, waits for the client to leave or the answer to end."""
        while not (self.gone or self.done):
            chunks = self._chunks
            if chunks:
                self._chunks = []
                self._told = not self.more
                self.expects = False
                if self._unread > UNREAD:
                    self._line.taken()
                self._unread = 0
                return {
                    "type": "http.request",
                    "body": chunks[0] if len(chunks) == 1 else b"".join(chunks),
                    "more_body": self.more,
                }
            if not (self.more or self._told):
                self._told = True
                return {"type": "http.request", "body": b"", "more_body": False}
            if self.expects:
                self.expects = False
                if self.framing == UNKNOWN:
                    self._line.proceed()
            if self._waiter is None:
                self._waiter = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._waiter)
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take the app's next message. Raises RuntimeError for one out of order, ValueError for a head that may not leave."""
        if self._line.congested and not self.gone:
            await self._line.drained()
        if self.gone:
            return
        kind, start = message["type"], self._start
        if start is not None:
            if kind != "http.response.body" or self.done:
                raise RuntimeError(f"the app sent {kind} out of order")
            self._write(start, message.get("body", b""), message.get("more_body", False))
        elif kind == "http.response.start":
            self._start = message
        else:
            raise RuntimeError(f"the app sent {kind} out of order")

    async def whole(self, status: int, headers: Iterable[Header], body: bytes, *, clean: bool = False) -> None:
        """What `send` does with the two messages of a plain answer. Raises as `send`. `clean`: the headers say nothing of the
        connection or the length; nobody looks for that then.
        """
        if self._line.congested and not self.gone:
            await self._line.drained()
        if self.gone:
            return
        if self._start is not None:
            raise RuntimeError("the app sent a whole answer out of order")
        if not clean or self.more or self.old or not self.keep or self._bare or status in BODILESS:
            self._start = {"status": status, "headers": headers}
            self._write(self._start, body, more=False)
            return
        line = self._line
        head = plain_head(status, [*line.server_state.default_headers, *headers], len(body))
        self._start = WHOLE
        self.framing = LENGTH
        self.done = True
        line.write(head + body)
        if self._waiter is not None:
            self._wake()
        line.finished(self)

    def _write(self, start: Message, body: bytes, more: bool) -> None:
        framing, head = self.framing, b""
        if framing == UNKNOWN:
            framing, head = self._open(start, body, more)
        if framing == LENGTH:
            self._left -= len(body)
            if self._left and (self._left < 0 or not more):
                raise RuntimeError("the app's body does not fit its content-length")
        elif framing == CHUNKED:
            body = b"%x\r\n%b\r\n%b" % (len(body), body, b"" if more else LAST) if body else (b"" if more else LAST)
        elif framing == NONE:
            body = b""
        self.framing = framing
        if head or body:
            self._line.write(head + body)
        if not more:
            self.done = True
            if self._waiter is not None:
                self._wake()
            self._line.finished(self)

    def _open(self, start: Message, body: bytes, more: bool) -> tuple[int, bytes]:
        """The answer's framing and head; decides whether the connection stays."""
        status: int = start["status"]
        head, length, closing = answer_head(status, start.get("headers", ()), self._line.server_state.default_headers)
        framing = LENGTH
        if self._bare or status in BODILESS:
            framing = NONE
            if (
                length is None and self._bare and (body or more)
            ):  # as for GET; an empty answer says nothing of GET's length
                head += b"\r\ntransfer-encoding: chunked" if more else b"\r\ncontent-length: %d" % len(body)
        elif length is not None:
            self._left = length
        elif not more:
            self._left = len(body)
            head += b"\r\ncontent-length: %d" % len(body)
        elif self.old:
            framing = CLOSE
        else:
            framing = CHUNKED
            head += b"\r\ntransfer-encoding: chunked"
        # An unread rest of the body would stand before the next request, so such a connection ends here.
        self.keep = self.keep and not (closing or self.more or framing == CLOSE)
        if not self.keep:
            head += b"\r\nconnection: close"
        elif self.old:
            head += b"\r\nconnection: keep-alive"
        return framing, head + b"\r\n\r\n"


def _is_abort(error: Exception) -> bool:
    """Whether an error is AbortResponse, alone or as all that a task group raised."""
    if isinstance(error, ExceptionGroup):
        return error.split(AbortResponse)[1] is None
    return isinstance(error, AbortResponse)
