"""The System One door, where it differs from the others: who may be asked, when another one is, and the name in the answer.

Rules (eidex, seed 000; systemone facts 8)
- Asked is who serves exactly the model of the request; where none of those can be asked, who answers for any model. Without a
  model (missing, empty, no string) everybody who decides. A name that nobody knows is no 404 here but `no_workers`.
- The next one is tried on a failure of transport and on 502, 503, 504 (attempt.py), `routing.retry` times, whatever the retry
  budget says: it is another worker each time, and a decision costs little. A rung of the chain comes after those tries.
- A worker that never answered is as good as the others: keys must not move because one was heard first. Where probes alone decide
  (streak), nobody is tried against their word.
- 404, 405 and 501 are passed on like all else, but callers read them as "not implemented" (bifrost): the log says once who
  answers so.
- In a committed answer the value of the last top-level "model" is replaced, if it is a string and another name; not one byte more.

It must not know: sockets, the ring, how errors look.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace

from pydantic_core import from_json

from autohedge.call import Call
from autohedge.core.ask import Ask
from autohedge.core.problems import Problem, Unavailable, UpstreamFailed
from autohedge.core.types import Candidate, Door, Kind, Route, Snapshot
from autohedge.fallback import redirected
from autohedge.payloads.span import model_span
from autohedge.providers import DIALECTS
from autohedge.rules.limits import lacking, room
from autohedge.rules.standing import Admission, Tier
from autohedge.settings.routing import ModelOverride
from autohedge.tools import Tools

LOGGER = logging.getLogger("autohedge")
ABILITY = Door.SYSTEMONE.value
LONGEST = 512  # characters of a name that headers, logs and memory see: a wildcard takes any, also one of a megabyte
UNKNOWN_THERE = frozenset({404, 405, 501})
DECIDERS = frozenset({Kind.SYSTEMONE, Kind.TYPESAFE})  # kinds that do nothing else


class Deciders:
    """The routes of the System One door, kept as long as the snapshot has the same ones."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._seen: object = None
        self._routes: dict[str, Route] = {}
        self._noted: set[tuple[str, int]] = set()

    def note(self, candidate: Candidate, status: int) -> None:
        """Tell people about a worker that seems to have no such door; once, as long as the snapshot has the same routes."""
        seen = candidate.replica.id, status
        if status in UNKNOWN_THERE and seen not in self._noted:
            self._noted.add(seen)
            LOGGER.warning(
                "%s answers %d at /v1/systemone; is it a decision server? Callers may read that as not implemented",
                *seen,
            )

    def route(self, call: Call, ask: Ask, snapshot: Snapshot) -> Route:
        """Whom a request may be sent to. Never raises: where there is nobody, there is a route without candidates."""
        if self._seen is not snapshot.routes:
            self._seen = snapshot.routes
            self._routes = {}
            self._noted.clear()
        call.named = ask.model
        name = call.model or ask.model or ""
        call.asked = name[:LONGEST]
        tools = self._tools
        known = redirected(name, tools, snapshot.routes, call.headers) if name else ""
        if name and known not in snapshot.routes:
            known = tools.chains.aliases.get(name, name)
        kept = known if known in snapshot.routes or not name else "\0"  # one for all names that nobody serves
        route = self._routes.get(kept)
        if route is None:
            route = self._routes[kept] = _made(known if name else None, snapshot)
        return route if route.model == known else replace(route, model=known)


def _made(model: str | None, snapshot: Snapshot) -> Route:
    if model is None:
        return _route("", everybody(snapshot), ())
    listed = snapshot.routes[model].candidates if model in snapshot.routes else ()
    exact = tuple(one for one in listed if not one.backend.takes_any)
    named = {one.replica.id: one for one in listed if one.backend.takes_any}
    wild = tuple(named.get(one.replica.id, one) for one in snapshot.wild) if named else snapshot.wild
    return _route(model, exact, wild) if exact else _route(model, wild, ())


def _route(model: str, candidates: tuple[Candidate, ...], spare: tuple[Candidate, ...]) -> Route:
    both = (*candidates, *spare)
    kinds = frozenset(one.kind for one in both)
    return Route(model, candidates, kinds, room=room(both), lacking=lacking(both), spare=spare)


def everybody(snapshot: Snapshot) -> tuple[Candidate, ...]:
    """One candidate of each replica that decides; where none is known to, of those that might. Paid providers are left out."""
    known: dict[str, Candidate] = {}
    might: dict[str, Candidate] = {}
    for one in snapshot.everybody():
        able = one.limits.abilities.get(ABILITY)
        if (
            one.backend.external
            or (able is not None and not able.value)
            or Door.SYSTEMONE not in DIALECTS[one.kind].doors
        ):
            continue
        sure = able is not None or one.kind in DECIDERS or one.backend.takes_any or one.backend.exact
        (known if sure else might).setdefault(one.replica.id, one)
    return tuple((known or might).values())


def optimistic(tools: Tools, candidate: Candidate, seen: Admission) -> Admission:
    """What the breaker says, as this door takes it."""
    if seen.tier is Tier.UNKNOWN:
        return seen._replace(tier=Tier.GOOD)
    if seen.tier is Tier.RATIO and tools.health.entry(candidate, tools.clock()).breaker.judge.heals:
        return seen._replace(tier=Tier.OUT)
    return seen


def no_decision(call: Call) -> Problem:
    """The Problem for a call that no worker answered. Here a worker's URL is told, as eidex does; a provider's is not."""
    if not call.attempts:
        named = f" for model '{call.asked}'" if call.asked else ""
        return Unavailable(f"No available workers{named}", code="no_workers", retry_after=1)
    last = call.attempts[-1]
    outcome, backend = last.outcome, last.candidate.backend
    assert outcome is not None
    what = outcome.failure.value if outcome.failure is not None else str(outcome.status)
    where = backend.name if backend.external else str(last.candidate.replica.address)
    message = f"all worker attempts failed (last: {what} from {where})"
    return UpstreamFailed(message, code="workers_unreachable", retry_after=1)


def new_name(call: Call, override: ModelOverride, fields: Mapping[bytes, bytes]) -> str:
    """The model name to write into a committed answer; "" leaves it as it came. `fields`: the answer's headers."""
    if not override.enabled or fields.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        return ""
    return override.model or call.named or ""


def overridden(body: bytes, name: str) -> bytes:
    """`body` with its top-level model string replaced; what is no JSON object with another string there stays as it is."""
    span = model_span(body)
    if span is None or body[span[0] : span[0] + 1] != b'"':
        return body
    try:
        found = from_json(body, allow_inf_nan=False)
    except ValueError:
        return body
    if not isinstance(found, dict) or found.get("model") in (None, name):
        return body
    return b"".join((body[: span[0]], json.dumps(name).encode("ascii"), body[span[1] :]))
