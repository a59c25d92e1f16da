"""Breakers in the states that the tests of the breaker start from."""

from __future__ import annotations

from autohedge.core.types import Verdict
from autohedge.rules.breaker import Breaker, Guard, Options
from autohedge.rules.standing import State, Transition, Via
from autohedge.rules.window import Window

A, S, D = Verdict.ANSWER, Verdict.SICK, Verdict.DEAD
MIDDLE = 0.5  # the draw without jitter


def fresh(options: Options | None = None, guard: Guard | None = None) -> Breaker:
    """A breaker whose replica has answered once."""
    breaker = Breaker(Window(), options or Options(), guard=guard)
    breaker.record(breaker.stamp, A, 0.0)
    return breaker


def told(breaker: Breaker, verdict: Verdict, now: float, via: Via = Via.DEEP) -> Transition | None:
    return breaker.record(breaker.stamp, verdict, now, MIDDLE, via=via)


def opened(*, hard: bool = False, options: Options | None = None) -> Breaker:
    """A breaker opened at t=10 for 15 s."""
    breaker = fresh(options)
    if hard:
        told(breaker, D, 9.0)
        told(breaker, D, 10.0)
    else:
        for at in range(7, 11):
            told(breaker, S, float(at))
    assert breaker.state is State.OPEN
    return breaker


def trial(breaker: Breaker, verdict: Verdict, now: float) -> Transition | None:
    """One leased probe with its result."""
    lease = breaker.lease(now)
    assert lease.allowed, lease.why
    return breaker.record(lease.stamp, verdict, now, MIDDLE, via=Via.DEEP)
