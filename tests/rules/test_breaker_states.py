"""The breaker's other states, the operator, the pool and eidex's judge, and what can be seen of all that."""

from __future__ import annotations

from timeit import repeat

import pytest

from autohedge.core.types import Verdict
from autohedge.rules.breaker import EIDEX, Breaker, Options
from autohedge.rules.standing import State, Tier, Via, Wish
from autohedge.rules.streak import Streak
from autohedge.rules.window import Window
from tests.rules.breakers import A, D, S, fresh, opened, told, trial

# --- cold start, loading, misconfigured -------------------------------------------------------------------------------


def test_no_evidence_is_not_open() -> None:
    """4.3.9: unknown is routable, but only behind those that answered."""
    breaker = Breaker(Window())
    assert breaker.admit(0.0).allowed
    assert breaker.look(0.0).tier is Tier.UNKNOWN
    told(breaker, A, 1.0)
    assert breaker.look(1.0).tier is Tier.GOOD


@pytest.mark.parametrize("sign", [A, Verdict.CLIENT_FAULT, Verdict.CAPABILITY, Verdict.BUSY])
def test_loading_is_a_state_of_its_own_and_ends_with_a_sign_of_life(sign: Verdict) -> None:
    """B22: 503 "Loading model" is no failure; probes go on all the time; nothing is ramped."""
    breaker = fresh()
    transition = told(breaker, Verdict.LOADING, 1.0)
    assert transition is not None
    assert transition.new is State.LOADING
    assert breaker.look(1.0).tier is Tier.LOADING
    for at in range(2, 600, 10):
        assert trial(breaker, Verdict.LOADING, float(at)) is None
    back = trial(breaker, sign, 601.0)
    assert back is not None
    assert back.new is State.CLOSED
    assert breaker.admit(601.0, 0.99).allowed


def test_loading_that_dies_opens() -> None:
    breaker = fresh()
    told(breaker, Verdict.LOADING, 1.0)
    trial(breaker, D, 2.0)
    transition = trial(breaker, D, 3.0)
    assert transition is not None
    assert transition.new is State.OPEN


def test_failures_of_a_new_task_before_its_first_answer_are_loading() -> None:
    """7.1 start grace: 10 min after a task's start; afterwards, or after the first answer, they are failures."""
    breaker = Breaker(Window())
    breaker.begin(0.0)
    told(breaker, D, 1.0)
    transition = told(breaker, D, 2.0)
    assert transition is not None
    assert (transition.new, transition.reason) == (
        State.LOADING,
        "starting: 2 connections in a row refused or reset",
    )
    for at in range(10, 600, 10):
        assert trial(breaker, D, float(at)) is None
    late = trial(breaker, D, 601.0)
    assert late is not None
    assert late.new is State.OPEN


def test_no_grace_after_the_first_answer() -> None:
    breaker = Breaker(Window())
    breaker.begin(0.0)
    told(breaker, A, 1.0)
    told(breaker, D, 2.0)
    told(breaker, D, 3.0)
    assert breaker.state is State.OPEN


def test_a_refused_key_bars_at_once_and_is_asked_again_every_minute() -> None:
    """Facts d: AUTH never retries with the same key, and never counts as failure."""
    breaker = fresh()
    transition = told(breaker, Verdict.MISCONFIGURED, 1.0, Via.LIVE)
    assert transition is not None
    assert transition.new is State.MISCONFIGURED
    assert breaker.look(2.0).tier is Tier.OUT
    assert not breaker.lease(60.9).allowed
    assert trial(breaker, Verdict.MISCONFIGURED, 61.0) is None
    assert not breaker.lease(120.9).allowed
    back = trial(breaker, A, 121.0)
    assert back is not None
    assert back.new is State.CLOSED


def test_a_new_task_clears_everything() -> None:
    """A restarted task is another one: window, back-off and generation start again."""
    breaker = opened(hard=True)
    stamp = breaker.stamp
    transition = breaker.begin(11.0)
    assert (transition.old, transition.new) == (State.OPEN, State.CLOSED)
    assert breaker.look(11.0).tier is Tier.UNKNOWN
    assert breaker.record(stamp, D, 11.0, certain=True) is None
    assert breaker.level == 0


# --- operator, pool, other workers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wish", "word"), [(Wish.OPEN, "forced-open by the operator"), (Wish.DRAIN, "draining")])
def test_the_operator_bars_whatever_the_evidence_says(wish: Wish, word: str) -> None:
    """4.3.10: the wish and the observation are two things; probes and counting go on."""
    breaker = fresh()
    breaker.force(wish)
    assert breaker.look(1.0).tier is Tier.OUT
    assert breaker.look(1.0).why == word
    assert not breaker.admit(1.0, insist=True).allowed
    assert breaker.lease(1.0).allowed
    assert told(breaker, A, 1.0) is None
    assert breaker.state is State.CLOSED
    breaker.force(Wish.NONE)
    assert breaker.admit(1.0).allowed


def test_the_operator_admits_whatever_the_evidence_says() -> None:
    breaker = opened(hard=True)
    breaker.force(Wish.CLOSED)
    assert breaker.admit(11.0).allowed
    assert breaker.state is State.OPEN
    breaker.force(Wish.NONE)
    assert not breaker.admit(11.0).allowed


def test_the_pool_can_hold_it_against_soft_evidence_only() -> None:
    """7.1: ratio evidence never takes the last one; refused connections do."""
    breaker = fresh(guard=lambda now: f"last one at {now:.0f}")
    for at in range(1, 20):
        assert told(breaker, S, float(at)) is None
    assert breaker.describe(19.0)["held"] == "last one at 19"
    told(breaker, D, 20.0)
    told(breaker, D, 21.0)
    assert breaker.state is State.OPEN


def test_an_opening_that_another_worker_saw_is_adopted() -> None:
    """A restart or another process starts where the first one was."""
    breaker = fresh()
    transition = breaker.adopt(40.0, "3/10 succeeded", 5.0, hard=False, level=2)
    assert transition is not None
    assert (transition.new, transition.until) == (State.OPEN, 40.0)
    assert breaker.adopt(99.0, "again", 6.0, hard=True) is None
    assert fresh().adopt(4.0, "long over", 5.0, hard=True) is None


def test_slow_first_bytes_rank_down_and_open_nothing() -> None:
    """7.1 slow rule: degraded, not open; quick ones bring it back."""
    breaker = fresh(Options(slow=1.0))
    for _ in range(5):
        breaker.pace(2.0)
    assert breaker.admit(1.0).allowed
    assert breaker.look(1.0).tier is Tier.SLOW
    assert breaker.describe(1.0)["slow"] is True
    for _ in range(9):
        breaker.pace(0.1)
    assert breaker.look(1.0).tier is Tier.GOOD


# --- the eidex judge --------------------------------------------------------------------------------------------------


def test_eidex_streaks_open_and_close_without_back_off() -> None:
    """Seed 000: 2 down, 1 up, unhealthy workers are probed too, live traffic does not move health."""
    breaker = Breaker(Streak(), EIDEX)
    assert breaker.look(0.0).tier is Tier.GOOD  # optimistic start
    for at in range(9):
        assert told(breaker, D, float(at), Via.LIVE) is None
    told(breaker, S, 10.0, Via.LIGHT)
    down = told(breaker, S, 15.0, Via.LIGHT)
    assert down is not None
    assert (down.new, down.reason) == (State.OPEN, "light probe failed 2 times in a row")
    assert not breaker.admit(16.0).allowed
    assert breaker.lease(16.0).allowed
    assert told(breaker, A, 17.0, Via.DEEP) is None  # light is still down
    up = told(breaker, A, 20.0, Via.LIGHT)
    assert up is not None
    assert up.new is State.CLOSED
    assert breaker.admit(20.0, 0.99).allowed


def test_eidex_streaks_with_the_hard_lane() -> None:
    """The hard lane can be had with streaks too; the next good probe closes."""
    breaker = Breaker(Streak(), Options(ramp=()))
    told(breaker, D, 1.0, Via.LIVE)
    told(breaker, D, 2.0, Via.LIVE)
    assert breaker.state is State.OPEN
    assert told(breaker, A, 3.0, Via.LIVE) is None
    assert told(breaker, A, 4.0, Via.LIGHT) is not None


# --- what can be seen, what it costs ----------------------------------------------------------------------------------


def test_describe_shows_state_reason_and_ages() -> None:
    """Evidence ages for the admin API; the evidence of an opening stays visible until it closes."""
    breaker = opened()
    seen = breaker.describe(12.0)
    assert (seen["state"], seen["wish"], seen["judge"]) == ("open", "none", "1/5 succeeded")
    assert (seen["since_s"], seen["failed_s_ago"], seen["answered_s_ago"]) == (2.0, 2.0, 12.0)
    assert seen["retry_in_s"] == breaker.retry_at - 12.0
    evidence = seen["evidence"]
    assert isinstance(evidence, list)
    assert evidence[0] == {"ok": True, "via": "live", "age_s": 12.0}


def test_doubt_asks_for_quicker_probes() -> None:
    """Every 3 s while anything in the window failed (design 5)."""
    breaker = fresh()
    assert not breaker.doubtful(1.0)
    told(breaker, S, 1.0)
    assert breaker.doubtful(1.0)
    assert not breaker.doubtful(130.0)
    assert opened().doubtful(500.0)


def test_views_for_the_pool_show_a_trial_as_out() -> None:
    breaker = opened()
    assert breaker.view(100.0).tier is Tier.RATIO
    assert breaker.look(100.0).allowed
    assert breaker.view(100.0).failures == 4
    assert breaker.view(100.0).opened_at == 10.0


def test_a_request_costs_microseconds() -> None:
    """Issue 3, acceptance 7: admit and record of a healthy replica stay far below 5 us."""
    breaker = fresh()
    stamp = breaker.stamp

    def request() -> None:
        breaker.look(5.0, 0.5)
        breaker.admit(5.0, 0.5)
        breaker.record(stamp, A, 5.0, 0.5)

    assert min(repeat(request, number=2000, repeat=7)) / 2000 < 5e-6
