"""The order inside one rung."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from timeit import repeat

import pytest

from autohedge.core.types import UNKNOWN_LIMITS, Address, BackendSpec, Candidate, Kind, Replica, Seat
from autohedge.rules.balance import Policy, least_outstanding, ordered, state_hash
from autohedge.rules.ring import Ring


def candidate(name: str, in_flight: int = 0, last: int = 0, cap: int | None = None, priority: int = 50) -> Candidate:
    seat = Seat(cap)
    seat.in_flight, seat.last = in_flight, last
    replica = Replica(name, "b", Address("h", 1), seat)
    return Candidate(replica, BackendSpec("b", priority=priority), Kind.VLLM, "m", UNKNOWN_LIMITS)


def names(candidates: object) -> str:
    assert hasattr(candidates, "__iter__")
    return "".join(one.replica.id for one in candidates)


def test_fewest_in_flight_first() -> None:
    """A13: depths 10, 1, 5."""
    assert names(least_outstanding([candidate("a", 10), candidate("b", 1), candidate("c", 5)])) == "bca"


def test_ties_go_round() -> None:
    """A13 exceeded: equal ones take turns instead of always the first."""
    pool = [candidate(name) for name in "abc"]
    firsts = []
    for turn in range(1, 7):
        first = next(iter(least_outstanding(pool)))
        first.replica.seat.last = turn
        firsts.append(first.replica.id)
    assert firsts == ["a", "b", "c", "a", "b", "c"]


def test_a_weight_is_a_share_of_what_is_in_flight() -> None:
    """Eight requests at once over weights 3 and 1: six and two."""
    heavy, light = candidate("a"), candidate("b")
    heavy = replace(heavy, backend=replace(heavy.backend, weight=3))
    for turn in range(1, 9):
        seat = next(iter(least_outstanding([light, heavy]))).replica.seat
        seat.in_flight, seat.last = seat.in_flight + 1, turn
    assert (heavy.replica.seat.in_flight, light.replica.seat.in_flight) == (6, 2)


def test_round_robin_looks_at_turns_only() -> None:
    pool = [candidate("a", 0, last=3), candidate("b", 9, last=1), candidate("c", 4, last=2)]
    assert names(ordered(pool, Policy.ROUND_ROBIN)) == "bca"


def test_smaller_priority_number_first_and_full_ones_last() -> None:
    """As the registry orders; a replica without a free seat would only make the request wait."""
    pool = [candidate("a", priority=60), candidate("b", 3, priority=10), candidate("c", 1, cap=1, priority=1)]
    assert names(least_outstanding(pool)) == "bac"
    assert names(ordered(pool, Policy.ROUND_ROBIN)) == "bac"


def test_a_key_goes_to_its_place_on_the_ring() -> None:
    """The same key, the same order, whatever the order of the candidates; who is missing is skipped."""
    pool = [candidate(name) for name in "abcd"]
    ring = Ring("abcd")
    for key in range(50):
        walk = "".join(ring.walk(key))
        assert names(ordered(pool[::-1], Policy.STATE_HASH, ring, key)) == walk
        assert names(state_hash(pool[1:], ring, key)) == walk.replace("a", "")


def test_no_key_falls_back_to_least_outstanding() -> None:
    """8.3: requests without a document spread out."""
    pool = [candidate("a", 2), candidate("b", 1)]
    assert names(ordered(pool, Policy.STATE_HASH, Ring("ab"), None)) == "ba"
    assert names(ordered(pool, Policy.STATE_HASH, None, 7)) == "ba"


def test_hot_full_and_unplaced_replicas_come_later() -> None:
    """Bounded load, then seats; a replica that is not on the ring yet is still a last resort."""
    pool = [candidate("a"), candidate("b"), candidate("x")]
    ring = Ring("ab")
    first, second = ring.walk(1)
    by_name = {one.replica.id: one for one in pool}
    by_name[first].replica.seat.in_flight = 40
    assert names(state_hash(pool, ring, 1)) == second + "x" + first
    assert names(state_hash(pool, ring, 1, c=0)) == first + second + "x"
    by_name[second].replica.seat.cap = 0
    assert names(state_hash(pool, ring, 1)) == "x" + first + second


def test_every_document_keeps_its_worker_over_three_rounds() -> None:
    """Issue 5, acceptance 3, without load."""
    pool = [candidate(name) for name in "abc"]
    ring = Ring("abc")
    rounds = [[next(state_hash(pool, ring, key)).replica.id for key in range(2000)] for _ in range(3)]
    assert rounds[0] == rounds[1] == rounds[2]
    assert min(Counter(rounds[0]).values()) > 500


@pytest.mark.parametrize("policy", [Policy.LEAST, Policy.ROUND_ROBIN])
def test_two_candidates_cost_next_to_nothing(policy: Policy) -> None:
    """Aim 2 us for two; the bound leaves room for a busy machine."""
    pool = [candidate("a", 1), candidate("b")]
    assert min(repeat(lambda: ordered(pool, policy), number=2000, repeat=7)) / 2000 < 6e-6


def test_one_candidate_is_not_sorted() -> None:
    pool = [candidate("a")]
    assert least_outstanding(pool) is pool
    assert ordered(pool, Policy.ROUND_ROBIN) is pool
