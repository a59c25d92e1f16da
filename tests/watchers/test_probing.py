"""The prober in virtual time: cadence, what is skipped, how long it waits, and what its verdicts do to the pool."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from autohedge.core.types import (
    Candidate,
    Door,
    Judgement,
    Kind,
    LearnedModel,
    Lesson,
    Limits,
    Outcome,
    Replica,
    Secret,
    Seen,
    Verdict,
)
from autohedge.memory.entry import Rules
from autohedge.providers.base import Question, Reply
from autohedge.rules.probes import Probed
from autohedge.settings.health import Probe
from autohedge.watchers.means import Hooks, Means
from autohedge.watchers.probing import Prober
from tests.support.vtime import now, run
from tests.watchers.scripted import World, blocked, chat, during, reply

ONE = "b@h1:8000"
NOT_FOUND = {"detail": "Not Found"}


def gaps(times: list[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(times)]


def lived(
    world: World, seconds: float, prober: Prober | None = None, then: Callable[[], object] = lambda: None
) -> object:
    """Probe for so long; returns what `then` says at the end."""
    return run(during(seconds, prober or world.prober(), then=then))


# --- cadence ----------------------------------------------------------------------------------------------------------


def test_a_new_replica_is_probed_soon_and_then_every_ten_seconds() -> None:
    """Design 5: within half a second, then every 10 s +-20 %, with the minimal inference and nothing else."""
    dice = random.Random(1)
    world = World(draws=dice.random)
    world.add("b", "h1")
    lived(world, 300.0)
    engine = world.engines["h1"]
    assert engine.inferences[0] <= 0.5
    assert all(8.0 <= gap <= 12.1 for gap in gaps(engine.inferences))
    assert max(gaps(engine.inferences)) - min(gaps(engine.inferences)) > 2.0  # jittered
    assert {question.path for _, question in engine.asked} == {"/v1/chat/completions"}
    assert engine.limits == pytest.approx([10.0] * len(engine.limits))


def test_in_doubt_every_three_seconds() -> None:
    """While anything in the window failed."""
    world = World()
    world.add("b", "h1")
    engine = world.engines["h1"]
    answers = iter([chat(), reply(500, b"x")])
    engine.answer = lambda _question: next(answers, chat())
    lived(world, 125.0)
    assert gaps(engine.inferences)[:2] == pytest.approx([10.0, 3.0], abs=0.1)
    assert gaps(engine.inferences)[-1] == pytest.approx(10.0, abs=0.1)  # it has left the window


def test_live_traffic_is_proof_enough() -> None:
    """Skipped while it answers; one interval after its last answer the probes are back."""
    world = World()
    world.add("b", "h1")

    async def main() -> None:
        async def traffic() -> None:
            for _ in range(60):
                world.live(ONE)
                await asyncio.sleep(1.0)

        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.prober().run())
            await asyncio.sleep(1.0)
            await traffic()
            assert "live traffic" in world.shown(ONE)["not_probed"]
            await asyncio.sleep(13.0)
            task.cancel()

    run(main())
    first, second = world.engines["h1"].inferences[:2]
    assert first < 1.0
    assert 60.0 < second <= 60.0 + 12.1


def test_a_hang_after_busy_times_is_found_as_soon() -> None:
    """The last live answer is the last evidence, not the end of its credit."""
    world = World()
    world.add("b", "h1", "h2")

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.prober().run())
            for _ in range(100):
                world.live(ONE)
                await asyncio.sleep(0.5)
            world.engines["h1"].hang()
            await asyncio.sleep(35.0)
            assert world.state(ONE) == "open"
            task.cancel()

    run(main())


def test_a_replica_with_many_models_is_not_flooded() -> None:
    """One after the other, and no more than one a second."""
    world = World()
    world.add("b", "h1", models=[f"lora-{number}" for number in range(40)])
    lived(world, 200.0)
    engine = world.engines["h1"]
    assert engine.most == 1
    assert len(engine.inferences) <= 250
    assert len({(question.json or {})["model"] for _, question in engine.asked}) == 40


# --- hanging, dying, coming back --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_a_hang_behind_a_green_health_page_is_out_within_35_s_and_back_within_15(seed: int) -> None:
    """Acceptance 1 (B01, B07) without traffic, whatever the draws; recovery closes within 15 s of health."""
    dice = random.Random(seed)
    world = World(draws=dice.random)
    world.add("b", "h1", "h2", "h3")

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.prober().run())
            await asyncio.sleep(60.0 + 10 * dice.random())
            world.engines["h1"].hang()
            await asyncio.sleep(35.0)
            assert world.state(ONE) == "open"
            await asyncio.sleep(600 * dice.random())
            world.engines["h1"].heal()
            await asyncio.sleep(15.0)
            assert world.state(ONE) == "closed"
            task.cancel()

    run(main())
    opening = next(moved for _, _, moved in world.changes if moved.new == "open")
    assert opening.reason in {"6/9 succeeded", "6/10 succeeded"}
    assert {where for _, where, _ in world.changes} == {ONE}


def test_a_new_replica_that_hangs_is_out_as_soon() -> None:
    """No good past is needed."""
    world = World()
    world.add("b", "h1", "h2")
    world.engines["h1"].hang()
    assert lived(world, 35.0, then=lambda: world.state(ONE)) == "open"


def test_the_only_replica_goes_where_another_rung_takes_over() -> None:
    """The article 4.4: one vLLM, then Ollama. Without a chain the last one stays."""
    for spare, expected in ((True, "open"), (False, "closed")):
        world = World(Rules(spare=lambda _candidate, spare=spare: spare))  # type: ignore[misc]
        world.add("b", "h1")

        async def main(world: World = world, expected: str = expected) -> None:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(world.prober().run())
                await asyncio.sleep(60.0)
                world.engines["h1"].hang()
                await asyncio.sleep(35.0)
                assert world.state(ONE) == expected
                task.cancel()

        run(main())


def test_quick_after_silence_patient_in_a_trial() -> None:
    """10 s, then 3.3 s; a trial gets all of its time, or an engine that is slow would never come back."""
    world = World()
    world.add("b", "h1", "h2")

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.prober().run())
            await asyncio.sleep(120.0)
            engine = world.engines["h1"]
            engine.limits.clear()
            engine.hang()
            await asyncio.sleep(35.0)
            assert engine.limits[:5] == pytest.approx([10.0, 10 / 3, 10 / 3, 10 / 3, 10.0])
            engine.heal()
            engine.latency = 5.0
            await asyncio.sleep(60.0)
            assert world.state(ONE) == "closed"
            task.cancel()

    run(main())


def test_refused_connections_open_at_once() -> None:
    """B05: two in a row are proof; probes go on and find whoever is back."""
    world = World()
    world.add("b", "h1", "h2")

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.prober().run())
            await asyncio.sleep(30.0)
            world.engines["h1"].refuse()
            await asyncio.sleep(16.0)
            assert world.shown(ONE)["hard"] is True
            await asyncio.sleep(300.0)
            world.engines["h1"].heal()
            await asyncio.sleep(15.0)
            assert world.state(ONE) == "closed"
            task.cancel()

    run(main())


def test_loading_is_no_failure() -> None:
    """B22: 503 Loading model for a while, then well; never open."""
    world = World()
    world.add("b", "h1", "h2")
    loading = {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}
    engine = world.engines["h1"]
    engine.answer = lambda _question: reply(503, loading) if now() < 60.0 else chat()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.prober().run())
            await asyncio.sleep(30.0)
            assert world.state(ONE) == "loading"
            await asyncio.sleep(34.0)
            assert world.state(ONE) == "closed"
            task.cancel()

    world.specs.clear()
    world.add("b", "h1", "h2", kind=Kind.LLAMACPP)
    run(main())
    assert {moved.new.value for _, _, moved in world.changes} == {"loading", "closed"}


@pytest.mark.parametrize(
    "answer", [lambda _: reply(429), lambda _: reply(503, b"the request queue is full", **{"retry-after": "1"})]
)
def test_a_busy_engine_is_never_out(answer: Callable[[Question], Reply]) -> None:
    """Acceptance 3: a hundred full queues leave the breaker closed."""
    world = World()
    world.add("b", "h1", "h2")
    world.engines["h1"].answer = answer
    assert lived(world, 320.0, then=lambda: world.state(ONE)) == "closed"
    assert len(world.engines["h1"].inferences) > 100  # busy is asked again soon
    assert world.changes == []


def test_a_long_prefill_keeps_its_replica_in() -> None:
    """B08, B11: live requests run for 25 s without a byte, and so do probes; then all are answered."""
    world = World()
    world.add("b", "h1", "h2")
    seat = world.candidate(ONE).replica.seat

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.prober().run())
            await asyncio.sleep(60.0)
            for _ in range(4):
                world.engines["h1"].hang()
                seat.in_flight = 3
                await asyncio.sleep(25.0)
                world.engines["h1"].heal()
                seat.in_flight = 0
                world.live(ONE)
                assert world.state(ONE) == "closed"
                await asyncio.sleep(4.0)
            task.cancel()

    run(main())
    assert world.changes == []


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_hung_replicas_keep_nobody_waiting() -> None:
    """T25, T59: thirty of forty hang at once; the others keep their cadence and the hung ones are out in time."""
    world = World(Rules(spare=lambda _candidate: True))
    world.add("b", *[f"h{number}" for number in range(40)])

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.prober().run())
            await asyncio.sleep(60.0)
            for number in range(30):
                world.engines[f"h{number}"].hang()
            await asyncio.sleep(45.0)
            states = [world.state(f"b@h{number}:8000") for number in range(40)]
            assert states.count("closed") == 10
            task.cancel()

    run(main())
    assert max(gaps(world.engines["h39"].inferences)) < 14.0


def test_at_most_so_many_begin_at_once() -> None:
    """Bounded in parallel; a place is free after a second at the latest."""
    world = World()
    world.add("b", *[f"h{number}" for number in range(30)])
    for engine in world.engines.values():
        engine.hang()
    lived(world, 9.0, world.prober(parallel=4))
    begun = sorted(engine.inferences[0] for engine in world.engines.values())
    assert all(later - earlier >= 0.99 for earlier, later in zip(begun, begun[4:], strict=False))
    assert begun[-1] < 9.0


def test_the_last_free_seat_is_for_live_traffic() -> None:
    """B20: with one place, a second request wedges both. A probe waits, takes the seat, and gives it back."""
    freed: list[Replica] = []
    world = World()
    world.add("b", "h1", concurrency=1)
    seat = world.candidate(ONE).replica.seat
    engine = world.engines["h1"]
    seats: list[int] = []

    def answer(_question: Question) -> Reply:
        seats.append(seat.in_flight)
        return chat()

    engine.answer = answer
    seat.in_flight = 1

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.prober(Hooks(freed=freed.append)).run())
            await asyncio.sleep(20.0)
            assert engine.asked == []
            assert "taken by live requests" in world.shown(ONE)["not_probed"]
            seat.in_flight = 0
            await asyncio.sleep(20.0)
            task.cancel()

    run(main())
    assert set(seats) == {1}
    assert seat.in_flight == 0
    assert len(freed) == len(seats) >= 2


def test_a_full_engine_is_not_asked_as_well() -> None:
    """llama.cpp says how many slots it has; a probe would only queue behind our own requests."""
    world = World()
    world.add("b", "h1", slots=2)
    world.candidate(ONE).replica.seat.in_flight = 2
    lived(world, 30.0)
    assert world.engines["h1"].asked == []


def test_a_probe_that_is_cancelled_gives_everything_back() -> None:
    """The process stops in the middle of one."""
    world = World()
    world.add("b", "h1", concurrency=1)
    world.engines["h1"].hang()
    prober = world.prober()
    lived(world, 5.0, prober)
    assert world.candidate(ONE).replica.seat.in_flight == 0
    assert (prober._busy, prober._held) == (set(), 0)


# --- who is asked, and by whom ----------------------------------------------------------------------------------------


def test_paid_providers_are_left_alone() -> None:
    """B19: no probe of an external backend unless that was asked for; also by a reload."""
    world = World()
    world.add("cloud", "h1", kind=Kind.OPENAI, external=True)
    prober = world.prober()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(prober.run())
            await asyncio.sleep(60.0)
            assert world.engines["h1"].asked == []
            prober.settings = Probe(external=True)
            await asyncio.sleep(5.0)
            task.cancel()

    run(main())
    assert len(world.engines["h1"].inferences) == 1


def test_the_backend_s_key_goes_along() -> None:
    """A refused one is our own fault, and told as such."""
    world = World()
    world.add("b", "h1", key=Secret("k"))
    world.engines["h1"].fail(401, {"error": "Unauthorized"})
    assert lived(world, 5.0, then=lambda: world.state(ONE)) == "misconfigured"
    assert world.engines["h1"].keys[0] == ((b"authorization", b"Bearer k"),)


def test_an_unknown_kind_is_not_asked() -> None:
    """It could be one that loads models by name."""
    world = World()
    world.add("b", "h1", kind=Kind.AUTO)
    lived(world, 30.0)
    assert world.engines["h1"].asked == []
    assert "not recognised" in world.health.describe(30.0)[0]["not_probed"]


def test_a_kind_that_is_recognised_a_moment_later_is_asked_then() -> None:
    """A new task of a Swarm service whose model other tasks have told: seen there, it cost three seconds without a request."""
    world = World(draws=lambda: 0.0)
    world.add("b", "h1", kind=Kind.AUTO)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.prober().run())
            await asyncio.sleep(0.1)
            world.registry.learn(ONE, Lesson(Kind.VLLM, (LearnedModel("m", ("m",), Limits()),), 1.0), 1.0)
            await asyncio.sleep(0.3)
            assert len(world.engines["h1"].inferences) == 1
            task.cancel()

    run(main())


def test_what_vanished_is_probed_no_more_and_what_appears_is_soon() -> None:
    """The prober follows the snapshot; `wake` makes it look at once."""
    world = World()
    world.add("b", "h1")
    prober = world.prober()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(prober.run())
            await asyncio.sleep(30.2)
            world.add("c", "h2")
            prober.wake()
            await asyncio.sleep(0.6)
            assert len(world.engines["h2"].inferences) == 1
            del world.specs["b"]
            world.registry.apply("test", Seen(tuple(world.specs.values())), 0.0)
            asked = len(world.engines["h1"].asked)
            await asyncio.sleep(60.0)
            assert len(world.engines["h1"].asked) == asked
            task.cancel()

    run(main())


def test_a_poked_replica_is_probed_now() -> None:
    """The gate at the start does not wait ten seconds."""
    world = World()
    world.add("b", "h1")
    prober = world.prober()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(prober.run())
            await asyncio.sleep(3.0)
            prober.poke(ONE)
            await asyncio.sleep(0.2)
            task.cancel()

    run(main())
    assert len(world.engines["h1"].inferences) == 2


def test_one_leased_prober_works_for_all() -> None:
    """The worker without the lease asks nothing, hears everything, and takes over when the lease is free."""
    leader, follower = World(), World()
    follower.engines = leader.engines
    for world in (leader, follower):
        world.add("b", "h1", "h2")
    holder = ["leader"]
    asked: list[str] = []

    def lease(name: str) -> bool:
        asked.append(name)
        return holder[0] == "follower"

    def publish(_candidate: Candidate, probe: Probed) -> None:
        follower.health.heard(probe, now())

    first = leader.prober(Hooks(lease=lambda _name: holder[0] == "leader", publish=publish))
    second = follower.prober(Hooks(lease=lease))

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one.run()) for one in (first, second)]
            await asyncio.sleep(60.0)
            assert leader.engines["h1"].most == 1
            assert all(gap > 7.9 for gap in gaps(leader.engines["h1"].inferences))
            assert follower.known(ONE)
            leader.engines["h1"].hang()
            await asyncio.sleep(35.0)
            assert leader.state(ONE) == follower.state(ONE) == "open"
            leader.engines["h1"].heal()
            await asyncio.sleep(15.0)
            assert leader.state(ONE) == follower.state(ONE) == "closed"
            asked_before = len(leader.engines["h1"].inferences)
            holder[0] = "follower"
            await asyncio.sleep(12.0)
            assert len(leader.engines["h1"].inferences) > asked_before
            for task in tasks:
                task.cancel()

    run(main())
    assert set(asked) == {"probe:b@h1:8000", "probe:b@h2:8000"}


# --- what comes back --------------------------------------------------------------------------------------------------


def test_a_door_that_does_not_suit_is_followed_by_the_next() -> None:
    """An embedding server that does not say so: chat is 404, embeddings answer, and that door is kept."""
    poked: list[str] = []
    world = World()
    world.add("b", "h1")
    vector = {"object": "list", "model": "m", "data": [{"embedding": [0.1, -0.2], "index": 0}]}

    def answer(question: Question) -> Reply:
        return reply(200, vector) if question.path == "/v1/embeddings" else reply(404, NOT_FOUND)

    world.engines["h1"].answer = answer
    assert lived(world, 60.0, world.prober(Hooks(poke=poked.append)), then=lambda: world.known(ONE))
    paths = [question.path for _, question in world.engines["h1"].asked]
    assert paths[:2] == ["/v1/chat/completions", "/v1/embeddings"]
    assert set(paths[1:]) == {"/v1/embeddings"}
    assert world.engines["h1"].inferences[1] < 4.0  # not after ten seconds
    assert poked == [ONE]


def test_a_kept_door_is_not_kept_for_ever() -> None:
    """A 404 of a moment must not hide the chat behind its embeddings: after thirty good probes chat is asked again."""
    world = World()
    world.add("b", "h1")
    vector = {"object": "list", "model": "m", "data": [{"embedding": [0.1, -0.2], "index": 0}]}

    def answer(question: Question) -> Reply:
        if question.path == "/v1/embeddings":
            return reply(200, vector)
        return reply(404, NOT_FOUND) if now() < 20.0 else chat()

    world.engines["h1"].answer = answer
    lived(world, 400.0)
    paths = [question.path for _, question in world.engines["h1"].asked]
    assert paths.count("/v1/embeddings") == 30
    assert paths[0] == paths[-1] == "/v1/chat/completions"


def test_a_model_that_no_probe_suits_stays_in_and_is_asked_calmly() -> None:
    """B13: every 4xx is alive; after one round over the doors the pace is calm, and the admin sees why."""
    world = World()
    world.add("b", "h1")
    world.engines["h1"].fail(400, {"error": {"message": "minimum is 64", "type": "invalid_request_error"}})
    reason = lived(world, 120.0, then=lambda: world.shown(ONE)["probe"]["reason"])
    assert "does not suit it" in str(reason)
    assert world.changes == []
    assert len(world.engines["h1"].inferences) < 30


def test_a_known_embedding_model_is_asked_for_a_vector() -> None:
    """By its learned abilities, without trying chat."""
    world = World()
    world.add("b", "h1", abilities={Door.EMBEDDINGS.value: True, Door.CHAT.value: False})
    world.engines["h1"].answer = lambda _question: reply(200, {"data": [{"embedding": [0.5]}]})
    lived(world, 15.0)
    assert {question.path for _, question in world.engines["h1"].asked} == {"/v1/embeddings"}


def test_another_model_behind_the_address_gets_no_traffic() -> None:
    """Identity mismatch: out at once, the learner is asked to look again; the right one comes back."""
    poked: list[str] = []
    world = World()
    world.add("b", "h1", "h2")
    world.engines["h1"].answer = lambda _question: chat(model="impostor")

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.prober(Hooks(poke=poked.append)).run())
            await asyncio.sleep(2.0)
            assert not world.health.look(world.candidate(ONE), now()).allowed
            world.engines["h1"].heal()
            await asyncio.sleep(65.0)
            assert world.state(ONE) == "closed"
            task.cancel()

    run(main())
    assert poked == [ONE]
    assert world.changes[0][2].reason == "it answers for a model that it does not list"


def test_a_name_that_resolves_elsewhere_is_fine_for_proxies() -> None:
    """Only kinds that answer from their own list are compared."""
    world = World()
    world.add("b", "h1", kind=Kind.OPENAI)
    world.engines["h1"].answer = lambda _question: chat(model="gpt-4o-2024-08-06")
    assert lived(world, 5.0, then=lambda: world.known(ONE))


def test_degenerate_text_is_a_failure() -> None:
    """T88: green health, nothing but slashes."""
    world = World()
    world.add("b", "h1", "h2")
    world.engines["h1"].answer = lambda _question: chat("/" * 16)
    lived(world, 30.0)
    assert world.changes[0][2].reason == "0/5 succeeded"


def test_a_probe_that_hears_of_the_end_makes_it_a_fact() -> None:
    """d3: before a caller meets it; what is sick or merely unsuitable is no end."""
    world = World()
    world.add("b", "h1", "h2", "h3")
    world.engines["h1"].fail(410, {"error": {"message": "model m has been retired"}})
    world.engines["h2"].fail(500)
    world.engines["h3"].fail(404, {"error": {"message": "The model `m` does not exist."}})
    told: list[tuple[str, Verdict, int, Door]] = []

    def gone(candidate: Candidate, judgement: Judgement, outcome: Outcome, door: Door) -> None:
        told.append((candidate.replica.id, judgement.verdict, outcome.status, door))

    lived(world, 5.0, world.prober(Hooks(gone=gone)))
    assert set(told) == {("b@h1:8000", Verdict.RETIRED, 410, Door.CHAT)}


def test_what_is_gone_is_not_probed() -> None:
    """d3, acceptance 2: "no request sent to it"; a probe every ten seconds would be one. The re-check has its own pace."""
    world = World()
    world.add("b", "h1")
    engine = world.engines["h1"]
    gone: list[str] = []
    prober = world.prober(Hooks(barred=lambda _candidate: "model m of b is retired" if gone else ""))

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(prober.run())
            await asyncio.sleep(30.0)
            asked = len(engine.inferences)
            assert asked >= 3
            gone.append("410")
            await asyncio.sleep(120.0)
            assert len(engine.inferences) == asked
            assert world.shown(ONE)["not_probed"] == "model m of b is retired"
            gone.clear()
            await asyncio.sleep(30.0)
            assert len(engine.inferences) > asked
            task.cancel()

    run(main())


def test_an_ollama_model_is_neither_loaded_nor_kept() -> None:
    """B14: not in /api/ps, not asked. Loaded: asked until there is evidence, then only while somebody uses it."""
    world = World()
    world.add("b", "h1", kind=Kind.OLLAMA)
    loaded: list[dict[str, Any]] = []

    def answer(question: Question) -> Reply:
        return reply(200, {"models": loaded}) if question.path == "/api/ps" else chat()

    engine = world.engines["h1"]
    engine.answer = answer

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.prober().run())
            await asyncio.sleep(60.0)
            assert engine.inferences == []
            assert "not loaded" in world.shown(ONE)["not_probed"]
            assert world.health.admit(world.candidate(ONE), now()).allowed  # live traffic may load it
            loaded.append({"name": "m", "model": "m"})
            await asyncio.sleep(280.0)
            assert len(engine.inferences) > 20
            await asyncio.sleep(30.0)  # now nobody has used it for five minutes
            used = len(engine.inferences)
            await asyncio.sleep(300.0)
            assert len(engine.inferences) == used
            assert "keep it in memory" in world.shown(ONE)["not_probed"]
            world.live(ONE)
            await asyncio.sleep(30.0)
            assert len(engine.inferences) - used >= 3
            task.cancel()

    run(main())
    assert world.changes == []


def test_an_ollama_that_is_gone_is_seen_by_the_first_question() -> None:
    """And one that is open with an unloaded model gives live traffic the trial."""
    world = World()
    world.add("b", "h1", "h2", kind=Kind.OLLAMA)
    engine = world.engines["h1"]
    engine.refuse()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.prober().run())
            await asyncio.sleep(10.0)
            assert world.state(ONE) == "open"
            engine.answer = lambda _question: reply(200, {"models": []})
            await asyncio.sleep(40.0)
            assert world.state(ONE) == "half-open"
            assert world.live(ONE)
            assert world.live(ONE)
            assert world.state(ONE) == "closed"
            task.cancel()

    run(main())


def test_a_starved_loop_takes_nobody_out() -> None:
    """T89: our own loop stands still for 4 s, ten times; every probe of that time that failed is thrown away."""
    world = World()
    world.add("b", "h1", "h2")
    world.engines["h1"].hang()
    means = Means(world.registry, world.health, world.ask, world.draws)
    prober = Prober(means, Probe())

    async def starving() -> None:
        while True:
            await asyncio.sleep(1.5)
            blocked(4.0)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in (prober.run(), means.pulse.run(), starving())]
            await asyncio.sleep(200.0)
            assert "our own event loop" in world.shown(ONE)["probe"]["reason"]
            assert world.known("b@h2:8000")
            for task in tasks:
                task.cancel()

    run(main())
    assert world.changes == []


def test_a_fault_of_our_own_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, says nothing about the replica, and the next probe is sent."""
    world = World()
    world.add("b", "h1")
    engine = world.engines["h1"]

    def broken(_question: Question) -> Reply:
        if len(engine.asked) == 1:
            raise RuntimeError("a bug")
        return chat()

    engine.answer = broken
    assert lived(world, 10.0, then=lambda: world.known(ONE))
    assert "could not be made" in caplog.text
    assert engine.inferences[1] < 4.0


def test_a_listener_that_fails_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A full disk behind `publish` must not stop the probes, nor keep the lease of a trial."""
    world = World()
    world.add("b", "h1", "h2")

    def broken(_candidate: Candidate, _probe: Probed) -> None:
        raise OSError("no space left")

    world.engines["h1"].refuse()
    world.engines["h2"].refuse()
    lived(world, 60.0, world.prober(Hooks(publish=broken)))
    assert "could not be made" in caplog.text
    assert len(world.engines["h1"].asked) > 8


def test_every_result_is_published_as_it_was_counted() -> None:
    """For metrics and for the other workers."""
    heard: list[tuple[str, Probed]] = []
    world = World()
    world.add("b", "h1")
    world.engines["h1"].latency = 0.3
    hooks = Hooks(publish=lambda candidate, probe: heard.append((candidate.backend.name, probe)))
    lived(world, 5.0, world.prober(hooks))
    ((backend, probe),) = heard
    assert (backend, probe.replica, probe.model, probe.verdict) == ("b", ONE, "m", Verdict.ANSWER)
    assert probe.took == pytest.approx(0.3)


def test_hours_of_lossy_probes_in_a_healthy_pool() -> None:
    """Acceptance 3 with the real prober (the whole day of the rules alone: test_breaker_day.py): 8 replicas, 3 % loss, three
    hours; hardly a false opening, every one healed by its first trial, never half of the pool out.
    """
    dice = random.Random(5)
    world = World(draws=dice.random)
    world.add("b", *[f"h{number}" for number in range(8)])

    def lossy(_question: Question) -> Reply:
        return reply(500, b"lost") if dice.random() < 0.03 else chat()

    for engine in world.engines.values():
        engine.answer = lossy
    lived(world, 3 * 3600.0)
    openings = [moved for _, _, moved in world.changes if moved.new == "open"]
    assert all(moved.old == "closed" for moved in openings)
    assert len(openings) <= 2
