"""One (replica, model) as it is kept: when silence says nothing, when failures say enough."""

from __future__ import annotations

import json

from autohedge.core.types import Verdict
from autohedge.memory.entry import PRESSED, TRAILING, Entry, Opening, described, keeps_failing, pressed
from autohedge.rules.breaker import Breaker
from autohedge.rules.standing import Via
from autohedge.rules.window import Window
from tests.memory.patients import A, S, busy, candidate


def entry(*verdicts: Verdict, running: bool = True) -> Entry:
    """Outcomes one second apart, the last one at 0."""
    one = candidate()
    made = Entry(busy(one) if running else one, Breaker(Window()))
    for at, verdict in enumerate(verdicts, 1 - len(verdicts)):
        made.breaker.record(made.breaker.stamp, verdict, float(at), via=Via.DEEP)
    return made


def test_silence_under_live_requests_says_nothing_for_a_while() -> None:
    """B08: 25 s of prefill are no fault; a hang is found all the same."""
    busy_one = entry(A)
    assert pressed(busy_one, 5.0)
    assert pressed(busy_one, 5.0 + PRESSED - 0.1)
    assert not pressed(busy_one, 5.0 + PRESSED)
    busy_one.breaker.record(busy_one.breaker.stamp, A, 40.0)
    assert pressed(busy_one, 45.0)


def test_silence_speaks_without_live_requests_or_after_a_failure() -> None:
    """Nobody else will tell, or somebody told."""
    assert not pressed(entry(A, running=False), 5.0)
    assert not pressed(entry(A, S), 5.0)
    assert pressed(entry(), 5.0)  # new, and its first request still runs
    gone = entry(A, *[S] * 9)
    assert not pressed(gone, 5.0)


def test_failures_in_a_row() -> None:
    """An answer in between, or too few, is not enough."""
    assert keeps_failing(entry(A, *[S] * TRAILING).breaker, 0.0)
    assert not keeps_failing(entry(S, S, A, S, S).breaker, 0.0)
    assert not keeps_failing(entry(S, S).breaker, 0.0)


def test_a_new_pair_shows_little() -> None:
    """Nothing is invented."""
    shown = described(entry(), 0.0)
    assert shown["state"] == "closed"
    assert shown["tier"] == "unknown"
    assert shown.keys().isdisjoint({"probe", "not_probed", "live_answer_s_ago"})


def test_an_opening_is_told_with_its_end_and_read_with_what_is_left() -> None:
    """It is kept in epoch seconds: clocks of loops mean nothing after a restart."""
    opening = Opening("b@h:1", "m", 12.0, "6/10 succeeded", hard=False, level=2)
    told = json.loads(json.dumps(opening.told(1000.0)))
    assert "left" not in told
    assert Opening.read(told, 1005.0) == Opening("b@h:1", "m", 7.0, "6/10 succeeded", hard=False, level=2)
    assert Opening.read(told, 1012.0) is None
    for wrong in ({}, {**told, "until": "soon"}, {**told, "level": None}):
        assert Opening.read(wrong, 1000.0) is None
