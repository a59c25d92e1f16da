"""The management surface: is it alive, is it ready, what does it serve, what did it count. A FastAPI app, at human pace.

`/health` satisfies two contracts at once: eidex's (status, healthy_workers, total_workers, reason) and ours (sources that
are blind, what is degraded). 200 while at least one replica is usable, 503 otherwise. `/readiness` is the same answer, and
503 as well while the process is draining. `/liveness` speaks of the process only.

Refusals have OpenAI's envelope; those of the workers API have eidex's, and all of them in eidex's mode (`mode: eidex`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Router

from autohedge.core.problems import InternalError, MethodNotAllowed, NotFound, Problem
from autohedge.doors.access_log import CODE
from autohedge.doors.envelope import eidex, openai, rendered
from autohedge.fallback import redirected
from autohedge.memory.listing import models_page, one_model
from autohedge.memory.registry import nearest
from autohedge.tools import Tools
from autohedge.watchers.gate import Gate

READ = ["GET", "HEAD"]
WORKERS = "/workers"


@dataclass(slots=True)
class Standing:
    """What the doors need to know of the process itself."""

    version: str
    draining: bool = False
    gate: Gate | None = None


def status_app(tools: Tools, standing: Standing, scrape: Callable[[], bytes], new_id: Callable[[], bytes]) -> FastAPI:
    """The management app. `scrape` makes the text of /metrics."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    _add_health(app, tools, standing)
    _add_models(app, tools)

    @app.api_route("/version", methods=READ)
    async def version() -> dict[str, str]:
        return {"version": standing.version}

    @app.api_route("/metrics", methods=READ)
    async def metrics() -> Response:
        if not tools.settings.metrics.enabled:
            raise NotFound("metrics are off (metrics.enabled)")
        return Response(scrape(), media_type="text/plain; version=0.0.4; charset=utf-8")

    _add_refusals(app, tools, new_id)
    return app


def _add_refusals(app: FastAPI, tools: Tools, new_id: Callable[[], bytes]) -> None:
    """Every refusal in the envelope of its path, with its code noted for the access log."""

    def speaks_eidex(request: Request) -> bool:
        return tools.settings.mode == "eidex" or request.url.path.startswith(WORKERS)

    async def problem(request: Request, raised: Exception) -> Response:
        assert isinstance(raised, Problem)
        request.scope.get(CODE, []).append(raised.code)
        request_id = request.headers.get("x-request-id", "").encode("latin-1") or new_id()
        status, headers, body = rendered(raised, request_id, eidex if speaks_eidex(request) else openai)
        return Response(body, status, headers={name.decode(): value.decode("latin-1") for name, value in headers})

    async def http_error(request: Request, raised: Exception) -> Response:
        assert isinstance(raised, HTTPException)
        smg = speaks_eidex(request)
        if raised.status_code == 405:
            allowed = ", ".join(_methods_of(app, request))
            code = "METHOD_NOT_ALLOWED" if smg else ""
            refusal = MethodNotAllowed(f"this path takes {allowed}", code=code, headers=[(b"allow", allowed.encode())])
            return await problem(request, refusal)
        if smg:
            return await problem(request, NotFound("unknown endpoint", code="NOT_FOUND"))
        return await problem(request, NotFound(f"no such path: {request.url.path[:200]}"))

    async def fault(request: Request, raised: Exception) -> Response:
        """A fault of our own; the server has it in its log."""
        del raised
        return await problem(request, InternalError("AutoHedge failed on this request; the log has the reason"))

    app.add_exception_handler(Problem, problem)
    app.add_exception_handler(Exception, fault)
    app.add_exception_handler(HTTPException, http_error)


def _methods_of(app: FastAPI, request: Request) -> list[str]:
    """All methods that the path of a request takes: two routes may share it."""
    methods: set[str] = set()
    for route in _flat(app.router):
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= getattr(route, "methods", None) or set()
    return sorted(methods)


def _flat(router: Router) -> Iterator[BaseRoute]:
    """All routes; FastAPI keeps those of an included router inside of it (older ones do not)."""
    for route in router.routes:
        inner = getattr(route, "original_router", None)
        if inner is None:
            yield route
        else:
            yield from _flat(inner)


def _picture(tools: Tools) -> tuple[int, dict[str, Any]]:
    """Status and body of /health."""
    snapshot = tools.registry.snapshot
    usable = tools.health.usable(snapshot, tools.clock(), tools.learner.silent)
    total = len(snapshot.replicas)
    blind = {name: view.blind for name, view in snapshot.sources.items() if view.blind}
    body: dict[str, Any] = {"status": "ok", "healthy_workers": usable, "total_workers": total}
    if usable == 0:
        body |= {"status": "unhealthy", "reason": "insufficient healthy workers"}
    elif blind or tools.shared.lost:
        body["status"] = "degraded"
    if tools.shared.lost:
        body["state_lost"] = tools.shared.lost
    if blind:
        body["blind_sources"] = blind
    return (200 if usable else 503), body


def _add_health(app: FastAPI, tools: Tools, standing: Standing) -> None:
    @app.api_route("/liveness", methods=READ)
    async def liveness() -> PlainTextResponse:
        return PlainTextResponse("OK")

    @app.api_route("/health", methods=READ)
    async def health() -> JSONResponse:
        status, body = _picture(tools)
        return JSONResponse(body, status)

    @app.api_route("/readiness", methods=READ)
    async def readiness() -> JSONResponse:
        status, body = _picture(tools)
        if standing.draining:
            return JSONResponse(body | {"status": "draining", "reason": "shutting down"}, 503)
        if standing.gate is not None and not standing.gate.open:
            waiting = {"status": "starting", "reason": "the startup gate is closed", "missing": standing.gate.missing}
            return JSONResponse(body | waiting, 503)
        return JSONResponse(body, status)


def _add_models(app: FastAPI, tools: Tools) -> None:
    def moved() -> dict[str, str]:
        routes = tools.registry.snapshot.routes
        targets = {one.model: redirected(one.model, tools, routes) for one in tools.retirements.redirects}
        return {name: target for name, target in targets.items() if name != target}

    @app.api_route("/v1/models", methods=READ)
    @app.api_route("/v1/models/", methods=READ)
    @app.api_route("/openai/v1/models", methods=READ)
    @app.api_route("/openai/models", methods=READ)
    async def models() -> JSONResponse:
        fixed = tools.settings.static_models
        return JSONResponse(models_page(tools.registry.snapshot, static=fixed, redirects=moved()))

    @app.api_route("/v1/models/{name:path}", methods=READ)
    @app.api_route("/openai/v1/models/{name:path}", methods=READ)
    @app.api_route("/openai/models/{name:path}", methods=READ)
    async def model(name: str) -> JSONResponse:
        snapshot = tools.registry.snapshot
        entry = one_model(snapshot, name, static=tools.settings.static_models, redirects=moved())
        if entry is None:
            close = nearest(name, snapshot.routes)
            hint = f"; did you mean {', '.join(close)}?" if close else ""
            raise NotFound(f"model {name[:200]!r} is not served here{hint}", code="model_not_found", param="model")
        return JSONResponse(entry)
