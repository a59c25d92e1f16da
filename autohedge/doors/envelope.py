"""How a Problem looks at each door: one place for every shape of error that AutoHedge answers itself.

- openai    {"error": {"message", "type", "param", "code", "details"}}
- anthropic {"type": "error", "error": {"type", "message", ...}, "request_id"} at /v1/messages
- smg       {"error": {"type": status text, "code", "message"}} with X-SMG-Error-Code at the System One door (eidex); a request
            that is refused for what it holds has "param" and FastAPI's {"detail": [{"type", "loc", "msg"}]} beside it
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from autohedge.call import Header
from autohedge.core.problems import Detail, Problem
from autohedge.core.types import Door

JSON = (b"content-type", b"application/json")


def openai(problem: Problem, request_id: bytes) -> dict[str, Any]:
    del request_id  # it stands in the header; OpenAI's shape has no place for it
    error: dict[str, Any] = {
        "message": problem.message,
        "type": problem.type,
        "param": problem.param,
        "code": problem.code,
    }
    if problem.details:
        error["details"] = [detail.shown() for detail in problem.details]
    return {"error": error}


def anthropic(problem: Problem, request_id: bytes) -> dict[str, Any]:
    kind = {404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 503: "overloaded_error"}
    error = openai(problem, request_id)["error"]
    error["type"] = kind.get(problem.status, "api_error" if problem.status >= 500 else problem.type)
    return {"type": "error", "error": error, "request_id": request_id.decode("latin-1")}


# As Go has them: Python's own table differs by version (413).
STATUS_TEXTS = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    410: "Gone",
    413: "Request Entity Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Entity",
    429: "Too Many Requests",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}
FINDINGS = frozenset({400, 415, 422})  # statuses that speak of the request itself
SMG_CODES = {
    "not_found": "NOT_FOUND",
    "method_not_allowed": "METHOD_NOT_ALLOWED",
    "body_too_large": "REQUEST_ENTITY_TOO_LARGE",
}


def eidex(problem: Problem, request_id: bytes) -> dict[str, Any]:
    """The envelope of eidex as it stands in its document."""
    del request_id
    code = smg_code(problem)
    return {"error": {"type": STATUS_TEXTS[problem.status], "code": code, "message": problem.message}}


def smg(problem: Problem, request_id: bytes) -> dict[str, Any]:
    """The same at the door. What is wrong with a request is told twice: SDKs read `error.message`, some FastAPI's `detail`."""
    told = eidex(problem, request_id)
    if problem.status not in FINDINGS:
        return told
    error: dict[str, Any] = told["error"]
    error["param"] = problem.param
    details = problem.details or (Detail(problem.param, problem.code, problem.message),)
    return {"error": error, "detail": [fastapi(detail) for detail in details]}


def fastapi(detail: Detail) -> dict[str, Any]:
    """A finding as FastAPI's servers tell it; the keys of a question or an option stand in `loc` as they came."""
    steps = detail.steps or (() if detail.param is None else (detail.param,))
    place = "header" if steps[:1] == ("content-type",) else "body"
    return {"type": detail.code, "loc": [place, *steps], "msg": detail.message}


def smg_code(problem: Problem) -> str:
    """The code as eidex and its gateway spell it."""
    return SMG_CODES.get(problem.code, problem.code)


Envelope = Callable[[Problem, bytes], dict[str, Any]]
ENVELOPES: dict[Door, Envelope] = {Door.MESSAGES: anthropic, Door.SYSTEMONE: smg}


def code_at(door: Door, problem: Problem) -> str:
    """The code of a Problem as this door tells it, for the log."""
    return smg_code(problem) if door is Door.SYSTEMONE else problem.code


def rendered(problem: Problem, request_id: bytes, envelope: Envelope = openai) -> tuple[int, list[Header], bytes]:
    """Status, headers and body of a Problem. Retry-After is whole seconds, at least 1 (RFC 9110, 10.2.3)."""
    body = json.dumps(envelope(problem, request_id), ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "replace"
    )
    headers: list[Header] = [JSON, (b"content-length", b"%d" % len(body)), (b"x-request-id", request_id)]
    headers += problem.headers
    if envelope in (smg, eidex):
        headers.append((b"x-smg-error-code", smg_code(problem).encode()))
    if problem.retry_after is not None:
        headers.append((b"retry-after", b"%d" % max(1, round(problem.retry_after))))
    return problem.status, headers, body
