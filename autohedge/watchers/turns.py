"""The loop of every watcher that asks many replicas, each in its own time.

It must not know: what is asked, or whose turn it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def in_turns(woken: asyncio.Event, start_due: Callable[[asyncio.TaskGroup], float]) -> None:
    """Start what is due, wait the seconds that `start_due` returned or until `woken` is set, for ever. Ends when cancelled.

    `woken` is cleared before the look, so a call that comes during it is not lost.
    """
    async with asyncio.TaskGroup() as group:
        while True:
            woken.clear()
            wait = start_due(group)
            try:
                async with asyncio.timeout(wait):
                    await woken.wait()
            except TimeoutError:
                continue
