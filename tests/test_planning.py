"""Who is tried first, who next, and when a request waits."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from autohedge.checking import Checked
from autohedge.core.ask import Ask
from autohedge.core.problems import BadRequest, Gone, Unavailable
from autohedge.core.types import Attempt, Candidate, Door, Failure, Judgement, Kind, Outcome, Verdict
from autohedge.memory.health import Health
from autohedge.memory.tuning import rules_of
from autohedge.planning import Offers, Planner
from autohedge.rules.standing import Wish
from tests.support.desk import Desk, call, run
from tests.support.world import backend, lesson, model


def pair(config: str = "", **fields: Any) -> Desk:
    desk = Desk(config)
    desk.add("a", backend("pair", "one:1", "two:1", **fields), lesson(model("m")), lesson(model("m")))
    return desk


def ready(desk: Desk, name: str = "m", **fields: Any) -> Checked:
    checked = Checked(desk.snapshot, desk.snapshot.routes[name], desk.tools.chains.of(name), lambda _candidate: "")
    return replace(checked, **fields)


def plan(desk: Desk, checked: Checked) -> list[str]:
    planner, asked = Planner(desk.tools), call(asked="m")
    admitted = planner.plainly(asked, checked) or run(planner.closely(asked, checked))
    return [one.candidate.replica.id for one in admitted]


def fail(desk: Desk, number: int, verdict: Verdict, failure: Failure | None = None, times: int = 1) -> None:
    candidate = desk.candidates("m")[number]
    for _ in range(times):
        stamp = desk.tools.health.entry(candidate, desk.now).breaker.stamp
        attempt = Attempt(candidate, desk.now, stamp, outcome=Outcome(failure=failure), judgement=Judgement(verdict))
        desk.tools.health.record(attempt, desk.now)


def test_the_least_loaded_comes_first_and_the_others_after() -> None:
    desk = pair()
    desk.candidates("m")[0].replica.seat.in_flight = 3
    assert plan(desk, ready(desk)) == ["pair@two:1", "pair@one:1"]


def test_ties_go_round() -> None:
    desk = pair()
    desk.candidates("m")[0].replica.seat.last = 7
    assert plan(desk, ready(desk))[0] == "pair@two:1"


def test_an_open_replica_is_not_tried() -> None:
    """T68: no attempt while open, the other serves."""
    desk = pair()
    fail(desk, 0, Verdict.DEAD, Failure.REFUSED, times=2)
    assert desk.told == ["pair@one:1 open"]
    desk.tools.health.entry(desk.candidates("m")[1], desk.now)
    assert plan(desk, ready(desk))[0] == "pair@two:1"


def test_with_nowhere_else_to_go_a_closed_door_is_knocked_at_once_a_second() -> None:
    desk = pair()
    for number in (0, 1):
        fail(desk, number, Verdict.DEAD, Failure.REFUSED, times=2)
    planner = Planner(desk.tools)

    def tried() -> int:
        return len(list(run(planner.closely(call(asked="m"), ready(desk)))))

    assert [tried(), tried()] == [1, 1]
    desk.now += 0.5
    for number in (0, 1):
        fail(desk, number, Verdict.DEAD, Failure.REFUSED)
    assert tried() == 0
    desk.now += 0.5
    assert tried() == 1


def test_one_that_asked_to_be_left_alone_comes_last() -> None:
    """B35: Retry-After 60."""
    desk = pair()
    desk.tools.cooling.note(desk.candidates("m")[0], 60, desk.now)
    assert plan(desk, ready(desk)) == ["pair@two:1", "pair@one:1"]
    desk.now += 61
    assert plan(desk, ready(desk))[0] == "pair@one:1"


def test_a_rung_follows_when_the_model_s_own_replicas_are_gone() -> None:
    desk = pair("fallback_chain: [{provider: swarm, model: other}]")
    desk.add("b", backend("peer", "p:1"), lesson(model("other")))
    assert plan(desk, ready(desk)) == ["pair@one:1", "pair@two:1", "peer@p:1"]


def test_a_rung_that_cannot_fit_is_skipped() -> None:
    desk = pair("fallback_chain: [{provider: swarm, model: other}]")
    desk.add("b", backend("peer", "p:1"), lesson(model("other")))
    unfit = ready(desk, against=lambda candidate: "too small" if candidate.rung else "")
    assert plan(desk, unfit) == ["pair@one:1", "pair@two:1"]


def test_a_refusal_is_answered_when_no_rung_is_there() -> None:
    desk = pair()
    refused = ready(desk, refused=BadRequest("too long"))
    refused.route = replace(refused.route, candidates=())
    with pytest.raises(BadRequest, match="too long"):
        plan(desk, refused)


def test_a_retired_model_with_nowhere_to_go_is_a_410_with_the_evidence() -> None:
    desk = pair()
    desk.tools.retirements.retire("pair", "m", "operator", desk.now)
    with pytest.raises(Gone, match="retired"):
        plan(desk, ready(desk))


def test_a_model_whose_rung_is_only_away_is_no_410() -> None:
    """Its own replicas are gone for good, the rung's breaker is open: it comes back, so the caller should."""
    desk = pair("fallback_chain: [{provider: swarm, model: other}]")
    desk.add("b", backend("peer", "p:1"), lesson(model("other")))
    desk.tools.retirements.retire("pair", "m", "operator", desk.now)
    peer = desk.candidates("other")[0]
    desk.tools.health.force(peer.replica.id, Wish.DRAIN)
    assert plan(desk, ready(desk)) == []
    desk.tools.retirements.retire("peer", "other", "operator", desk.now)
    with pytest.raises(Gone, match=r"pair: .*; peer: "):
        plan(desk, ready(desk))


def test_a_rung_that_could_not_serve_it_anyway_does_not_hide_the_410() -> None:
    desk = pair("fallback_chain: [{provider: swarm, model: other}]")
    desk.add("b", backend("peer", "p:1"), lesson(model("other")))
    desk.tools.retirements.retire("pair", "m", "operator", desk.now)
    with pytest.raises(Gone):
        plan(desk, ready(desk, against=lambda candidate: "too small" if candidate.rung else ""))


class Waiting:
    """A pair with one seat each, both taken, and requests that wait for one."""

    def __init__(self, config: str = "queue: {wait: 5s}") -> None:
        self.desk = pair(config, concurrency=1)
        self.one, self.two = self.desk.candidates("m")
        self.planner = Planner(self.desk.tools)
        for candidate in (self.one, self.two):
            candidate.replica.seat.in_flight = 1

    def free(self, candidate: Candidate) -> None:
        candidate.replica.seat.in_flight = 0
        self.desk.tools.room.freed(candidate.replica)

    def offers(self) -> Offers:
        found = self.planner.plainly(call(asked="m"), ready(self.desk))
        assert found is not None
        return found


def test_a_failover_is_offered_the_seat_that_was_full_before() -> None:
    """The first choice had the only free seat; the other is at its cap until somebody leaves."""

    async def main() -> None:
        world = Waiting()
        world.one.replica.seat.in_flight = 0
        offers = world.offers()
        assert next(offers).candidate == world.one
        world.one.replica.seat.in_flight = 1
        assert (next(offers, None), offers.full) == (None, [world.two])
        waiting = asyncio.create_task(offers.seat())
        await asyncio.sleep(0)
        assert world.desk.tools.meters.queued == 1
        world.free(world.one)  # tried before: nobody waits for it
        world.free(world.two)
        offer = await waiting
        assert offer is not None
        assert offer.candidate == world.two
        assert next(offers, None) is None
        assert await offers.seat() is None

    run(main())


def test_a_seat_that_was_kept_in_vain_is_the_next_one_s() -> None:
    """Its replica was taken out between the wait and the look: who waits behind is woken for it."""

    async def main() -> None:
        world = Waiting()
        first = asyncio.create_task(world.planner.closely(call(asked="m"), ready(world.desk)))
        await asyncio.sleep(0)
        second = asyncio.create_task(world.desk.tools.room.wait([world.one.replica], 5))
        await asyncio.sleep(0)
        world.desk.tools.health.force(world.one.replica.id, Wish.DRAIN)
        world.desk.tools.health.force(world.two.replica.id, Wish.DRAIN)
        world.free(world.one)
        assert list(await first) == []
        assert await second is world.one.replica
        assert world.one.replica.seat.promised == 0

    run(main())


def test_all_at_their_cap_waits_for_a_seat() -> None:
    desk = pair("queue: {wait: 5s}", concurrency=1)
    seats = [candidate.replica.seat for candidate in desk.candidates("m")]
    for seat in seats:
        seat.in_flight = 1

    async def main() -> list[str]:
        async def free() -> None:
            await asyncio.sleep(0)
            seats[1].in_flight = 0
            desk.tools.room.freed(desk.candidates("m")[1].replica)

        async with asyncio.TaskGroup() as group:
            group.create_task(free())
            admitted = await Planner(desk.tools).closely(call(asked="m"), ready(desk))
        return [one.candidate.replica.id for one in admitted]

    assert run(main()) == ["pair@two:1"]
    assert desk.tools.meters.queued == 0


def test_a_full_queue_is_a_503_with_retry_after() -> None:
    desk = pair("queue: {size: 0}", concurrency=1)
    for candidate in desk.candidates("m"):
        candidate.replica.seat.in_flight = 1
    with pytest.raises(Unavailable) as raised:
        plan(desk, ready(desk))
    assert raised.value.code == "queue_full"
    assert raised.value.retry_after


# --- the System One door ------------------------------------------------------------------------------------------------


def trio(config: str = "") -> Desk:
    desk = Desk(config)
    desk.add("a", backend("trio", "one:1", "two:1", "six:1", models=("m",), kind=Kind.SYSTEMONE))
    return desk


def decided(desk: Desk, own: int = 2, state: str = "x") -> list[str]:
    checked = ready(desk, own=own)
    ask = Ask(Door.SYSTEMONE, "m", obj={"state": state})
    checked.order = desk.tools.affinity.order(ask, checked.route, desk.tools.settings.routing)
    planner = Planner(desk.tools)
    asked = call(door=Door.SYSTEMONE, asked="m")

    async def main() -> list[str]:
        offers = planner.plainly(asked, checked) or await planner.closely(asked, checked)
        found = []
        while (offer := next(offers, None)) is not None:
            found.append(offer.candidate.replica.id)
        return found

    made: list[str] = run(main())
    return made


def test_the_next_one_is_the_next_clockwise() -> None:
    """E36, and E65: who is out is skipped, the others keep their order."""
    desk = trio()
    for n in range(20):
        walk = decided(desk, own=3, state=f"doc {n}")
        assert sorted(walk) == ["trio@one:1", "trio@six:1", "trio@two:1"]
        sick = next(one for one in desk.candidates("m") if one.replica.id == walk[0])
        desk.tools.health.force(sick.replica.id, Wish.OPEN)
        assert decided(desk, own=3, state=f"doc {n}") == walk[1:]
        desk.tools.health.force(sick.replica.id, Wish.NONE)


def test_the_chain_follows_after_the_tries_of_the_door() -> None:
    """E34: `routing.retry` bounds the workers; a rung is not shut out by a third one."""
    desk = trio("fallback_chain: [{provider: swarm, model: other}]")
    desk.add("b", backend("peer", "p:1", models=("other",), kind=Kind.SYSTEMONE))
    found = decided(desk, own=2)
    assert len(found) == 3
    assert found[2] == "peer@p:1"


def test_a_worker_that_its_probes_call_sick_is_not_tried_in_panic() -> None:
    """E37 with eidex's judge: nobody healthy is nobody; with the window somebody may be tried after all."""
    for judge, tried in (("streak", 0), ("window", 3)):
        desk = trio(f"health: {{judge: {judge}}}")
        desk.tools.health = Health(lambda: 0.5, rules=rules_of(desk.tools.settings))
        for one in desk.candidates("m"):
            breaker = desk.tools.health.entry(one, desk.now).breaker
            breaker.adopt(desk.now + 60, "adopted", desk.now, hard=False)
        assert len(decided(desk, own=3)) == tried
