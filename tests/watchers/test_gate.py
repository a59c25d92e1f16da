"""The gate at the start, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from autohedge.core.types import Kind, Lesson
from autohedge.memory.entry import Rules
from autohedge.rules.breaker import Options
from autohedge.settings.health import Startup
from autohedge.watchers.gate import Gate
from tests.support.vtime import now, run
from tests.watchers.scripted import World, during, reply


def gate(world: World, require: str, max_wait: str = "60s", **more: Any) -> Gate:
    return Gate(
        world.registry, world.health, Startup.model_validate({"require": require, "max_wait": max_wait}), **more
    )


def opened(world: World, one: Gate, seconds: float = 100.0, *, probing: bool = True) -> float:
    """When the gate opened, with a prober beside it."""

    async def main() -> float:
        async with asyncio.TaskGroup() as group:
            prober = group.create_task(world.prober().run() if probing else asyncio.sleep(seconds))
            async with asyncio.timeout(seconds):
                await one.run()
            prober.cancel()
        return now()

    return run(main())


def test_by_default_it_is_open() -> None:
    """Nothing surprises: require none, or no time to wait."""
    world = World()
    assert gate(world, "none").open
    assert gate(world, "all", "0").open
    assert not gate(world, "any").open
    assert opened(world, gate(world, "none"), probing=False) == 0.0


def test_any_opens_with_the_first_model_that_answers() -> None:
    """Within a second, not after the next ping."""
    world = World()
    world.add("a", "h1")
    world.add("b", "h2")
    world.engines["h2"].hang()
    one = gate(world, "any")
    assert opened(world, one) < 1.0
    assert one.open
    assert one.missing == []


def test_all_waits_for_every_backend_and_says_for_which() -> None:
    """The article 5.2; one replica of a backend is enough, external ones are not waited for."""
    world = World()
    world.add("a", "h1", "h2")
    world.add("b", "h3")
    world.add("cloud", "h4", kind=Kind.OPENAI, external=True)
    world.engines["h2"].refuse()
    engine = world.engines["h3"]
    engine.answer = lambda _question: (
        reply(503, b"starting") if now() < 20.0 else reply(200, {"choices": [{"message": {"content": "hi"}}]})
    )
    one = gate(world, "all")

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            prober = group.create_task(world.prober().run())
            waiting = group.create_task(one.run())
            await asyncio.sleep(10.0)
            assert not one.open
            assert one.missing == ["b: 503: the engine failed"]
            await waiting
            assert 20.0 < now() < 45.0
            prober.cancel()

    run(main())
    assert one.open


def test_a_list_of_models_is_not_enough_where_probes_come() -> None:
    """The engine told its models, but the model hangs: the lesson alone does not open."""
    world = World()
    world.add("a", "h1")
    world.engines["h1"].hang()
    one = gate(world, "any", "30s")

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            prober = group.create_task(world.prober().run())
            waiting = group.create_task(one.run())
            await asyncio.sleep(5.0)
            assert one.missing == ["a: not probed yet"]
            await asyncio.sleep(10.0)
            assert one.missing == ["a: no first byte in time"]
            await waiting
            assert now() == pytest.approx(30.0)
            prober.cancel()

    run(main())
    assert one.open


def test_without_probes_the_lesson_is_enough() -> None:
    """probe.enabled: false, and kinds that nobody can probe."""
    world = World(Rules(Options(probed=False)))
    world.add("a", "h1")
    assert opened(world, gate(world, "all"), probing=False) < 0.1


def test_alive_but_unsuitable_is_there() -> None:
    """B13, and an Ollama whose model is not loaded yet."""
    world = World()
    world.add("a", "h1")
    world.add("o", "h2", kind=Kind.OLLAMA, models=("llama3",))
    world.engines["h1"].fail(400, {"error": {"message": "minimum is 64"}})
    world.engines["h2"].fail(200, {"models": []})
    assert opened(world, gate(world, "all")) < 2.0


def test_what_is_missing_is_asked_again_every_five_seconds() -> None:
    """And only that; the reason is the learner's."""
    poked: list[tuple[float, str]] = []
    world = World()
    world.add("a", "h1")
    world.add("b", "h2")
    world.registry.learn("b@h2:8000", Lesson(Kind.VLLM, failed="connection refused"), 1.0)
    world.engines["h2"].refuse()
    one = gate(
        world,
        "all",
        "17s",
        silent=lambda: {"b@h2:8000": "connection refused"},
        poke=lambda replica: poked.append((now(), replica)),
    )
    assert opened(world, one) == pytest.approx(17.0)
    assert [replica for _, replica in poked] == ["b@h2:8000"] * 3
    assert [at for at, _ in poked] == pytest.approx([5.0, 10.0, 15.0])


def test_it_opens_in_the_end_and_says_what_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    """What is there serves; nobody is locked out for a backend that never comes."""
    world = World()
    one = gate(world, "any", "7s")
    with caplog.at_level("INFO"):
        assert opened(world, one, probing=False) == pytest.approx(7.0)
    assert "although missing: no backend is known yet" in caplog.text
    assert one.missing == []


def test_backends_may_come_while_it_waits() -> None:
    """AutoHedge started first."""
    world = World()
    one = gate(world, "any")

    async def later() -> None:
        await asyncio.sleep(12.0)
        world.add("a", "h1")

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(later())
            prober = group.create_task(world.prober().run())
            await one.run()
            assert 12.0 < now() < 15.0
            prober.cancel()

    run(main())


def test_the_gate_looks_and_does_not_touch() -> None:
    """It knows every pair, but asks nothing itself."""
    world = World()
    world.add("a", "h1")
    one = gate(world, "any", "3s")
    run(during(2.0, one))
    assert world.engines["h1"].asked == []
    assert one.missing == ["a: not probed yet"]
