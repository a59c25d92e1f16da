"""How late our own loop is."""

from __future__ import annotations

import asyncio

from autohedge.watchers.pulse import Pulse
from tests.support.vtime import now, run
from tests.watchers.scripted import blocked, during


def test_a_loop_in_time_is_not_late() -> None:
    """Nor is one that nobody watches."""

    async def main() -> None:
        pulse = Pulse()
        assert pulse.late(0.0, 5.0) == 0.0
        await during(5.0, pulse, then=lambda: told.append(pulse.late(0.0, now())))
        assert pulse.late(0.0, 60.0) == 0.0  # nobody runs it any more

    told: list[float] = []
    run(main())
    assert told == [0.0]


def test_a_starved_loop_is_late() -> None:
    """T89: while it is starved, after it, and not for what began later."""

    async def main() -> None:
        pulse = Pulse()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(pulse.run())
            await asyncio.sleep(1.1)
            began = now()
            blocked(3.0)
            assert pulse.late(began, now()) > 2.5  # before its own beat could come
            await asyncio.sleep(0.5)
            assert 2.5 < pulse.late(began, now()) <= 3.0
            assert pulse.late(now(), now()) == 0.0
            task.cancel()

    run(main())
