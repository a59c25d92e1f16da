"""The waiting room: requests for which every replica is at its concurrency cap, first come first served.

Rules: bounded in number (then the room refuses) and in time; a freed seat wakes the first who can use it and is kept for
that one until it runs, so a newcomer never comes between; a waiter who leaves frees its place.
It must not know: models, HTTP, why a seat was freed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from autohedge.core.types import Replica


class WaitingRoom:
    """`size` requests may wait; `len(room)` do."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._waiters: deque[tuple[asyncio.Future[Replica | None], frozenset[str]]] = deque()

    def __len__(self) -> int:
        return len(self._waiters)

    async def wait(self, replicas: Iterable[Replica], patience: float) -> Replica | None:
        """Wait up to `patience` seconds for a seat on one of `replicas`. None: the room is full, or nothing was freed.

        The seat of the returned one is free for whoever asks next: take it before giving the event loop away, or tell `freed`.
        """
        if len(self._waiters) >= self.size or patience <= 0:
            return None
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Replica | None] = loop.create_future()
        entry = (future, frozenset(replica.id for replica in replicas))
        self._waiters.append(entry)
        timer = loop.call_later(patience, _give_up, future)
        left = True
        try:
            woken = await future
            left = False
        finally:
            timer.cancel()
            if entry in self._waiters:
                self._waiters.remove(entry)
            kept = future.result() if future.done() and not future.cancelled() else None
            if kept is not None:
                kept.seat.promised -= 1
                if left:  # woken, and gone in the same moment: the next one takes the seat
                    self.freed(kept)
        return woken

    def freed(self, replica: Replica) -> None:
        """A seat of `replica` is free: wake the first waiter who could take it."""
        for entry in self._waiters:
            future, wanted = entry
            if replica.id in wanted and not future.done():
                self._waiters.remove(entry)
                replica.seat.promised += 1
                future.set_result(replica)
                return


def _give_up(future: asyncio.Future[Replica | None]) -> None:
    if not future.done():
        future.set_result(None)
