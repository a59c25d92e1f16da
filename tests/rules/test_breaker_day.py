"""Issue 3, acceptance 3, in virtual time: what the rules do to healthy pools with lossy probes, and to a flaky replica."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass

import pytest

from autohedge.core.types import Verdict
from autohedge.rules.breaker import Breaker
from autohedge.rules.pool import hold
from autohedge.rules.standing import State, Via
from autohedge.rules.window import Window

DAY = 86_400.0
LOSS = 0.03


@dataclass
class Day:
    openings: int = 0
    relapses: int = 0
    most_out: int = 0


def simulated(min_success: float, replicas: int, seed: int) -> Day:
    """One day of probes: every 10 s +-20 %, every 3 s while in doubt, 3 % lost at random; all replicas are healthy."""
    dice = random.Random(seed)
    pool = [Breaker(Window(min_success=min_success)) for _ in range(replicas)]
    for breaker in pool:
        breaker.guard = lambda now, me=breaker: hold([other.view(now) for other in pool if other is not me], now)
    day = Day()
    queue = [(dice.random() * 10.0, which) for which in range(replicas)]
    heapq.heapify(queue)
    while queue[0][0] < DAY:
        now, which = queue[0]
        breaker = pool[which]
        lease = breaker.lease(now)
        if lease.allowed:
            verdict = Verdict.SICK if dice.random() < LOSS else Verdict.ANSWER
            moved = breaker.record(lease.stamp, verdict, now, dice.random(), via=Via.DEEP)
            if moved is not None and moved.new is State.OPEN:
                day.openings += moved.old is State.CLOSED
                day.relapses += moved.old is State.HALF_OPEN
                day.most_out = max(day.most_out, sum(other.state is not State.CLOSED for other in pool))
        pause = 3.0 if breaker.doubtful(now) else 10.0
        heapq.heapreplace(queue, (now + pause * (0.8 + 0.4 * dice.random()), which))
    return day


@pytest.mark.parametrize(("min_success", "bound"), [(0.7, 0.5), (0.4, 0.05)])
def test_a_day_of_lossy_probes_in_a_healthy_pool(min_success: float, bound: float) -> None:
    """30 healthy replicas, 3 % loss: few false openings, each healed by its first half-open, never half of a pool out."""
    day = simulated(min_success, 30, seed=3)
    assert day.openings / 30 < bound
    assert day.relapses == 0
    assert day.most_out <= 15


def test_a_small_pool_is_never_half_gone() -> None:
    """Pools of two: one may be out by ratio, never both."""
    assert all(simulated(0.7, 2, seed).most_out <= 1 for seed in range(6))


def outcomes_to_open(dice: random.Random, min_success: float, via: Via) -> int:
    """A replica with ten good outcomes behind it starts to fail 70 % of its requests: how many until it is out?"""
    breaker = Breaker(Window(min_success=min_success))
    now = 0.0
    for _ in range(10):
        now += 1.0
        breaker.record(breaker.stamp, Verdict.ANSWER, now, via=via)
    count = 0
    while breaker.state is State.CLOSED:
        now += 1.0
        count += 1
        verdict = Verdict.SICK if dice.random() < 0.7 else Verdict.ANSWER
        breaker.record(breaker.stamp, verdict, now, via=via)
    return count


@pytest.mark.parametrize(
    ("min_success", "via"), [(0.7, Via.LIVE), (0.7, Via.DEEP), (0.4, Via.LIVE)], ids=["live", "probes", "live at 0.4"]
)
def test_a_replica_that_fails_seventy_percent_is_out_within_eighteen(min_success: float, via: Via) -> None:
    """95th percentile of the outcomes until the opening."""
    dice = random.Random(7)
    counts = sorted(outcomes_to_open(dice, min_success, via) for _ in range(1000))
    assert counts[949] <= 18


def test_a_dead_engine_behind_a_green_health_page_is_out_within_four_attempts() -> None:
    """Issue 3, acceptance 1 (B01): three failed live attempts, however good the past was."""
    breaker = Breaker(Window())
    for at in range(10):
        breaker.record(breaker.stamp, Verdict.ANSWER, float(at))
    for at in range(3):
        breaker.record(breaker.stamp, Verdict.SICK, 10.0 + at)
    assert breaker.state is State.OPEN
