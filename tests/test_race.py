"""Failover: who is tried next, and when to stop."""

from __future__ import annotations

import pytest

from autohedge.attempt import WON, Opened
from autohedge.call import Call
from autohedge.core.types import (
    Address,
    Admitted,
    Attempt,
    BackendSpec,
    Candidate,
    Door,
    Failure,
    Judgement,
    Kind,
    Limits,
    Outcome,
    Replica,
    Seat,
    Verdict,
)
from autohedge.race import best, race
from tests.support.vtime import run


def candidate(name: str) -> Candidate:
    return Candidate(Replica(name, name, Address(name, 1), Seat()), BackendSpec(name), Kind.VLLM, "m", Limits())


def call() -> Call:
    return Call(Door.CHAT, "/v1/chat/completions", b"", [], [], b"{}", "", b"id", 0.0, 300.0)


def ended(
    where: Candidate, verdict: Verdict | None, failure: Failure | None = None, body: bytes = b"", status: int = 0
) -> Opened:
    judgement = None if verdict is None else Judgement(verdict)
    attempt = Attempt(where, 0.0, outcome=Outcome(failure=failure, status=status), judgement=judgement)
    opened = Opened(attempt, lambda _replica: None, status=status, pieces=[body] if body else [], whole=bool(body))
    opened.won = judgement is None or judgement.verdict in WON
    return opened


class Script:
    """Plays one ending per candidate and remembers who was tried. The last `full` of them have no seat before one is waited for."""

    def __init__(self, *endings: tuple[Verdict | None, Failure | None], full: int = 0) -> None:
        self.endings = endings
        self.tried: list[str] = []
        self.waits = 0
        plan = [Admitted(candidate(f"r{number}"), number) for number in range(len(endings))]
        free = len(plan) - full
        self.free = iter(plan[:free])
        self.full: list[Candidate] = [admitted.candidate for admitted in plan[free:]]
        self.freed = iter(plan[free:])

    def __next__(self) -> Admitted:
        return next(self.free)

    async def seat(self) -> Admitted | None:
        self.waits += 1
        self.full = self.full[1:]
        return next(self.freed, None)

    async def attempt(self, _call: Call, where: Candidate, stamp: int) -> Opened:
        self.tried.append(where.backend.name)
        return ended(where, *self.endings[stamp])


def raced(script: Script, attempts: int = 3, budget: int = 10) -> list[Opened]:
    tokens = iter(range(budget))
    return run(race(call(), script, script.attempt, attempts, lambda: next(tokens, None) is not None))


SICK = (Verdict.SICK, None)
REFUSED = (Verdict.DEAD, Failure.REFUSED)
GOOD = (None, None)


@pytest.mark.parametrize(
    "first",
    [
        SICK,
        REFUSED,
        (Verdict.BUSY, None),
        (Verdict.LOADING, None),
        (Verdict.CAPABILITY, None),
        (Verdict.RETIRED, None),
        (Verdict.MISCONFIGURED, None),
    ],
)
def test_a_failed_attempt_starts_the_next_at_once(first: tuple[Verdict, Failure | None]) -> None:
    """A34: no timer stands between a failure and the next candidate."""
    script = Script(first, GOOD)
    assert raced(script)[-1].won
    assert script.tried == ["r0", "r1"]


@pytest.mark.parametrize("verdict", [Verdict.ANSWER, Verdict.CLIENT_FAULT, None])
def test_an_answer_ends_the_race(verdict: Verdict | None) -> None:
    """A5: a 400 is the client's; nobody else is asked."""
    script = Script((verdict, None), GOOD)
    assert len(raced(script)) == 1
    assert script.tried == ["r0"]


def test_at_most_so_many_attempts() -> None:
    script = Script(SICK, SICK, SICK, GOOD)
    assert not raced(script, attempts=3)[-1].won
    assert len(script.tried) == 3


def test_refused_connections_are_not_counted() -> None:
    """Three of four tasks of a Swarm service going at once must not hide the fourth: seen in a scale-in under load."""
    script = Script(REFUSED, REFUSED, REFUSED, GOOD)
    assert raced(script, attempts=3)[-1].won
    assert not raced(Script(REFUSED, SICK, SICK, SICK, GOOD), attempts=3)[-1].won
    assert len(raced(Script(REFUSED, GOOD), attempts=1)) == 1


def test_the_budget_bounds_retries_that_cost_work() -> None:
    """An outage does not double the load: without a token there is no second attempt after a failure that took work."""
    script = Script(SICK, GOOD)
    assert not raced(script, budget=0)[-1].won
    assert script.tried == ["r0"]


def test_a_refused_connection_takes_no_token() -> None:
    """Nothing was sent, so trying elsewhere adds no load; a killed replica costs no caller anything."""
    script = Script(REFUSED, GOOD)
    assert raced(script, budget=0)[-1].won


def test_who_is_left_without_a_free_seat_is_waited_for() -> None:
    """A failover queues like a first choice does."""
    script = Script(SICK, GOOD, full=1)
    assert raced(script)[-1].won
    assert (script.tried, script.waits) == (["r0", "r1"], 1)


@pytest.mark.parametrize(("attempts", "budget"), [(1, 10), (3, 0)])
def test_nobody_waits_for_a_try_that_is_not_allowed(attempts: int, budget: int) -> None:
    """A seat that was waited for and then not used would be one that another request should have had."""
    script = Script(SICK, GOOD, full=1)
    assert not raced(script, attempts, budget)[-1].won
    assert script.waits == 0


def test_no_seat_in_time_ends_the_race() -> None:
    script = Script(SICK)
    script.full = [candidate("r1")]
    assert not raced(script)[-1].won
    assert script.waits == 1


def test_a_share_of_the_time_used_up_is_not_the_end() -> None:
    """The rest is for the next one; a try that cost an engine work takes its token."""
    used_up = (Verdict.ABANDONED, Failure.SHARE)
    assert raced(Script(used_up, GOOD))[-1].won
    assert not raced(Script(used_up, GOOD), budget=0)[-1].won


def test_no_time_left_is_the_end() -> None:
    script = Script((Verdict.ABANDONED, Failure.DEADLINE), GOOD)
    raced(script)
    assert script.tried == ["r0"]


def test_no_candidates_is_an_empty_race() -> None:
    assert raced(Script()) == []


def test_the_most_telling_answer_is_kept() -> None:
    """A40: an engine's own words are better than "connection refused"; a full queue says more than a crash."""
    refused = ended(candidate("a"), Verdict.DEAD, Failure.REFUSED)
    crash = ended(candidate("b"), Verdict.SICK, body=b"{}", status=500)
    busy = ended(candidate("c"), Verdict.BUSY, body=b"{}", status=503)
    assert best([refused, crash, busy]) is busy
    assert best([refused, crash]) is crash
    assert best([refused]) is None


def test_our_own_wrong_key_is_not_shown() -> None:
    """llm-katan's 401 names the expected key: such an answer never reaches a caller."""
    assert best([ended(candidate("a"), Verdict.MISCONFIGURED, body=b"expected 'k1'", status=401)]) is None
