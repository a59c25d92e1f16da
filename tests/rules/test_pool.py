"""Pool rules over several breakers: ejection cap, last replica, correlated failures, panic."""

from __future__ import annotations

import pytest

from autohedge.rules.pool import PoolRules, frozen_until, hold, panics
from autohedge.rules.standing import NEVER, Tier, View

GOOD = View()
UNKNOWN = View(Tier.UNKNOWN)
LONG_AGO = View(Tier.RATIO, opened_at=0.0)
NOW = 1000.0


def out(at: float = 0.0, tier: Tier = Tier.RATIO) -> View:
    return View(tier, opened_at=at)


@pytest.mark.parametrize(
    ("size", "most"),
    [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (10, 5)],
)
def test_at_most_floor_half_by_ratio(size: int, most: int) -> None:
    """7.1 max ejection: floor(50 %), and a pool of one loses nobody."""
    for already in range(size):
        others = [LONG_AGO] * already + [GOOD] * (size - 1 - already)
        assert (hold(others, NOW) == "") is (already < most), (size, already)


def test_hard_evidence_is_not_counted_against_the_cap() -> None:
    """Hard-opened replicas are out by proof; the cap is for ratios."""
    assert hold([out(tier=Tier.OUT), GOOD, GOOD], NOW) == ""


@pytest.mark.parametrize("other", [out(tier=Tier.OUT), LONG_AGO, UNKNOWN, View(Tier.LOADING)])
def test_the_last_replica_known_to_answer_stays(other: View) -> None:
    """7.1: unknown and loading ones are no replacement for one that answers now and then."""
    assert hold([other, other, other], NOW) == "the last replica known to answer stays in"
    assert hold([], NOW) != ""


def test_half_a_pool_failing_at_once_freezes_ejection() -> None:
    """4.3.8: two of four within one interval: our own network is the suspect for 30 s."""
    others = [out(NOW - 8.0, Tier.OUT), out(NOW - 1.0, Tier.OUT), GOOD]
    assert frozen_until(others, 4) == NOW + 29.0
    assert hold(others, NOW) == "too many replicas failed at once, ejection is frozen for 29 s"
    assert hold(others, NOW + 29.0) == ""


def test_openings_far_apart_freeze_nothing() -> None:
    """Two openings in two intervals are two events."""
    assert frozen_until([out(NOW - 40.0), out(NOW - 1.0), GOOD], 4) == NEVER


def test_one_opening_is_no_coincidence() -> None:
    """At least two, also in a pool of two."""
    assert frozen_until([out(NOW)], 2) == NEVER


def test_a_freeze_outlasts_the_recovery_of_those_who_caused_it() -> None:
    """`opened_at` stays with a replica that has closed again."""
    back = View(Tier.GOOD, opened_at=NOW)
    assert frozen_until([back, back, GOOD], 4) == NOW + 30.0


def test_the_numbers_can_be_set() -> None:
    """A share of 0.34 takes one of three, a shorter interval sees fewer coincidences."""
    assert hold([GOOD, GOOD], NOW, PoolRules(share=0.34)) == ""
    assert hold([GOOD, GOOD], NOW, PoolRules(share=0.3)) != ""
    assert frozen_until([out(NOW - 3.0), out(NOW)], 4, PoolRules(interval=2.0)) == NEVER


@pytest.mark.parametrize(
    ("tiers", "panic"),
    [
        ([Tier.RATIO], True),
        ([Tier.GOOD, Tier.RATIO], False),
        ([Tier.GOOD, Tier.RATIO, Tier.OUT], True),
        ([Tier.UNKNOWN, Tier.RATIO], False),
        ([Tier.LOADING, Tier.RATIO], True),
        ([], False),
    ],
)
def test_panic_below_half(tiers: list[Tier], panic: bool) -> None:
    """Envoy's panic threshold: fewer than half usable."""
    assert panics(tiers) is panic
