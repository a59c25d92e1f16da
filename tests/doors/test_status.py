"""The management surface: health for two readers, models for three, and every refusal in the envelope."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from autohedge.core.types import Attempt, Blind, Failure, Judgement, Outcome, Verdict
from autohedge.doors.status import Standing, status_app
from tests.support.desk import Desk, run
from tests.support.world import backend, lesson, model


def made(config: str = "") -> Desk:
    desk = Desk(config)
    desk.tools.shared.lost = ""
    desk.add("static", backend("b", "one:1", "two:1"), *[lesson(model("org/m", context=400, owned_by="vllm"))] * 2)
    return desk


def asked(
    desk: Desk, path: str, method: str = "GET", standing: Standing | None = None, **headers: str
) -> httpx.Response:
    app = status_app(desk.tools, standing or Standing("1.2.3"), lambda: b"metric 1\n", lambda: b"made-1")

    async def main() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://h") as client:
            return await client.request(
                method, path, headers={name.replace("_", "-"): value for name, value in headers.items()}
            )

    answer: httpx.Response = run(main())
    return answer


def fail(desk: Desk, number: int) -> None:
    where = desk.candidates("org/m")[number]
    for _ in range(2):
        stamp = desk.tools.health.entry(where, desk.now).breaker.stamp
        outcome = Outcome(failure=Failure.REFUSED)
        attempt = Attempt(where, desk.now, stamp, outcome=outcome, judgement=Judgement(Verdict.DEAD))
        desk.tools.health.record(attempt, desk.now)


@pytest.mark.parametrize("path", ["/health", "/readiness"])
def test_health_while_one_replica_is_usable(path: str) -> None:
    """eidex's contract: status, healthy_workers, total_workers; 200 while one is usable, 503 with a reason otherwise."""
    desk = made()
    answer = asked(desk, path)
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "healthy_workers": 2, "total_workers": 2}
    fail(desk, 0)
    assert asked(desk, path).json()["healthy_workers"] == 1
    fail(desk, 1)
    answer = asked(desk, path)
    assert answer.status_code == 503
    assert answer.json() | {"total_workers": 2} == {
        "status": "unhealthy",
        "healthy_workers": 0,
        "total_workers": 2,
        "reason": "insufficient healthy workers",
    }


def test_a_backend_that_is_refused_since_the_start_is_not_healthy() -> None:
    """It is known by its name alone; until it was asked it may be anything, then it is what it said."""
    desk = made()
    desk.add("static", backend("c", "three:1"))
    desk.add("other", backend("b", "one:1"))
    assert asked(desk, "/health").json()["healthy_workers"] == len(desk.snapshot.replicas) == 2
    desk.counter.silent.update(dict.fromkeys(desk.snapshot.replicas, "connection refused"))
    assert (answer := asked(desk, "/health")).status_code == 503
    assert answer.json()["healthy_workers"] == 0


def test_health_without_any_replica() -> None:
    desk = Desk()
    desk.tools.shared.lost = ""
    assert asked(desk, "/health").status_code == 503


def test_what_is_degraded_is_named() -> None:
    """A blind source, a state that is out of reach: still 200, and said."""
    desk = made()
    desk.tools.registry.apply("static", Blind("no such file"), desk.now)
    desk.tools.shared.lost = "redis: connection refused"
    body = asked(desk, "/health").json()
    assert body["status"] == "degraded"
    assert body["blind_sources"] == {"static": "no such file"}
    assert body["state_lost"] == "redis: connection refused"


def test_liveness_speaks_of_the_process_only() -> None:
    answer = asked(Desk(), "/liveness")
    assert (answer.status_code, answer.text) == (200, "OK")


@pytest.mark.parametrize(
    ("standing", "status", "word"),
    [
        (Standing("1", draining=True), "draining", "shutting down"),
        (Standing("1", gate=cast("Any", SimpleNamespace(open=False, missing=["b"]))), "starting", "gate"),
    ],
    ids=["draining", "starting"],
)
def test_readiness_is_more_than_health(standing: Standing, status: str, word: str) -> None:
    """A load balancer is told not to send here; /health still tells how the backends are."""
    answer = asked(made(), "/readiness", standing=standing)
    assert (answer.status_code, answer.json()["status"]) == (503, status)
    assert word in answer.json()["reason"]
    assert asked(made(), "/health", standing=standing).status_code == 200


def test_version_and_metrics() -> None:
    assert asked(made(), "/version").json() == {"version": "1.2.3"}
    answer = asked(made(), "/metrics")
    assert answer.text == "metric 1\n"
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert asked(made("metrics: {enabled: off}"), "/metrics").status_code == 404


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/", "/openai/v1/models", "/openai/models", "/v1/models?v=1"])
def test_the_list_of_models(path: str) -> None:
    """Facts 00b: clients ask with a slash, with a query, under other roots."""
    body = asked(made(), path).json()
    listed = {one["id"]: one for one in body["data"]}
    assert listed["org/m"]["max_model_len"] == 400
    assert listed["org/m"]["owned_by"] == "vllm"
    assert "models" in body  # System One's clients read this key


@pytest.mark.parametrize("name", ["org/m", "org%2Fm"])
@pytest.mark.parametrize("root", ["/v1/models/", "/openai/v1/models/", "/openai/models/"])
def test_one_model(root: str, name: str) -> None:
    assert asked(made(), root + name).json()["id"] == "org/m"


def test_an_unknown_model_names_the_nearest() -> None:
    answer = asked(made(), "/v1/models/org/n")
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert "did you mean org/m" in error["message"]


@pytest.mark.parametrize("path", ["/nowhere", "/health/", "/docs", "/openapi.json", "/redoc"])
def test_an_unknown_path(path: str) -> None:
    """No page of the framework, no redirect."""
    answer = asked(made(), path, x_request_id="")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"
    assert answer.headers["x-request-id"] == "made-1"


@pytest.mark.parametrize(
    "path", ["/liveness", "/health", "/readiness", "/version", "/metrics", "/v1/models", "/v1/models/org/m"]
)
def test_methods(path: str) -> None:
    """HEAD wherever GET; anything else is a 405 that says so."""
    assert asked(made(), path, "HEAD").status_code == 200
    for method in ("POST", "DELETE", "PATCH"):
        answer = asked(made(), path, method, x_request_id="mine")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
        assert answer.headers["x-request-id"] == "mine"
        assert answer.json()["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize(
    ("method", "path", "status", "error"),
    [
        ("GET", "/nowhere", 404, {"type": "Not Found", "code": "NOT_FOUND", "message": "unknown endpoint"}),
        (
            "POST",
            "/health",
            405,
            {"type": "Method Not Allowed", "code": "METHOD_NOT_ALLOWED", "message": "this path takes GET, HEAD"},
        ),
    ],
)
def test_in_eidex_s_mode_refusals_are_eidex_s(method: str, path: str, status: int, error: dict[str, str]) -> None:
    """E77, E79: its envelope, its codes, X-SMG-Error-Code; 405 with Allow."""
    answer = asked(made("mode: eidex"), path, method)
    assert answer.status_code == status
    assert answer.json() == {"error": error}
    assert answer.headers["x-smg-error-code"] == error["code"]
    assert answer.headers.get("allow") == ("GET, HEAD" if status == 405 else None)


def test_outside_of_it_they_are_openai_s() -> None:
    answer = asked(made(), "/nowhere")
    assert answer.json()["error"]["code"] == "not_found"
    assert "x-smg-error-code" not in answer.headers


@pytest.mark.parametrize("mode", ["autohedge", "eidex"])
def test_a_fault_of_our_own_has_the_envelope_as_well(mode: str) -> None:
    """E11: a 500 without a word of the reason; the server's log has it."""
    app = status_app(made(f"mode: {mode}").tools, Standing("1"), broken, lambda: b"made-1")

    async def main() -> httpx.Response:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://h") as client:
            return await client.get("/metrics")

    answer: httpx.Response = run(main())
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (500, "internal_error")
    assert error["type"] == ("Internal Server Error" if mode == "eidex" else "server_error")
    assert "secret" not in answer.text


def broken() -> bytes:
    raise RuntimeError("a secret of the inside")
