"""What single parts of the way add to one request, in microseconds of one core.

    python -m bench.parts

The breaker: the look when a candidate is chosen, the admission when the request is sent, and the record of its verdict, over a
full window of a closed breaker, as nearly every request finds it. The best of several rounds: other processes only add.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable

from autohedge.core.types import (
    Address,
    Attempt,
    BackendSpec,
    Candidate,
    Judgement,
    Kind,
    Limits,
    Outcome,
    Replica,
    Seat,
    Verdict,
)
from autohedge.memory.health import Health
from autohedge.memory.tuning import rules_of
from autohedge.settings.model import Settings

REQUESTS = 20_000
ROUNDS = 7
BUDGET = 5.0  # microseconds that the breaker may add (issue 3, acceptance 7)


def each(one: Callable[[], object]) -> float:
    """Microseconds of one call, without those of calling nothing."""
    empty = min(timeit.repeat(lambda: None, number=REQUESTS, repeat=ROUNDS))
    return (min(timeit.repeat(one, number=REQUESTS, repeat=ROUNDS)) - empty) / REQUESTS * 1e6


def breaker() -> float:
    """What one request pays for its breaker."""
    health = Health(lambda: 0.5, rules=rules_of(Settings()))
    replica = Replica("b@h:1", "b", Address("h", 1), Seat())
    candidate = Candidate(replica, BackendSpec("b"), Kind.VLLM, "m", Limits())
    answered = Judgement(Verdict.ANSWER)

    def one() -> None:
        health.look(candidate, 1.0)
        admission = health.admit(candidate, 1.0)
        attempt = Attempt(candidate, 1.0, admission.stamp, outcome=Outcome(), judgement=answered, first_byte=1.1)
        health.record(attempt, 1.2)

    def without() -> None:
        Attempt(candidate, 1.0, 0, outcome=Outcome(), judgement=answered, first_byte=1.1)

    for _ in range(20):
        one()
    return each(one) - each(without)


def main() -> int:
    print(f"the breaker: {breaker():.2f} us per request (look, admit, record; {BUDGET:.0f} at most on an idle machine)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
