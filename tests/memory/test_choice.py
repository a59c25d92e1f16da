"""The plan's two short cuts: who is obviously first, and whose shut door is knocked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from autohedge.core.ask import Ask
from autohedge.core.types import (
    Address,
    Attempt,
    BackendSpec,
    Candidate,
    Door,
    Failure,
    Judgement,
    Kind,
    Limits,
    Outcome,
    Replica,
    Route,
    Seat,
    Verdict,
)
from autohedge.memory.affinity import Affinity, Order, Ringed
from autohedge.memory.choice import KNOCK, Choice
from autohedge.memory.health import Health
from autohedge.rules.breaker import Options
from autohedge.rules.standing import State, Wish
from autohedge.settings.routing import Routing


def candidate(name: str, priority: int = 50, cap: int | None = None) -> Candidate:
    spec = BackendSpec("b", priority=priority)
    return Candidate(Replica(name, "b", Address(name, 1), Seat(cap)), spec, Kind.VLLM, "m", Limits())


class Desk:
    def __init__(self, probed: bool = False) -> None:
        self.health = Health(lambda: 0.5, Options(probed=probed))
        self.choice = Choice(self.health)
        self.gone: set[str] = set()

    def first(self, *candidates: Candidate, now: float = 0.0) -> str | None:
        admitted = self.choice.first(
            candidates, now, lambda one: one.replica.id if one.replica.id in self.gone else None
        )
        return None if admitted is None else admitted.candidate.replica.id

    def knock(self, *candidates: Candidate, now: float = 0.0) -> str | None:
        admitted = self.choice.knock(candidates, now)
        return None if admitted is None else admitted.candidate.replica.id

    def tell(self, where: Candidate, verdict: Verdict, now: float = 0.0, times: int = 1) -> None:
        failure = Failure.REFUSED if verdict is Verdict.DEAD else None
        for _ in range(times):
            stamp = self.health.entry(where, now).breaker.stamp
            outcome = Outcome(failure=failure)
            self.health.record(Attempt(where, now, stamp, outcome=outcome, judgement=Judgement(verdict)), now)

    def state(self, where: Candidate) -> State:
        return self.health.entry(where, 0.0).breaker.state


def test_the_least_loaded_of_the_first_priority() -> None:
    desk = Desk()
    one, two, three = candidate("1"), candidate("2"), candidate("3", priority=1)
    three.replica.seat.in_flight = 9
    assert desk.first(one, two, three) == "3"
    assert desk.first(one, two) == "1"
    one.replica.seat.in_flight = 1
    assert desk.first(one, two) == "2"


def test_ties_go_to_the_one_that_waited_longest() -> None:
    """Round robin without a counter of its own."""
    desk = Desk()
    one, two = candidate("1"), candidate("2")
    one.replica.seat.last = 8
    two.replica.seat.last = 7
    assert desk.first(one, two) == "2"


def test_a_weight_is_a_share_of_what_is_in_flight() -> None:
    """Eight requests at once over weights 3 and 1: six and two."""
    desk = Desk()
    light, heavy = candidate("light"), candidate("heavy")
    heavy = replace(heavy, backend=replace(heavy.backend, weight=3))
    for turn in range(1, 9):
        seat = {"light": light, "heavy": heavy}[desk.first(light, heavy) or ""].replica.seat
        seat.in_flight, seat.last = seat.in_flight + 1, turn
    assert (heavy.replica.seat.in_flight, light.replica.seat.in_flight) == (6, 2)


def test_a_full_one_is_passed_over() -> None:
    desk = Desk()
    one, two = candidate("1", cap=1), candidate("2")
    one.replica.seat.in_flight = 1
    two.replica.seat.in_flight = 5
    assert desk.first(one, two) == "2"
    assert desk.first(one) is None


def test_a_retired_one_is_never_the_obvious_choice() -> None:
    desk = Desk()
    desk.gone = {"1"}
    assert desk.first(candidate("1"), candidate("2")) == "2"
    assert desk.first(candidate("1")) is None


def test_who_is_not_plainly_well_is_left_to_the_plan() -> None:
    """Open, draining, or never heard where probes would tell: the whole plan weighs these."""
    desk = Desk()
    one = candidate("1")
    desk.tell(one, Verdict.DEAD, times=2)
    assert desk.state(one) is State.OPEN
    assert desk.first(one) is None
    two = candidate("2")
    desk.first(two)
    desk.health.force("2", Wish.DRAIN)
    assert desk.first(two) is None
    assert Desk(probed=True).first(candidate("3")) is None
    assert Desk(probed=False).first(candidate("3")) == "3"


def test_the_stamp_is_the_breaker_s() -> None:
    """A late result of an earlier generation is known by it."""
    desk = Desk()
    one = candidate("1")
    admitted = desk.choice.first([one], 5.0, lambda _one: None)
    assert admitted is not None
    assert admitted.stamp == desk.health.entry(one, 5.0).breaker.stamp
    assert desk.health.entry(one, 5.0).used == 5.0


def test_nobody_is_nobody() -> None:
    assert Desk().first() is None
    assert Desk().knock() is None


def test_a_shut_door_is_knocked_at_once_a_second() -> None:
    """Issue acceptance 4: a killed engine that is back serves the next caller; one that is gone costs a refused connection."""
    desk = Desk()
    one = candidate("1")
    desk.tell(one, Verdict.DEAD, times=2)
    knocks = []
    for at in (1.0, 1.5, 1.0 + KNOCK, 1.5 + KNOCK, 1.0 + 2 * KNOCK):
        knocks.append(desk.knock(one, now=at))
        desk.tell(one, Verdict.DEAD, now=at)
    assert knocks == ["1", None, "1", None, "1"]


def test_a_knock_that_is_out_is_shared() -> None:
    """Requests that come while the first one waits for its answer go along; when it was refused, they wait their second."""
    desk = Desk()
    one = candidate("1")
    desk.tell(one, Verdict.DEAD, times=2)
    assert [desk.knock(one, now=at) for at in (1.0, 1.1, 1.2)] == ["1", "1", "1"]
    desk.tell(one, Verdict.DEAD, now=1.3)
    assert desk.knock(one, now=1.4) is None


def test_doors_are_knocked_at_in_turn() -> None:
    desk = Desk()
    both = [candidate("1"), candidate("2")]
    for one in both:
        desk.tell(one, Verdict.DEAD, times=2)
    first = desk.knock(*both, now=1.0)
    second = desk.knock(*both, now=1.1)
    for one in both:
        desk.tell(one, Verdict.DEAD, now=1.2)
    assert (first, second, desk.knock(*both, now=1.3)) == ("1", "2", None)


@pytest.mark.parametrize("why", ["well", "ratio", "drained"])
def test_only_hard_evidence_is_knocked_at(why: str) -> None:
    """A replica that answers badly is not helped by one more request; the operator's wish stands."""
    desk = Desk()
    one, two = candidate("1"), candidate("2")
    desk.first(one, two)
    if why == "ratio":
        desk.tell(two, Verdict.ANSWER, times=6)
        desk.tell(one, Verdict.SICK, times=6)
        assert desk.state(one) is State.OPEN
    elif why == "drained":
        desk.tell(one, Verdict.DEAD, times=2)
        desk.health.force("1", Wish.DRAIN)
    assert desk.knock(one) is None


def test_a_replica_is_remembered_by_its_id() -> None:
    """A new snapshot holds other objects for the same replica."""
    desk = Desk()
    one = candidate("1")
    desk.tell(one, Verdict.DEAD, times=2)
    assert desk.knock(one) == "1"
    assert desk.knock(replace(one, rung=1)) is None


# --- by an order --------------------------------------------------------------------------------------------------------


def by_name(candidates: Sequence[Candidate]) -> Iterable[Candidate]:
    return sorted(candidates, key=lambda one: one.replica.id)


def first_by(desk: Desk, *candidates: Candidate, order: Order = by_name, unheard: bool = True) -> str | None:
    def gone(one: Candidate) -> object:
        return one.replica.id if one.replica.id in desk.gone else None

    admitted = desk.choice.first_by(order, candidates, 0.0, gone, unheard=unheard)
    return None if admitted is None else admitted.candidate.replica.id


def test_the_first_of_an_order_that_is_well() -> None:
    """E36: sick, full and retired ones are skipped, nothing else changes."""
    desk, a, b, c, d = Desk(), candidate("a"), candidate("b"), candidate("c", cap=0), candidate("d")
    assert first_by(desk, d, c, b, a) == "a"
    desk.tell(a, Verdict.DEAD, times=2)
    assert first_by(desk, d, c, b, a) == "b"
    desk.gone.add("b")
    assert first_by(desk, d, c, b, a) == "d"
    assert first_by(desk, a, b, c) is None


def test_one_that_never_answered_is_as_good_where_the_door_says_so() -> None:
    """E124: keys must not move to whoever was heard first."""
    desk, a, b = Desk(probed=True), candidate("a"), candidate("b")
    desk.tell(b, Verdict.ANSWER)
    assert first_by(desk, a, b, unheard=True) == "a"
    assert first_by(desk, a, b, unheard=False) == "b"


def test_a_calm_home_is_asked_without_a_look_at_the_others() -> None:
    """Sixteen workers cost no more than three."""
    desk, pool = Desk(), tuple(candidate(name) for name in "abc")
    route = Route("m", pool, frozenset({Kind.VLLM}))
    order = Affinity().order(Ask(Door.SYSTEMONE, "m", obj={"state": "x"}), route, Routing())
    assert isinstance(order, Ringed)
    home = order.home

    def found() -> str | None:
        admitted = desk.choice.first_by(order, pool, 0.0, lambda _one: None, unheard=True)
        return None if admitted is None else admitted.candidate.replica.id

    assert found() == home
    assert len(desk.health.describe(0.0)) == 1
    desk.tell(next(one for one in pool if one.replica.id == home), Verdict.DEAD, times=2)
    assert found() == next(one.replica.id for one in order(pool) if one.replica.id != home)
