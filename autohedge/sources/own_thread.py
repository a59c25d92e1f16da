"""One thread of our own for work that blocks: one job after the other, never beside each other.

Rules
- The shared pool of the loop is for short work; a Docker engine that hangs must not take its places.
- The thread is a daemon: a stop of the process does not wait for an engine that hangs.
- A job that nobody waits for any more runs to its end, and its result is dropped.
- Work on a thread holds the interpreter, and the event loop waits for it: long work takes a `Breath` between its steps, and rests
  after every `SLICE` seconds.

It must not know: what the jobs are.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

SLICE, REST = 0.001, 0.0001  # seconds

T = TypeVar("T")


class Breath:
    """Call it between two steps of long work."""

    def __init__(self) -> None:
        self._until = time.perf_counter() + SLICE

    def __call__(self) -> None:
        if time.perf_counter() > self._until:
            time.sleep(REST)
            self._until = time.perf_counter() + SLICE


class OwnThread:
    """The thread starts with the first job."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    async def run(self, job: Callable[[], T]) -> T:
        """The result of `job`, or what it raises."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def work() -> None:
            outcome: tuple[Callable[..., Any], Any]
            try:
                outcome = done.set_result, job()
            except Exception as error:  # noqa: BLE001 - it belongs to who waits
                outcome = done.set_exception, error
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_settle, done, *outcome)

        self._jobs.put(work)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        return await done

    def stop(self) -> None:
        """End the thread after the jobs it has."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def _settle(done: asyncio.Future[Any], settle: Callable[[Any], None], outcome: Any) -> None:
    if not done.done():
        settle(outcome)
