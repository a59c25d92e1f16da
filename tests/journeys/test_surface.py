"""Journeys that never reach an engine: wrong paths and methods, browsers, malformed requests, and what is counted of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.house import CHAT, HELLO, SERVER, Edge, alone, run

CORS = SERVER.replace("grace: 1s", 'grace: 1s, cors: {origins: ["https://app.example"], headers: ["*"]}')
UPSTREAM = 'upstream_registry:\n  alone: {host: "${ONE}"}\n'


def _error(answer: Any) -> dict[str, Any]:
    assert answer.headers["content-type"] == "application/json"
    found: dict[str, Any] = answer.json()["error"]
    assert set(found) >= {"message", "type", "param", "code"}
    return found


@pytest.mark.parametrize(
    "path", ["/nowhere", "/", "/v1", "/v1/chat", "/health/", "/v1/models/none", "//v1/models", "/%00"]
)
def test_an_unknown_path_is_a_404_in_the_envelope(path: str) -> None:
    """No HTML, no redirect, no framework's own words."""

    async def main() -> None:
        async with alone() as edge:
            for method in ("GET", "POST"):
                answer = await edge.get(path, method)
                if answer.status_code == 405:  # the model's page is read only
                    assert path == "/v1/models/none"
                    continue
                assert answer.status_code == 404
                assert _error(answer)["code"] in ("not_found", "model_not_found")

    run(main())


DATA = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages", "/v1/rerank")
PAGES = ("/liveness", "/readiness", "/health", "/version", "/metrics", "/v1/models", "/v1/models/m")


def test_another_method_is_a_405_with_allow() -> None:
    """Every path says in Allow what it takes; HEAD goes where GET goes, and has no body."""

    async def main() -> None:
        async with alone() as edge:
            for path in (*DATA, "/openai/v1/embeddings", "/openai/deployments/m/chat/completions"):
                for method in ("GET", "PUT", "DELETE", "OPTIONS", "HEAD"):
                    answer = await edge.get(path, method)
                    assert (answer.status_code, answer.headers["allow"]) == (405, "POST"), (path, method)
                    if path == "/v1/messages" and method != "HEAD":
                        assert answer.json()["type"] == "error"
                    elif method != "HEAD":
                        assert _error(answer)["code"] == "method_not_allowed"
            for path in PAGES:
                for method in ("POST", "PUT", "DELETE"):
                    answer = await edge.get(path, method)
                    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD"), (path, method)
                    assert _error(answer)["code"] == "method_not_allowed"
                got, head = await edge.get(path), await edge.get(path, "HEAD")
                assert (got.status_code, head.status_code) == (200, 200)
                assert head.content == b""
                assert got.content

    run(main())


def test_a_browser_is_let_in_where_configured() -> None:
    """CORS: the preflight of a named origin passes with its headers, the answer names the origin, streams too."""

    async def main() -> None:
        async with alone(config=CORS + UPSTREAM) as edge:
            asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
            for path in (CHAT, "/v1/models"):
                before = await edge.get(path, "OPTIONS", {"origin": "https://app.example", **asked})
                assert before.status_code == 200
                assert before.headers["access-control-allow-origin"] == "https://app.example"
                assert "authorization" in before.headers["access-control-allow-headers"].lower()
            for stream in (False, True):
                heard = await edge.post(HELLO | {"stream": stream}, headers={"origin": "https://app.example"})
                assert heard.headers["access-control-allow-origin"] == "https://app.example"
                assert heard.status == 200
            other = await edge.get(CHAT, "OPTIONS", {"origin": "https://evil.example", **asked})
            assert "access-control-allow-origin" not in other.headers

    run(main())


def test_a_browser_is_not_let_in_by_default() -> None:
    """CORS is off: no header of it in any answer, OPTIONS is a 405."""

    async def main() -> None:
        async with alone() as edge:
            heard = await edge.post(headers={"origin": "https://app.example"})
            assert not [name for name in heard.headers if name.startswith("access-control")]
            assert (await edge.get(CHAT, "OPTIONS", {"origin": "https://app.example"})).status_code == 405

    run(main())


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (b"{", 400, "invalid_request_error"),
        (json.dumps({"model": "nobody", "max_tokens": 5, "messages": []}).encode(), 404, "not_found_error"),
        (b"[]", 400, "invalid_request_error"),
    ],
    ids=["json", "model", "object"],
)
def test_the_anthropic_door_speaks_its_own_envelope(body: bytes, status: int, kind: str) -> None:
    """/v1/messages: {"type": "error", "error": {"type", "message"}, "request_id"}; the id is that of the header."""

    async def main() -> None:
        async with alone() as edge:
            heard = await edge.post(body, "/v1/messages")
            assert heard.status == status
            assert heard.json["type"] == "error"
            assert heard.json["error"]["type"] == kind
            assert heard.json["request_id"] == heard.headers["x-request-id"]
            assert edge.one.received["/v1/messages"] == 0

    run(main())


def test_the_anthropic_door_when_all_fail() -> None:
    """502 and 504 are api_error there."""

    async def main() -> None:
        async with alone("reset") as edge:
            heard = await edge.post({"model": "m", "max_tokens": 5, "messages": HELLO["messages"]}, "/v1/messages")
            assert (heard.status, heard.json["error"]["type"]) == (502, "api_error")

    run(main())


@pytest.mark.parametrize("value", ["Bearer", "Basic abc", "sk-123", "Bearer a b", "Bearer "])
def test_a_malformed_credential_is_a_401(value: str) -> None:
    """Article 5.1: "Invalid Bearer token format", with WWW-Authenticate, before the body is looked at."""

    async def main() -> None:
        async with alone() as edge:
            got = await edge.raw(
                f"POST {CHAT} HTTP/1.1\r\nhost: h\r\nauthorization: {value}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()
            )
            assert got.startswith(b"HTTP/1.1 401 ")
            assert b"www-authenticate: Bearer" in got
            assert b"Invalid Bearer token format" in got
            assert b"sk-123" not in got

    run(main())


def test_multipart_is_a_415() -> None:
    """A form with files is no JSON body; every engine refuses it."""

    async def main() -> None:
        async with alone() as edge:
            heard = await edge.post(b"--x--", headers={"content-type": "multipart/form-data; boundary=x"})
            assert (heard.status, heard.error["code"]) == (415, "unsupported_media_type")

    run(main())


def _series(edge: Edge) -> int:
    meters = edge.house.meters
    return sum(map(len, meters.counters.values())) + sum(map(len, meters.histograms.values()))


def test_what_clients_invent_does_not_grow_the_metrics() -> None:
    """Labels are bounded: 300 invented models, parameters and paths make no more series than one does."""

    async def main() -> None:
        async with alone() as edge:

            async def invent(number: int) -> None:
                await edge.chat(model=f"invented-{number}")
                await edge.chat(max_tokens=10**9 + number)
                await edge.post(b"{%d" % number)
                await edge.get(f"/invented/{number}")
                await edge.post(HELLO, f"/openai/deployments/invented-{number}/chat/completions")

            await edge.chat()
            await invent(0)
            before = _series(edge)
            for number in range(1, 60):
                await invent(number)
            assert _series(edge) == before
            text = (await edge.get("/metrics")).text
            assert "invented" not in text
            assert 'autohedge_requests_total{backend="alone",door="chat",model="m",status="200"} 1.0' in text
            assert 'autohedge_rejects_total{code="limit_exceeded",model="m",param="max_tokens"} 60.0' in text

    run(main())


def test_the_metrics_may_be_off() -> None:
    """`metrics.enabled: off` is a 404."""

    async def main() -> None:
        async with alone(config=SERVER + UPSTREAM + "metrics: {enabled: off}\n") as edge:
            assert (await edge.get("/metrics")).status_code == 404

    run(main())


@pytest.mark.parametrize("number", range(2))
def test_a_failure_of_ours_is_a_500_without_a_traceback(number: int, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever breaks inside: internal_error in the envelope, the reason in the log with the request's id, no seat lost."""

    async def main() -> None:
        async with alone() as edge:
            edge.house.tools.attempter._pool_of = lambda _candidate: 1 / number  # type: ignore[assignment, return-value]
            heard = await edge.chat()
            assert (heard.status, heard.error["code"]) == (500, "internal_error")
            assert b"Traceback" not in heard.body
            assert b"division" not in heard.body
            assert edge.busy == 0
            assert heard.headers["x-request-id"] in caplog.text

    run(main())


def test_events_of_streams_are_counted() -> None:
    """/metrics tells how many were passed on; a plain answer adds none."""

    async def main() -> None:
        async with alone() as edge:
            await edge.chat()
            heard = await edge.stream()
            assert f"autohedge_stream_chunks_total {len(heard.events)}.0" in (await edge.get("/metrics")).text

    run(main())
