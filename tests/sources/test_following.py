"""A Docker API that is followed: events hint, a hung engine holds nobody up, and the picture of before stays."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from autohedge.core.types import Blind, Seen, Sweep
from autohedge.sources import following as module
from autohedge.sources.watch import watch
from tests.sources.test_swarm import hosts, looking, played, waits
from tests.support.docker_stub import DockerStub
from tests.support.fair import Watch


def test_an_engine_that_hangs_or_is_gone_is_blind(tmp_path: Path) -> None:
    """Quorum lost: every answer takes its whole time. Then the engine goes, and comes back."""

    async def main(engine: DockerStub) -> None:
        async with looking(engine, "timeout: 300ms") as hurried:
            engine.hangs.add("/tasks")
            watch = Watch()
            assert "no answer to GET /tasks within 0.3 s" in str(await hurried.look())
            assert watch.seconds < 2
            engine.hangs.clear()
        async with looking(engine) as source:
            engine.stop()
            assert "does not exist here" in str(await source.look())
            engine.start()
            assert len(hosts(await source.look())) == 2

    played(tmp_path, main)


def test_the_loop_goes_on_while_the_engine_hangs(tmp_path: Path) -> None:
    """A hung engine is the real danger of a blocking client."""

    async def main(engine: DockerStub) -> None:
        engine.hangs.add("/services")
        async with looking(engine, "timeout: 2s") as source:
            looks = asyncio.create_task(source.look())
            worst = 0.0
            while not looks.done():
                began = time.monotonic()
                await asyncio.sleep(0.001)
                worst = max(worst, time.monotonic() - began)
            assert worst < 1
            assert isinstance(await looks, Blind)

    played(tmp_path, main)


def test_an_event_is_a_hint(tmp_path: Path) -> None:
    """X21: the stream that stands hints once, then every event, also one that comes while nobody waits."""

    async def main(engine: DockerStub) -> None:
        async with looking(engine) as source:
            await source.look()
            assert await waits(source, 60)  # the stream stands
            await source.look()
            assert not await waits(source, 0.3)
            watch = Watch()
            engine.tell()
            assert await waits(source, 60)
            assert watch.seconds < 1
            await source.look()
            engine.tell()
            await asyncio.sleep(0.1)
            assert await waits(source, 60)

    played(tmp_path, main)


def test_a_stream_that_comes_back_is_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was missed meanwhile is not in the stream: look again."""
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.05)

    async def main(engine: DockerStub) -> None:
        async with looking(engine) as source:
            await source.look()
            assert await waits(source, 60)
            await source.look()
            engine.hang_up()
            assert await waits(source, 60)

    played(tmp_path, main)


def test_while_blind_a_look_is_worth_while_every_few_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY", 0.1)

    async def main(engine: DockerStub) -> None:
        engine.refusals = {"/events": (403, ""), "/tasks": (403, "")}
        async with looking(engine) as source:
            await source.look()
            assert await waits(source, 60)
            engine.refusals.pop("/tasks")
            await source.look()
            assert not await waits(source, 0.3)

    played(tmp_path, main)


def test_the_watch_sees_a_change_at_once_and_an_engine_that_is_back_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within 1.5 s of a change (here by the event alone: the poll is too slow), and after an outage without its whole back-off."""
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.05)

    async def main(engine: DockerStub) -> None:
        sweeps: list[Sweep] = []
        more = asyncio.Event()

        def take(_name: str, sweep: Sweep) -> None:
            sweeps.append(sweep)
            more.set()

        async def until(true: Callable[[], bool]) -> float:
            looked = Watch()
            async with asyncio.timeout(60):
                while not true():
                    more.clear()
                    await more.wait()
            return looked.seconds

        async with looking(engine) as source:
            watching = asyncio.create_task(watch(source, 60, take))
            await until(lambda: len(sweeps) >= 2)  # the first, and the one after the stream stood
            engine.tasks[0]["DesiredState"] = "shutdown"
            engine.tell()
            assert await until(lambda: hosts(sweeps[-1]) == ["10.0.1.4"]) < 1.5
            engine.refusals["/services"] = (500, "The swarm does not have a leader.")
            engine.tell()
            await until(lambda: isinstance(sweeps[-1], Blind))
            engine.refusals.clear()
            engine.hang_up()
            assert await until(lambda: isinstance(sweeps[-1], Seen)) < 4
            watching.cancel()

    played(tmp_path, main)
