"""The last step: every attempt's verdict is told once, to everything that learns from it.

Who hears: the breaker, the registry (limits that an engine named), the retired facts, the metrics. The access log reads the
call itself. A retirement is told at once, before the next attempt, and written down before the caller reads the answer: a
process that dies right afterwards still knows it.

It must not know: how a verdict came about, or what the client was sent.
"""

from __future__ import annotations

from autohedge.call import Call
from autohedge.core.types import Attempt, Candidate, Door, Judgement, Outcome, Verdict
from autohedge.fallback import remains
from autohedge.memory.retired import is_gone
from autohedge.providers import DIALECTS
from autohedge.rules.chain import RungKind, outside
from autohedge.rules.retirement import Retired
from autohedge.rules.standing import Tier
from autohedge.rules.verdicts import MOVES_ON, judge
from autohedge.tools import Tools


class Teller:
    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    def __call__(self, call: Call) -> None:
        """Tell the attempts of a call that is over, however it ended."""
        tools = self._tools
        now = tools.clock()
        meters = tools.meters
        for attempt in call.attempts:
            candidate, judgement = attempt.candidate, attempt.judgement
            if judgement is None:
                outcome = attempt.outcome
                assert outcome is not None
                outcome.left = outcome.left or (outcome.failure is None and not outcome.finished and not call.poured)
                judgement = attempt.judgement = judge(outcome, DIALECTS[candidate.kind])
            if not attempt.ended:
                attempt.ended = now
            backend, verdict = candidate.backend.name, judgement.verdict
            tools.health.record(attempt, now)
            meters.attempt(backend, candidate.served, verdict)
            if attempt.first_byte is not None:
                meters.first_byte(backend, attempt.first_byte - attempt.started)
            if verdict in MOVES_ON and not is_gone(candidate, judgement):
                tools.retirements.failed(candidate, call.asked, tools.wall())
                if verdict is Verdict.BUSY and judgement.retry_after:
                    tools.cooling.note(candidate, judgement.retry_after, tools.wall())
            if judgement.teaches:
                tools.registry.teach(candidate.replica.id, candidate.served, judgement.teaches, tools.wall())
                tools.learner.poke(candidate.replica.id)
        if len(call.attempts) > 1:
            tools.meters.failover(len(call.attempts) - 1)

    async def retired(self, call: Call, attempt: Attempt) -> None:
        """Keep what a verdict says of a model that is gone, and redirect the models that failed there to what can serve them."""
        tools = self._tools
        candidate, outcome, judgement = attempt.candidate, attempt.outcome, attempt.judgement
        assert outcome is not None
        assert judgement is not None
        if not is_gone(candidate, judgement):
            return
        tools.retirements.failed(candidate, call.asked, tools.wall())
        if self.gone(candidate, judgement, outcome, call.door):
            await tools.shared.flushed()

    def gone(self, candidate: Candidate, judgement: Judgement, outcome: Outcome, door: Door) -> bool:
        """Keep what an answer at `door` says of a model that is gone; whether it is news."""
        fact = self._tools.retirements.note(candidate, judgement, outcome, self._tools.wall(), door)
        if fact is not None:
            self.adapt(fact)
        return fact is not None

    def adapt(self, fact: Retired) -> None:
        """Redirect the models that failed there; each worker those that failed in its own hands."""
        self._tools.retirements.adapt(fact, self._instead, self._tools.wall())

    def _instead(self, model: str) -> str | None:
        """What the first usable rung of the chain of `model` asks for: a model here, or the name of a rung that leads outside,
        which the way through the chain finds by itself. None where no rung is usable, or another backend still has the model.
        """
        snapshot = self._tools.registry.snapshot
        if remains(snapshot.routes.get(model), self._tools.retirements):
            return None
        for rung in self._tools.chains.of(model):
            if rung.kind is RungKind.EXTERNAL:
                if any(map(self._usable, outside(snapshot, rung, model))):
                    return rung.told
                continue
            for name in rung.models:
                route = snapshot.routes.get(name)
                if name != model and route is not None and any(map(self._usable, route.candidates)):
                    return name
        return None

    def _usable(self, candidate: Candidate) -> bool:
        tools = self._tools
        known_gone = tools.retirements.fact_of(candidate) is not None
        return not known_gone and tools.health.look(candidate, tools.clock()).tier <= Tier.UNKNOWN
