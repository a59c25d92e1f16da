"""A watch that stands while others have the processors: how busy the machine is does not count, how much a test waits does.

Linux tells for every thread how long it was ready to run and was kept waiting (the second figure of its `schedstat`). On an
idle machine that is next to nothing and the watch shows the time on the wall, so a bound is as sharp there as the promise
that it holds. Where the system tells nothing, the watch is a clock like any other.

For bounds from above only: who must wait at least so long is measured on the wall.

Processor time itself grows on a slow machine, and on a busy one (caches, shared cores): such bounds are multiplied by
`slowness`, which a piece of work of a known price tells at that moment.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

USUAL = 0.00125  # seconds of `_work` on the machine whose figures stand in the tests (2026, an EPYC, Python 3.11)


def slowness() -> float:
    """How many times slower than usual this machine works at the moment; 1 at least."""
    return max(1.0, min(_work() for _ in range(5)) / USUAL)


def _work() -> float:
    began = time.process_time()
    json.loads(json.dumps([{"number": number, "text": str(number) * 3} for number in range(2000)]))
    return time.process_time() - began


class Watch:
    """Runs from its making on. `processes` have a part in what is measured beside this one: what they wait does not count either."""

    def __init__(self, *processes: int) -> None:
        self._processes = ("self", *map(str, processes))
        self._before = _kept_waiting(self._processes)  # first: who waits while it looks has not begun
        self._began = time.monotonic()

    @property
    def wall(self) -> float:
        """Seconds on the wall."""
        return time.monotonic() - self._began

    @property
    def seconds(self) -> float:
        """Seconds without those in which a thread was ready and had no processor."""
        wall = self.wall
        withheld = sum(now - self._before.get(thread, 0) for thread, now in _kept_waiting(self._processes).items())
        return max(0.0, wall - withheld / 1e9)


def _kept_waiting(processes: Iterable[str]) -> dict[str, int]:
    """Nanoseconds that each thread of these processes was kept waiting so far."""
    told = {}
    for process in processes:
        for thread in Path(f"/proc/{process}/task").glob("*/schedstat"):
            with suppress(OSError, IndexError):  # it has ended since
                told[thread.parent.name] = int(thread.read_text().split()[1])
    return told
