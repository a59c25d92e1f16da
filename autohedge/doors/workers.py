"""The workers API of eidex: who decides at the System One door, and what changes that at run time.

- POST /workers          registers one: 202 with its id and Location; the same again is the same, other fields are a 409
- GET /workers           all of them with health and load, in the gateway's form
- GET, DELETE /workers/{id}

Rules
- All of it is an admin act: with `admin.token` whoever presents it, without one callers of this machine, or anybody where
  `workers.open` or `admin.open` says so (eidex).
- Where a worker may be is checked by rules/reach.py: its address, or those that its name has now. A name that nobody can
  resolve yet is taken where every network is allowed; whoever connects looks again.
- Workers are those of the file and the registered ones. What other sources found is no worker: /admin/replicas has all.
- A change is answered when the shared state has it, or is lost: what was accepted outlives a kill -9 right afterwards.
- Whoever asks for one worker hears what any process was told of it before, also a moment ago; the list, and requests, follow
  within a quarter of a second.
- Load is what is under way: here, and at the other processes of this machine as they told it last.

It must not know: how workers are kept, the ring, probes.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse

from autohedge.core.problems import BadRequest, Conflict, NotFound, TooLarge
from autohedge.core.types import Address, Candidate, Replica, Snapshot
from autohedge.doors.admin_gate import admit
from autohedge.doors.asked import body_of, object_in
from autohedge.memory.merging import endpoint
from autohedge.rules.reach import Ip, address_in, disguised, heard, itself, refused
from autohedge.settings.workers import REGULAR, place_of
from autohedge.sources.workers import KEY, MOST, Full, Registered, Taken, WorkersSource, guarded
from autohedge.tools import Tools

LOGGER = logging.getLogger("autohedge.workers")
PATH = "/workers"
READ = ["GET", "HEAD"]
RESOLVING = 2.0  # seconds that a resolver gets
Counted = Callable[[], Iterable[Mapping[str, Any]]]
OURSELVES = "AutoHedge cannot be a worker of its own"
LONGEST = 512  # characters of a model's name or a label
LABELS = 64
URL_LENGTH = 2048
ID_LENGTH = 36  # of a UUID
HIGHEST = (1 << 31) - 1  # of a priority: one that clients cannot read would keep the whole list from them


def workers_routes(tools: Tools, source: WorkersSource, others: Counted = tuple) -> APIRouter:
    """The four paths. `others` gives what the other processes counted (memory/meters.py)."""

    async def gate(request: Request) -> None:
        settings = tools.settings
        if settings.admin.token is not None or not settings.workers.open:
            admit(request, settings.admin)

    router = APIRouter(dependencies=[Depends(gate)])

    @router.post("/workers")
    async def register(request: Request) -> JSONResponse:
        """Register a worker; it may be asked from now on."""
        worker = worker_in(await _object(request, tools.settings.server.max_body_bytes))
        await _may_be_there(worker.address, tools)
        await _refresh(tools, worker.id)
        try:
            worker = source.add(worker)
        except Taken:
            message = f"a worker with this url and other fields exists: {worker.id}"
            raise Conflict(message, code="WORKER_ALREADY_EXISTS") from None
        except Full:
            raise _bad(f"there are {MOST} registered workers already") from None
        await tools.shared.flushed()
        _log(request, "registered", worker)
        location = f"{PATH}/{worker.id}"
        body = {
            "status": "accepted",
            "worker_id": worker.id,
            "url": worker.url,
            "location": location,
            "message": "Worker registered",
        }
        return JSONResponse(body, 202, {"location": location})

    @router.api_route("/workers", methods=READ)
    async def listed() -> JSONResponse:
        workers = Pictures(tools, others()).of(source.all())
        stats = {"prefill_count": 0, "decode_count": 0, "regular_count": len(workers)}
        return JSONResponse({"workers": workers, "total": len(workers), "stats": stats})

    @router.api_route("/workers/{worker_id}", methods=READ)
    async def one(worker_id: str) -> JSONResponse:
        worker = await _known(tools, source, worker_id)
        return JSONResponse(Pictures(tools, others()).of([worker])[0])

    @router.delete("/workers/{worker_id}")
    async def remove(worker_id: str, request: Request) -> JSONResponse:
        """Forget a worker; what it is answering now ends in peace."""
        worker = await _known(tools, source, worker_id)
        source.remove(worker.id)
        await tools.shared.flushed()
        _log(request, "removed", worker)
        return JSONResponse({"status": "accepted", "worker_id": worker.id, "message": "Worker removed"}, 202)

    return router


# --- what is asked ----------------------------------------------------------------------------------------------------


def worker_in(body: Mapping[str, Any]) -> Registered:
    """The worker that a body describes; unknown fields are ignored, null is the default. Raises BadRequest."""
    url = body.get("url")
    if not isinstance(url, str) or not url.strip():
        raise _bad("url is required")
    if len(url) > URL_LENGTH:
        raise _bad(f"invalid url: it has over {URL_LENGTH} characters")
    try:
        address = guarded(place_of(url.strip()))
    except ValueError as error:
        raise _bad(f"invalid url: {error}") from None
    kind = _text(body, "worker_type") or REGULAR
    if kind != REGULAR:
        raise _bad(f'worker_type must be "{REGULAR}"')
    priority = 50 if body.get("priority") is None else body["priority"]
    if not isinstance(priority, int) or isinstance(priority, bool) or not 0 <= priority <= HIGHEST:
        raise _bad(f"priority must be a whole number from 0 to {HIGHEST}")
    labels = {} if body.get("labels") is None else body["labels"]
    if not isinstance(labels, dict) or len(labels) > LABELS or not all(map(_short, (*labels, *labels.values()))):
        raise _bad(f"labels must be an object of at most {LABELS} printable texts of at most {LONGEST} characters")
    return Registered(address, _text(body, "model_id"), kind, priority, MappingProxyType(labels))


def _text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    if value is None:
        return ""
    if not _short(value):
        raise _bad(f"{key} must be a printable text of at most {LONGEST} characters")
    return str(value)


def _short(value: object) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST and value.isprintable()


async def _object(request: Request, limit: int) -> dict[str, Any]:
    try:
        raw = await body_of(request, limit)
        body = object_in(raw)
    except TooLarge:
        raise _bad("request body too large") from None
    except BadRequest as problem:
        raise _bad(f"invalid JSON: {problem.message}") from None
    return body


async def _may_be_there(address: Address, tools: Tools) -> None:
    """Raises BadRequest where a worker must not be."""
    host, settings = address.host, tools.settings
    bound, port = settings.server.bind
    why = disguised(host)
    if not why and itself(host, address.port, (bound, port)):
        why = OURSELVES
    if not why:
        literal = address_in(host)
        found = [literal] if literal is not None else await _resolved(host, address.port)
        allowed = settings.workers.networks
        why = refused(found, allowed)
        if not why and address.port == port and heard(found, bound, _of_this_machine):
            why = OURSELVES  # each request to it would come back as several
        if not why and not found and allowed:
            why = "its name cannot be resolved, and workers.allow asks for its address"
    if why:
        raise _bad(f"invalid url: {why}")


async def _resolved(host: str, port: int) -> list[Ip]:
    """The addresses that a name has now, [] when nobody can tell."""
    try:
        async with asyncio.timeout(RESOLVING):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        return []
    addresses = (address_in(str(place[0]).partition("%")[0]) for *_, place in found)
    return [address for address in addresses if address is not None]


def _of_this_machine(address: Ip) -> bool:
    """Whether what is sent there comes from there. Nothing is sent: the system only chooses the way."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as way:
            way.connect((str(address), 9))
            return address_in(str(way.getsockname()[0])) == address
    except OSError:
        return False


async def _known(tools: Tools, source: WorkersSource, name: str) -> Registered:
    await _refresh(tools, name)
    worker = source.get(name)
    if worker is None:
        raise NotFound("worker not found", code="WORKER_NOT_FOUND")
    return worker


async def _refresh(tools: Tools, name: str) -> None:
    """Hear what other processes were told of a worker."""
    if len(name) == ID_LENGTH:  # else it is none of ours, and no key to ask for
        await tools.shared.refresh(KEY + name)


def _bad(message: str) -> BadRequest:
    return BadRequest(message, code="BAD_REQUEST")


# --- what is told -----------------------------------------------------------------------------------------------------


class Pictures:
    """How workers stand now: one look at the snapshot for all of them."""

    def __init__(self, tools: Tools, others: Iterable[Mapping[str, Any]] = ()) -> None:
        snapshot: Snapshot = tools.registry.snapshot
        self._tools = tools
        self._now = tools.clock()
        self._others = [other["seats"] for other in others]
        self._replicas = {endpoint(replica.address): replica for replica in snapshot.replicas.values()}
        self._places: dict[str, list[Candidate]] = {}
        for candidate in snapshot.everybody():
            self._places.setdefault(candidate.replica.id, []).append(candidate)

    def of(self, workers: list[Registered]) -> list[dict[str, Any]]:
        return [self._one(worker) for worker in workers]

    def _one(self, worker: Registered) -> dict[str, Any]:
        replica = self._replicas.get(endpoint(worker.address))
        load = 0
        if replica is not None:
            load = replica.seat.in_flight + sum(int(seats.get(replica.id, 0)) for seats in self._others)
        return {"id": worker.id, **worker.fields, "is_healthy": self._well(replica), "load": load}

    def _well(self, replica: Replica | None) -> bool:
        """Whether requests may go there; one that nobody has seen yet is well (optimistic start)."""
        return replica is None or self._tools.health.well(
            replica, self._places.get(replica.id, ()), self._now, self._tools.learner.silent
        )


def _log(request: Request, what: str, worker: Registered) -> None:
    client = request.client.host if request.client is not None else "nobody"
    LOGGER.warning("worker %s (%s) was %s by %s", worker.id, worker.url, what, client)
