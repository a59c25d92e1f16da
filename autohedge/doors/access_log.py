"""The access log: at most one JSON line per request, by the levels of the eidex seed.

off, error (5xx only), warning (from 4xx), info (all), debug (all, with bodies cut at 1 MiB and a flag that says so).
Rules: Authorization and other header values are never written, X-Request-ID, X-Forwarded-For and User-Agent excepted;
bytes and characters are counted, tokens are not (no tokenizer runs here).
"""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import dataclass
from typing import Any

from autohedge.attempt import WON
from autohedge.call import Call, Out

BODY_LIMIT = 1 << 20
LOGGER = logging.getLogger("autohedge.access")
CODE = "autohedge.error_codes"  # the list in a management request's scope that its refusal is noted in
FLOORS = {"off": 1000, "error": 500, "warning": 400, "info": 0, "debug": 0}


@dataclass(frozen=True, slots=True)
class Line:
    """What every kind of request knows of itself. `duration` is seconds."""

    method: str
    path: str
    status: int
    duration: float
    remote: str
    request_body: bytes
    headers: list[tuple[bytes, bytes]]
    request_id: str
    error_code: str


def to_stdout() -> None:
    """Access lines are JSON of their own: no prefix, standard output. httpx would tell every question to every engine."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    LOGGER.handlers = [handler]
    LOGGER.propagate = False
    logging.getLogger("httpx").setLevel(logging.WARNING)


class AccessLog:
    """`level` is one of off, error, warning, info, debug."""

    def __init__(self, level: str) -> None:
        self.floor = FLOORS[level]
        self.on = level != "off"
        self.keep = BODY_LIMIT if level == "debug" else 0

    def wants(self, status: int) -> bool:
        return status >= self.floor

    def write(self, line: Line, out: Out, call: Call | None) -> None:
        """Write the line of one finished request. `call` is None outside the data path."""
        record: dict[str, Any] = {
            "level": "ERROR" if line.status >= 500 else "WARN" if line.status >= 400 else "INFO",
            "msg": "request",
            "method": line.method,
            "path": line.path,
            "status": line.status,
            "duration_ms": round(line.duration * 1000, 3),
            "request_bytes": len(line.request_body),
            "response_bytes": out.sent,
            "request_chars": _chars(line.request_body),
            "response_chars": out.chars,
            "remote": line.remote,
        }
        if line.request_id:
            record["request_id"] = line.request_id
        for name, value in line.headers:
            if name in (b"x-forwarded-for", b"user-agent"):
                record[name.decode().replace("-", "_")] = value.decode("latin-1")
        if line.error_code:
            record["error_code"] = line.error_code
        if call is not None:
            record |= _way(call)
        if self.keep:
            record |= _bodies(line.request_body, out)
        LOGGER.info("%s", json.dumps(record, ensure_ascii=False))


def _way(call: Call) -> dict[str, Any]:
    """How the data path went: the model asked for, attempts with their verdicts, the backend that answered."""
    tried = [
        {
            "backend": attempt.candidate.backend.name,
            "verdict": attempt.judgement.verdict.value if attempt.judgement else None,
            "status": attempt.outcome.status if attempt.outcome else 0,
            "reason": attempt.judgement.reason if attempt.judgement else "",  # holds no word of an engine or a client
        }
        for attempt in call.attempts
    ]
    way: dict[str, Any] = {"model": call.asked or None, "attempts": len(tried), "tried": tried}
    for attempt in reversed(call.attempts):
        outcome, judgement = attempt.outcome, attempt.judgement
        answered = judgement is not None and judgement.verdict in WON
        if answered or (outcome is not None and outcome.committed):
            way["worker"] = str(attempt.candidate.replica.address)
            break
    return way


def _bodies(request: bytes, out: Out) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "request_body": request[:BODY_LIMIT].decode("utf-8", "replace"),
        "response_body": out.kept.decode("utf-8", "replace"),
    }
    if len(request) > BODY_LIMIT:
        shown["request_truncated"] = True
    if out.sent > len(out.kept):
        shown["response_truncated"] = True
    return shown


def _chars(data: bytes) -> int:
    """UTF-8 characters, counted without decoding: every byte that is not a continuation byte starts one."""
    return len(data.decode("utf-8", "replace")) if not data.isascii() else len(data)
