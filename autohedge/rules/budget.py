"""Two budgets: how many retries an outage may cost, and how the time of one request is shared out.

Retries (Finagle's RetryBudget; resilience facts 3, 7.2): each request pays in 0.20, each second 1; a retry takes 1 whole.
What was paid in fades with a time constant of 10 s, so the balance follows the traffic: at 50 requests/s it rests at about
110, enough for all that one killed replica had in flight, while a lasting outage gets 20 % + 1/s and no more.

Time (design 5): each rung gets what is left minus a reserve for the rungs after it, and never less than its equal part.

Times are seconds of one monotonic clock. It must not know: attempts, candidates, who sleeps.
"""

from __future__ import annotations

from math import exp

SETTLE = 0.5  # seconds: requests are only counted in between, the balance is wanted by retries alone


class RetryBudget:
    """A fading token bucket. `take` decides and pays in one step, so two retries cannot share a token."""

    __slots__ = ("_at", "_balance", "_fade", "_rate", "_ratio", "_unpaid")

    def __init__(self, ratio: float = 0.2, rate: float = 1.0, fade: float = 10.0) -> None:
        self._ratio = ratio
        self._rate = rate
        self._fade = fade
        self._balance = rate * fade  # where an idle proxy rests
        self._at: float | None = None
        self._unpaid = 0  # requests that have not paid in yet

    def primary(self, now: float) -> None:
        """A request arrived (not a retry of one)."""
        self._unpaid += 1
        if self._at is None or now - self._at > SETTLE:
            self._settle(now)

    def take(self, now: float) -> bool:
        """Take one retry, if the budget has it."""
        self._settle(now)
        if self._balance < 1:
            return False
        self._balance -= 1
        return True

    def left(self, now: float) -> float:
        """Retries that could be taken now."""
        self._settle(now)
        return self._balance

    def _settle(self, now: float) -> None:
        passed = 0.0 if self._at is None else max(0.0, now - self._at)
        self._at = now
        self._balance += self._unpaid * self._ratio
        self._unpaid = 0
        if passed:
            rest = self._rate * self._fade
            self._balance = rest + (self._balance - rest) * exp(-passed / self._fade)


def share(left: float, reserve: float, rungs_after: int) -> float:
    """What the rung at hand may use of the `left` seconds, when so many rungs could still come after it."""
    return max(left - reserve * rungs_after, left / (rungs_after + 1))
