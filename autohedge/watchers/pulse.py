"""How late our own event loop is: a beat that should come every quarter of a second, and when it came.

A starved loop sees answers late and takes its own slowness for a dead engine (T89), so whoever waits for engines asks here.

It must not know: who asks, or why the loop is late.
"""

from __future__ import annotations

import asyncio
from collections import deque

BEAT = 0.25  # seconds
NOTED = 0.1  # a beat that is later than this is remembered


class Pulse:
    """`late` answers 0 while nobody runs it."""

    def __init__(self) -> None:
        self._expected = float("inf")
        self._late: deque[tuple[float, float]] = deque(maxlen=64)  # when a late beat came, and by how much

    async def run(self) -> None:
        """Beat for ever; ends only when cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._expected = loop.time() + BEAT
                await asyncio.sleep(BEAT)
                now = loop.time()
                if now - self._expected > NOTED:
                    self._late.append((now, now - self._expected))
        finally:
            self._expected = float("inf")

    def late(self, since: float, now: float) -> float:
        """The longest delay in seconds that ended after `since`, the one that goes on included. Loop seconds."""
        worst = max((by for at, by in self._late if at >= since), default=0.0)
        return max(worst, now - self._expected, 0.0)
