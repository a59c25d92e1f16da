"""The way of a request that is not sent: who would get it, in which order, who would not, and why.

Rules
- It takes the same steps as relay.py with the same parts (read, look, check, plan), and stops before the first attempt.
- Nothing is changed by it: no seat, no lease of a breaker, no meter, no retry budget. An engine may be asked to count the prompt,
  as the real check would.
- Every candidate appears once for each rung that offers it: in the order of trying, or as skipped with its reason.
- The one knock a second at a closed door (memory/choice.py) is marked where it would fall; a free seat is not foretold.
- A request that would be refused is explained as well: the refusal is the outcome, not an error of the question.

It must not know: HTTP, who asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from autohedge.answering import nothing_worked
from autohedge.call import Call
from autohedge.checking import counts, no_fallback, offered, route_of
from autohedge.core.problems import Problem
from autohedge.core.types import NOTHING, Candidate, Route
from autohedge.payloads.reading import Examined, Reading
from autohedge.planning import gone, look
from autohedge.rules.balance import least_outstanding
from autohedge.rules.chain import Checks, Plan, Rung, Skipped
from autohedge.rules.limits import Fit, check, refusal
from autohedge.rules.standing import State, Wish
from autohedge.tools import Tools

Shown = dict[str, Any]


class Explainer:
    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    async def __call__(self, call: Call) -> Shown:
        """The plan of `call` as JSON data: `outcome`, `candidates` in their order, `skipped` with reasons."""
        tools = self._tools
        try:
            reading = tools.examiner.here(call) or await tools.examiner.elsewhere(call)
            snapshot = tools.registry.snapshot
            route = route_of(call, reading.ask, snapshot, tools)
        except Problem as problem:
            return self._head(call) | {"outcome": refused(problem), "candidates": [], "skipped": []}
        rungs = tools.chains.of(route.model)
        fallback = not no_fallback(call)
        tokens: Mapping[str, int] = NOTHING
        if tools.settings.validation.mode:
            tokens = await counts(call, reading.ask, [*route.candidates, *offered(rungs, route, snapshot)], tools)
        fit = self._fit(reading, route.candidates, tokens)
        checks = self._checks(reading, tokens)
        plan = Plan(snapshot, Route(route.model, fit.usable, route.kinds), checks, rungs, fallback=fallback)
        candidates = [self._offer(candidate, rungs, panic=plan.panic) for candidate in plan]
        for extra in candidates[tools.settings.failover.attempts :]:
            extra["note"] = "only when an earlier one could not be tried: failover.attempts are used up before"
        skipped = [_unfit(candidate, [detail.message for detail in details]) for candidate, details in fit.skipped]
        passed = [_skipped(one) for one in plan.skipped]
        if not any(one.get("full") for one in candidates):
            self._knock(plan.skipped, passed)
        return self._head(call) | {
            "snapshot": snapshot.version,
            "counted": dict(tokens),
            "fallback": fallback,
            "attempts": tools.settings.failover.attempts,
            "outcome": self._outcome(fit, candidates)
            or refused(gone(tools, call.asked, plan.skipped, checks.fits) or nothing_worked(call)),
            "candidates": candidates,
            "skipped": skipped + passed,
        }

    def _head(self, call: Call) -> Shown:
        """What was asked for, and where its model was redirected to when its provider retired it."""
        shown: Shown = {"door": call.door.value, "model": call.asked or call.model or call.named}
        target = self._tools.retirements.redirect_of(call.asked) if call.asked else ""
        return shown | ({"redirected_to": target} if target != call.asked else {})

    def _fit(self, reading: Reading | Examined, candidates: Sequence[Candidate], tokens: Mapping[str, int]) -> Fit:
        if not self._tools.settings.validation.mode:
            return Fit(tuple(candidates), ())
        return check(reading.ask, reading.findings, candidates, tokens, self._tools.wall())

    def _checks(self, reading: Reading | Examined, tokens: Mapping[str, int]) -> Checks:
        def against(candidate: Candidate) -> str:
            skipped = self._fit(reading, (candidate,), tokens).skipped if candidate.rung else ()
            return skipped[0][1][0].message if skipped else ""

        return Checks(partial(look, self._tools), against, self._tools.retirements.reason_against, least_outstanding)

    def _offer(self, candidate: Candidate, rungs: Sequence[Rung], *, panic: bool) -> Shown:
        seen, seat = look(self._tools, candidate), candidate.replica.seat
        shown: Shown = {
            "rung": candidate.rung,
            "rung_name": rungs[candidate.rung - 1].told if candidate.rung else "asked for",
            "replica": candidate.replica.id,
            "backend": candidate.backend.name,
            "provider": candidate.kind.value,
            "model": candidate.served,
            "tier": seen.tier.name.lower(),
            "why": seen.why or "well",
            "priority": candidate.backend.priority,
            "in_flight": seat.in_flight,
            "cap": seat.cap,
        }
        if panic:
            shown["panic"] = True
        if not seat.free:
            shown["full"] = True
        return shown

    def _knock(self, skipped: Sequence[Skipped], shown: Sequence[Shown]) -> None:
        """Mark the replica that is tried at the very end, since nobody listened there a while ago."""
        for one, told in zip(skipped, shown, strict=True):
            if one.candidate is not None:
                breaker = self._tools.health.entry(one.candidate, self._tools.clock()).breaker
                if breaker.state is State.OPEN and breaker.hard and breaker.wish is Wish.NONE:
                    told["knock"] = "tried after all others, by one request a second"
                    return

    def _outcome(self, fit: Fit, offered: Sequence[Shown]) -> Shown | None:
        """Who gets it, or why it waits or is refused; None when nobody can be tried."""
        first = next((one for one in offered if not one.get("full")), None)
        if first is not None:
            return {"sent_to": {key: first[key] for key in ("backend", "replica", "model", "rung")}}
        if offered:
            return {"waits": "every candidate is at its concurrency cap", "at_most_s": self._tools.settings.queue.wait}
        if fit.skipped and not fit.usable:
            return refused(refusal(fit))
        return None


def refused(problem: Problem) -> Shown:
    """A Problem as the outcome of an explanation."""
    shown: Shown = {"status": problem.status, "code": problem.code, "message": problem.message}
    return shown | ({"details": [detail.shown() for detail in problem.details]} if problem.details else {})


def _unfit(candidate: Candidate, reasons: Sequence[str]) -> Shown:
    return {
        "rung": candidate.rung,
        "where": candidate.replica.id,
        "backend": candidate.backend.name,
        "model": candidate.served,
        "reason": "; ".join(reasons),
    }


def _skipped(one: Skipped) -> Shown:
    if one.candidate is not None:
        return _unfit(one.candidate, (one.reason,))
    return {"rung": one.rung, "where": one.where, "reason": one.reason}
