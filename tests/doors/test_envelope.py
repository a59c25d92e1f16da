"""The shapes of our own errors."""

from __future__ import annotations

import json

import pytest

from autohedge.core.problems import (
    BadRequest,
    Detail,
    InternalError,
    MethodNotAllowed,
    NotFound,
    Problem,
    TooLarge,
    Unavailable,
    Unsupported,
    UpstreamFailed,
)
from autohedge.core.types import Door
from autohedge.doors.envelope import STATUS_TEXTS, anthropic, code_at, rendered, smg


def test_openai_shape() -> None:
    """message, type, param and code stand always; details only where there are findings, without empty fields."""
    problem = BadRequest(
        "max_tokens: too much",
        param="max_tokens",
        details=[Detail("max_tokens", "limit_exceeded", "too much", 9, 5, "max_model_len")],
    )
    status, headers, body = rendered(problem, b"id-1")
    assert status == 400
    error = json.loads(body)["error"]
    assert error == {
        "message": "max_tokens: too much",
        "type": "invalid_request_error",
        "param": "max_tokens",
        "code": "invalid_value",
        "details": [
            {
                "param": "max_tokens",
                "code": "limit_exceeded",
                "message": "too much",
                "value": 9,
                "limit": 5,
                "source": "max_model_len",
            }
        ],
    }
    assert (b"x-request-id", b"id-1") in headers
    assert (b"content-length", b"%d" % len(body)) in headers


def test_details_are_absent_where_there_is_nothing_to_tell() -> None:
    assert "details" not in json.loads(rendered(Problem("x"), b"i")[2])["error"]


@pytest.mark.parametrize(("seconds", "header"), [(0.2, b"1"), (1, b"1"), (2.6, b"3"), (60, b"60")])
def test_retry_after_is_whole_seconds(seconds: float, header: bytes) -> None:
    _, headers, _ = rendered(Unavailable("x", retry_after=seconds), b"i")
    assert (b"retry-after", header) in headers


def test_anthropic_shape() -> None:
    """At /v1/messages a client reads {"type": "error", "error": {...}, "request_id"} and Anthropic's type names."""
    body = json.loads(rendered(TooLarge("big"), b"i-2", anthropic)[2])
    assert body["type"] == "error"
    assert body["error"]["type"] == "request_too_large"
    assert body["request_id"] == "i-2"


def test_eidex_s_body_is_written_as_in_its_document() -> None:
    """Seed 000: byte by byte, members in its order and no blanks, for who compares texts."""
    problem = UpstreamFailed(
        "all worker attempts failed (last: 503 from http://worker1:8000)", code="workers_unreachable"
    )
    _, _, body = rendered(problem, b"i", smg)
    assert body == (
        b'{"error":{"type":"Bad Gateway","code":"workers_unreachable",'
        b'"message":"all worker attempts failed (last: 503 from http://worker1:8000)"}}'
    )


def test_lone_surrogates_do_not_break_the_answer() -> None:
    """A model name echoed from JSON may hold half a character."""
    status, _, body = rendered(BadRequest("model: '\ud800' is not served here"), b"i")
    assert status == 400
    assert json.loads(body)


def test_a_finding_at_the_system_one_door() -> None:
    """Facts 5: SDKs read `error.message`, some clients FastAPI's `detail`; ids stand in `loc` as they came."""
    detail = Detail("questions.a.b.type", "missing_type", "no type", steps=("questions", "a.b", "type"))
    problem = BadRequest("no type", code="missing_type", param=detail.param, details=[detail])
    status, headers, body = rendered(problem, b"i", smg)
    assert (status, json.loads(body)) == (
        400,
        {
            "error": {
                "type": "Bad Request",
                "code": "missing_type",
                "message": "no type",
                "param": "questions.a.b.type",
            },
            "detail": [{"type": "missing_type", "loc": ["body", "questions", "a.b", "type"], "msg": "no type"}],
        },
    )
    assert (b"x-smg-error-code", b"missing_type") in headers


def test_what_is_no_finding_has_eidex_s_three_fields() -> None:
    body = json.loads(rendered(Unavailable("none", code="no_workers"), b"i", smg)[2])
    assert body == {"error": {"type": "Service Unavailable", "code": "no_workers", "message": "none"}}


def test_a_problem_without_details_is_its_own_finding() -> None:
    body = json.loads(rendered(Unsupported("br", code="unsupported_encoding"), b"i", smg)[2])
    assert body["detail"] == [{"type": "unsupported_encoding", "loc": ["body"], "msg": "br"}]


@pytest.mark.parametrize(
    ("problem", "kind", "code"),
    [
        (MethodNotAllowed("x"), "Method Not Allowed", "METHOD_NOT_ALLOWED"),
        (NotFound("x"), "Not Found", "NOT_FOUND"),
        (NotFound("x", code="WORKER_NOT_FOUND"), "Not Found", "WORKER_NOT_FOUND"),
        (TooLarge("x"), "Request Entity Too Large", "REQUEST_ENTITY_TOO_LARGE"),
        (UpstreamFailed("x", code="workers_unreachable"), "Bad Gateway", "workers_unreachable"),
        (Unavailable("x", code="no_workers"), "Service Unavailable", "no_workers"),
        (Unavailable("x", code="queue_full"), "Service Unavailable", "queue_full"),
        (InternalError("x"), "Internal Server Error", "internal_error"),
    ],
)
def test_eidex_s_shape(problem: Problem, kind: str, code: str) -> None:
    """E11, E12, E83: type is Go's status text; the code stands in the header and in the log as well."""
    _, headers, body = rendered(problem, b"i", smg)
    assert json.loads(body) == {"error": {"type": kind, "code": code, "message": "x"}}
    assert (b"x-smg-error-code", code.encode()) in headers
    assert code_at(Door.SYSTEMONE, problem) == code
    assert code_at(Door.CHAT, problem) == problem.code


def test_every_status_of_ours_has_its_text() -> None:
    assert {kind.status for kind in Problem.__subclasses__()} <= set(STATUS_TEXTS)
