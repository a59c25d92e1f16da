"""The loop that keeps one source in sight: look, tell, wait for a hint or the next turn; for ever.

Rules
- The first look is at once. While the source sees, the next comes after a hint or after `interval` seconds.
- While it is blind, looks back off: 2, 4, 8, 16, 30 seconds (B29); a hint may bring the next look forward, never under 2 s.
- A look that takes over `PATIENCE` seconds is Blind: a socket that hangs must not stop the watch (T22).
- An exception out of a source is a Blind with a log line; one out of the handler is a log line. Neither ends the loop (B32).

It must not know: what a source is made of, what the handler does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from autohedge.core.types import Blind, Sweep
from autohedge.sources.contract import Source

LOGGER = logging.getLogger(__name__)
PATIENCE = 30.0  # seconds for one look
GAP = 0.2  # seconds between two looks at least, however many hints come
FIRST_WAIT, LONGEST_WAIT = 2.0, 30.0  # seconds between looks of a blind source


async def watch(source: Source, interval: float, on_sweep: Callable[[str, Sweep], object]) -> None:
    """Look at `source` until cancelled; every sweep goes to `on_sweep(source's name, sweep)`. `interval` is seconds."""
    blind_for = 0
    last = ""
    while True:
        sweep = await look(source)
        reason = (sweep.reason or "no reason given") if isinstance(sweep, Blind) else ""
        if reason != last:
            if reason:
                LOGGER.warning("source %s is blind, its last picture stays: %s", source.name, reason)
            else:
                LOGGER.info("source %s sees again", source.name)
            last = reason
        _tell(source, sweep, on_sweep)
        blind_for = blind_for + 1 if reason else 0
        if blind_for:
            await _wait(source, FIRST_WAIT, min(FIRST_WAIT * 2 ** min(blind_for - 1, 10), LONGEST_WAIT))
        else:
            await _wait(source, GAP, max(interval, GAP))


async def look(source: Source) -> Sweep:
    """One look that always ends, as what it saw or as Blind."""
    try:
        async with asyncio.timeout(PATIENCE) as box:
            return await source.look()
    except Exception as error:
        if box.expired():
            return Blind(f"no answer within {PATIENCE:.0f} s")
        LOGGER.exception("source %s failed to look", source.name)
        return Blind(f"failed to look: {type(error).__name__}")


def _tell(source: Source, sweep: Sweep, on_sweep: Callable[[str, Sweep], object]) -> None:
    try:
        on_sweep(source.name, sweep)
    except Exception:
        LOGGER.exception("a report of source %s could not be taken in", source.name)


async def _wait(source: Source, least: float, most: float) -> None:
    """Wait `least` seconds, then for a hint, but no longer than `most` seconds altogether."""
    until = asyncio.get_running_loop().time() + most
    await asyncio.sleep(least)
    try:
        async with asyncio.timeout_at(until) as box:
            await source.hint()
    except Exception:
        if box.expired():
            return
        LOGGER.exception("source %s failed to wait for changes", source.name)
        await asyncio.sleep(max(0.0, until - asyncio.get_running_loop().time()))
