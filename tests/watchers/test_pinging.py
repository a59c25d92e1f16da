"""Pings in virtual time: eidex's pair as the judge, and the engines' own health paths as a hint."""

from __future__ import annotations

import asyncio

import pytest

from autohedge.core.types import Candidate, Failure, Kind, Secret
from autohedge.memory.tuning import rules_of
from autohedge.providers.base import Question, Reply
from autohedge.rules.probes import Probed
from autohedge.rules.standing import State, Via
from autohedge.settings.model import Settings
from autohedge.watchers.means import Hooks, Means
from autohedge.watchers.pinging import Pinger, Round
from tests.support.vtime import now, run
from tests.watchers.scripted import World, blocked, during, failed, reply

ONE = "b@h1:8000"
LIGHT = Round(Via.LIGHT, 5.0, 2.0, "/health", decides=True)
DEEP = Round(Via.DEEP, 60.0, 2.0, "/health_generate", decides=True)
HINT = Round(Via.LIGHT, 5.0, 2.0, jitter=0.2)


def eidex() -> World:
    world = World(rules_of(Settings.model_validate({"health": {"judge": "streak"}})))
    world.add("b", "h1", "h2")
    for engine in world.engines.values():
        engine.answer = lambda _question: reply(200)
    return world


def pinger(world: World, rounds: Round, hooks: Hooks | None = None) -> Pinger:
    return Pinger(Means(world.registry, world.health, world.ask, world.draws, hooks or Hooks()), rounds)


def answers(world: World, light: int | Failure, deep: int | Failure) -> None:
    def answer(question: Question) -> Reply:
        what = light if question.path == "/health" else deep
        return failed(what) if isinstance(what, Failure) else reply(what)

    world.engines["h1"].answer = answer


def test_the_first_ping_comes_after_one_interval_and_then_each_interval() -> None:
    """Seed 000: 5 s and 60 s, 2 s each, plain GETs; optimistic until then."""
    world = eidex()
    run(during(185.0, pinger(world, LIGHT), pinger(world, DEEP), then=lambda: world.known(ONE)))
    asked = world.engines["h1"].asked
    light = [at for at, question in asked if question.path == "/health"]
    deep = [at for at, question in asked if question.path == "/health_generate"]
    assert light == pytest.approx([5.0 * turn for turn in range(1, 37)], abs=0.1)
    assert deep == pytest.approx([60.0, 120.0, 180.0], abs=0.1)
    assert all(question.json is None for _, question in asked)
    assert set(world.engines["h1"].limits) == {2.0}


def test_two_failures_take_it_out_and_one_success_brings_it_back() -> None:
    """Down 2, up 1; also unhealthy workers are pinged."""
    world = eidex()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(pinger(world, LIGHT).run())
            answers(world, 500, 200)
            await asyncio.sleep(6.0)
            assert world.state(ONE) == "closed"
            await asyncio.sleep(5.0)
            assert world.state(ONE) == "open"
            answers(world, 200, 200)
            await asyncio.sleep(5.0)
            assert world.state(ONE) == "closed"
            task.cancel()

    run(main())
    assert [moved.new.value for _, _, moved in world.changes] == ["open", "closed"]


def test_a_deep_fault_is_seen_although_the_light_probe_is_fine() -> None:
    """Systemone 8.12: own streaks, or a success every 5 s would wipe out the failure of every 60 s."""
    world = eidex()
    answers(world, 200, 503)
    last = run(during(125.0, pinger(world, LIGHT), pinger(world, DEEP), then=lambda: world.state(ONE)))
    assert last == "open"


@pytest.mark.parametrize("light", [204, 301, 404, 500, Failure.REFUSED, Failure.FIRST_BYTE_TIMEOUT, Failure.RESET])
def test_only_200_is_good(light: int | Failure) -> None:
    """Any other status, a timeout or a transport error is one failure, and none is more than one."""
    world = eidex()
    answers(world, light, 200)
    assert run(during(6.0, pinger(world, LIGHT), then=lambda: world.state(ONE))) == "closed"
    world = eidex()
    answers(world, light, 200)
    assert run(during(11.0, pinger(world, LIGHT), then=lambda: world.state(ONE))) == "open"


def test_a_hint_opens_nothing_but_refused_connections_do() -> None:
    """B08: /health of a busy SGLang is 503 for minutes."""
    world = World()
    world.add("b", "h1", "h2", kind=Kind.SGLANG)
    engine = world.engines["h1"]
    engine.answer = lambda _question: reply(503) if now() < 300.0 else failed(Failure.REFUSED)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(pinger(world, HINT).run())
            await asyncio.sleep(300.0)
            assert world.state(ONE) == "closed"
            await asyncio.sleep(15.0)
            assert world.state(ONE) == "open"
            task.cancel()

    run(main())
    assert {question.path for _, question in engine.asked} == {"/v1/models"}  # its /health infers


def test_each_kind_has_its_own_path_and_azure_has_none() -> None:
    """The hint asks what the engine offers."""
    world = World()
    world.add("o", "h1", kind=Kind.OLLAMA)
    world.add("s", "h2", kind=Kind.SYSTEMONE, models=("jev",))
    world.add("a", "h3", kind=Kind.AZURE, models=("gpt",), external=True)
    allowed = Round(Via.LIGHT, 5.0, 2.0, external=True)
    run(during(6.0, pinger(world, allowed)))
    paths = {host: [question.path for _, question in engine.asked] for host, engine in world.engines.items()}
    assert paths == {"h1": ["/api/version"], "h2": ["/v1/models"], "h3": []}


def test_foreign_services_are_left_alone() -> None:
    """Unless that was asked for."""
    world = World()
    world.add("cloud", "h1", kind=Kind.OPENAI, external=True)
    run(during(20.0, pinger(world, HINT)))
    assert world.engines["h1"].asked == []


def test_one_in_flight_and_the_key_goes_along() -> None:
    """A path that hangs for longer than the interval is not asked twice at once."""
    world = eidex()
    world.add("b", "h1", "h2", key=Secret("k"))
    world.engines["h1"].hang()
    run(during(60.0, pinger(world, Round(Via.LIGHT, 1.0, 7.0, "/health", decides=True))))
    assert world.engines["h1"].most == 1
    assert world.engines["h1"].keys[0] == ((b"authorization", b"Bearer k"),)
    assert len(world.engines["h2"].asked) > 50


def test_a_starved_loop_takes_nobody_out() -> None:
    """T89: a 2 s timeout is soon over when our own loop stands still."""
    world = eidex()
    world.engines["h1"].hang()
    means = Means(world.registry, world.health, world.ask, world.draws)

    async def starving() -> None:
        while True:
            await asyncio.sleep(0.5)
            blocked(1.6)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in (Pinger(means, LIGHT).run(), means.pulse.run(), starving())]
            await asyncio.sleep(60.0)
            for task in tasks:
                task.cancel()

    run(main())
    assert world.changes == []


def test_a_fault_of_our_own_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the next ping is sent."""
    world = eidex()

    def broken(_question: Question) -> Reply:
        raise RuntimeError("a bug")

    world.engines["h1"].answer = broken
    run(during(16.0, pinger(world, LIGHT)))
    assert len(world.engines["h1"].asked) == 3
    assert world.changes == []
    assert "could not be pinged" in caplog.text


def test_one_leased_pinger_works_for_all() -> None:
    """The results are published for every model, and mean the same elsewhere."""
    leader, follower = eidex(), eidex()
    for world in (leader, follower):
        world.add("b", "h1", "h2", models=("m", "n"))

    def publish(_candidate: Candidate, probe: Probed) -> None:
        follower.health.heard(probe, now())

    answers(leader, 500, 200)
    idle = pinger(follower, LIGHT, Hooks(lease=lambda _name: False))

    async def main() -> None:
        await during(
            11.0,
            pinger(leader, LIGHT, Hooks(publish=publish)),
            idle,
            then=lambda: states.extend(follower.state(ONE, model) for model in ("m", "n")),
        )

    states: list[str] = []
    run(main())
    assert states == ["open", "open"]
    assert follower.engines["h1"].asked == []


def test_new_replicas_and_those_that_are_gone() -> None:
    """`wake` is enough to be pinged one interval later."""
    world = eidex()
    one = pinger(world, LIGHT)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(one.run())
            await asyncio.sleep(7.0)
            world.specs.clear()
            world.add("c", "h3")
            one.wake()
            await asyncio.sleep(10.5)
            task.cancel()

    run(main())
    assert len(world.engines["h1"].asked) == 1
    assert [at for at, _ in world.engines["h3"].asked] == pytest.approx([12.0, 17.0], abs=0.1)


def test_a_wildcard_is_pinged_like_the_others() -> None:
    """eidex's worker without a model_id stands in no route; it goes out and comes back by its pings all the same."""
    world = eidex()
    world.add("any", "h9", models=(), takes_any=True, exact=True)
    (candidate,) = world.registry.snapshot.wild
    states: list[State] = []

    class Mending:
        async def run(self) -> None:
            world.engines["h9"].answer = lambda _question: reply(500)
            await asyncio.sleep(11)
            states.append(world.health.entry(candidate, now()).breaker.state)
            world.engines["h9"].answer = lambda _question: reply(200)

    run(during(17.0, pinger(world, LIGHT), Mending()))
    assert [*states, world.health.entry(candidate, 17.0).breaker.state] == [State.OPEN, State.CLOSED]
