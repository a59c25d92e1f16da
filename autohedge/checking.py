"""The check of one request: which candidates can serve it, before any of them sees it.

Rules
- Nearly every request is passed by one comparison of its size with the smallest limit of the model (`plainly_fits`).
- Where that does not suffice, the engines' own arithmetic decides; where the prompt's length could change what it finds, an
  engine is asked for its count. Only that count may refuse a prompt for its length; no answer in time counts as no doubt.
- A request that its own backends would refuse is refused only when no rung of its chain can serve it either.

It must not know: health, order, how bodies are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from autohedge.call import Call
from autohedge.core.ask import Ask
from autohedge.core.problems import BadRequest, Detail, NotFound, Problem, Unavailable, gathered
from autohedge.core.types import NOTHING, Candidate, Door, Route, Snapshot
from autohedge.fallback import own_model_or_none, redirected
from autohedge.memory.affinity import Order
from autohedge.memory.registry import nearest
from autohedge.payloads.reading import Examined, Reading
from autohedge.rules.chain import Rung
from autohedge.rules.decisions import over
from autohedge.rules.limits import Fit, check, needs_count, plainly_fits, refusal
from autohedge.settings.model import Settings
from autohedge.tools import Tools

SYSTEMONE = Door.SYSTEMONE  # looked up in its enum it costs every request
UNTOLD = 2.0  # seconds after which a caller may ask again for a model that somebody may serve
NO_STREAM = b"/v1/systemone never streams; stream is ignored"
NOBODY = Fit((), ())
COUNTERS = 2  # of those that count alike, so many are asked until one does
COUNTABLE = (
    2 << 20
)  # bytes of body; no engine counts more in the time it gets, and writing it down would hold up everybody


@dataclass(slots=True)
class Checked:
    """A request that may be planned. `route` holds the candidates that can serve it, `rungs` what may follow; `refused` is
    the 400 to answer when the rungs offer nothing either. `against` says what keeps a later rung's candidate from serving.
    `order` sorts equals, None: the least loaded first. `own`: at the System One door, tries before the chain begins.
    """

    snapshot: Snapshot
    route: Route
    rungs: tuple[Rung, ...]
    against: Callable[[Candidate], str]
    refused: Problem | None = None
    order: Order | None = None
    own: int = 0

    @property
    def decides(self) -> bool:
        return self.own > 0


def route_of(call: Call, ask: Ask, snapshot: Snapshot, tools: Tools) -> Route:
    """The route of the model that was asked for: by path, by body, or the only model that there is.

    Raises BadRequest when none is named and there are several, NotFound for a name that nobody serves, and Unavailable for one
    that a backend may serve which could not be asked for its models yet.
    """
    call.named = ask.model
    name = call.model or ask.model
    if not name:
        distinct = {candidate.served for route in snapshot.routes.values() for candidate in route.candidates}
        if len(distinct) != 1:
            known = ", ".join(sorted(snapshot.routes)[:5]) or "none yet"
            message = f"model: required (string); models served here: {known}"
            raise BadRequest(message, param="model", details=[Detail("model", "invalid_value", message)])
        name = min(name for name, route in snapshot.routes.items() if route.candidates)
    call.asked = name
    route = snapshot.routes.get(redirected(name, tools, snapshot.routes, call.headers))
    if route is None:
        alias = tools.chains.aliases.get(name)
        route = snapshot.routes.get(alias) if alias is not None else None
    if route is None and name in tools.chains.own:
        return Route(name, (), frozenset())
    if route is None:
        raise _unknown_model(name, snapshot, tools)
    return route


def _unknown_model(name: str, snapshot: Snapshot, tools: Tools) -> Problem:
    close = nearest(name, snapshot.routes)
    served = ", ".join(sorted(snapshot.routes)[:5]) or "none yet"
    hint = f"did you mean {', '.join(close)}?" if close else f"models served here: {served}"
    untold = ", ".join(_untold(snapshot, tools))
    if untold:
        message = (
            f"model: {name[:200]!r} is not served by those who have told their models ({hint}); still to come: {untold}"
        )
        return Unavailable(message, param="model", retry_after=UNTOLD)
    message = f"model: {name[:200]!r} is not served here; {hint}"
    detail = Detail("model", "model_not_found", message, name[:80])
    return NotFound(message, code="model_not_found", param="model", details=[detail])


def _untold(snapshot: Snapshot, tools: Tools) -> list[str]:
    """Backends of which nobody knows what they serve: declared nowhere, never heard, and not for want of a key."""
    names = set()
    for replica in snapshot.replicas.values():
        spec = snapshot.backends[replica.backend]
        if (
            replica.id not in snapshot.lessons
            and spec.listed
            and not spec.models
            and tools.learner.may_tell(replica.id)
        ):
            names.add(spec.name)
    return sorted(names)


class Checker:
    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    def plainly(self, call: Call, reading: Reading | Examined, snapshot: Snapshot, route: Route) -> Checked | None:
        """The check of nearly every request: nothing against it, and surely room for it. None: look closely.

        Raises BadRequest for a System One request over the limits that hold for every model here.
        """
        tools = self._tools
        rungs = tools.chains.of(route.model)
        settings = tools.settings
        if unchecked(settings, call.door):
            return Checked(snapshot, route, self._wanted(call, rungs), _nothing)
        if reading.ask.sizes is not None:
            if reading.ask.stream:
                call.warning = NO_STREAM
            problem = over_all_limits(reading.ask, settings, tools.wall())
            if problem is not None:
                raise self._refused(call, problem, snapshot)
        if rungs or not plainly_fits(reading.ask, route, _size(call, reading.ask)):
            return None
        for kind in route.kinds:
            if reading.findings(kind):
                return None
        return Checked(snapshot, route, rungs, _nothing)

    async def closely(self, call: Call, reading: Reading | Examined, snapshot: Snapshot, route: Route) -> Checked:
        """Raises BadRequest with every finding when neither the model's backends nor its chain can serve the request."""
        tools, ask = self._tools, reading.ask
        rungs = self._wanted(call, tools.chains.of(route.model))
        tokens = await counts(call, ask, [*route.candidates, *route.spare, *offered(rungs, route, snapshot)], tools)
        now = tools.wall()
        fit = check(ask, reading.findings, route.candidates, tokens, now)
        spare = check(ask, reading.findings, route.spare, tokens, now) if route.spare else NOBODY

        def against(candidate: Candidate) -> str:
            if not candidate.rung:
                return ""
            skipped = check(ask, reading.findings, (candidate,), tokens, now).skipped
            return skipped[0][1][0].message if skipped else ""

        refused = None
        if not (fit.usable or spare.usable) and (fit.skipped or spare.skipped):
            refused = self._refused(call, refusal(Fit((), fit.skipped + spare.skipped)), snapshot)
        if refused is not None and not rungs:
            raise refused
        usable = replace(route, candidates=fit.usable, spare=spare.usable)
        return Checked(snapshot, usable, rungs, against, refused)

    def _wanted(self, call: Call, rungs: tuple[Rung, ...]) -> tuple[Rung, ...]:
        return () if rungs and no_fallback(call) else rungs

    def _refused(self, call: Call, problem: Problem, snapshot: Snapshot) -> Problem:
        """The problem, counted."""
        for detail in problem.details:
            self._tools.meters.reject(detail.code, detail.param, call.asked)
        return _with_names(problem, snapshot)


def _with_names(problem: Problem, snapshot: Snapshot) -> Problem:
    """Where a model has to be named, the names that could be."""
    if problem.code != "missing_field" or problem.param != "model":
        return problem
    first, *others = problem.details
    known = ", ".join(sorted(snapshot.routes)[:5])
    return gathered(
        [replace(first, message=f"{first.message}; models served here: {known}"), *others] if known else problem.details
    )


def _size(call: Call, ask: Ask) -> int:
    return ask.text_bytes if call.encoding else len(call.body)


async def counts(call: Call, ask: Ask, candidates: Iterable[Candidate], tools: Tools) -> Mapping[str, int]:
    """The engines' own counts of the prompt by backend, asked only where bytes prove nothing, and once of all that count alike:
    a hundred workers of one model are a hundred backends.
    """
    size = _size(call, ask)
    if size > COUNTABLE:
        return NOTHING
    alike: dict[str, object] = {}  # by backend
    counted: dict[object, list[int]] = {}
    for candidate in candidates:
        name = candidate.backend.name
        if name in alike or not needs_count(ask, candidate, size):
            continue
        alike[name] = _tokenizer(candidate, tools)
        said = counted.setdefault(alike[name], [])
        if len(said) < COUNTERS and not any(said):
            said.append((await tools.learner.count(candidate, ask)).size or 0)
    return {name: max(counted[one]) for name, one in alike.items() if any(counted[one])} or NOTHING


def _tokenizer(candidate: Candidate, tools: Tools) -> object:
    """Equal for those that count alike: one kind of engine, one model by all that it is called there."""
    lesson = tools.registry.snapshot.lessons.get(candidate.replica.id)
    if lesson is None or not lesson.models:
        return candidate.backend.name
    models = tuple((model.id, model.names, model.owned_by) for model in lesson.models)
    return candidate.kind, candidate.served, models


def unchecked(settings: Settings, door: Door) -> bool:
    """Whether the operator wants what comes through this door to go on as it is."""
    return not settings.validation.mode or (door is SYSTEMONE and not settings.systemone.validate)


def over_all_limits(ask: Ask, settings: Settings, now: float) -> Problem | None:
    """The refusal of a System One request over the limits that an operator set for every model. `now` is epoch seconds."""
    limits = settings.systemone.counts
    broken = over(ask.sizes, limits, "this server", now) if limits and ask.sizes is not None else ()
    return gathered(broken) if broken else None


def no_fallback(call: Call) -> bool:
    """Whether the caller wants its own model or nothing."""
    return own_model_or_none(call.headers)


def _nothing(_candidate: Candidate) -> str:
    return ""


def offered(rungs: Sequence[Rung], route: Route, snapshot: Snapshot) -> Iterator[Candidate]:
    """Candidates of the rungs whose limits are known."""
    for rung in rungs:
        for name in rung.models or (route.model,):
            found = snapshot.routes.get(name)
            if found is not None:
                yield from found.candidates
