"""One attempt: what is sent, whose credential, and that a seat is given back whatever happens."""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import replace
from typing import Any

import pytest

from autohedge.call import Call
from autohedge.core.types import Candidate, Door, Failure, Kind, Secret, Verdict
from tests.support.played import EVENT, GOOD, SSE, Desk, Played, call, candidate, tried
from tests.support.vtime import run

pytestmark = pytest.mark.sources


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
    ("kind", "served", "body"),
    [
        (Kind.VLLM, "m", b'{"n":1,"model":"m"}'),
        (Kind.VLLM, "org/m", b'{"n":1,"model":"org/m"}'),
        (Kind.VLLM, "", b'{"n":1,"model":"m"}'),
    ],
    ids=["same", "other", "any"],
)
def test_the_name_is_rewritten_only_when_it_differs(kind: Kind, served: str, body: bytes) -> None:
    """Design 4.1."""
    assert sent(candidate(kind, served), call(b'{"n":1,"model":"m"}'))[1] == body


@pytest.mark.parametrize("served", ["m", ""])
def test_a_compressed_body_is_forwarded_as_it_came(served: str) -> None:
    """Design 4.1, where its name is right as it is."""
    packed = gzip.compress(b'{"n":1,"model":"m"}')
    assert sent(candidate(served=served), call(packed, encoding="gzip"))[1] == packed


def test_a_compressed_body_is_unpacked_where_the_engine_knows_another_name() -> None:
    asked = call(gzip.compress(b'{"n":1,"model":"m"}'), encoding="gzip", forwarded=[(b"content-encoding", b"gzip")])
    head, body = sent(candidate(served="org/m"), asked)
    assert body == b'{"n":1,"model":"org/m"}'
    assert b"content-encoding" not in head


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


# --- the System One door ------------------------------------------------------------------------------------------------


def decision(**fields: Any) -> Call:
    return call(door=Door.SYSTEMONE, target="/v1/systemone", **({"named": "dex"} | fields))


@pytest.mark.parametrize("status", [200, 302, 400, 401, 404, 405, 410, 422, 429, 500, 501, 529])
def test_a_worker_s_word_is_the_answer(status: int) -> None:
    """E35: committed whatever the verdict says, which is kept for the breaker."""
    opened = tried(Played(b"{}", status=status), candidate(Kind.SGLANG), decision())
    assert opened.won
    assert opened.attempt.judgement is not None


@pytest.mark.parametrize("status", [502, 503, 504])
def test_another_worker_is_asked_after_these(status: int) -> None:
    """E33: and the seat is given back."""
    opened = tried(Played(b"{}", status=status), candidate(Kind.SGLANG), decision())
    assert not opened.won
    assert opened.closed


@pytest.mark.parametrize(("status", "body"), [(401, b"{}"), (403, b"{}"), (402, b"{}"), (410, b"{}")])
def test_what_a_provider_says_of_our_account_is_no_answer(status: int, body: bytes) -> None:
    """E35 is about workers, which have no key of ours; a refused key, an empty account or a retired model moves on."""
    for key, won in ((Secret("k"), False), (None, True)):
        where = candidate(Kind.SYSTEMONE, key=key)
        assert tried(Played(body, status=status), where, decision()).won is won
    assert tried(Played(body, status=429), candidate(Kind.SYSTEMONE, key=Secret("k")), decision()).won


@pytest.mark.parametrize("answer", [Failure.REFUSED, Failure.RESET, Played(b'{"model":', Failure.CUT)])
def test_a_failure_of_transport_is_no_answer(answer: Any) -> None:
    """E32: also one in the middle of the body."""
    assert not tried(answer, candidate(Kind.SGLANG), decision()).won


def test_a_worker_has_the_time_of_an_attempt_and_then_it_failed() -> None:
    """E96: not first_byte, not stall; a worker that outlasts it is sick, however slowly its answer drips."""
    where = candidate(Kind.SGLANG)
    assert tried(Played(60.0, b"{}"), where, decision(patience=100.0), stall=1.0).won
    late = tried(30.0, where, decision(patience=5.0))
    assert not late.won
    assert late.attempt.outcome is not None
    assert late.attempt.outcome.failure is Failure.FIRST_BYTE_TIMEOUT
    drips: list[bytes | float | Failure] = [b"x" if step % 2 else 2.0 for step in range(20)]
    slow = tried(Played(*drips), where, decision(patience=5.0))
    assert not slow.won
    assert slow.attempt.judgement is not None
    assert slow.attempt.judgement.verdict is Verdict.SICK


@pytest.mark.parametrize(
    ("where", "asked", "named"),
    [
        (candidate(Kind.SGLANG, "/models/x"), {}, b"dex"),  # it does not look at the name
        (candidate(Kind.LLAMACPP, "x.gguf"), {}, b"dex"),
        (candidate(Kind.OPENAI, "served", models=("dex",)), {}, b"dex"),  # the operator said that it serves this name
        (candidate(Kind.AUTO, "served", takes_any=True), {}, b"dex"),
        (candidate(Kind.VLLM, "/models/x", models=("dex",)), {}, b"/models/x"),  # it serves its own name only
        (candidate(Kind.SGLANG, "real", aliases={"dex": "real"}), {}, b"real"),  # the operator's alias
        (replace(candidate(Kind.SGLANG, "other"), rung=1), {}, b"other"),  # a rung names another model
    ],
)
def test_the_body_stays_as_it_came_unless_the_name_must_change(
    where: Candidate, asked: dict[str, Any], named: bytes
) -> None:
    """E2."""
    _, body = sent(where, decision(body=b'{ "model":"dex"}', **asked))
    assert body == b'{ "model":"%b"}' % named


@pytest.mark.parametrize("body", [b"{}", b'{"model":null}', b'{"model":""}'])
def test_no_name_is_put_into_a_decision(body: bytes) -> None:
    """E2, E31: also not for engines that will refuse it."""
    for named in (None, ""):
        assert sent(candidate(Kind.OLLAMA), decision(body=body, named=named))[1] == body
