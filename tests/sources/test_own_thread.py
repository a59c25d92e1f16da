"""One thread for blocking work."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from autohedge.sources.own_thread import REST, SLICE, Breath, OwnThread


def test_jobs_run_one_after_the_other_on_one_thread_beside_the_loop() -> None:
    async def main() -> None:
        thread = OwnThread("mine")
        running: list[int] = []

        def job() -> tuple[str, int]:
            running.append(1)
            most = len(running)
            time.sleep(0.01)
            running.pop()
            return threading.current_thread().name, most

        found = await asyncio.gather(*(thread.run(job) for _ in range(5)))
        assert found == [("mine", 1)] * 5
        thread.stop()

    asyncio.run(main())


def test_what_a_job_raises_comes_to_who_waits() -> None:
    async def main() -> None:
        thread = OwnThread("mine")

        def broken() -> None:
            raise LookupError("gone")

        with pytest.raises(LookupError, match="gone"):
            await thread.run(broken)
        assert await thread.run(lambda: 5) == 5
        thread.stop()

    asyncio.run(main())


def test_a_job_that_nobody_waits_for_is_dropped() -> None:
    """A look that hangs is given up by the watch; the next one comes after it."""

    async def main() -> None:
        thread, free = OwnThread("mine"), threading.Event()
        waiting = asyncio.create_task(thread.run(free.wait))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        later = asyncio.create_task(thread.run(lambda: "later"))
        free.set()
        assert await later == "later"
        thread.stop()

    asyncio.run(main())


def test_the_end_of_the_loop_does_not_break_the_thread() -> None:
    free = threading.Event()
    thread = OwnThread("a thread of a test")

    async def main() -> None:
        waiting = asyncio.create_task(thread.run(free.wait))
        await asyncio.sleep(0.01)
        waiting.cancel()

    asyncio.run(main())
    free.set()
    thread.stop()
    for one in threading.enumerate():
        if one.name == "a thread of a test":
            one.join(60)
            assert not one.is_alive()


def test_a_breath_is_taken_after_each_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []
    now = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    monkeypatch.setattr(time, "sleep", rests.append)
    breathe = Breath()
    for _ in range(10):
        breathe()
        now += SLICE * 0.6
    assert rests == [REST] * 4
