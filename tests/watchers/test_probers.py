"""Which probers the configuration asks for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from autohedge.memory.tuning import rules_of
from autohedge.settings.model import Settings
from autohedge.watchers.means import Means
from autohedge.watchers.probers import Probers
from tests.support.vtime import run
from tests.watchers.scripted import World, during, reply

STREAK = {"judge": "streak"}


def asked(seconds: float, **tree: Any) -> list[str]:
    """The paths that one engine was asked."""
    settings = Settings.model_validate(tree)
    world = World(rules_of(settings))
    world.add("b", "h1")
    probers = Probers(Means(world.registry, world.health, world.ask, world.draws), settings)
    run(during(seconds, probers))
    return sorted({question.path for _, question in world.engines["h1"].asked})


@pytest.mark.parametrize(
    ("tree", "paths"),
    [
        ({}, ["/v1/chat/completions"]),
        ({"probe": {"enabled": False}}, []),
        ({"probe": {"light_interval": "5s"}}, ["/health", "/v1/chat/completions"]),
        ({"probe": {"enabled": False, "light_interval": "5s"}}, ["/health"]),
        ({"health": STREAK}, ["/health", "/health_generate"]),
        ({"health": {**STREAK, "health_check_interval": "0"}}, ["/health_generate"]),
        ({"health": {**STREAK, "health_gen_check_interval": "0m"}}, ["/health"]),
        ({"health": {**STREAK, "health_endpoint": "/ready", "health_gen_check_interval": "0"}}, ["/ready"]),
    ],
)
def test_what_is_asked(tree: dict[str, Any], paths: list[str]) -> None:
    """Seed 000: "0" switches a probe off."""
    assert asked(65.0, **tree) == paths


def test_numbers_may_change_while_it_runs() -> None:
    """A reload takes over the cadence at once."""
    world = World()
    world.add("b", "h1")
    probers = Probers(Means(world.registry, world.health, world.ask, world.draws), Settings())

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(probers.run())
            await asyncio.sleep(60.0)
            before = len(world.engines["h1"].asked)
            probers.reload(Settings.model_validate({"probe": {"interval": "2s"}}))
            await asyncio.sleep(60.0)
            assert len(world.engines["h1"].asked) - before > 20
            task.cancel()

    run(main())


def test_wake_and_poke_reach_them() -> None:
    """Nobody outside knows which probers there are."""
    world = World()
    world.add("b", "h1")
    probers = Probers(Means(world.registry, world.health, world.ask, world.draws), Settings())

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(probers.run())
            await asyncio.sleep(2.0)
            world.add("c", "h2")
            world.engines["h2"].answer = lambda _question: reply(500)
            probers.wake()
            probers.poke("b@h1:8000")
            await asyncio.sleep(0.5)
            task.cancel()

    run(main())
    assert [len(world.engines[host].asked) for host in ("h1", "h2")] == [2, 1]
    streak = Probers(
        Means(world.registry, world.health, world.ask, world.draws), Settings.model_validate({"health": STREAK})
    )
    streak.poke("b@h1:8000")
    streak.reload(Settings())
    streak.wake()
