"""What is written in one turn of the event loop: the first at once, all else together at the turn's end.

A peer that sleeps must be woken by a write, and that is the dearest part of it: on one machine it costs a fifth of a request. A
peer that got something a moment ago is awake. So the requests of one turn are worked off first, and what they have to say leaves
in one go. The first does not wait: where it is the only one, nobody else will be served by that.

Rules
- What is put for one transport leaves in the order in which it was put. Whoever closes a transport, or writes to it past the
  outbox, flushes before.
- At most `MOST` bytes are kept; over them everything leaves at once, so that a transport can say that it has enough.
- What is put for a transport that closes before the end of the turn is dropped.

It must not know: what the bytes mean.
"""

from __future__ import annotations

import asyncio

MOST = 64 << 10  # bytes


class Outbox:
    """For one event loop."""

    __slots__ = ("_begun", "_due", "_size")

    def __init__(self) -> None:
        self._begun = False  # something was written in this turn
        self._due: list[tuple[asyncio.WriteTransport, bytes]] = []
        self._size = 0

    def put(self, transport: asyncio.WriteTransport, data: bytes) -> None:
        """Write `data` before the loop waits again."""
        if not self._begun:
            self._begun = True
            asyncio.get_running_loop().call_soon(self.flush)
            if not transport.is_closing():
                transport.write(data)
            return
        self._due.append((transport, data))
        self._size += len(data)
        if self._size > MOST:
            self.flush()

    def flush(self) -> None:
        """Write what is due now; the next turn begins."""
        due, self._due, self._size, self._begun = self._due, [], 0, False
        for transport, data in due:
            if not transport.is_closing():
                transport.write(data)
