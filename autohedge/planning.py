"""The plan of one request: who is tried first, who next, and when to wait for a free seat.

Rules
- The obvious first choice is taken without a plan; the whole plan, rung by rung (rules/chain.py), is computed when it failed
  or when there is none.
- A replica at its concurrency cap is passed over. When all are, the request waits in the bounded queue; so does one whose
  earlier choices failed, for those that it could not try yet.
- The breaker is asked at the moment of sending, not of planning; its stamp goes with the attempt.
- A model is gone (410) only when nothing is left that could come back: a rung whose breaker is open will.

It must not know: payloads, sockets, what an answer looks like.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from autohedge.call import Call
from autohedge.checking import Checked
from autohedge.core.problems import Gone, Unavailable
from autohedge.core.types import Admitted, Candidate, Replica
from autohedge.deciding import optimistic
from autohedge.memory.choice import Choice
from autohedge.rules.balance import least_outstanding
from autohedge.rules.chain import Checks, Plan, Skipped
from autohedge.rules.standing import Admission, Tier
from autohedge.tools import Tools

# Tiers that a plan offers only when it has nothing better: their breakers are asked twice.
INSIST = frozenset({Tier.RAMPING, Tier.UNKNOWN, Tier.LOADING})


class Planner:
    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._choice = Choice(tools.health)

    def plainly(self, call: Call, checked: Checked) -> Offers | None:
        """The obvious first choice, and the whole plan only if that fails. None: there is no obvious one."""
        candidates, now = checked.route.candidates, self._tools.clock()
        if checked.order is None:
            first = self._choice.first(candidates, now, self._passed_over)
        else:
            first = self._choice.first_by(checked.order, candidates, now, self._passed_over, unheard=call.decides)
        return None if first is None else Offers(self, call, checked, first)

    async def closely(self, call: Call, checked: Checked) -> Offers:
        """Candidates in the order of trying, admitted one by one. Raises Unavailable (queue_full) when no seat came free, and
        what `checked.refused` says when no rung can take what the model's own backends refuse.
        """
        offers = Offers(self, call, checked)
        if await offers.begin():
            return offers
        if offers.full:
            message = f"every replica of model {call.asked} is at its concurrency cap and the queue is full or too slow"
            raise Unavailable(message, code="queue_full", retry_after=1)
        if checked.refused is not None:
            raise checked.refused
        plan = self._plan(checked)
        if next(iter(plan), None) is None:
            problem = gone(self._tools, call.asked, plan.skipped, checked.against)
            if problem is not None:
                raise problem
        return offers

    def _plan(self, checked: Checked) -> Plan:
        tools = self._tools
        checks = Checks(
            look=partial(look_for_decision if checked.decides else look, tools),
            fits=checked.against,
            retired=tools.retirements.reason_against,
            order=checked.order or least_outstanding,
        )
        return Plan(checked.snapshot, checked.route, checks, checked.rungs)

    def _passed_over(self, candidate: Candidate) -> object:
        """Why a candidate is no obvious first choice though it is well: retired, or cooling down."""
        tools = self._tools
        return tools.retirements.fact_of(candidate) or tools.cooling.left(candidate, tools.wall()) or None

    # --- for the offers -----------------------------------------------------------------------------------------------

    def patience(self, call: Call) -> float:
        """Until when a request may wait for a seat."""
        now = self._tools.clock()
        return now + min(self._tools.settings.queue.wait, call.deadline - now)

    async def seat(self, full: Sequence[Candidate], until: float) -> Replica | None:
        tools = self._tools
        tools.meters.queued += 1
        try:
            return await tools.room.wait((candidate.replica for candidate in full), until - tools.clock())
        finally:
            tools.meters.queued -= 1

    def unused(self, replica: Replica) -> None:
        """A seat was kept for a request that went elsewhere: it is the next one's."""
        if replica.seat.free:
            self._tools.room.freed(replica)

    def admitted(self, checked: Checked, offered: Collection[Admitted], full: list[Candidate]) -> Iterator[Admitted]:
        """Those of the plan that have a free seat and whose breaker lets this request through; the full ones are noted."""
        health, clock = self._tools.health, self._tools.clock
        known = {_key(candidate) for candidate, _ in offered}
        plan = self._plan(checked)
        for candidate in plan:
            if _key(candidate) in known or (checked.own and not candidate.rung and len(offered) >= checked.own):
                continue
            if not candidate.replica.seat.free:
                full.append(candidate)
                continue
            admission = health.admit(candidate, clock())
            if not admission.allowed and (plan.panic or admission.tier in INSIST):
                admission = health.admit(candidate, clock(), insist=True)
            if admission.allowed:
                yield Admitted(candidate, admission.stamp)
        skipped = (one.candidate for one in plan.skipped)
        shut = [candidate for candidate in skipped if candidate is not None and _key(candidate) not in known]
        last = self._choice.knock(shut, clock()) if shut and not full else None
        if last is not None:
            yield last


class Offers:
    """Whom one request may try, one after the other: an iterator. `full` names those that only lack a seat."""

    __slots__ = ("_call", "_checked", "_offered", "_planner", "_ready", "_rest", "full")

    def __init__(self, planner: Planner, call: Call, checked: Checked, first: Admitted | None = None) -> None:
        self._planner = planner
        self._call = call
        self._checked = checked
        self._ready = first
        self._offered = [] if first is None else [first]
        self._rest: Iterator[Admitted] | None = None
        self.full: Sequence[Candidate] = ()

    def __iter__(self) -> Iterator[Admitted]:
        return self

    def __next__(self) -> Admitted:
        ready = self._ready
        if ready is not None:
            self._ready = None
            return ready
        admitted = next(self._rest or self._again())
        self._offered.append(admitted)
        return admitted

    async def begin(self) -> bool:
        """Whether anybody can be tried, after a wait if it must be."""
        self._ready = next(self, None) or await self.seat()
        return self._ready is not None

    async def seat(self) -> Admitted | None:
        """Wait for a seat with one of `full`, then look again. None: none came free in time, or none was wanted.

        What it returns has its seat only until the event loop runs on: try it at once.
        """
        planner = self._planner
        until = planner.patience(self._call) if self.full else 0.0
        while self.full:
            kept = await planner.seat(self.full, until)
            if kept is None:
                return None
            self._again()
            offer = next(self, None)
            if offer is None or offer.candidate.replica.id != kept.id:
                planner.unused(kept)
            if offer is not None:
                return offer
        return None

    def _again(self) -> Iterator[Admitted]:
        """A plan of this moment, without what was offered before."""
        full: list[Candidate] = []
        self.full = full
        self._rest = self._planner.admitted(self._checked, self._offered, full)
        return self._rest


def gone(tools: Tools, asked: str, skipped: Sequence[Skipped], against: Callable[[Candidate], str]) -> Gone | None:
    """410 with the evidence, when a plan offered nobody and all that it skipped is retired or could not serve this request."""
    evidence: dict[str, None] = {}
    for candidate in (one.candidate for one in skipped):
        if candidate is None:
            continue
        reason = tools.retirements.reason_against(candidate)
        if reason:
            evidence[f"{candidate.backend.name}: {reason}"] = None
        elif not against(candidate):
            return None
    if not evidence:
        return None
    return Gone(f"model {asked} was retired by its provider and has nowhere to go ({'; '.join(evidence)})")


def _key(candidate: Candidate) -> tuple[str, str]:
    return candidate.replica.id, candidate.served


def look(tools: Tools, candidate: Candidate) -> Admission:
    """What its breaker says; one that asked to be left alone comes after all that are well."""
    return _left_alone(tools, candidate, tools.health.look(candidate, tools.clock()))


def look_for_decision(tools: Tools, candidate: Candidate) -> Admission:
    """The same at the System One door."""
    return _left_alone(tools, candidate, optimistic(tools, candidate, tools.health.look(candidate, tools.clock())))


def _left_alone(tools: Tools, candidate: Candidate, seen: Admission) -> Admission:
    left = tools.cooling.left(candidate, tools.wall()) if seen.tier <= Tier.UNKNOWN else 0.0
    return seen._replace(tier=Tier.UNKNOWN, why=f"asked to be left alone for {left:.0f} s more") if left else seen
