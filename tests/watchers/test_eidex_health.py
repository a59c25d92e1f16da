"""eidex's health manager, sentence by sentence, in virtual time, as its mode configures it (seed 000)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import count

import pytest

from autohedge.core.types import Failure
from autohedge.memory.tuning import rules_of
from autohedge.providers.base import Question, Reply
from autohedge.settings.load import load_text
from autohedge.settings.model import Settings
from autohedge.watchers.means import Hooks, Means
from autohedge.watchers.probers import Probers
from tests.support.vtime import now, run
from tests.watchers.scripted import World, failed, reply

ONE = "b@h1:8000"
LIGHT, DEEP = "/health", "/health_generate"
OFF = {"health_gen_check_interval": '"0"'}


def manager(settings: Mapping[str, str] = {}) -> tuple[World, Probers]:
    """The health manager of an eidex file with this `health` section, before one worker that is well."""
    section = "".join(f"  {key}: {value}\n" for key, value in settings.items())
    loaded = load_text(
        f"health:\n{section}" if section else "", "c.yaml", {"AUTOHEDGE_MODE": "eidex"}, lambda path: path
    )
    world = World(rules_of(loaded.settings))
    world.add("b", "h1", models=("m",))
    world.engines["h1"].answer = lambda _question: reply(200)
    return world, probers(world, loaded.settings)


def probers(world: World, settings: Settings) -> Probers:
    return Probers(Means(world.registry, world.health, world.ask, lambda: 0.5, Hooks()), settings)


def scripted(world: World, path: str, script: str) -> None:
    """Probes of `path` go as the script says: S, F, then its last letter for ever; other probes are well."""
    turns = count()

    def answer(question: Question) -> Reply:
        if question.path != path:
            return reply(200)
        letter = script[min(next(turns), len(script) - 1)]
        return reply(200) if letter == "S" else reply(503)

    world.engines["h1"].answer = answer


async def timeline(world: World, manager: Probers, looks: int, interval: float) -> str:
    """Up or down as it stands half an interval after each probe."""
    seen = ""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(manager.run())
        await asyncio.sleep(interval / 2)
        for _ in range(looks):
            await asyncio.sleep(interval)
            seen += "u" if world.state(ONE) == "closed" else "d"
        task.cancel()
    return seen


# --- streaks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("down", "up", "script", "states"),
    [
        (2, 1, "SSSS", "uuuu"),
        (2, 1, "FFFF", "uddd"),
        (2, 1, "FSFS", "uuuu"),  # not in a row
        (2, 1, "FFSS", "uduu"),
        (2, 1, "FFSFS", "uduuu"),  # after a change both streaks begin anew
        (2, 1, "FFSFF", "uduud"),
        (1, 1, "FSFS", "dudu"),
        (3, 1, "FFSFFF", "uuuuud"),
        (2, 2, "FFSFSS", "uddddu"),  # up in a row as well
        (2, 3, "FFSSSFF", "udddu" + "ud"),
    ],
)
@pytest.mark.parametrize(("path", "interval"), [(LIGHT, 5.0), (DEEP, 60.0)], ids=["light", "deep"])
def test_so_many_in_a_row(path: str, interval: float, down: int, up: int, script: str, states: str) -> None:
    """E121, E122: health_checks_down failures in a row, health_checks_up successes in a row, at either probe."""
    world, probes = manager({"health_checks_down": str(down), "health_checks_up": str(up)})
    scripted(world, path, script)
    assert run(timeline(world, probes, len(script), interval)) == states


@pytest.mark.parametrize("answer", [200, 204, 301, 401, 404, 500, 503, Failure.REFUSED, Failure.FIRST_BYTE_TIMEOUT])
@pytest.mark.parametrize("path", [LIGHT, DEEP])
def test_only_200_is_a_success(path: str, answer: int | Failure) -> None:
    """E119: every other status, the timeout and transport errors are failures, each of them one."""
    world, probes = manager({"health_gen_check_interval": '"5s"'})
    world.engines["h1"].answer = lambda question: (
        reply(200) if question.path != path else failed(answer) if isinstance(answer, Failure) else reply(answer)
    )
    assert run(timeline(world, probes, 3, 5.0)) == ("uuu" if answer == 200 else "udd")


def test_a_light_success_does_not_hide_a_deep_fault() -> None:
    """E123: twelve light successes between two deep failures; the worker goes at 120 s and comes back with one deep success."""
    world, probes = manager()
    scripted(world, DEEP, "FFS")
    assert run(timeline(world, probes, 4, 60.0)) == "uduu"


def test_it_is_well_only_while_neither_probe_is_down() -> None:
    """A light recovery does not bring back what the deep probe took out."""
    world, probes = manager({"health_gen_check_interval": '"5s"'})
    turns = {LIGHT: iter("FFSSSSSS"), DEEP: iter("FFFFSSSS")}
    world.engines["h1"].answer = lambda question: reply(200 if next(turns[question.path]) == "S" else 500)
    assert run(timeline(world, probes, 6, 5.0)) == "udd" + "duu"


# --- when ---------------------------------------------------------------------------------------------------------------


def asked(settings: Mapping[str, str], seconds: float) -> list[tuple[float, str]]:
    world, probes = manager(settings)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(probes.run())
            await asyncio.sleep(seconds)
            task.cancel()

    run(main())
    return [(round(at, 1), question.path) for at, question in world.engines["h1"].asked]


def test_light_every_5_s_and_deep_every_60_s_the_first_after_one_interval() -> None:
    """E116, E117, E125: without a word in the file."""
    told = asked({}, 121.0)
    assert [at for at, path in told if path == LIGHT] == [5.0 * turn for turn in range(1, 25)]
    assert [at for at, path in told if path == DEEP] == [60.0, 120.0]


def test_paths_and_intervals_are_the_file_s() -> None:
    """E100 to E103: Go durations."""
    told = asked(
        {
            "health_endpoint": "/ready",
            "health_gen_endpoint": "/deep",
            "health_check_interval": '"1500ms"',
            "health_gen_check_interval": '"1m2s"',
        },
        63.0,
    )
    assert [at for at, path in told if path == "/ready"][:3] == [1.5, 3.0, 4.5]
    assert [at for at, path in told if path == "/deep"] == [62.0]


@pytest.mark.parametrize(
    ("key", "left"), [("health_check_interval", DEEP), ("health_gen_check_interval", LIGHT)], ids=["light", "deep"]
)
@pytest.mark.parametrize("zero", ['"0"', "0", "0s", '"0m"'])
def test_an_interval_of_0_switches_a_probe_off(key: str, left: str, zero: str) -> None:
    """E118."""
    assert {path for _, path in asked({key: zero}, 130.0)} == {left}


def test_a_probe_has_two_seconds() -> None:
    """E104: a worker that says nothing is out after the second one that ran out of time, 5 + 5 + 2 s."""
    world, probes = manager(OFF)
    world.engines["h1"].hang()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(probes.run())
            await asyncio.sleep(11.9)
            assert world.changes == []
            await asyncio.sleep(0.2)
            assert [moved.new.value for _, _, moved in world.changes] == ["open"]
            task.cancel()

    run(main())
    assert set(world.engines["h1"].limits) == {2.0}


def test_a_sick_worker_goes_on_being_asked() -> None:
    """E120: otherwise nothing could bring it back."""
    world, probes = manager(OFF)
    scripted(world, LIGHT, "F" * 100)
    run(timeline(world, probes, 20, 5.0))
    assert len(world.engines["h1"].asked) == 20


# --- from when and by what ----------------------------------------------------------------------------------------------


def test_a_worker_begins_well() -> None:
    """E124: before any probe, and until the second failure at 10 s."""
    world, probes = manager(OFF)
    scripted(world, LIGHT, "F")

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(probes.run())
            assert world.live(ONE)
            await asyncio.sleep(9.9)
            assert world.live(ONE)
            await asyncio.sleep(0.3)
            assert world.state(ONE) == "open"
            task.cancel()

    run(main())


def test_a_wildcard_is_probed_and_judged_like_the_others() -> None:
    """A worker without a model_id, also one that never says what it serves."""
    world, probes = manager(OFF)
    world.add("w", "h2", models=(), exact=True, takes_any=True)
    world.engines["h2"].answer = lambda _question: reply(500)

    async def main() -> list[bool]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(probes.run())
            await asyncio.sleep(5.5)
            first = usable()
            await asyncio.sleep(5.0)
            second = usable()
            task.cancel()
            return [first, second]

    def usable() -> bool:
        return world.health.usable(world.registry.snapshot, now()) == 2

    assert run(main()) == [True, False]


def test_a_change_is_told_once_with_both_states() -> None:
    """E127."""
    world, probes = manager(OFF)
    scripted(world, LIGHT, "FFFSS")
    run(timeline(world, probes, 6, 5.0))
    assert [(moved.old.value, moved.new.value) for _, _, moved in world.changes] == [
        ("closed", "open"),
        ("open", "closed"),
    ]
    assert "2 times in a row" in world.changes[0][2].reason
