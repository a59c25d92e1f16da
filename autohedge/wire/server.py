"""The server side of a connection: a strict HTTP/1.1 protocol for uvicorn that speaks ASGI 3 to the app.

It replaces uvicorn's own protocol, which costs half as much again per request (an event, a timer, two regexes per header
and a second write), and it holds what a proxy must hold:
- A client that leaves cancels the app's task. EOF counts as leaving, as in Go's net/http and nginx: a half-closed client and
  a dead one look the same until something is written.
- What two readers could read in two ways is refused, and the connection ends (server_rules.py, server_reader.py).
- What is written in one turn of the loop leaves together (outbox.py).
- Slow clients have a time for each step, see `Times`. One timer per connection serves them all; it
  is armed again only when it fires.
- Requests of one connection are answered in order. Behind an unanswered one, at most one read and `STASH` bytes are kept.
- A connection that ends while its client still sends is half-closed and drained for a while, so that the answer (a 413, a
  400) arrives and no reset takes it away (RFC 9112 9.6).

uvicorn must be configured without proxy headers, date and server header to keep the price; what it is configured to send
(`default_headers`) is sent. It must not know: doors, problems, settings, engines.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import socket
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import httptools
import uvicorn
from uvicorn.server import ServerState

from autohedge.wire.outbox import Outbox
from autohedge.wire.server_exchange import CLOSE, UNKNOWN, AbortResponse, App, Exchange
from autohedge.wire.server_reader import BODY, DRAINING, FEED, HEAD, READY, STASHING, RequestReader
from autohedge.wire.server_rules import CONTINUE, refusal

__all__ = ["AbortResponse", "EdgeProtocol"]

LOGGER = logging.getLogger("autohedge.server")

LATE = 0.005  # seconds after which a timer is late, and how long it is set again for
STASH = 64 << 10  # bytes of later requests that are kept before the client is held
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset
NOBODYS = httptools.HttpRequestParser(object())  # in the place of a parser that is not needed any more


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds that a client has for each step."""

    head: float = 20.0  # from the first byte of a head to its end
    body: float = 60.0  # between two pieces of a request's body
    idle: float = 75.0  # between two requests, and for a last answer to leave
    write: float = 60.0  # for a client that does not read to read something
    linger: float = 5.0  # of silence from a client that is told to go
    drain: float = 30.0  # for the whole farewell
    drain_bytes: int = 256 << 20  # for the same


TIMES = Times()


class EdgeProtocol(RequestReader, asyncio.Protocol):
    """One connection."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        times: Times = TIMES,
        outbox: Outbox | None = None,
    ) -> None:
        super().__init__(config.root_path)
        self._times = times
        self._outbox = outbox or Outbox()
        if not config.loaded:
            config.load()
        self._app = cast("App", config.loaded_app)
        self._asgi = {"version": config.asgi_version, "spec_version": "2.3"}
        self._state = app_state
        self._loop = _loop or asyncio.get_running_loop()
        self.server_state = server_state
        self.congested = False
        self._drains: list[asyncio.Future[None]] = []
        self._backlog = 0  # bytes not written when the timer was last armed for a congested client

        self._queue: deque[Exchange] = deque()
        self._stash = bytearray()
        self._parting = b""  # the last words, said after the answers before them
        self._closing = False  # the server shuts down
        self._held = False
        self._drained = 0

        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0  # when the timer fires
        self._deadline = 0.0  # when it should; the timer may fire before
        self._drain_until = 0.0

    # --- asyncio's side ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.write: Callable[[bytes], None] = partial(self._outbox.put, self._transport)
        self._context = contextvars.copy_context()
        self._base = {
            "type": "http",
            "asgi": self._asgi,
            "server": _address(transport.get_extra_info("sockname")),
            "client": _address(transport.get_extra_info("peername")),
            "scheme": "https" if transport.get_extra_info("sslcontext") else "http",
            "root_path": self._root,
        }
        cast("set[Any]", self.server_state.connections).add(self)
        self._within(self._times.idle)

    def data_received(self, data: bytes) -> None:
        if self._mode:
            self._divert(data)
        else:
            self._feed(data)

    def eof_received(self) -> None:
        if self._exchange is not None:
            self._abandon()
            self._transport.abort()

    def connection_lost(self, _exc: Exception | None) -> None:
        cast("set[Any]", self.server_state.connections).discard(self)
        self._abandon()
        if self._timer is not None:
            self._timer.cancel()
        self.resume_writing()
        self._parser = NOBODYS  # ours holds us, we hold it

    def pause_writing(self) -> None:
        self.congested = True
        self._backlog = self._transport.get_write_buffer_size()
        self._within(self._times.write)

    def resume_writing(self) -> None:
        self.congested = False
        for waiter in self._drains:
            if not waiter.done():
                waiter.set_result(None)
        self._drains.clear()

    def shutdown(self) -> None:
        """The server stops: idle connections close now, busy ones after the answer that is being made."""
        self._closing = True
        if self._exchange is None:
            self._close()
        else:
            self._exchange.keep = False

    # --- the reader's side ------------------------------------------------------------------------------------------

    def _begun(self, exchange: Exchange) -> None:
        if self._exchange is None:
            self._exchange = exchange
            task = exchange.task = self._loop.create_task(exchange.run(self._app), name="exchange")
            self.server_state.tasks.add(task)
        else:
            self._queue.append(exchange)
            self._mode = STASHING

    def _unfinished(self, *, fresh: bool) -> None:
        if self._phase == BODY:
            self._within(self._times.body)
        elif fresh:
            self._within(self._times.head)

    def _fault(self, error: Exception) -> None:
        LOGGER.error("the server failed while it read a request", exc_info=error)
        self._refuse(500, "the request could not be read; the log has the reason")

    def _refuse(self, status: int, message: str) -> None:
        """Answer a bad request, after the answers before it. Its own app task, if it has one, is cancelled."""
        self._mode = DRAINING
        place = self._place()
        reading, phase, self._phase = self._reading, self._phase, READY
        if phase == BODY and reading is not None:
            if reading is not self._exchange:
                self._queue.pop()
            elif reading.framing != UNKNOWN:
                reading.abandon()
                self.cut(reading)
                return
            else:
                self._abandon()
        self._parting = refusal(status, message, place)
        if self._exchange is None:
            self._part()

    def _divert(self, data: bytes) -> None:
        """Bytes that are not to be read now."""
        if self._mode == STASHING:
            self._stash += data
            if len(self._stash) > STASH:
                self.hold()
            return
        self._drained += len(data)
        if self._drained > self._times.drain_bytes:
            self._transport.abort()
        elif self._exchange is None:
            self._within(min(self._times.linger, self._drain_until - self._loop.time()))

    # --- the exchange's side ----------------------------------------------------------------------------------------

    def finished(self, exchange: Exchange) -> None:
        self._exchange = None
        self.server_state.total_requests += 1
        if not exchange.keep or self._closing:
            if exchange.more:
                self._linger()
            else:
                self._close()
        elif self._queue:
            self._context.run(self._advance)  # not in the context of the app that just ended
        elif self._parting:
            self._part()
        elif self._phase == READY:
            if self._timer is None:
                self._within(self._times.idle)
            else:
                self._deadline = self._loop.time() + self._times.idle

    def failed(self, exchange: Exchange) -> None:
        if exchange.framing != UNKNOWN:
            self.cut(exchange)
            return
        self._leave(exchange)
        self._parting = refusal(
            500, "the server failed on this request; the log has the reason", exchange.scope["raw_path"]
        )
        self._part()

    def cut(self, exchange: Exchange) -> None:
        """What was written before the cut still arrives, if the client reads it and the cut can be told from an end."""
        self._outbox.flush()
        self._leave(exchange)
        if exchange.framing == CLOSE:  # an orderly close would look like the end
            raw: socket.socket | None = self._transport.get_extra_info("socket")
            if raw is not None:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self._transport.abort()
        elif self.congested:
            self._transport.abort()
        else:
            self._close()

    async def drained(self) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._drains.append(waiter)
        await waiter

    def hold(self) -> None:
        if not self._held and not self._transport.is_closing():
            self._held = True
            self._transport.pause_reading()

    def taken(self) -> None:
        if self._mode != STASHING:
            self._release()

    def proceed(self) -> None:
        self.write(CONTINUE)
        self._within(self._times.body)

    # --- what follows -----------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Answer the next request of the queue; read on when none waits behind it."""
        self._begun(self._queue.popleft())
        if self._queue or self._mode != STASHING:
            return
        self._mode = FEED
        self._release()
        if self._stash:
            stash = bytes(self._stash)
            self._stash.clear()
            self._feed(stash)
        elif self._phase:
            self._unfinished(fresh=True)

    def _release(self) -> None:
        if self._held and not self._transport.is_closing():
            self._held = False
            self._transport.resume_reading()

    def _leave(self, exchange: Exchange) -> None:
        """Stop serving, from inside the exchange's own task."""
        exchange.gone = True
        self._abandon()
        self._mode = DRAINING
        self._phase = READY

    def _abandon(self) -> None:
        """Nobody waits for an answer any more: cancel what works for it."""
        exchange, self._exchange, self._reading = self._exchange, None, None
        self._queue.clear()
        if exchange is not None:
            exchange.abandon()

    def _part(self) -> None:
        self.write(self._parting)
        self._linger()

    def _linger(self) -> None:
        """Nothing more is said; let the client finish talking, so that it hears what was said."""
        self._mode = DRAINING
        self._phase = READY
        self._release()
        self._outbox.flush()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._drain_until = self._loop.time() + self._times.drain
        self._within(self._times.linger)

    def _close(self) -> None:
        """Close when all is written; a client that does not read it has `idle_seconds`."""
        self._mode = DRAINING
        self._outbox.flush()
        self._transport.close()
        self._within(self._times.idle)

    # --- time -------------------------------------------------------------------------------------------------------

    def _within(self, seconds: float) -> None:
        """The next step must come within `seconds`."""
        self._deadline = self._loop.time() + seconds
        if self._timer is not None:
            if self._due <= self._deadline:
                return
            self._timer.cancel()
        self._due = self._deadline
        self._timer = self._loop.call_later(seconds, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._loop.time()
        left = self._deadline - now
        if not self.congested and (self._mode == STASHING or (self._exchange is not None and self._phase == READY)):
            return  # it is our turn, not the client's
        if now - self._due > LATE:  # the loop was held up: what the client sent meanwhile is read first
            left = max(left, LATE)
        if left > 0.001:
            self._within(left)
        elif self.congested:
            self._slow_reader()
        else:
            self._overdue()

    def _slow_reader(self) -> None:
        """A client that does not take its answer is gone; one that takes it slowly is not."""
        backlog = self._transport.get_write_buffer_size()
        if backlog < self._backlog:
            self._backlog = backlog
            self._within(self._times.write)
        else:
            self._abandon()
            self._transport.abort()

    def _overdue(self) -> None:
        reading = self._reading
        if self._mode == DRAINING:
            self._transport.abort()
        elif self._phase == HEAD:
            self._refuse(408, f"the request head was not complete after {self._times.head:g} s")
        elif self._phase == BODY and reading is not None:
            if self._held or reading.expects or reading.framing != UNKNOWN:
                self._within(self._times.body)  # the app does not read
            else:
                self._refuse(408, f"the request body stalled for {self._times.body:g} s")
        else:
            self._close()


def _address(name: Any) -> tuple[str, int] | None:
    """Host and port of a peer; IPv6 names have four parts, Unix sockets none."""
    return (name[0], name[1]) if isinstance(name, tuple) and len(name) >= 2 else None
