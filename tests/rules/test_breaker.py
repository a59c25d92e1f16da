"""The breaker's judgement, rule by rule (resilience facts 4.3 and 7.1), in virtual time: from evidence to open and back."""

from __future__ import annotations

import pytest

from autohedge.core.types import Verdict
from autohedge.rules.breaker import Breaker, Options
from autohedge.rules.standing import State, Tier, Transition, Via
from autohedge.rules.window import Window
from tests.rules.breakers import MIDDLE, A, D, S, fresh, opened, told, trial

STILL = [Verdict.CLIENT_FAULT, Verdict.CAPABILITY, Verdict.BUSY, Verdict.RETIRED, Verdict.ABANDONED]
SCRIPT = """
0 answer closed
10 answer closed
20 answer closed
30 answer closed
40 answer closed
50 answer closed
55 answer closed
60 sick closed
63 sick closed
66 sick closed
69 busy closed
72 client_fault closed
75 sick open
76 answer open
91 answer half-open
94 answer closed
95 answer closed
96 loading loading
106 answer closed
107 misconfigured misconfigured
168 answer closed
170 dead closed
171 dead open
"""


def test_a_life_in_one_script() -> None:
    """t, verdict -> state: ratio opening, neutral outcomes, half-open, recovery, loading, wrong key, hard lane."""
    breaker = Breaker(Window())
    for line in SCRIPT.split("\n")[1:-1]:
        at, verdict, state = line.split()
        now = float(at)
        breaker.lease(now)
        told(breaker, Verdict(verdict), now)
        assert breaker.state == state, line


def test_the_transition_says_what_was_seen() -> None:
    """The log line of the article: 6/10."""
    breaker = fresh()
    for at in range(6):
        told(breaker, A, float(at))
    for at in range(6, 9):
        assert told(breaker, S, float(at)) is None
    transition = told(breaker, S, 9.0)
    assert transition == Transition(State.CLOSED, State.OPEN, "6/10 succeeded", 9.0, hard=False, until=24.0)


# --- generations and neutral outcomes ---------------------------------------------------------------------------------


def test_results_of_an_earlier_generation_are_ignored() -> None:
    """Requests that were in flight when the breaker opened neither close it nor prolong it."""
    breaker = fresh()
    stamp = breaker.stamp
    for at in range(1, 6):
        told(breaker, S, float(at))
    assert breaker.state is State.OPEN
    before = breaker.describe(6.0)
    assert breaker.record(stamp, A, 6.0) is None
    assert breaker.record(stamp, D, 6.0, certain=True) is None
    assert breaker.describe(6.0) == before


@pytest.mark.parametrize("neutral", STILL)
def test_neutral_neither_adds_nor_resets(neutral: Verdict) -> None:
    """sglang PR 39464 and 40218: fault, fault, neutral, fault opens at three; neutral alone never does."""
    breaker = fresh()
    told(breaker, S, 1.0, Via.LIVE)
    told(breaker, S, 2.0, Via.LIVE)
    for _ in range(20):
        assert told(breaker, neutral, 3.0, Via.LIVE) is None
    transition = told(breaker, S, 4.0, Via.LIVE)
    assert transition is not None
    assert transition.new is State.OPEN


@pytest.mark.parametrize("neutral", STILL)
def test_neutral_between_two_refusals_changes_nothing(neutral: Verdict) -> None:
    """The hard lane does not count neutral outcomes either."""
    breaker = fresh()
    told(breaker, D, 1.0)
    told(breaker, neutral, 2.0)
    told(breaker, D, 3.0)
    assert breaker.state is State.OPEN


@pytest.mark.parametrize("verdict", [Verdict.CLIENT_FAULT, Verdict.BUSY])
def test_floods_of_client_faults_and_full_queues_leave_it_closed(verdict: Verdict) -> None:
    """sglang#25811, B28: 200 oversize prompts or 100 full queues in a row say nothing about the engine."""
    breaker = fresh()
    for at in range(200):
        told(breaker, verdict, at * 0.1, Via.LIVE)
    assert breaker.look(21.0).tier is Tier.GOOD


def test_neutral_frees_the_trial() -> None:
    """voidllm PR 185: a neutral trial that keeps its slot locks the replica out for ever."""
    breaker = opened()
    lease = breaker.lease(25.0)
    assert not breaker.lease(26.0).allowed
    breaker.record(lease.stamp, Verdict.ABANDONED, 26.0, via=Via.DEEP)
    assert breaker.lease(26.0).allowed


# --- the hard lane ----------------------------------------------------------------------------------------------------


def test_two_refusals_in_a_row_open_at_once() -> None:
    """4.3.3: refused is proof, not noise."""
    breaker = fresh()
    assert told(breaker, D, 1.0) is None
    transition = told(breaker, D, 2.0)
    assert transition is not None
    assert transition.hard
    assert transition.reason == "2 connections in a row refused or reset"


@pytest.mark.parametrize("between", [A, S])
def test_refusals_with_an_outcome_between_are_not_in_a_row(between: Verdict) -> None:
    breaker = fresh()
    for at, verdict in enumerate((D, between, D)):
        told(breaker, verdict, float(at))
    assert breaker.state is State.CLOSED


def test_refusals_two_minutes_apart_are_not_in_a_row() -> None:
    breaker = fresh()
    told(breaker, D, 1.0)
    told(breaker, D, 122.0)
    assert breaker.state is State.CLOSED


def test_one_obituary_of_the_engine_opens_at_once() -> None:
    """B05: "EngineCore encountered an issue" is said once and for all."""
    breaker = fresh()
    transition = breaker.record(breaker.stamp, D, 1.0, MIDDLE, certain=True)
    assert transition is not None
    assert transition.hard
    assert transition.new is State.OPEN


def test_a_light_probe_is_a_hint_but_a_refused_one_is_proof() -> None:
    """Facts (c): the light probe takes a replica down on connect failure only."""
    breaker = fresh()
    for at in range(20):
        told(breaker, S, float(at), Via.LIGHT)
    told(breaker, D, 21.0, Via.LIGHT)
    assert breaker.failed_at == 21.0  # the first that counted
    told(breaker, D, 22.0, Via.LIGHT)
    assert breaker.state is State.OPEN


# --- back-off, half-open, ramp ----------------------------------------------------------------------------------------


def test_back_off_doubles_with_jitter_up_to_the_cap() -> None:
    """15 s x 2^n, +-20 %, never over 300 s."""
    for draw, factor in ((0.0, 0.8), (0.5, 1.0), (0.999, 1.2)):
        breaker = fresh()
        now, waits = 0.0, []
        for _ in range(2):
            breaker.record(breaker.stamp, D, now, draw)
        for _ in range(8):
            waits.append(breaker.retry_at - now)
            now = breaker.retry_at
            lease = breaker.lease(now)
            breaker.record(lease.stamp, D, now, draw, via=Via.DEEP)
        assert waits[:5] == [pytest.approx(15 * factor * 2**n, rel=0.01) for n in range(5)]
        assert max(waits) <= 300.0
        assert waits[-1] == pytest.approx(250 * factor, rel=0.01)


def test_back_off_forgets_one_doubling_per_healthy_minute() -> None:
    """n falls by one per 60 s healthy."""
    breaker = opened(hard=True)
    for _ in range(3):  # three failed trials: 30, 60, 120 s
        trial(breaker, D, breaker.retry_at)
    now = breaker.retry_at
    trial(breaker, A, now)
    trial(breaker, A, now)
    assert breaker.state is State.CLOSED
    assert breaker.level == 4
    told(breaker, D, now + 125.0)
    told(breaker, D, now + 125.0)  # two minutes healthy: n = 4 - 2
    assert breaker.retry_at == now + 125.0 + 15.0 * 2**2


def test_half_open_is_one_leased_probe_at_a_time_and_live_traffic_stays_away() -> None:
    """safe-client-gateway PR 3442: unlimited admission multiplied the load 17 times."""
    breaker = opened()
    assert not breaker.lease(24.9).allowed
    lease = breaker.lease(25.0)
    assert lease.moved is not None
    assert lease.moved.new is State.HALF_OPEN
    assert not breaker.lease(25.0).allowed
    assert not breaker.admit(25.0).allowed
    assert breaker.look(25.0).tier is Tier.RATIO


def test_a_lease_expires() -> None:
    """A prober that died in the middle does not keep the replica half-open (sglang#31206)."""
    breaker = opened()
    breaker.lease(25.0)
    assert not breaker.lease(54.9).allowed
    assert breaker.lease(55.0).allowed


def test_two_answers_close_it() -> None:
    breaker = opened()
    assert trial(breaker, A, 25.0) is None
    transition = trial(breaker, A, 28.0)
    assert transition is not None
    assert (transition.new, transition.reason) == (State.CLOSED, "2 trials answered")


def test_one_failure_re_opens_it_longer_after_hard_evidence() -> None:
    """7.1: one failure re-opens with longer time."""
    breaker = opened(hard=True)
    trial(breaker, A, 25.0)
    transition = trial(breaker, S, 28.0)
    assert transition is not None
    assert transition.new is State.OPEN
    assert transition.until == 28.0 + 30.0


def test_a_softly_opened_one_is_asked_once_more() -> None:
    """At 3 % probe loss one trial in sixteen fails by chance; the second failure re-opens."""
    breaker = opened()
    assert trial(breaker, S, 25.0) is None
    assert trial(breaker, A, 28.0) is None
    transition = trial(breaker, S, 31.0)
    assert transition is not None
    assert (transition.new, transition.until) == (State.OPEN, 31.0 + 30.0)


def test_a_refusal_in_half_open_is_not_asked_twice() -> None:
    breaker = opened()
    transition = trial(breaker, D, 25.0)
    assert transition is not None
    assert transition.hard


def test_traffic_ramps_after_closing() -> None:
    """10, 50, 100 % over 30 s; who is not in the share is ranked behind, not refused for good."""
    breaker = opened()
    trial(breaker, A, 25.0)
    trial(breaker, A, 25.0)
    assert breaker.admit(26.0, 0.09).allowed
    assert breaker.admit(26.0, 0.11).tier is Tier.RAMPING
    assert not breaker.admit(26.0, 0.11).allowed
    assert breaker.admit(26.0, 0.11, insist=True).allowed
    assert breaker.admit(41.0, 0.49).allowed
    assert not breaker.admit(41.0, 0.51).allowed
    assert breaker.admit(55.0, 0.99).tier is Tier.GOOD


def test_evidence_before_the_opening_does_not_count_after_it() -> None:
    """A recovered replica starts with an empty window."""
    breaker = opened()
    trial(breaker, A, 25.0)
    trial(breaker, A, 25.0)
    for at in range(26, 30):
        assert told(breaker, S, float(at)) is None


# --- the way back where probes cannot tell ----------------------------------------------------------------------------


def test_without_probes_one_live_request_is_the_trial() -> None:
    """Paid providers are never probed: the next request after the back-off tries, one at a time."""
    breaker = opened(options=Options(probed=False))
    assert breaker.look(25.0).allowed
    admission = breaker.admit(25.0)
    assert admission.moved is not None
    assert not breaker.admit(25.0).allowed
    breaker.record(admission.stamp, A, 26.0)
    second = breaker.admit(26.0)
    assert second.moved is None
    transition = breaker.record(second.stamp, A, 27.0)
    assert transition is not None
    assert transition.new is State.CLOSED


def test_looking_takes_no_lease() -> None:
    """A plan looks at every candidate and uses one."""
    breaker = opened(options=Options(probed=False))
    for _ in range(5):
        assert breaker.look(25.0).allowed
    assert breaker.state is State.OPEN


@pytest.mark.parametrize("verdict", [Verdict.CLIENT_FAULT, Verdict.CAPABILITY, Verdict.BUSY])
def test_an_unsuitable_probe_hands_the_trial_to_live_traffic(verdict: Verdict) -> None:
    """B13: a 4xx to the probe is alive but no success; it must not keep the replica out for ever."""
    breaker = opened()
    assert trial(breaker, verdict, 25.0) is None
    assert breaker.state is State.HALF_OPEN
    assert breaker.admit(25.0).allowed


def test_a_missing_prober_hands_the_trial_to_live_traffic() -> None:
    """Nobody probed for 30 s after the back-off: one live request may."""
    breaker = opened()
    assert not breaker.admit(54.9).allowed
    assert breaker.admit(55.0).allowed


def test_a_good_answer_in_panic_calls_the_trial() -> None:
    """A request that was sent in panic and came back well is worth a probe now."""
    breaker = opened()
    admission = breaker.admit(12.0, insist=True)
    assert admission.allowed
    assert breaker.record(admission.stamp, A, 13.0) is None
    assert breaker.lease(13.0).allowed
    assert breaker.state is State.HALF_OPEN


def test_failures_in_panic_prolong_nothing() -> None:
    breaker = opened()
    for _ in range(9):
        told(breaker, S, 12.0, Via.LIVE)
    assert breaker.retry_at == 25.0


def test_panic_never_insists_on_hard_evidence() -> None:
    breaker = opened(hard=True)
    assert breaker.look(12.0).tier is Tier.OUT
    assert not breaker.admit(12.0, insist=True).allowed
