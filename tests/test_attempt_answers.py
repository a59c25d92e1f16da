"""One attempt: how far its answer is read, for how long, and what is an answer at all."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from autohedge.attempt import NEARLY, PLAIN_HOLD, PREAMBLE_HOLD, Opened, bound, failed
from autohedge.call import Call
from autohedge.core.types import Attempt, Failure, Kind, Secret, Verdict
from autohedge.wire.answer import Answer
from autohedge.wire.errors import WireError
from tests.support.played import EVENT, GOOD, ROLE, SSE, Desk, Played, call, candidate, tried
from tests.support.vtime import run

pytestmark = pytest.mark.sources

# --- time ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "limit"), [(Kind.VLLM, 30.0), (Kind.OLLAMA, 300.0)])
def test_the_first_byte_has_its_own_limit(kind: Kind, limit: float) -> None:
    """B17: Ollama loads models on demand and is silent meanwhile."""
    desk = Desk(Played(GOOD))
    run(desk.tried(candidate(kind), call(total=1000)))
    assert desk.line.first_byte == limit


def test_no_time_left_is_no_attempt() -> None:
    desk = Desk(Played(GOOD))
    opened = run(desk.tried(candidate(), call(total=0.0)))
    assert desk.line.sent == []
    assert opened.attempt.outcome is not None
    assert opened.attempt.outcome.failure is Failure.DEADLINE


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (60.0, Failure.DEADLINE),
        (Played(b"{", 60.0), Failure.DEADLINE),
        (Played(ROLE, 60.0, headers=SSE), Failure.DEADLINE),
        (Played(*[b"x"] * 3, *[x for _ in range(50) for x in (1.0, b"x")]), Failure.DEADLINE),
        (Played(b"{", Failure.RESET), Failure.RESET),
    ],
    ids=["head", "body", "stream", "trickle", "a failure of its own"],
)
def test_no_wait_outlasts_the_request(answer: Played | float, failure: Failure) -> None:
    """B37: when the request's own time ends a wait, it is DEADLINE and speaks against nobody."""

    async def main() -> tuple[Opened, float]:
        opened = await Desk(answer).tried(candidate(), call(total=5.0))
        return opened, asyncio.get_running_loop().time()

    opened, took = run(main())
    assert opened.attempt.outcome is not None
    assert opened.attempt.outcome.failure is failure
    assert took <= 5.1


def test_bound_and_failed() -> None:
    """The next wait is cut to what is left; over time raises; an answer that has ended is never late."""
    answer = Played(b"x")
    answer.stall = 20.0
    real = cast("Answer", answer)
    bound(real, 100.0, lambda: 50.0)
    assert answer.stall == 20.0
    bound(real, 100.0, lambda: 97.0)
    assert answer.stall == 3.0
    with pytest.raises(WireError) as raised:
        bound(real, 100.0, lambda: 100.0)
    assert raised.value.failure is Failure.DEADLINE
    bound(cast("Answer", Played()), 100.0, lambda: 200.0)
    late, asked = WireError(Failure.STALLED, sent=True), call(total=100)
    assert failed(late, asked, lambda: 100 - NEARLY / 2, 100.0) is Failure.DEADLINE
    assert failed(late, asked, lambda: 90.0, 100.0) is Failure.STALLED
    assert failed(late, asked, lambda: 90.0, 90.0) is Failure.SHARE
    assert failed(WireError(Failure.CUT, sent=True), asked, lambda: 200.0, 100.0) is Failure.CUT


# --- its share of the time (design 5) -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rung", "tries", "made", "ends"),
    [(0, 9, 0, 30.0), (1, 9, 1, 45.0), (2, 9, 2, 60.0), (0, 2, 0, 45.0), (0, 3, 2, 60.0)],
    ids=["two to come", "one to come", "the last rung", "one more try", "the last try"],
)
def test_an_attempt_leaves_a_reserve_for_the_rungs_after_it(rung: int, tries: int, made: int, ends: float) -> None:
    """A silent Ollama may not use up the time of those behind it; nothing is kept back for a rung that cannot come."""

    async def main() -> tuple[Opened, float]:
        where = replace(candidate(Kind.OLLAMA), rung=rung)
        asked = call(total=60.0, rungs=2, tries=tries, attempts=[Attempt(where, 0.0)] * made)
        opened = await Desk(500.0, reserve=15.0).tried(where, asked)
        return opened, asyncio.get_running_loop().time()

    opened, took = run(main())
    outcome, judgement = opened.attempt.outcome, opened.attempt.judgement
    assert took == ends
    assert outcome is not None
    assert outcome.failure is (Failure.DEADLINE if ends == 60.0 else Failure.SHARE)
    assert judgement is not None
    assert judgement.verdict is Verdict.ABANDONED


@pytest.mark.parametrize("answer", [Played(b"{", 60.0), Played(ROLE, 60.0, headers=SSE)], ids=["body", "stream"])
def test_the_share_ends_every_wait_before_the_commit(answer: Played) -> None:
    async def main() -> float:
        opened = await Desk(answer, stall=500.0).tried(candidate(), call(total=30.0, rungs=1, tries=3))
        assert opened.attempt.outcome is not None
        assert opened.attempt.outcome.failure is Failure.SHARE
        return asyncio.get_running_loop().time()

    assert run(main()) == 15.0


def test_after_the_commit_all_the_time_is_the_winner_s() -> None:
    """An answer that began within its share may take as long as the request has."""

    async def main() -> float:
        answer = Played(10.0, EVENT, 10.0, headers=SSE)
        opened = await Desk(answer).tried(candidate(), call(total=30.0, rungs=1, tries=3))
        assert opened.won
        return answer.stall

    assert run(main()) == 20.0


# --- how far an answer is read ------------------------------------------------------------------------------------------


def test_a_plain_answer_is_read_whole() -> None:
    opened = tried(Played(GOOD[:10], 1.0, GOOD[10:]))
    assert (opened.won, opened.whole, b"".join(opened.pieces)) == (True, True, GOOD)


def test_a_large_plain_answer_is_committed_in_the_middle() -> None:
    """Up to PLAIN_HOLD a cut one still fails over; beyond, the rest is streamed and judged at its end."""
    opened = tried(Played(b"[" + b"1," * (PLAIN_HOLD // 2), b"1]" * 9, 5.0, b"]"))
    assert (opened.won, opened.whole, opened.attempt.judgement) == (True, False, None)


def test_a_large_error_is_no_win() -> None:
    opened = tried(Played(b"x" * (PLAIN_HOLD + 1), b"x", status=500))
    assert not opened.won
    assert opened.attempt.judgement is not None
    assert opened.attempt.judgement.verdict is Verdict.SICK


def test_a_stream_is_opened_up_to_its_first_content() -> None:
    """B77, B79: role and preamble are held, content is the end of it; what comes after stays unread."""
    answer = Played(ROLE, 1.0, EVENT, EVENT, headers=SSE)
    opened = tried(answer)
    assert opened.pieces == [ROLE, EVENT]
    assert (opened.won, opened.whole, answer.reads) == (True, False, 2)


@pytest.mark.parametrize(
    "script",
    [
        (ROLE, b'data: {"error":{"message":"x","code":500}}\n\n', EVENT),
        (b"",),
        (b"data: [DONE]\n\n",),
        (ROLE,),
        (b"<html>hello</html>",),
        (ROLE, Failure.CUT),
        (ROLE, 60.0),
    ],
    ids=["error", "empty", "done alone", "role alone", "html", "cut", "silent"],
)
def test_a_stream_without_content_is_no_answer(script: tuple[bytes | float | Failure, ...]) -> None:
    """d4: everything that may come under 200 and is none."""
    opened = tried(Played(*script, headers=SSE))
    assert not opened.won
    assert opened.attempt.judgement is not None
    assert opened.attempt.judgement.verdict is Verdict.SICK


@pytest.mark.parametrize("slow", [False, True], ids=["bytes", "seconds"])
def test_a_preamble_is_not_held_for_ever(slow: bool) -> None:
    """B88: PREAMBLE_HOLD bytes or `hold` seconds of comments, then it is committed as it is."""
    comment = b": ping\n\n" if slow else b":" + b"x" * 9000 + b"\n"
    steps: list[bytes | float] = []
    for _ in range(40):
        steps += [1.0, comment] if slow else [comment]
    answer = Played(*steps, headers=SSE)
    opened = tried(answer)
    assert opened.won
    assert opened.attempt.judgement is None
    size = sum(map(len, opened.pieces))
    assert (30 <= answer.reads <= 32) if slow else (PREAMBLE_HOLD < size < PREAMBLE_HOLD + 9100)


def test_hold_zero_holds_nothing() -> None:
    assert tried(Played(ROLE, 1.0, EVENT, headers=SSE), hold=0.0).pieces == [ROLE]


def test_a_compressed_stream_is_committed_with_its_first_bytes() -> None:
    """B95: nobody can look inside."""
    opened = tried(Played(b"\x1f\x8b", 5.0, b"rest", headers=SSE | {"content-encoding": "gzip"}))
    assert (opened.won, opened.pieces, opened.watch) == (True, [b"\x1f\x8b"], None)


@pytest.mark.parametrize(("text", "seconds"), [("7", 7.0), (" 7 ", 7.0), ("soon", None), ("-1", None), ("1.5", None)])
def test_retry_after_is_read_as_seconds(text: str, seconds: float | None) -> None:
    opened = tried(Played(b"{}", status=429, headers={"retry-after": text}))
    assert opened.attempt.outcome is not None
    assert opened.attempt.outcome.retry_after == seconds


@pytest.mark.parametrize(("spec", "own"), [({}, False), ({"key": Secret("k")}, True), ({"external": True}, True)])
def test_whose_credential_it_was(spec: dict[str, Any], own: bool) -> None:
    """B100: a 401 of an external provider is ours: the client's credential never went there."""
    opened = tried(Played(b'{"error":{"message":"no"}}', status=401), candidate(**spec))
    assert opened.attempt.judgement is not None
    assert (opened.attempt.judgement.verdict is Verdict.MISCONFIGURED) is own


def test_a_retirement_is_told_before_the_next_attempt() -> None:
    told: list[Attempt] = []

    async def main() -> None:
        desk = Desk(Played(b'{"error":{"message":"gone"}}', status=410))

        async def listen(_call: Call, attempt: Attempt) -> None:
            assert desk.freed == ["b@h:1"]
            told.append(attempt)

        desk.attempter.retired = listen
        await desk.tried(candidate())

    run(main())
    assert len(told) == 1
