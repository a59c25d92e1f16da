"""The source of what stands in the configuration."""

from __future__ import annotations

import asyncio

import pytest

from autohedge.core.types import Seen
from autohedge.sources.contract import Source
from autohedge.sources.static import StaticSource
from tests.support.vtime import now, run
from tests.support.world import backend


def test_a_look_shows_the_configuration() -> None:
    """B1, B2: known at once, in order, as often as one looks."""

    async def main() -> None:
        source: Source = StaticSource([backend("a", "t1"), backend("b", "t2")])
        assert source.name == "static"
        assert await source.look() == await source.look() == Seen((backend("a", "t1"), backend("b", "t2")))

    run(main())


def test_it_hints_after_a_reload_only() -> None:
    """B26: nothing changes by itself; a reload that comes while nobody waits is not lost, and is told once."""

    async def main() -> None:
        source = StaticSource([backend("a", "t1")])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await source.hint()
        source.reload([backend("a", "t2")])
        started = now()
        await source.hint()
        assert now() == started
        assert await source.look() == Seen((backend("a", "t2"),))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await source.hint()

    run(main())
