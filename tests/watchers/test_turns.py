"""The loop of the watchers, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from autohedge.watchers.turns import in_turns
from tests.support.vtime import now, run


def test_it_looks_when_the_time_has_come_and_when_it_is_woken() -> None:
    """A call that comes while it looks counts as well."""
    looks: list[float] = []

    async def main() -> None:
        woken = asyncio.Event()

        def start_due(_group: asyncio.TaskGroup) -> float:
            looks.append(round(now(), 3))
            if len(looks) == 3:
                woken.set()
            return 10.0

        task = asyncio.create_task(in_turns(woken, start_due))
        await asyncio.sleep(12)
        woken.set()
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    assert looks == [0, 10, 12, 12]
