"""The way of a request that is not sent: who would get it, in which order, who would not, and why.

Rules
- It takes the same steps as relay.py with the same parts (read, look, check, plan), and stops before the first attempt.
- Nothing is changed by it: no seat, no lease of a breaker, no meter, no retry budget. An engine may be asked to count the prompt,
  as the real check would.
- `home` is the replica that the request belongs to by its content, where it has an order by that.
- Every candidate appears once for each rung that offers it: in the order of trying, or as skipped with its reason.
- The one knock a second at a closed door (memory/choice.py) is marked where it would fall; a free seat is not foretold.
- A request that would be refused is explained as well: the refusal is the outcome, not an error of the question.

It must not know: HTTP, who asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from autohedge.answering import nothing_worked
from autohedge.call import Call
from autohedge.checking import counts, no_fallback, offered, over_all_limits, route_of, unchecked
from autohedge.core.problems import Problem
from autohedge.core.types import NOTHING, Candidate, Route
from autohedge.deciding import Deciders, no_decision
from autohedge.fallback import redirected
from autohedge.memory.affinity import Order, Ringed
from autohedge.payloads.reading import Examined, Reading
from autohedge.planning import gone, look, look_for_decision
from autohedge.rules.balance import least_outstanding
from autohedge.rules.chain import Checks, Plan, Rung, Skipped
from autohedge.rules.limits import Fit, check, refusal
from autohedge.rules.standing import Admission, State, Wish
from autohedge.tools import Tools

Shown = dict[str, Any]
Look = Callable[[Tools, Candidate], Admission]


class Explainer:
    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._deciders = Deciders(tools)

    async def __call__(self, call: Call) -> Shown:
        """The plan of `call` as JSON data: `outcome`, `candidates` in their order, `skipped` with reasons."""
        tools = self._tools
        try:
            reading = tools.examiner.here(call) or await tools.examiner.elsewhere(call)
            snapshot = tools.registry.snapshot
            ask, decides = reading.ask, call.decides
            route = self._deciders.route(call, ask, snapshot) if decides else route_of(call, ask, snapshot, tools)
            problem = (
                None if unchecked(tools.settings, call.door) else over_all_limits(ask, tools.settings, tools.wall())
            )
            if problem is not None:
                raise problem
        except Problem as problem:
            return self._head(call) | {"outcome": refused(problem), "candidates": [], "skipped": []}
        rungs = tools.chains.of(route.model)
        fallback = not no_fallback(call)
        tokens: Mapping[str, int] = NOTHING
        if not unchecked(tools.settings, call.door):
            places = [*route.candidates, *route.spare, *offered(rungs, route, snapshot)]
            tokens = await counts(call, ask, places, tools)
        fit, spare = (self._fit(reading, some, tokens) for some in (route.candidates, route.spare))
        order = tools.affinity.order(ask, route, tools.settings.routing)
        checks = self._checks(reading, tokens, look_for_decision if decides else look, order or least_outstanding)
        usable = Route(route.model, fit.usable, route.kinds, spare=spare.usable)
        plan = Plan(snapshot, usable, checks, rungs, fallback=fallback)
        candidates = [self._offer(candidate, checks.look(candidate), rungs, panic=plan.panic) for candidate in plan]
        fit = Fit(fit.usable + spare.usable, fit.skipped + spare.skipped)
        attempts = self._limited(candidates, decides=decides)
        skipped = [_unfit(candidate, [detail.message for detail in details]) for candidate, details in fit.skipped]
        passed = [_skipped(one) for one in plan.skipped]
        if not any(one.get("full") for one in candidates):
            self._knock(plan.skipped, passed)
        return self._head(call) | {
            "snapshot": snapshot.version,
            "counted": dict(tokens),
            "fallback": fallback,
            "attempts": attempts,
            **({"home": order.home} if isinstance(order, Ringed) and order.home else {}),
            "outcome": self._outcome(fit, candidates)
            or refused(
                gone(tools, call.asked, plan.skipped, checks.fits)
                or (no_decision(call) if decides else nothing_worked(call))
            ),
            "candidates": candidates,
            "skipped": skipped + passed,
        }

    def _head(self, call: Call) -> Shown:
        """What was asked for, and where its model was redirected to when its provider retired it."""
        shown: Shown = {"door": call.door.value, "model": call.asked or call.model or call.named}
        target = (
            redirected(call.asked, self._tools, self._tools.registry.snapshot.routes, call.headers)
            if call.asked
            else ""
        )
        return shown | ({"redirected_to": target} if target != call.asked else {})

    def _fit(self, reading: Reading | Examined, candidates: Sequence[Candidate], tokens: Mapping[str, int]) -> Fit:
        if unchecked(self._tools.settings, reading.ask.door):
            return Fit(tuple(candidates), ())
        return check(reading.ask, reading.findings, candidates, tokens, self._tools.wall())

    def _limited(self, candidates: Sequence[Shown], *, decides: bool) -> int:
        """How many attempts a request may make; those of the candidates that come too late for them are marked."""
        settings = self._tools.settings
        if not decides:
            for extra in candidates[settings.failover.attempts :]:
                extra["note"] = "only when an earlier one could not be tried: failover.attempts are used up before"
            return settings.failover.attempts
        own = settings.routing.retry + 1
        for extra in [one for one in candidates if not one["rung"]][own:]:
            extra["note"] = "only when an earlier one could not be tried: routing.retry is used up before"
        return own + (settings.failover.attempts if any(one["rung"] for one in candidates) else 0)

    def _checks(self, reading: Reading | Examined, tokens: Mapping[str, int], look: Look, order: Order) -> Checks:
        def against(candidate: Candidate) -> str:
            skipped = self._fit(reading, (candidate,), tokens).skipped if candidate.rung else ()
            return skipped[0][1][0].message if skipped else ""

        return Checks(partial(look, self._tools), against, self._tools.retirements.reason_against, order)

    def _offer(self, candidate: Candidate, seen: Admission, rungs: Sequence[Rung], *, panic: bool) -> Shown:
        seat = candidate.replica.seat
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
