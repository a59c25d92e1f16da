"""When a hedge may start."""

from __future__ import annotations

import random

import pytest

from autohedge.core.ask import Ask
from autohedge.core.types import (
    UNKNOWN_LIMITS,
    Address,
    Attempt,
    BackendSpec,
    Candidate,
    Door,
    Failure,
    Judgement,
    Kind,
    Outcome,
    Replica,
    Seat,
    Verdict,
)
from autohedge.rules.hedging import Brake, Delay, Hedging, Options, Skip, Tokens, eligible, sample_of

HERE = Candidate(Replica("r", "b", Address("h", 1), Seat()), BackendSpec("b"), Kind.VLLM, "m", UNKNOWN_LIMITS)


def attempt(
    verdict: Verdict, *, first: float | None = None, ended: float | None = None, failure: Failure | None = None
) -> Attempt:
    outcome = Outcome(failure=failure)
    return Attempt(HERE, 10.0, first_byte=first, ended=ended, outcome=outcome, judgement=Judgement(verdict))


def test_five_seconds_until_fifty_samples() -> None:
    """7.2: bge-router's default while there is nothing to go by."""
    delay = Delay()
    for _ in range(49):
        delay.feed(0.2)
    assert delay.seconds == 5.0
    delay.feed(0.2)
    assert delay.seconds == 0.2


def test_then_the_p95_of_the_last_two_hundred() -> None:
    """Exact, and old samples leave."""
    delay = Delay()
    values = [n / 100 for n in range(1, 201)]
    random.Random(1).shuffle(values)
    for value in values:
        delay.feed(value)
    assert delay.seconds == 1.9
    for _ in range(200):
        delay.feed(3.0)
    assert delay.seconds == 3.0


@pytest.mark.parametrize(("sample", "delay"), [(0.001, 0.05), (99.0, 30.0)])
def test_the_delay_is_clamped(sample: float, delay: float) -> None:
    tracker = Delay()
    for _ in range(60):
        tracker.feed(sample)
    assert tracker.seconds == delay


def test_a_fixed_delay_learns_nothing() -> None:
    """bge-router's way."""
    delay = Delay(Options(fixed=5.0))
    for _ in range(300):
        delay.feed(0.1)
    assert delay.seconds == 5.0


@pytest.mark.parametrize(
    ("one", "superseded", "sample"),
    [
        (attempt(Verdict.ANSWER, first=10.4, ended=12.0), False, 0.4),
        (attempt(Verdict.SICK, ended=40.0, failure=Failure.FIRST_BYTE_TIMEOUT), False, 30.0),
        (attempt(Verdict.ABANDONED, ended=13.0), True, 3.0),
        (attempt(Verdict.ABANDONED, first=12.5, ended=13.0), True, 2.5),
        (attempt(Verdict.ABANDONED), True, 5.0),  # not ended yet: its age
        (attempt(Verdict.DEAD, ended=10.001, failure=Failure.REFUSED), False, None),
        (attempt(Verdict.DEAD, ended=12.0, failure=Failure.CONNECT_TIMEOUT), False, None),
        (attempt(Verdict.SICK, first=10.01, ended=10.02), False, None),  # a quick 500
        (attempt(Verdict.CLIENT_FAULT, first=10.01, ended=10.02), False, None),
        (attempt(Verdict.ABANDONED, ended=11.0), False, None),  # the client left
    ],
)
def test_what_counts_as_a_sample(one: Attempt, superseded: bool, sample: float | None) -> None:
    """7.2: answers, own timeouts and superseded losers at their age; fast failures would make the delay collapse."""
    seen = sample_of(one, 15.0, superseded=superseded)
    assert seen == (sample if sample is None else pytest.approx(sample))


def test_budget_of_ten_percent() -> None:
    """A37: 200 slow requests, at most 10 % and the burst."""
    tokens = Tokens()
    fired = 0
    for _ in range(200):
        tokens.primary()
        fired += tokens.take()
    assert 20 <= fired <= 22


def test_saved_tokens_are_capped() -> None:
    tokens = Tokens()
    for _ in range(1000):
        tokens.primary()
    assert sum(tokens.take() for _ in range(50)) == 10


def test_ten_tenths_are_one() -> None:
    """Floats: 0.1 ten times is a whole token."""
    tokens = Tokens(start=0.0)
    for _ in range(10):
        tokens.primary()
    assert tokens.take()


def test_one_token_is_taken_once() -> None:
    """A38: a hundred requests reach their delay in one tick; one token, one hedge."""
    hedging = Hedging(Options(start=1.0))
    assert [hedging.fire(0.0, free=True) for _ in range(100)] == [None] + [Skip.BUDGET] * 99


def test_the_brake_stops_an_outage_within_five_failures_and_lets_go_slowly() -> None:
    """gRPC A6: -1 per failure, +0.1 per success, off above half."""
    brake = Brake()
    for count in range(5):
        assert not brake.on, count
        brake.tell(Verdict.SICK)
    assert brake.on
    for verdict in (Verdict.CLIENT_FAULT, Verdict.ABANDONED, Verdict.LOADING):
        brake.tell(verdict)
    assert brake.left == 5.0
    brake.tell(Verdict.ANSWER)
    assert brake.left == pytest.approx(5.1)
    for _ in range(50):
        brake.tell(Verdict.BUSY)
    assert brake.left == 0.0


def test_a_hedge_needs_a_free_seat_no_brake_no_pushback_and_a_token() -> None:
    """Each refusal has its name, and only a sent hedge costs a token."""
    hedging = Hedging()
    assert hedging.fire(0.0, free=False) is Skip.GATE
    hedging.pushback(0.0, 60.0)
    hedging.pushback(0.0, 1.0)  # B35: the longest word counts
    assert hedging.fire(59.0, free=True) is Skip.PUSHBACK
    assert hedging.tokens.left == 2.0
    assert hedging.fire(60.0, free=True) is None
    for _ in range(5):
        hedging.brake.tell(Verdict.DEAD)
    assert hedging.fire(61.0, free=True) is Skip.BRAKE
    assert hedging.tokens.left == 1.0


@pytest.mark.parametrize("door", list(Door))
def test_harmless_doors_hedge_and_chat_by_choice(door: Door) -> None:
    """Design 5: on for embeddings and System One, opt-in for chat; never a body over 8 MiB."""
    ask = Ask(door, "m")
    harmless = door in {Door.EMBEDDINGS, Door.SPARSE, Door.BOTH, Door.RERANK, Door.SYSTEMONE}
    assert eligible(ask, 1000) is harmless
    assert eligible(ask, 1000, chat=True)
    assert not eligible(ask, (8 << 20) + 1, chat=True)
