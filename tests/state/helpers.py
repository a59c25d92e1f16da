"""Loops, clocks and waiting for tests of the state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import uvloop

from autohedge.state.contract import Store
from autohedge.state.resilient import Shared
from tests.support.fair import Watch

T = TypeVar("T")
PATIENCE = 60.0  # seconds that a test waits for what must come


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on the loop that the product uses."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


async def until(check: Callable[[], object], *processes: int) -> float:
    """Wait until `check()` holds; returns the seconds it took these processes and this one without a machine's other work."""
    watch = Watch(*processes)
    while not check():
        assert watch.wall < PATIENCE, "it did not come in time"
        await asyncio.sleep(0.005)
    return watch.seconds


@asynccontextmanager
async def opened(*stores: Store) -> AsyncIterator[None]:
    """Close the stores at the end."""
    try:
        yield
    finally:
        for store in stores:
            await store.close()


@asynccontextmanager
async def running(*shared: Shared) -> AsyncIterator[None]:
    """Let each of them run, and close them at the end."""
    tasks = [asyncio.create_task(one.run()) for one in shared]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task, one in zip(tasks, shared, strict=True):
            with suppress(asyncio.CancelledError):
                await task
            await one.close()


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
