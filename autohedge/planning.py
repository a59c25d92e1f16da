"""The plan of one request: who is tried first, who next, and when to wait for a free seat.

Rules
- The obvious first choice is taken without a plan; the whole plan, rung by rung (rules/chain.py), is computed when it failed
  or when there is none.
- A replica at its concurrency cap is passed over. When all are, the request waits in the bounded queue.
- The breaker is asked at the moment of sending, not of planning; its stamp goes with the attempt.

It must not know: payloads, sockets, what an answer looks like.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain

from autohedge.call import Call
from autohedge.checking import Checked
from autohedge.core.problems import Gone, Unavailable
from autohedge.core.types import Admitted, Candidate
from autohedge.memory.choice import Choice
from autohedge.rules.balance import least_outstanding
from autohedge.rules.chain import Checks, Plan
from autohedge.rules.standing import Admission, Tier
from autohedge.tools import Tools

# Tiers that a plan offers only when it has nothing better: their breakers are asked twice.
INSIST = frozenset({Tier.RAMPING, Tier.UNKNOWN, Tier.LOADING})


class Planner:
    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._choice = Choice(tools.health)

    def plainly(self, checked: Checked) -> Iterator[Admitted] | None:
        """The obvious first choice, and the whole plan only if that fails. None: there is no obvious one."""
        first = self._choice.first(checked.route.candidates, self._tools.clock(), self._passed_over)
        return None if first is None else self._rest(first, checked)

    async def closely(self, call: Call, checked: Checked) -> Iterator[Admitted]:
        """Candidates in the order of trying, admitted one by one. Raises Unavailable (queue_full) when no seat came free, and
        what `checked.refused` says when no rung can take what the model's own backends refuse.
        """
        tools = self._tools
        patience = tools.clock() + min(tools.settings.queue.wait, call.deadline - tools.clock())
        while True:
            full: list[Candidate] = []
            admitted = self._admitted(self._plan(checked), full)
            head = next(admitted, None)
            if head is not None:
                return chain((head,), admitted)
            if not full:
                if checked.refused is not None:
                    raise checked.refused
                self._raise_if_retired(call, checked)
                return iter(())
            if not await self._seat(full, patience - tools.clock()):
                message = (
                    f"every replica of model {call.asked} is at its concurrency cap and the queue is full or too slow"
                )
                raise Unavailable(message, code="queue_full", retry_after=1)

    def _plan(self, checked: Checked) -> Plan:
        tools = self._tools
        checks = Checks(
            look=partial(look, tools),
            fits=checked.against,
            retired=tools.retirements.reason_against,
            order=least_outstanding,
        )
        return Plan(checked.snapshot, checked.route, checks, checked.rungs)

    def _raise_if_retired(self, call: Call, checked: Checked) -> None:
        """410 with the evidence, when every candidate of the model is known to be gone and no rung is left."""
        candidates = checked.route.candidates
        facts = [self._tools.retirements.fact_of(candidate) for candidate in candidates]
        if candidates and all(fact is not None for fact in facts):
            reasons = {self._tools.retirements.reason_against(candidate): candidate for candidate in candidates}
            told = "; ".join(f"{candidate.backend.name}: {reason}" for reason, candidate in reasons.items())
            raise Gone(f"model {call.asked} was retired by its provider and has nowhere to go ({told})")

    def _passed_over(self, candidate: Candidate) -> object:
        """Why a candidate is no obvious first choice though it is well: retired, or cooling down."""
        tools = self._tools
        return tools.retirements.fact_of(candidate) or tools.cooling.left(candidate, tools.wall()) or None

    async def _seat(self, full: list[Candidate], patience: float) -> bool:
        meters = self._tools.meters
        meters.queued += 1
        try:
            return await self._tools.room.wait((candidate.replica for candidate in full), patience)
        finally:
            meters.queued -= 1

    def _rest(self, first: Admitted, checked: Checked) -> Iterator[Admitted]:
        """The obvious first choice, and only if it fails the whole plan without it."""
        yield first
        for admitted in self._admitted(self._plan(checked), []):
            if admitted.candidate is not first.candidate:
                yield admitted

    def _admitted(self, plan: Plan, full: list[Candidate]) -> Iterator[Admitted]:
        """Those of the plan that have a free seat and whose breaker lets this request through; the full ones are noted."""
        health, clock = self._tools.health, self._tools.clock
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


def look(tools: Tools, candidate: Candidate) -> Admission:
    """What its breaker says; one that asked to be left alone comes after all that are well."""
    seen = tools.health.look(candidate, tools.clock())
    left = tools.cooling.left(candidate, tools.wall()) if seen.tier <= Tier.UNKNOWN else 0.0
    return seen._replace(tier=Tier.UNKNOWN, why=f"asked to be left alone for {left:.0f} s more") if left else seen
