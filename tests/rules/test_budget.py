"""Retry budget and time budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.rules.budget import RetryBudget, share


def test_an_outage_gets_twenty_percent_and_one_per_second() -> None:
    """50 requests/s that all fail and all want two retries: after the burst, 11 retries a second."""
    budget = RetryBudget()
    taken = [0] * 60
    for tick in range(60 * 50):
        now = tick / 50
        budget.primary(now)
        taken[int(now)] += budget.take(now) + budget.take(now)
    assert sum(taken[30:]) == pytest.approx(30 * 11, rel=0.03)


def test_one_killed_replica_costs_no_caller_anything() -> None:
    """Issue 2, acceptance 4: at 50 requests/s all 50 in flight on a killed replica may move on at once."""
    budget = RetryBudget()
    for tick in range(60 * 50):
        budget.primary(tick / 50)
    assert all(budget.take(60.0) for _ in range(50))


def test_an_idle_proxy_rests_at_ten_seconds_worth() -> None:
    """Saved retries fade: an hour of calm saves no more than ten seconds."""
    budget = RetryBudget()
    for tick in range(100):
        budget.primary(tick / 10)
    assert budget.left(3600.0) == pytest.approx(10.0)
    assert sum(budget.take(3600.0) for _ in range(100)) == 10
    assert not budget.take(3600.5)
    assert budget.take(3602.0)


def test_no_rate_and_no_ratio_is_no_retry() -> None:
    budget = RetryBudget(ratio=0.0, rate=0.0)
    budget.primary(0.0)
    assert not budget.take(100.0)


@given(st.lists(st.tuples(st.floats(0, 100), st.booleans())))
def test_the_balance_is_never_negative(steps: list[tuple[float, bool]]) -> None:
    """Whatever the order, also with a clock that stands still."""
    budget = RetryBudget()
    now = 0.0
    for gap, primary in steps:
        now += gap
        if primary:
            budget.primary(now)
        else:
            budget.take(now)
        assert budget.left(now) >= 0.0


@pytest.mark.parametrize(
    ("left", "after", "seconds"),
    [(300.0, 0, 300.0), (300.0, 2, 270.0), (30.0, 2, 10.0), (0.0, 2, 0.0)],
    ids=["the last one", "reserves", "too late for reserves: equal parts", "nothing left"],
)
def test_a_rung_leaves_a_reserve_for_those_after_it(left: float, after: int, seconds: float) -> None:
    """Design 5: 300 s, two rungs to come, 15 s each."""
    assert share(left, 15.0, after) == seconds


@given(st.floats(0, 400), st.integers(0, 6))
def test_a_share_is_never_more_than_what_is_left(left: float, after: int) -> None:
    assert 0.0 <= share(left, 15.0, after) <= left
