"""THE WAY OF ONE REQUEST, top to bottom.

admit (doors/edge.py) -> read -> look -> check -> plan -> race -> commit -> stream -> tell

Rules
- `serve` is the whole way; each step is one call. A step that refuses raises a Problem; the door renders it.
- One snapshot is taken and held; nothing later looks again.
- Original bytes are forwarded. Checks work on a parsed copy.
- Nothing is committed before the first content event of a stream or a whole plain answer. After it, nothing is retried.
- Every attempt is told once, in `tell`, whatever happened: success, failure, or a client who left.

It must not know: ASGI scopes, YAML, where backends come from, or the spelling of any engine's answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from autohedge.attempt import Attempter, Opened
from autohedge.call import Call, Header, Out
from autohedge.core.problems import BadRequest, DeadlineExceeded, Detail, NotFound, Problem, Unavailable, UpstreamFailed
from autohedge.core.types import Admitted, Ask, Candidate, Failure, Route, Snapshot, Verdict
from autohedge.examiner import Examiner
from autohedge.memory.choice import Choice
from autohedge.memory.health import Health
from autohedge.memory.meters import Meters
from autohedge.memory.registry import Registry, nearest
from autohedge.payloads.reading import Examined, Reading
from autohedge.payloads.span import model_span, with_model
from autohedge.payloads.sse import ModelRewriter
from autohedge.providers import DIALECTS
from autohedge.race import best, race
from autohedge.rules.balance import least_outstanding
from autohedge.rules.budget import RetryBudget
from autohedge.rules.chain import Checks, Plan
from autohedge.rules.limits import Fit, check, fits_surely, plainly_fits, refusal
from autohedge.rules.standing import Tier
from autohedge.rules.verdicts import judge
from autohedge.settings.model import Settings
from autohedge.stream import pour
from autohedge.waiting import WaitingRoom
from autohedge.watchers.learning import Learner
from autohedge.wire.heads import end_to_end

# An answer that comes after a whole chain was tried must not be tried again by an SDK (openai-python obeys this header).
NO_RETRY = ((b"x-should-retry", b"false"),)
# Set by us on every answer, so an engine's own are left out (another AutoHedge may stand behind this one).
OURS = frozenset(
    {
        b"content-length",
        b"x-request-id",
        b"x-autohedge-backend",
        b"x-autohedge-model",
        b"x-autohedge-attempts",
        b"x-autohedge-rung",
        b"x-should-retry",
    }
)
# Tiers that a plan offers only when it has nothing better: their breakers are asked twice.
INSIST = frozenset({Tier.RAMPING, Tier.UNKNOWN, Tier.LOADING})
WAITING = frozenset({Verdict.BUSY, Verdict.LOADING})


@dataclass(slots=True)
class Tools:
    """What the way uses. Wired in app.py; `settings` is replaced as a whole on reload."""

    settings: Settings
    registry: Registry
    health: Health
    examiner: Examiner
    learner: Learner
    attempter: Attempter
    room: WaitingRoom
    retries: RetryBudget
    meters: Meters
    clock: Callable[[], float]  # loop seconds
    wall: Callable[[], float]  # epoch seconds


class Relay:
    def __init__(self, tools: Tools) -> None:
        self.tools = tools
        self._choice = Choice(tools.health)
        self._checks = Checks(
            look=lambda candidate: tools.health.look(candidate, tools.clock()),
            fits=lambda _candidate: "",
            retired=lambda _candidate: "",
            order=least_outstanding,
        )

    async def serve(self, call: Call, out: Out) -> None:
        """Answer `call` through `out`, or raise the Problem that says why not."""
        won: Opened | None = None
        try:
            reading = await self.tools.examiner.read(call)  # read
            snapshot = self.tools.registry.snapshot  # look
            route = self._route(call, reading.ask, snapshot)
            route = await self._check(call, reading, route)  # check
            self.tools.retries.primary(call.started)
            plan = await self._plan(call, snapshot, route)  # plan
            tried = await race(
                call, plan, self.tools.attempter, self.tools.settings.failover.attempts, self._may_retry
            )  # race
            won = self._winner(call, tried)
            await self._commit(call, won, out)  # commit, stream
            call.poured = True
        finally:
            if won is not None:
                won.close()
            self._tell(call)  # tell

    # --- look -------------------------------------------------------------------------------------------------------

    def _route(self, call: Call, ask: Ask, snapshot: Snapshot) -> Route:
        """The route of the model that was asked for: by path, by body, or the only model that there is."""
        call.named = ask.model
        name = call.model or ask.model
        if not name:
            distinct = {candidate.served for route in snapshot.routes.values() for candidate in route.candidates}
            if len(distinct) != 1:
                known = ", ".join(sorted(snapshot.routes)[:5]) or "none yet"
                message = f"model: required (string); models served here: {known}"
                raise BadRequest(message, param="model", details=[Detail("model", "invalid_value", message)])
            name = min(snapshot.routes)
        call.asked = name
        route = snapshot.routes.get(name)
        if route is None:
            raise _unknown_model(name, snapshot)
        return route

    # --- check ------------------------------------------------------------------------------------------------------

    async def _check(self, call: Call, reading: Reading | Examined, route: Route) -> Route:
        """`route` with the candidates that can serve this ask. Only an engine's own count refuses a prompt for its length."""
        tools, ask = self.tools, reading.ask
        if not tools.settings.validation.mode:
            return route
        size = len(call.body) if not call.encoding else ask.text_bytes
        if plainly_fits(ask, route, size) and not any(map(reading.findings, route.kinds)):
            return route
        now = tools.wall()
        fit = check(ask, reading.findings, route.candidates, {}, now)
        doubtful = [candidate for candidate in fit.usable if not fits_surely(ask, candidate, size)]
        if doubtful:
            tokens = await self._count(doubtful, ask)
            if tokens:
                fit = check(ask, reading.findings, route.candidates, tokens, now)
        if not fit.usable:
            raise self._refused(call, fit)
        return replace(route, candidates=fit.usable)

    async def _count(self, doubtful: Sequence[Candidate], ask: Ask) -> dict[str, int]:
        """Ask one replica per backend for its own count of the prompt; no answer in time counts as no doubt."""
        tokens: dict[str, int] = {}
        for candidate in doubtful:
            if candidate.backend.name not in tokens:
                counted = await self.tools.learner.count(candidate, ask)
                if counted.size is not None:
                    tokens[candidate.backend.name] = counted.size
        return tokens

    def _refused(self, call: Call, fit: Fit) -> BadRequest:
        problem = refusal(fit)
        for detail in problem.details:
            self.tools.meters.reject(detail.code, detail.param, call.asked)
        return problem

    # --- plan -------------------------------------------------------------------------------------------------------

    async def _plan(self, call: Call, snapshot: Snapshot, route: Route) -> Iterator[Admitted]:
        """Candidates in the order of trying. When every replica is at its cap, wait for a seat in the bounded queue."""
        tools = self.tools
        first = self._choice.first(route.candidates, tools.clock())
        if first is not None:
            return self._rest(first, snapshot, route)
        patience = tools.clock() + min(tools.settings.queue.wait, call.deadline - tools.clock())
        while True:
            plan = Plan(snapshot, route, self._checks)
            full: list[Candidate] = []
            admitted = self._admitted(plan, full)
            head = next(admitted, None)
            if head is not None:
                return chain((head,), admitted)
            if not full:
                return iter(())
            tools.meters.queued += 1
            try:
                freed = await tools.room.wait((candidate.replica for candidate in full), patience - tools.clock())
            finally:
                tools.meters.queued -= 1
            if not freed:
                message = (
                    f"every replica of model {call.asked} is at its concurrency cap and the queue is full or too slow"
                )
                raise Unavailable(message, code="queue_full", retry_after=1)

    def _rest(self, first: Admitted, snapshot: Snapshot, route: Route) -> Iterator[Admitted]:
        """The obvious first choice, and only if it fails the whole plan without it."""
        yield first
        for admitted in self._admitted(Plan(snapshot, route, self._checks), []):
            if admitted.candidate is not first.candidate:
                yield admitted

    def _admitted(self, plan: Plan, full: list[Candidate]) -> Iterator[Admitted]:
        """Those of the plan that have a free seat and whose breaker lets this request through; the full ones are noted."""
        health, clock = self.tools.health, self.tools.clock
        for candidate in plan:
            if not candidate.replica.seat.free:
                full.append(candidate)
                continue
            admission = health.admit(candidate, clock())
            if not admission.allowed and (plan.panic or admission.tier in INSIST):
                admission = health.admit(candidate, clock(), insist=True)
            if admission.allowed:
                yield Admitted(candidate, admission.stamp)
        gone = [skipped.candidate for skipped in plan.skipped if skipped.candidate is not None]
        last = self._choice.knock(gone, clock()) if gone and not full else None
        if last is not None:
            yield last

    # --- race -------------------------------------------------------------------------------------------------------

    def _may_retry(self) -> bool:
        return self.tools.retries.take(self.tools.clock())

    def _winner(self, call: Call, tried: Sequence[Opened]) -> Opened:
        """The answer to commit: the winner, or the most telling failed answer of an engine; else a Problem."""
        if tried and tried[-1].won:
            return tried[-1]
        telling = best(tried)
        if telling is not None:
            return telling
        raise _nothing_worked(call)

    # --- commit and stream ------------------------------------------------------------------------------------------

    async def _commit(self, call: Call, won: Opened, out: Out) -> None:
        judgement = won.attempt.judgement
        status = judgement.status if judgement is not None and judgement.status else won.status
        name = self._shown_name(call, won)
        if won.whole:
            body = won.pieces[0] if len(won.pieces) == 1 else b"".join(won.pieces)
            if name and won.watch is None:
                body = renamed(body, name)
            elif name:
                rewriter = ModelRewriter(name)
                body = rewriter.feed(body) + rewriter.flush()
            await out.whole(status, _headers(call, won, len(body)), body)
            return
        await out.start(status, _headers(call, won, None if name else -1))
        await pour(call, won, out, self.tools.clock, ModelRewriter(name) if name and won.watch is not None else None)

    def _shown_name(self, call: Call, won: Opened) -> str:
        """The model name to write into the answer; "" leaves the engine's own."""
        override = self.tools.settings.openai.model_override
        if not override or any(name == b"content-encoding" for name, _ in won.headers):
            return ""
        return call.asked if override == "request" else override

    # --- tell -------------------------------------------------------------------------------------------------------

    def _tell(self, call: Call) -> None:
        """Every attempt's verdict, once: health, limits learned from error texts, metrics. The log reads `call`."""
        tools = self.tools
        now = tools.clock()
        for attempt in call.attempts:
            candidate, outcome = attempt.candidate, attempt.outcome
            assert outcome is not None
            if attempt.judgement is None:
                outcome.left = outcome.left or (outcome.failure is None and not outcome.finished and not call.poured)
                attempt.judgement = judge(outcome, DIALECTS[candidate.kind])
            attempt.ended = attempt.ended or now
            judgement = attempt.judgement
            tools.health.record(attempt, now)
            tools.meters.attempt(candidate.backend.name, candidate.served, judgement.verdict)
            if attempt.first_byte is not None:
                tools.meters.first_byte(candidate.backend.name, attempt.first_byte - attempt.started)
            if judgement.teaches:
                tools.registry.teach(candidate.replica.id, candidate.served, judgement.teaches, tools.wall())
                tools.learner.poke(candidate.replica.id)
        if len(call.attempts) > 1:
            tools.meters.failover(len(call.attempts) - 1)


def _unknown_model(name: str, snapshot: Snapshot) -> NotFound:
    close = nearest(name, snapshot.routes)
    hint = (
        f"; did you mean {', '.join(close)}?"
        if close
        else f"; models served here: {', '.join(sorted(snapshot.routes)[:5]) or 'none yet'}"
    )
    message = f"model: {name[:200]!r} is not served here{hint}"
    return NotFound(
        message, code="model_not_found", param="model", details=[Detail("model", "model_not_found", message, name[:80])]
    )


def _nothing_worked(call: Call) -> Problem:
    """The Problem for a call that no candidate answered: what was tried, without a single address."""
    details = []
    timeouts = 0
    for attempt in call.attempts:
        outcome, judgement = attempt.outcome, attempt.judgement
        assert outcome is not None
        assert judgement is not None
        timeouts += outcome.failure in (
            Failure.DEADLINE,
            Failure.FIRST_BYTE_TIMEOUT,
            Failure.CONNECT_TIMEOUT,
            Failure.STALLED,
        )
        message = f"{attempt.candidate.backend.name}: {judgement.reason or judgement.verdict}"
        details.append(Detail(None, judgement.verdict.value, message, outcome.status or None))
    if not details:
        return Unavailable(f"no backend can serve model {call.asked} now", retry_after=1, headers=NO_RETRY)
    tail = f"{len(details)} attempt{'s' if len(details) > 1 else ''}, last: {details[-1].message}"
    if timeouts == len(details):
        return DeadlineExceeded(
            f"no backend of model {call.asked} answered in time ({tail})",
            details=details,
            retry_after=1,
            headers=NO_RETRY,
        )
    if all(attempt.judgement is not None and attempt.judgement.verdict in WAITING for attempt in call.attempts):
        return Unavailable(
            f"every backend of model {call.asked} is busy or loading ({tail})",
            details=details,
            retry_after=1,
            headers=NO_RETRY,
        )
    return UpstreamFailed(
        f"every backend of model {call.asked} failed ({tail})", details=details, retry_after=1, headers=NO_RETRY
    )


def renamed(body: bytes, name: str) -> bytes:
    """`body` with its top-level "model" string replaced; anything else, or a body without one, stays as it is."""
    span = model_span(body) if body[:1] == b"{" else None
    if span is None or body[span[0] : span[0] + 1] != b'"':
        return body
    return with_model(body, name)


def _headers(call: Call, won: Opened, length: int | None) -> list[Header]:
    """The engine's end-to-end headers and ours. `length`: the body's, -1 to keep what the engine said, None for unknown."""
    headers = [pair for pair in end_to_end(won.headers) if pair[0] not in OURS]
    if length == -1:
        headers += [pair for pair in won.headers if pair[0] == b"content-length"]
    elif length is not None:
        headers.append((b"content-length", b"%d" % length))
    candidate = won.attempt.candidate
    headers.append((b"x-request-id", call.id))
    headers.append((b"x-autohedge-backend", candidate.backend.name.encode("ascii", "replace")))
    headers.append((b"x-autohedge-model", candidate.served.encode("ascii", "replace")))
    headers.append((b"x-autohedge-attempts", b"%d" % len(call.attempts)))
    if candidate.rung:
        headers.append((b"x-autohedge-rung", b"%d" % candidate.rung))
    if not won.won:
        headers += NO_RETRY
        if won.status in (429, 503) and not any(name == b"retry-after" for name, _ in headers):
            headers.append((b"retry-after", b"1"))
    return headers
