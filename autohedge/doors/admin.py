"""The admin API under /admin: what AutoHedge believes and why, and the few things that people may overrule.

Every change is logged with its caller, and answered when the shared state has it or is lost: it outlives a kill -9. Errors are
Problems, in the envelope of the management app.

It must not know: who may use it, how the configuration is loaded, breakers' inside, how alerts leave.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, PlainTextResponse

from autohedge.core.problems import BadRequest, Detail, NotFound
from autohedge.doors.admin_explain import add_explain
from autohedge.doors.admin_gate import admit
from autohedge.doors.asked import object_of, text_in
from autohedge.memory.registry import nearest
from autohedge.rules.retirement import ALL, Retired
from autohedge.rules.standing import Wish
from autohedge.tools import Tools

LOGGER = logging.getLogger("autohedge.admin")
PREFIX = "/admin"
ACTIONS = {"force-open": Wish.OPEN, "force-closed": Wish.CLOSED, "drain": Wish.DRAIN, "undrain": Wish.NONE}


@dataclass(frozen=True, slots=True)
class AdminWorld:
    """What the admin API needs of the app. `reload` gives the reasons why the file was not taken over, () when it was;
    `config` the effective configuration as YAML without secrets; `force` sets a wish here and for other workers; `alerts`
    what became of alerts.
    """

    reload: Callable[[], tuple[str, ...]]
    config: Callable[[], str]
    force: Callable[[str, Wish, str | None], object]
    alerts: Callable[[], Mapping[str, Any]] = dict


def admin_routes(tools: Tools, world: AdminWorld) -> APIRouter:
    """All paths under /admin."""

    async def gate(request: Request) -> None:
        admit(request, tools.settings.admin)

    router = APIRouter(prefix=PREFIX, dependencies=[Depends(gate)])
    _add_replicas(router, tools, world)
    _add_retired(router, tools)
    _add_world(router, tools, world)
    add_explain(router, tools)
    return router


# --- replicas ---------------------------------------------------------------------------------------------------------


def _add_replicas(router: APIRouter, tools: Tools, world: AdminWorld) -> None:
    @router.get("/replicas")
    async def replicas() -> dict[str, Any]:
        """Every (replica, model) with state, reasons and the ages of its evidence in seconds, and who never told its models."""
        snapshot, now = tools.registry.snapshot, tools.clock()
        tools.health.settle(snapshot, now)
        shown = tools.health.describe(now)
        for one in shown:
            replica = snapshot.replicas.get(one["replica"])
            if replica is not None:
                one |= {"in_flight": replica.seat.in_flight, "cap": replica.seat.cap}
        silent = tools.learner.silent
        unheard = [
            {"replica": name, "backend": replica.backend, "reason": silent.get(name, "not asked yet")}
            for name, replica in snapshot.replicas.items()
            if name not in snapshot.lessons
        ]
        wishes = [{"replica": name, "model": model, "wish": wish.value} for name, model, wish in tools.health.wishes]
        return {"replicas": shown, "unheard": unheard, "wishes": wishes}

    @router.post("/replicas/{replica:path}/{action}")
    async def act(replica: str, action: str, request: Request) -> dict[str, Any]:
        """Overrule the evidence for a replica, or for one model on it; undrain takes any such wish back."""
        wish = ACTIONS.get(action)
        if wish is None:
            raise NotFound(f"no such action; known: {', '.join(ACTIONS)}")
        name = text_in(await object_of(request, tools.settings.server.max_body_bytes), "model")
        model = _model_on(tools, replica, name)
        world.force(replica, wish, model)
        await tools.shared.flushed()
        _log(request, "%s %s, model %s", action, replica, model or "all")
        return {"replica": replica, "model": model, "wish": wish.value}


def _model_on(tools: Tools, replica: str, name: str) -> str | None:
    """The name by which the replica's engine knows the model; None for all. Raises NotFound for either."""
    snapshot = tools.registry.snapshot
    if replica not in snapshot.replicas:
        if replica in {wished for wished, _, _ in tools.health.wishes}:
            return name or None  # it is gone, what people wanted of it is not
        raise NotFound(f"no replica {replica[:200]!r} is known{_hint(replica, snapshot.replicas)}")
    if not name:
        return None
    tools.health.settle(snapshot, tools.clock())
    served = {one["model"] for one in tools.health.describe(tools.clock()) if one["replica"] == replica}
    if name in served:
        return name
    route = snapshot.routes.get(name)
    for candidate in route.candidates if route is not None else ():
        if candidate.replica.id == replica:
            return candidate.served
    raise NotFound(f"model {name[:200]!r} is not served there; it serves {', '.join(sorted(served)) or 'nothing yet'}")


# --- retired ----------------------------------------------------------------------------------------------------------


def _add_retired(router: APIRouter, tools: Tools) -> None:
    retirements = tools.retirements

    def shown(fact: Retired) -> dict[str, Any]:
        return fact.record() | {"told": fact.told(tools.wall())}

    @router.get("/retired")
    async def listed() -> dict[str, Any]:
        return {"retired": [shown(fact) for fact in retirements.facts]}

    @router.post("/retired", status_code=201)
    async def retire(request: Request) -> dict[str, Any]:
        """Retire a model of a backend, or all of them, until somebody takes it back."""
        body = await object_of(request, tools.settings.server.max_body_bytes)
        provider, model = text_in(body, "provider"), text_in(body, "model") or ALL
        backends = tools.registry.snapshot.backends
        if provider not in backends:
            raise NotFound(f"no backend {provider[:200]!r} is known{_hint(provider, backends)}", param="provider")
        fact = retirements.retire(provider, model, text_in(body, "by"), tools.wall())
        await tools.shared.flushed()
        _log(request, "retired %s, model %s", provider, model)
        return shown(fact)

    @router.post("/retired/{pair:path}/undo")
    async def undo(pair: str, request: Request) -> dict[str, Any]:
        """Take a retirement back: /retired/<backend>/<model>/undo, without a model for a whole backend."""
        for fact in retirements.facts:
            if pair == f"{fact.provider}/{fact.model}" or (pair == fact.provider and fact.model == ALL):
                retirements.undo(fact.provider, fact.model)
                await tools.shared.flushed()
                _log(request, "undid the retirement of %s, model %s", fact.provider, fact.model)
                return {"provider": fact.provider, "model": fact.model, "undone": True}
        raise NotFound(f"{pair[:200]!r} is not retired")

    @router.get("/redirects")
    async def redirects() -> dict[str, Any]:
        return {"redirects": [asdict(redirect) for redirect in retirements.redirects]}


# --- sources, configuration, state ------------------------------------------------------------------------------------


def _add_world(router: APIRouter, tools: Tools, world: AdminWorld) -> None:
    @router.get("/sources")
    async def sources() -> dict[str, Any]:
        """When each source last saw everything, why it is blind, and what it ignored."""
        snapshot, now = tools.registry.snapshot, tools.wall()
        views = [
            {
                "source": view.name,
                "seen_s_ago": round(now - view.seen_at, 1) if view.seen_at else None,
                "blind": view.blind,
                "notes": list(view.notes),
                "backends": sorted(name for name, spec in snapshot.backends.items() if view.name in spec.origins),
            }
            for view in snapshot.sources.values()
        ]
        return {"snapshot": snapshot.version, "sources": views}

    @router.get("/config")
    async def config() -> PlainTextResponse:
        return PlainTextResponse(world.config(), media_type="application/yaml")

    @router.get("/state")
    async def state() -> dict[str, Any]:
        """Whether what outlives a restart is kept, and whether alerts get through."""
        lost = {"lost": tools.shared.lost, "lost_since": tools.shared.lost_since}
        return {"state": lost, "alerts": dict(world.alerts())}

    @router.post("/reload")
    async def reload(request: Request) -> JSONResponse:
        """Load the configuration again; a wrong one changes nothing and is a 400 with every mistake."""
        wrong = world.reload()
        _log(request, "reload: %s", f"{len(wrong)} mistakes" if wrong else "taken over")
        if wrong:
            details = [Detail(None, "invalid_value", reason) for reason in wrong]
            raise BadRequest(f"the old configuration goes on: {wrong[0]}", details=details)
        return JSONResponse({"reloaded": True})


# --- words -------------------------------------------------------------------------------------------------------------


def _hint(name: str, known: Mapping[str, object]) -> str:
    close = nearest(name, known)
    return f"; did you mean {', '.join(close)}?" if close else ""


def _log(request: Request, message: str, *what: object) -> None:
    client = request.client.host if request.client is not None else "nobody"
    LOGGER.warning(f"{message} (by %s)", *what, client)  # noqa: G004 - the message is ours, the rest are arguments
