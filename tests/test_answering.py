"""What the client gets: headers, and the Problem when nobody answered."""

from __future__ import annotations

import pytest

from autohedge.answering import answer_headers, nothing_worked, renamed
from autohedge.attempt import WON, Opened
from autohedge.call import Call, Header
from autohedge.core.problems import DeadlineExceeded, Gone, Unavailable, UpstreamFailed
from autohedge.core.types import (
    Address,
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


def call(*attempts: Attempt) -> Call:
    made = Call(Door.CHAT, "/v1/chat/completions", b"", [], [], b"{}", "", b"id-1", 0.0, 300.0)
    made.asked = "m"
    made.attempts = list(attempts)
    return made


def attempt(
    verdict: Verdict,
    failure: Failure | None = None,
    backend: str = "b",
    status: int = 0,
    served: str = "m",
    rung: int = 0,
) -> Attempt:
    replica = Replica(f"{backend}@10.0.0.9:8000", backend, Address("10.0.0.9", 8000), Seat())
    candidate = Candidate(replica, BackendSpec(backend), Kind.VLLM, served, Limits(), rung=rung)
    return Attempt(
        candidate, 0.0, outcome=Outcome(failure=failure, status=status), judgement=Judgement(verdict, "the reason")
    )


def opened(one: Attempt, *headers: Header, status: int = 200) -> Opened:
    won = one.judgement is None or one.judgement.verdict in WON
    return Opened(one, lambda _replica: None, status=status, headers=list(headers), fields=dict(headers), won=won)


def test_the_engine_s_headers_and_ours() -> None:
    """A26: repeats stay; hop-by-hop and what we set ourselves is left out once and put in once."""
    one = attempt(Verdict.ANSWER)
    headers = answer_headers(
        call(one),
        opened(
            one,
            (b"set-cookie", b"a=1"),
            (b"set-cookie", b"b=2"),
            (b"connection", b"x-hop"),
            (b"x-hop", b"1"),
            (b"x-request-id", b"theirs"),
            (b"content-length", b"5"),
        ),
    )
    assert headers.count((b"set-cookie", b"a=1")) == headers.count((b"set-cookie", b"b=2")) == 1
    assert [value for name, value in headers if name == b"x-request-id"] == [b"id-1"]
    assert [value for name, value in headers if name == b"content-length"] == []
    assert not any(name in (b"connection", b"x-hop") for name, _ in headers)
    assert (b"x-autohedge-backend", b"b") in headers
    assert (b"x-autohedge-attempts", b"1") in headers
    assert not any(name == b"x-autohedge-rung" for name, _ in headers)


@pytest.mark.parametrize(("sized", "shown"), [(True, [b"5"]), (False, [])])
def test_the_length_is_the_engine_s_or_left_to_the_server(sized: bool, shown: list[bytes]) -> None:
    one = attempt(Verdict.ANSWER)
    headers = answer_headers(call(one), opened(one, (b"content-length", b"5")), sized=sized)
    assert [value for name, value in headers if name == b"content-length"] == shown


def test_a_rung_is_named() -> None:
    one = attempt(Verdict.ANSWER, rung=2)
    assert (b"x-autohedge-rung", b"2") in answer_headers(call(one), opened(one))


@pytest.mark.parametrize("name", ["a\r\nx-evil: 1", "modell-ü", "tab\there", "\x00"])
def test_no_name_can_end_its_line(name: str) -> None:
    """A model's name comes from an engine or a file; as a header value it is printable ASCII."""
    one = attempt(Verdict.ANSWER, served=name)
    (value,) = [value for key, value in answer_headers(call(one), opened(one)) if key == b"x-autohedge-model"]
    assert all(32 <= byte < 127 for byte in value)


def test_a_failed_answer_tells_sdks_not_to_try_again() -> None:
    """openai-python obeys x-should-retry; a 503 without Retry-After gets one."""
    one = attempt(Verdict.BUSY, status=503)
    headers = answer_headers(call(one), opened(one, status=503))
    assert (b"x-should-retry", b"false") in headers
    assert (b"retry-after", b"1") in headers


def test_an_engine_s_retry_after_stays() -> None:
    one = attempt(Verdict.BUSY, status=429)
    headers = answer_headers(call(one), opened(one, (b"retry-after", b"7"), status=429))
    assert [value for name, value in headers if name == b"retry-after"] == [b"7"]


@pytest.mark.parametrize(
    ("attempts", "problem"),
    [
        ([], Unavailable),
        ([attempt(Verdict.DEAD, Failure.REFUSED)], UpstreamFailed),
        ([attempt(Verdict.SICK, Failure.FIRST_BYTE_TIMEOUT)], DeadlineExceeded),
        ([attempt(Verdict.SICK, Failure.FIRST_BYTE_TIMEOUT), attempt(Verdict.DEAD, Failure.REFUSED)], UpstreamFailed),
        ([attempt(Verdict.BUSY, status=429), attempt(Verdict.LOADING, status=503)], Unavailable),
        ([attempt(Verdict.RETIRED, status=410)], Gone),
        ([attempt(Verdict.RETIRED, status=410), attempt(Verdict.SICK, status=500)], UpstreamFailed),
    ],
)
def test_the_problem_when_nobody_answered(attempts: list[Attempt], problem: type[Exception]) -> None:
    """410, 502, 503 or 504 by what happened; each attempt is listed, and no address is in it."""
    made = nothing_worked(call(*attempts))
    assert type(made) is problem
    assert len(made.details) == len(attempts)
    assert (made.retry_after is None) is (problem is Gone)
    assert (b"x-should-retry", b"false") in made.headers
    assert "10.0.0.9" not in made.message + "".join(detail.message for detail in made.details)


@pytest.mark.parametrize(
    ("body", "after"),
    [
        (b'{"id":1,"model":"a"}', b'{"id":1,"model":"b"}'),
        (b'{"id":1}', b'{"id":1}'),
        (b'{"model":null}', b'{"model":null}'),
        (b'["model"]', b'["model"]'),
        (b"plain", b"plain"),
    ],
)
def test_only_a_top_level_model_string_is_renamed(body: bytes, after: bytes) -> None:
    """Seed 000: no object, no model, a null model: byte-identical."""
    assert renamed(body, "b") == after
