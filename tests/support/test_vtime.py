"""The virtual clock itself."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.support.fair import slowness
from tests.support.vtime import now, run


def test_an_hour_takes_no_time() -> None:
    """Sleeps, time boxes and task groups see virtual time; the wall clock stands nearly still."""

    async def main() -> float:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(3600))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(30):
                    await asyncio.Event().wait()
            assert now() == pytest.approx(30)
        return now()

    started = time.process_time()
    assert run(main()) == pytest.approx(3600)
    assert time.process_time() - started < slowness()


def test_a_wait_without_end_fails_at_once() -> None:
    """A test that waits for nothing ends with a reason instead of a timeout."""
    with pytest.raises(RuntimeError, match="never comes"):
        run(asyncio.Event().wait())
