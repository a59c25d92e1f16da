"""One row per fact: what a status, a text or a broken transport says about a replica."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autohedge.core.types import Failure, Kind, Outcome, Verdict
from autohedge.providers import DIALECTS
from autohedge.rules.verdicts import MOVES_ON, judge, without_names
from tests.providers.saying import keyed
from tests.rules.outcomes import ERRORS, INSIDE, K, V, answered, llama, openai


@pytest.mark.parametrize(
    ("kind", "status", "body", "verdict"), [row[1:] for row in ERRORS], ids=[row[0] for row in ERRORS]
)
def test_errors(kind: Kind, status: int, body: Any, verdict: Verdict) -> None:
    """d1 to d3 and real 3: one row per fact."""
    judgement = judge(answered(status, body), DIALECTS[kind])
    assert judgement.verdict is verdict, judgement.reason
    assert judgement.certain is (verdict is V.DEAD)  # fact 18: an obituary opens at once
    assert judgement.reason.startswith(str(status))


ABSENT = {
    "vllm-404", "ollama-404", "B110-anthropic", "B112-together", "B113-unknown", "B115-azure", "llm7", "typesafe-unknown",
    "deepseek-unknown", "B116-backticks", "B116-quotes-inside", "B116-mixed-quotes", "B116-unquoted", "dead-in-a-name",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind", "status", "body"), [row[:4] for row in ERRORS], ids=[row[0] for row in ERRORS]
)
def test_a_missing_model_is_told_from_a_missing_path(name: str, kind: Kind, status: int, body: Any) -> None:
    """d3: MODEL404 is about the model; a missing path, a door that does not suit (Azure's operation) or a feature is not."""
    assert judge(answered(status, body), DIALECTS[kind]).absent is (name in ABSENT)


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("kind", list(Kind))
def test_whose_key_it_was_decides(status: int, kind: Kind) -> None:
    """d2 auth: our own wrong key is a matter for the operator and the next rung, the client's is the client's."""
    body = openai("Incorrect API key provided: sk-abc", code="invalid_api_key")
    assert judge(answered(status, body, own_key=True), DIALECTS[kind]).verdict is V.MISCONFIGURED
    assert judge(answered(status, body), DIALECTS[kind]).verdict is V.CLIENT_FAULT


@pytest.mark.parametrize(
    ("kind", "body", "streamed", "verdict", "status"), [row[1:] for row in INSIDE], ids=[row[0] for row in INSIDE]
)
def test_an_error_inside_a_200_is_judged_by_itself(
    kind: Kind, body: Any, streamed: bool, verdict: Verdict, status: int
) -> None:
    """d4: the 200 and even a [DONE] after the error count for nothing."""
    for finished in (True, False):
        judgement = judge(answered(200, body, streamed=streamed, finished=finished), DIALECTS[kind])
        assert (judgement.verdict, judgement.status) == (verdict, status)


# fmt: off
BAD_200: list[tuple[str, bytes, dict[str, Any]]] = [
    ("empty", b"", {}),
    ("blank", b" \r\n", {}),
    ("html", b"<!doctype html><html>login</html>", {}),
    ("html-type", b"\n\n<html>", {"content_type": "text/html; charset=utf-8"}),
    ("text", b"Internal error\n", {"content_type": "text/plain"}),
    ("null", b"null", {}),
    ("choices-null", b'{"id":"x","choices":null}', {}),
    ("choices-empty", b'{"id":"x","choices": []}', {}),
    ("data-empty", b'{"object":"list","data":[],"model":"m"}', {}),
    ("detail", b'{"detail":"Not Found"}', {}),
    ("empty-object", b"{}", {}),
    ("broken", b'{"id":"x","obje', {}),
    ("cut", b'{"choices":[{"index":0', {"finished": False}),
    ("stream-without-end", b"", {"streamed": True, "finished": False}),  # B71: Ollama swallows a dead runner
    ("stream-of-nothing", b": ping\n\n", {"streamed": True, "finished": False}),
]
# fmt: on


@pytest.mark.parametrize(("body", "more"), [row[1:] for row in BAD_200], ids=[row[0] for row in BAD_200])
def test_a_200_that_is_no_answer_is_no_answer(body: bytes, more: dict[str, Any]) -> None:
    """d4, B67, B68, B71, B82: an empty body, HTML, no choices, a stream without its end."""
    judgement = judge(answered(200, body, **more), DIALECTS[K.OPENAI])
    assert (judgement.verdict, judgement.status) == (V.SICK, 502)


def spoken(text: str | None, reason: str = "stop", **more: Any) -> bytes:
    return json.dumps({"choices": [{"message": {"content": text, **more}, "finish_reason": reason}]}).encode()


@pytest.mark.parametrize(
    ("body", "more", "verdict"),
    [
        (spoken(""), {}, V.CLIENT_FAULT),
        (spoken("/" * 16), {}, V.CLIENT_FAULT),
        (spoken("/" * 16), {"repeats": 17}, V.ANSWER),
        (spoken("/" * 16), {"repeats": 0}, V.ANSWER),
        (spoken(""), {"repeats": 0}, V.CLIENT_FAULT),
        (spoken(""), {"repeats": None}, V.ANSWER),
        (spoken("", "length"), {}, V.ANSWER),
        (spoken(None, "tool_calls", tool_calls=[{"id": "1"}]), {}, V.ANSWER),
        (spoken("well"), {}, V.ANSWER),
        (b"", {"streamed": True, "hollow": "an empty answer"}, V.CLIENT_FAULT),
    ],
)
def test_an_answer_with_nothing_in_it_proves_nothing(body: bytes, more: dict[str, Any], verdict: Verdict) -> None:
    """Issue 3, T88: empty or degenerate output is never ANSWER. Its caller may have wanted it (a stop text that came at once), so
    it is delivered as it is, is tried nowhere else and counts neither way.
    """
    judgement = judge(answered(200, body, **more), DIALECTS[K.OPENAI])
    assert (judgement.verdict, judgement.status) == (verdict, 0)
    assert verdict not in MOVES_ON


# fmt: off
GOOD_200: list[tuple[str, bytes, dict[str, Any]]] = [
    ("stream", b"", {"streamed": True}),
    ("B89-no-done", b"", {"streamed": True}),  # finish_reason and a clean end
    ("vllm", b'{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"content":"hi"}}]}', {}),
    ("spaces", b'{\n "choices": [\n {"index": 0, "text": "a"}]}', {}),
    ("embeddings", b'{"object":"list","data":[{"embedding":[0.1]}],"usage":{}}', {}),
    ("embeddings-base64", b'{"data":[{"embedding":"AAAA"}]}', {}),
    ("systemone", b'{"model":"m","answers":{"q":{"type":"noul","noul":0.5}},"usage":{}}', {}),
    ("systemone-empty", b'{"model":"m","answers":{},"usage":{"input_tokens":1}}', {}),
    ("responses", b'{"id":"r","error":null,"output":[{"type":"message"}]}', {}),
    ("messages", b'{"id":"m","type":"message","content":[{"type":"text","text":"x"}]}', {}),
    ("rerank", b'[{"index":0,"score":0.5}]', {}),
    ("B116-content", b'{"choices":[{"message":{"content":"410 gone api access has been retired"}}]}', {}),
    ("B116-error-word", b'{"choices":[{"message":{"content":"{\\"error\\":{\\"code\\":500}}"},"logprobs":{"token":"error"}}]}', {}),
    ("gzip", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", {}),
    ("unknown-shape", b'{"dense":[[0.1]],"sparse":[{}]}', {}),
    ("long", b'{"choices":[{"message":{"content":"' + b"x" * 200_000, {}),
    ("ended-then-reset", b"", {"streamed": True, "failure": Failure.RESET}),
]
# fmt: on


@pytest.mark.parametrize(("body", "more"), [row[1:] for row in GOOD_200], ids=[row[0] for row in GOOD_200])
def test_answers(body: bytes, more: dict[str, Any]) -> None:
    """Whatever an answer says, it is an answer (B116: content never retires anything)."""
    assert judge(answered(200, body, **more), DIALECTS[K.OPENAI]).verdict is V.ANSWER


FAILURES = {
    Failure.REFUSED: (V.DEAD, 502),
    Failure.UNREACHABLE: (V.DEAD, 502),
    Failure.TLS: (V.SICK, 502),
    Failure.CONNECT_TIMEOUT: (V.SICK, 504),
    Failure.RESET: (V.SICK, 502),
    Failure.SILENT: (V.SICK, 502),
    Failure.FIRST_BYTE_TIMEOUT: (V.SICK, 504),  # B01, B07: a hung engine behind a healthy /health
    Failure.STALLED: (V.SICK, 504),  # B02
    Failure.VANISHED: (V.SICK, 504),  # T67: no stronger than a connect that timed out
    Failure.CUT: (V.SICK, 502),  # B94
    Failure.MALFORMED: (V.SICK, 502),
    Failure.TOO_BIG: (V.SICK, 502),
    Failure.SHARE: (V.ABANDONED, 504),
    Failure.DEADLINE: (V.ABANDONED, 504),  # B37: our own clock, or the caller's
}


@pytest.mark.parametrize("failure", list(Failure))
def test_broken_transports(failure: Failure) -> None:
    """real 5: one row per way a connection can end; before the head and in the middle of a stream."""
    for outcome in (
        Outcome(failure=failure),
        answered(200, streamed=True, finished=False, committed=True, failure=failure),
    ):
        judgement = judge(outcome, DIALECTS[K.VLLM])
        refused = failure is Failure.RESET and not outcome.status  # before any answer a reset is as good as a refusal
        assert (judgement.verdict, judgement.status) == ((V.DEAD, 502) if refused else FAILURES[failure])
        assert judgement.reason == failure.value
        assert not judgement.certain  # a refused connection may be a restart; two in a row are not


def test_an_error_event_says_more_than_the_cut_after_it() -> None:
    body = openai("You exceeded your current quota", code="insufficient_quota")
    outcome = answered(200, body, streamed=True, finished=False, failure=Failure.CUT)
    assert judge(outcome, DIALECTS[K.OPENAI]).verdict is V.MISCONFIGURED


def test_a_status_says_more_than_the_cut_of_its_body() -> None:
    outcome = answered(400, b'{"error":{"mess', finished=False, failure=Failure.CUT)
    assert judge(outcome, DIALECTS[K.OPENAI]).verdict is V.CLIENT_FAULT


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(left=True),
        answered(500, b"CUDA error", left=True),
        answered(200, streamed=True, finished=False, left=True),
        Outcome(left=True, failure=Failure.REFUSED),
        answered(410, left=True),
    ],
)
def test_who_left_proves_nothing(outcome: Outcome) -> None:
    """B37, design 4.5: a client that went away and a hedge that lost are neutral, whatever else was seen."""
    assert judge(outcome, DIALECTS[K.VLLM]).verdict is V.ABANDONED


def test_nothing_at_all_is_sick() -> None:
    assert judge(Outcome(), DIALECTS[K.VLLM]).verdict is V.SICK


def test_a_redirect_is_passed_on() -> None:
    """A6: 3xx is neither followed nor retried."""
    assert judge(answered(302), DIALECTS[K.OPENAI]).verdict is V.CLIENT_FAULT


def test_retry_after_is_handed_on_and_makes_a_503_a_queue() -> None:
    """B31, B35: the caller keeps the deadline."""
    judgement = judge(answered(503, b"", retry_after=7.0), DIALECTS[K.VLLM])
    assert (judgement.verdict, judgement.retry_after) == (V.BUSY, 7.0)
    assert judge(answered(429, b"", retry_after=60.0), DIALECTS[K.VLLM]).retry_after == 60.0


@pytest.mark.parametrize(
    ("kind", "status", "body", "teaches", "shown"),
    [
        (
            K.VLLM,
            400,
            openai("max_tokens=100000 cannot be greater than max_model_len=400. Please", "BadRequestError", 400),
            {"context": 400},
            0,
        ),
        (
            K.OPENAI,
            400,
            openai("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"),
            {"max_output": 8192},
            0,
        ),
        (
            K.TGI,
            422,
            {
                "error": "Input validation error: `inputs` must have less than 9 tokens. Given: 20",
                "error_type": "validation",
            },
            {"max_input": 9},
            0,
        ),
        (
            K.LLAMACPP,
            500,
            llama(
                "input (602 tokens) is too large to process. increase the physical batch size (current batch size: 512)",
                500,
                "server_error",
            ),
            {"max_input": 512},
            400,
        ),
        (K.VLLM, 400, openai("The model `This model's maximum context length is 1 tokens` does not exist"), {}, 0),
        (K.OPENAI, 404, openai("This model's maximum context length is 1 tokens"), {}, 0),
    ],
)
def test_errors_teach_limits(kind: Kind, status: int, body: Any, teaches: dict[str, int], shown: int) -> None:
    """B41, B50: learned from the engine's own sentence, never from what it echoes (B116)."""
    judgement = judge(answered(status, body), DIALECTS[kind])
    assert dict(judgement.teaches) == teaches
    assert judgement.status == shown


def test_what_the_engine_wrote_is_not_repeated() -> None:
    """A 401 of llm-katan names the expected key; messages repeat prompts. Only an error code is shown."""
    body = openai(
        "got 'bad', expected 'sk-secret-k1' at http://10.0.0.7:8000", "authentication_error", "invalid_api_key"
    )
    reason = judge(answered(401, body, own_key=True), DIALECTS[K.OPENAI]).reason
    assert reason == "401: our key is not accepted (invalid_api_key)"
    odd = openai("x", "sk-Secret123", "http://10.0.0.7")
    assert judge(answered(500, odd), DIALECTS[K.OPENAI]).reason == "500: the engine failed"


def test_which_verdicts_move_on() -> None:
    assert frozenset(Verdict) - MOVES_ON == {V.ANSWER, V.CLIENT_FAULT, V.ABANDONED}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the model `a` is gone", "the model   is gone"),
        ("the model 'a' x 'b' is gone", "the model   is gone"),
        ("it's gone and it's well", "it's gone and it's well"),
        ("it's 'a' gone", "it's   gone"),
        ("unknown model: a b c", "unknown  "),
        ("models/a.b is not found", " is not found"),
        ("no quotes", "no quotes"),
        ("`", "`"),
        ("", ""),
    ],
)
def test_names_are_taken_out(text: str, expected: str) -> None:
    assert without_names(text) == expected


@given(before=st.sampled_from(["the model ", "error: ", ""]), name=st.text(max_size=40), mark=st.sampled_from("'\"`"))
def test_no_name_survives_in_its_quotes(before: str, name: str, mark: str) -> None:
    """B116: whatever quotes a name holds, nothing of it is read as the engine's wording."""
    assert "api retired" not in without_names(f"{before}{mark}{name} api retired {name}{mark} does not exist")


@pytest.mark.parametrize("kind", list(Kind))
@settings(max_examples=40)
@given(
    status=st.integers(0, 999),
    body=keyed("error", "message", "type", "code", "choices", "detail", "param", "finish_reason", "response"),
    streamed=st.booleans(),
    finished=st.booleans(),
    failure=st.none() | st.sampled_from(list(Failure)),
)
def test_there_is_one_judgement_for_anything(
    kind: Kind, status: int, body: Any, streamed: bool, finished: bool, failure: Failure | None
) -> None:
    """Total: no outcome makes it raise, and RETIRED never comes from a 2xx."""
    outcome = answered(status, body, streamed=streamed, finished=finished, failure=failure)
    judgement = judge(outcome, DIALECTS[kind])
    assert isinstance(judgement.verdict, Verdict)
    if 200 <= status < 300:
        assert judgement.verdict is not V.RETIRED
    if 400 <= status < 500 and status != 424 and kind is not Kind.TGI:
        assert judgement.verdict not in (V.ANSWER, V.DEAD)


@settings(max_examples=60)
@given(status=st.sampled_from([0, 200, 302, 400, 404, 500, 503]), body=st.binary(max_size=200))
def test_no_bytes_make_it_raise(status: int, body: bytes) -> None:
    judge(answered(status, body), DIALECTS[Kind.AUTO])
