"""The access log by the levels of the eidex seed."""

from __future__ import annotations

import json
import logging

import pytest

from autohedge.call import Out
from autohedge.doors.access_log import BODY_LIMIT, AccessLog, Line, to_stdout


async def nowhere(_message: object) -> None:
    """A client that takes everything."""


def line(status: int, body: bytes = b"{}", headers: list[tuple[bytes, bytes]] | None = None) -> Line:
    return Line("POST", "/v1/chat/completions", status, 0.0123, "127.0.0.1:5", body, headers or [], "id-7", "")


@pytest.mark.parametrize(
    ("level", "written"),
    [("off", []), ("error", [500]), ("warning", [404, 500]), ("info", [200, 404, 500]), ("debug", [200, 404, 500])],
)
def test_levels(level: str, written: list[int]) -> None:
    """off nothing, error 5xx, warning 4xx too, info and debug everything."""
    log = AccessLog(level)
    assert [status for status in (200, 404, 500) if log.wants(status)] == written


def record(log: AccessLog, one: Line, out: Out, caplog: pytest.LogCaptureFixture) -> dict[str, object]:
    logger = logging.getLogger("autohedge.access")
    logger.propagate = True
    with caplog.at_level(logging.INFO, "autohedge.access"):
        log.write(one, out, None)
    shown: dict[str, object] = json.loads(caplog.records[-1].getMessage())
    return shown


def test_the_line_has_the_seed_fields(caplog: pytest.LogCaptureFixture) -> None:
    shown = record(
        AccessLog("info"),
        line(404, '{"é": 1}'.encode(), [(b"user-agent", b"curl"), (b"x-forwarded-for", b"10.0.0.9")]),
        Out(nowhere),
        caplog,
    )
    assert shown["msg"] == "request"
    assert shown["level"] == "WARN"
    assert shown["duration_ms"] == 12.3
    assert (shown["request_bytes"], shown["request_chars"]) == (9, 8)
    assert shown["user_agent"] == "curl"
    assert shown["x_forwarded_for"] == "10.0.0.9"
    assert shown["request_id"] == "id-7"
    assert "request_body" not in shown


def test_authorization_is_never_written(caplog: pytest.LogCaptureFixture) -> None:
    """Not at any level, and neither are other headers that may hold a second secret (facts 00b)."""
    headers = [
        (b"authorization", b"Bearer sk-secret"),
        (b"api-key", b"sk-secret"),
        (b"x-portkey-api-key", b"sk-secret"),
        (b"cookie", b"sk-secret"),
    ]
    shown = record(AccessLog("debug"), line(200, headers=headers), Out(nowhere), caplog)
    assert "sk-secret" not in json.dumps(shown)


def test_debug_bodies_are_cut_at_one_mebibyte(caplog: pytest.LogCaptureFixture) -> None:
    """What is longer is cut and flagged; the count is complete."""
    log = AccessLog("debug")
    out = Out(nowhere, log.keep)
    out.kept = bytearray(b"x" * 10)
    out.sent = 11
    shown = record(log, line(200, b"y" * (BODY_LIMIT + 1)), out, caplog)
    assert len(str(shown["request_body"])) == BODY_LIMIT
    assert shown["request_bytes"] == BODY_LIMIT + 1
    assert shown["request_truncated"] is True
    assert shown["response_truncated"] is True


def test_lines_go_to_standard_output_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("autohedge.access")
    before = logger.handlers, logger.propagate, logger.level
    try:
        to_stdout()
        logger.setLevel(logging.INFO)
        logger.info("%s", '{"msg": "request"}')
    finally:
        logger.handlers, logger.propagate = before[0], before[1]
        logger.setLevel(before[2])
    assert capsys.readouterr().out == '{"msg": "request"}\n'
