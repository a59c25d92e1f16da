"""One attempt, with a pool and an answer that play a script: what is sent, how far an answer is read, what is given back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from autohedge.attempt import NEARLY, PLAIN_HOLD, PREAMBLE_HOLD, Attempter, Opened, bound, failed
from autohedge.call import Call
from autohedge.core.types import (
    NOTHING,
    Address,
    Attempt,
    BackendSpec,
    Candidate,
    Door,
    Failure,
    Kind,
    Limits,
    Replica,
    Seat,
    Secret,
    Verdict,
)
from autohedge.settings.model import Timeouts
from autohedge.wire.answer import Answer
from autohedge.wire.errors import WireError
from autohedge.wire.pool import Pool
from tests.support.vtime import run

EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'
ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
GOOD = b'{"choices":[{"message":{"content":"hi"}}]}'
SSE = {"content-type": "text/event-stream"}


class Played:
    """An answer that plays `script`: pieces, seconds of silence, or a failure at the end."""

    def __init__(
        self, *script: bytes | float | Failure, status: int = 200, headers: Mapping[str, str] = NOTHING
    ) -> None:
        self.script = list(script)
        self.status = status
        self.headers = [(name.encode(), value.encode()) for name, value in headers.items()]
        self.stall = 20.0
        self.released = 0
        self.reads = 0

    @property
    def ended(self) -> bool:
        return not self.script

    async def read(self) -> bytes:
        self.reads += 1
        while self.script:
            step = self.script.pop(0)
            if isinstance(step, bytes):
                return step
            if isinstance(step, Failure):
                raise WireError(step, sent=True)
            await asyncio.sleep(min(step, self.stall))
            if step > self.stall:
                raise WireError(Failure.STALLED, sent=True)
        return b""

    def take(self) -> bytes:
        return b""

    def release(self) -> None:
        self.released += 1


class Line:
    """A pool that gives `answer`, or fails, or waits; it keeps what was sent."""

    def __init__(self, answer: Played | Failure | float | Exception) -> None:
        self.answer = answer
        self.sent: list[tuple[bytes, bytes]] = []
        self.first_byte = 0.0

    async def exchange(self, head: bytes, body: bytes, *, first_byte: float, stall: float) -> Played:
        self.sent.append((head, body))
        self.first_byte = first_byte
        if isinstance(self.answer, float):
            await asyncio.sleep(min(self.answer, first_byte))
            raise WireError(Failure.FIRST_BYTE_TIMEOUT, sent=True)
        if isinstance(self.answer, Failure):
            raise WireError(self.answer, sent=False)
        if isinstance(self.answer, Exception):
            raise self.answer
        self.answer.stall = stall
        return self.answer


def candidate(kind: Kind = Kind.VLLM, served: str = "m", prefix: str = "", **spec: Any) -> Candidate:
    address = Address("h", 1, prefix=prefix)
    return Candidate(Replica("b@h:1", "b", address, Seat()), BackendSpec("b", kind, **spec), kind, served, Limits())


def call(body: bytes = b'{"model":"m"}', total: float = 300.0, **fields: Any) -> Call:
    made = Call(Door.CHAT, "/v1/chat/completions", b"", [], [], body, "", b"id", 0.0, total, named="m")
    for name, value in fields.items():
        setattr(made, name, value)
    return made


class Desk:
    """An attempter over one line; `freed` notes the seats that were given back."""

    def __init__(self, answer: Played | Failure | float | Exception, **timeouts: float) -> None:
        self.line = Line(answer)
        self.freed: list[str] = []
        self.attempter = Attempter(
            lambda _candidate: cast("Pool", self.line),
            lambda: asyncio.get_running_loop().time(),
            Timeouts().model_copy(update=timeouts),
            lambda replica: self.freed.append(replica.id),
        )

    async def tried(self, where: Candidate, asked: Call | None = None) -> Opened:
        return await self.attempter(asked or call(), where, 7)

    @property
    def head(self) -> bytes:
        return self.line.sent[0][0]


def tried(
    answer: Played | Failure | float, where: Candidate | None = None, asked: Call | None = None, **more: float
) -> Opened:
    return run(Desk(answer, **more).tried(where or candidate(), asked))


# --- what is sent -------------------------------------------------------------------------------------------------------


def sent(where: Candidate, asked: Call | None = None) -> tuple[bytes, bytes]:
    desk = Desk(Played(GOOD))
    run(desk.tried(where, asked))
    return desk.line.sent[0]


def test_the_head_is_the_client_s_with_the_engine_s_host() -> None:
    """A27, A28: path, Host and length are ours to say; all else as the client said it."""
    head, body = sent(candidate(), call(forwarded=[(b"x-a", b"1"), (b"accept", b"*/*"), (b"x-a", b"2")]))
    assert head == (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: h:1\r\nx-a: 1\r\naccept: */*\r\nx-a: 2\r\ncontent-length: 13\r\n\r\n"
    )
    assert body == b'{"model":"m"}'


def test_prefix_and_query_are_part_of_the_path() -> None:
    """B103: the backend's prefix stands before the engine's path, the client's query behind it."""
    head, _ = sent(candidate(prefix="/base"), call(query=b"v=1"))
    assert head.startswith(b"POST /base/v1/chat/completions?v=1 HTTP/1.1\r\n")


def test_azure_has_deployment_and_version_in_its_path() -> None:
    """d1: names are percent-encoded, the client's query is joined with &."""
    where = candidate(Kind.AZURE, "org/a b", key=Secret("k"), external=True, params={"api_version": "2025-01-01"})
    head, _ = sent(where, call(query=b"trace=1"))
    path = head.split(b" ")[1]
    assert path == b"/openai/deployments/org%2Fa%20b/chat/completions?api-version=2025-01-01&trace=1"
    assert b"\r\napi-key: k\r\n" in head


CLIENT = [(b"authorization", b"Bearer c"), (b"x-api-key", b"c"), (b"x-other", b"c"), (b"accept", b"*/*")]


@pytest.mark.parametrize(
    ("spec", "seen"),
    [
        ({}, [b"authorization: Bearer c", b"x-api-key: c", b"x-other: c", b"accept: */*"]),
        ({"key": Secret("k")}, [b"x-other: c", b"accept: */*", b"authorization: Bearer k"]),
        ({"external": True}, [b"accept: */*"]),
        ({"external": True, "key": Secret("k")}, [b"accept: */*", b"authorization: Bearer k"]),
    ],
    ids=["passthrough", "own key", "external", "external with key"],
)
def test_who_sees_which_credential(spec: dict[str, Any], seen: list[bytes]) -> None:
    """B100, B101."""
    head, _ = sent(candidate(**spec), call(forwarded=list(CLIENT)))
    assert head.split(b"\r\n")[2:-3] == seen


@pytest.mark.parametrize(
    ("kind", "served", "fields", "body"),
    [
        (Kind.VLLM, "m", {}, b'{"n":1,"model":"m"}'),
        (Kind.VLLM, "org/m", {}, b'{"n":1,"model":"org/m"}'),
        (Kind.VLLM, "", {}, b'{"n":1,"model":"m"}'),
        (Kind.VLLM, "org/m", {"encoding": "gzip"}, b'{"n":1,"model":"m"}'),
    ],
    ids=["same", "other", "any", "compressed"],
)
def test_the_name_is_rewritten_only_when_it_differs(
    kind: Kind, served: str, fields: dict[str, Any], body: bytes
) -> None:
    """Design 4.1; a compressed body is forwarded as it came."""
    assert sent(candidate(kind, served), call(b'{"n":1,"model":"m"}', **fields))[1] == body


@pytest.mark.parametrize("kind", list(Kind))
def test_a_body_without_a_name(kind: Kind) -> None:
    """Engines of one model take it as it is; others, and a model that stood in the path, get the name put in."""
    bare = b'{"n":1}'
    as_it_is = kind in {Kind.LLAMACPP, Kind.VLLM, Kind.AZURE, Kind.SYSTEMONE}
    assert (sent(candidate(kind), call(bare, named=None))[1] == bare) is as_it_is
    assert (sent(candidate(kind), call(bare, named=None, model="m"))[1] == bare) is (kind is Kind.AZURE)


def test_a_head_that_would_smuggle_is_never_built() -> None:
    """A line break in a name that became a path, or in a header: a fault of ours, and the seat is given back."""
    for where, asked in (
        (candidate(prefix="/a b"), call()),
        (candidate(), call(forwarded=[(b"x", b"a\r\nb: c")])),
    ):
        desk = Desk(Played(GOOD))
        with pytest.raises(ValueError, match="stray"):
            run(desk.tried(where, asked))
        assert desk.line.sent == []
        assert where.replica.seat.in_flight == 0
        assert desk.freed == ["b@h:1"]


def test_beginnings_of_heads_are_made_once_until_forgotten() -> None:
    """A changed backend is heard of by `forget`: the next head is made anew."""

    async def main() -> list[bytes]:
        desk = Desk(Played(GOOD))
        for version in ("2024", "2026", "2026"):
            desk.line.answer = Played(GOOD)
            await desk.tried(candidate(Kind.AZURE, params={"api_version": version}))
            if version == "2026":
                desk.attempter.forget()
        return [head.split(b" ")[1].rpartition(b"=")[2] for head, _ in desk.line.sent]

    assert run(main()) == [b"2024", b"2024", b"2026"]


# --- seats --------------------------------------------------------------------------------------------------------------


def test_a_win_keeps_its_seat_until_it_is_closed() -> None:
    where, answer = candidate(), Played(EVENT, EVENT, headers=SSE)
    desk = Desk(answer)
    opened = run(desk.tried(where))
    assert opened.won
    assert (where.replica.seat.in_flight, answer.released, desk.freed) == (1, 0, [])
    opened.close()
    opened.close()
    assert (where.replica.seat.in_flight, answer.released, desk.freed) == (0, 1, ["b@h:1"])


def test_a_failure_gives_the_seat_back() -> None:
    where = candidate()
    desk = Desk(Failure.REFUSED)
    opened = run(desk.tried(where))
    assert not opened.won
    assert (where.replica.seat.in_flight, desk.freed) == (0, ["b@h:1"])
    assert opened.attempt.judgement is not None
    assert opened.attempt.judgement.verdict is Verdict.DEAD
    assert opened.attempt.stamp == 7


@pytest.mark.parametrize(
    "answer", [Played(60.0, EVENT, headers=SSE), Played(b"{", 60.0), 60.0], ids=["stream", "plain", "head"]
)
def test_a_cancel_at_any_wait_gives_everything_back(answer: Played | float) -> None:
    """A35: no failure is counted, the attempt is on record, the connection is released."""

    async def main() -> None:
        where, asked = candidate(), call()
        desk = Desk(answer, stall=100)
        task = asyncio.create_task(desk.tried(where, asked))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert (where.replica.seat.in_flight, desk.freed) == (0, ["b@h:1"])
        assert [one.judgement.verdict for one in asked.attempts if one.judgement] == [Verdict.ABANDONED]
        if isinstance(answer, Played):
            assert answer.released == 1

    run(main())


def test_turns_are_numbered() -> None:
    """Ties go to the one that waited longest: each attempt writes its turn."""

    async def main() -> list[int]:
        desk, seats = Desk(Played(GOOD)), []
        for _ in range(3):
            desk.line.answer = Played(GOOD)
            where = candidate()
            await desk.tried(where)
            seats.append(where.replica.seat.last)
        return seats

    assert run(main()) == [1, 2, 3]


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
    bound(real, call(total=100), lambda: 50.0)
    assert answer.stall == 20.0
    bound(real, call(total=100), lambda: 97.0)
    assert answer.stall == 3.0
    with pytest.raises(WireError) as raised:
        bound(real, call(total=100), lambda: 100.0)
    assert raised.value.failure is Failure.DEADLINE
    bound(cast("Answer", Played()), call(total=100), lambda: 200.0)
    late = WireError(Failure.STALLED, sent=True)
    assert failed(late, call(total=100), lambda: 100 - NEARLY / 2) is Failure.DEADLINE
    assert failed(late, call(total=100), lambda: 90.0) is Failure.STALLED
    assert failed(WireError(Failure.CUT, sent=True), call(total=100), lambda: 200.0) is Failure.CUT


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
