"""A virtual-time event loop: nothing waits, the loop's clock jumps to the next timer instead.

Built from public parts only: a selector that polls once and then moves the loop's time by what it should have waited.
`asyncio.sleep`, `asyncio.timeout`, task groups and httpx's ASGITransport run unchanged; an hour takes milliseconds.

Not for tests with real sockets or threads: time would jump while their bytes are on the way.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Asks the system without waiting; when nothing is ready, the time that was asked for has passed."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("the test waits for something that never comes: no timer is left")
            self.now += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose `time()` starts at 0 and moves only when everybody waits."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def now() -> float:
    """Virtual seconds since the start of the test."""
    return asyncio.get_running_loop().time()
