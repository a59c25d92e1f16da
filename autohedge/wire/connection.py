"""One TCP or TLS connection to a replica: it carries one exchange at a time and rests in the pool between them.

Rules
- One deadline and at most one timer per connection. The deadline moves at every wait; the timer is only set again when
  it would fire too late, or when it fired too early. Meaning of the deadline: idle expiry at rest, first byte until the
  final head, stall afterwards. While the caller is busy with what it has, no clock runs.
- A timer that is late itself judges nobody: the loop was held up (a busy machine, a pause of the process), and what came
  meanwhile still lies in the socket. It is read first.
- The first byte is bounded as a whole; after it any bytes, also comments and chunk headers, re-arm the stall (B88).
- Reading pauses over `high_water` bytes that nobody took, and goes on when they are taken.
- A large body goes out in slices, as fast as the peer takes them, and the answer is read meanwhile: an early answer (413)
  to a half-sent body arrives. Such a connection is closed afterwards.
- A wait also ends when the peer's machine was not heard of for `acknowledge` seconds (lifeline.py). The kernel says so, or is
  asked when the timer fires, which is as often as that at least.
- Closing never waits: what was not flushed by then is of no use to anybody.
- Bytes that nobody asked for close the connection.

It must not know: HTTP framing (answer.py), or which connection is used next (pool.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, cast

from autohedge.core.types import Failure
from autohedge.wire import lifeline
from autohedge.wire.answer import Answer
from autohedge.wire.errors import end_of
from autohedge.wire.outbox import Outbox

_SLICE = 131072  # bytes of body that are written in one go
_NOTHING = memoryview(b"")
_TICK = 0.002  # seconds; loops count in milliseconds
LATE = 0.005  # seconds after which a timer is late, and how long it is set again for: one look at the sockets is enough

_NO_DELAY: lifeline.Option = (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@dataclass(frozen=True, slots=True)
class Options:
    """Bounds of the connections to one replica: seconds, counts, bytes. `ssl` is used for TLS addresses only."""

    connect: float = 2.0  # name lookup, TCP and TLS together
    acknowledge: float = 6.0  # how long the peer's machine may say nothing; 0 does not look
    keep_alive: float = 4.0  # how long an idle connection is kept
    max_idle: int = 64
    ssl: ssl.SSLContext | None = None
    guard: Callable[[str], bool] | None = None  # asked whether the address that was reached may be used
    max_head: int = 65536
    high_water: int = 262144  # body bytes that wait to be taken before reading pauses
    outbox: Outbox = field(default_factory=Outbox)  # by which requests leave


class Owner(Protocol):
    """What a connection needs of the pool that opened it."""

    def rest(self, connection: Connection) -> bool:
        """It could be used again; False when it is not wanted."""

    def lost(self, connection: Connection) -> None:
        """It is gone."""


class Connection(asyncio.Protocol):
    """The socket side of an exchange; see the module for its rules."""

    __slots__ = (
        "_answer",
        "_deadline",
        "_fires",
        "_full",
        "_loop",
        "_options",
        "_owner",
        "_paused",
        "_rest",
        "_timer",
        "_transport",
        "_waiter",
    )

    def __init__(self, owner: Owner, options: Options, loop: asyncio.AbstractEventLoop) -> None:
        self._owner = owner
        self._options = options
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0  # loop seconds
        self._fires = 0.0  # when the timer does
        self._paused = False  # reading, by us
        self._full = False  # writing, by the transport
        self._rest = _NOTHING  # of the body, not yet written

    # --- for the pool ---

    @property
    def alive(self) -> bool:
        """Open, as far as anybody told us."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def fresh(self) -> bool:
        """Whether it may be used after its rest: alive and not expired."""
        transport = self._transport
        return transport is not None and not transport.is_closing() and self._deadline > self._loop.time()

    @property
    def peer(self) -> str:
        """The address that was reached, "" when there is none."""
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return str(name[0]) if name else ""

    @property
    def left(self) -> float:
        """Seconds until the deadline of the last wait."""
        return self._deadline - self._loop.time()

    def send(self, head: bytes, body: bytes, *, bodiless: bool, stall: float) -> Answer:
        """Write a whole request; the caller waits for `Answer.begin`. The connection is busy until it is released."""
        transport = self._transport
        assert transport is not None
        self._answer = answer = Answer(self, bodiless=bodiless, stall=stall, max_head=self._options.max_head)
        if len(body) <= _SLICE:
            self._options.outbox.put(transport, head + body)
        else:
            transport.write(head)
            self._rest = memoryview(body)
            self._pump()
        return answer

    def close(self) -> None:
        """Close now; `connection_lost` follows in the loop's next round."""
        self._rest = _NOTHING
        if self._transport is not None:
            self._transport.abort()

    # --- for the answer ---

    async def wait(self, seconds: float) -> None:
        """See `Link`. One future, and a timer only when the present one would be late."""
        self._watch(seconds)
        self._waiter = waiter = self._loop.create_future()
        try:
            await waiter
        finally:
            if self._waiter is waiter:  # else somebody else waits already
                self._waiter = None

    def drained(self) -> None:
        if self._paused and self._transport is not None:
            self._paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def part(self) -> None:
        answer, transport = self._answer, self._transport
        self._answer = None
        if self._waiter is not None:
            self._wake()
        if (
            answer is not None
            and answer.reusable
            and transport is not None
            and not transport.is_closing()
            and not (self._rest or self._full or transport.get_write_buffer_size())
            and self._owner.rest(self)
        ):
            if self._paused:
                self.drained()
            self._watch(self._options.keep_alive)
        else:
            self.close()

    # --- what the loop calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        with contextlib.suppress(OSError):  # it may be gone again already; the loop will tell
            for option in (_NO_DELAY, *lifeline.to_engine(self._options.acknowledge)):
                sock.setsockopt(*option)

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None:
            self.close()
            return
        news = answer.feed(data)
        if answer.failure is not None:
            self.close()
        elif answer.held > self._options.high_water and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        if self._waiter is not None:
            if news:
                self._wake()
            elif answer.status:
                self._watch(answer.stall)

    def eof_received(self) -> None:
        self._gone(None)  # the loop closes, and whoever holds the answer releases it

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._pump()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone(exc)
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._owner.lost(self)

    # --- within ---

    def _pump(self) -> None:
        while self._rest and not self._full and self._transport is not None:
            piece, self._rest = self._rest[:_SLICE], self._rest[_SLICE:]
            self._transport.write(piece)

    def _gone(self, error: Exception | None) -> None:
        if self._answer is not None:
            self._answer.close(None if error is None else end_of(error))
            self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def _watch(self, seconds: float) -> None:
        self._deadline = deadline = self._loop.time() + seconds
        if self._timer is not None:
            if self._fires <= deadline:
                return
            self._timer.cancel()
        self._arm(seconds)

    def _arm(self, seconds: float) -> None:
        soon = min(seconds, self._options.acknowledge or seconds)
        self._fires = self._loop.time() + soon
        self._timer = self._loop.call_later(soon, self._ring)

    def _ring(self) -> None:
        self._timer = None
        answer = self._answer
        if answer is not None and self._waiter is None:
            return  # the caller is busy; the next wait sets the timer again
        now = self._loop.time()
        left = self._deadline - now
        if answer is not None and now - self._fires > LATE:
            left = max(left, LATE)
        silence = left if answer is None else self._silence()
        if min(left, silence) > _TICK:
            self._arm(min(left, silence))
        elif answer is None:
            self.close()
        else:
            over = Failure.STALLED if answer.status else Failure.FIRST_BYTE_TIMEOUT
            answer.fail(over if left <= _TICK else Failure.VANISHED)
            self._wake()
            self.close()

    def _silence(self) -> float:
        """How long the peer's machine may go on saying nothing."""
        seconds = self._options.acknowledge
        if not seconds or self._transport is None:
            return math.inf
        return lifeline.left(self._transport.get_extra_info("socket"), seconds)
