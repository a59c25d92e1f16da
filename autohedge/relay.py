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

from collections.abc import Sequence

from autohedge.answering import answer_headers, nothing_worked, refusal_of, renamed
from autohedge.attempt import Opened
from autohedge.call import Call, Out
from autohedge.checking import Checked, Checker, route_of
from autohedge.core.types import Candidate
from autohedge.deciding import Deciders, new_name, no_decision, overridden
from autohedge.memory.affinity import Ringed
from autohedge.payloads.sse import ModelRewriter
from autohedge.planning import Planner
from autohedge.race import best, race
from autohedge.stream import pour
from autohedge.telling import Teller
from autohedge.tools import Tools


class Relay:
    def __init__(self, tools: Tools) -> None:
        self.tools = tools
        self._check = Checker(tools)
        self._plan = Planner(tools)
        self._deciders = Deciders(tools)
        self._tell = Teller(tools)
        tools.attempter.retired = self._tell.retired
        self.gone, self.adapt = self._tell.gone, self._tell.adapt

    async def serve(self, call: Call, out: Out) -> None:
        """Answer `call` through `out`, or raise the Problem that says why not."""
        tools = self.tools
        try:
            reading = tools.examiner.here(call) or await tools.examiner.elsewhere(call)  # read
            snapshot = tools.registry.snapshot  # look
            ask, decides = reading.ask, call.decides
            route = self._deciders.route(call, ask, snapshot) if decides else route_of(call, ask, snapshot, tools)
            asked = (call, reading, snapshot, route)
            checked = self._check.plainly(*asked) or await self._check.closely(*asked)  # check
            checked.order = tools.affinity.order(ask, route, tools.settings.routing)
            tools.retries.primary(call.started)
            attempts = self._attempts(checked) if decides else tools.settings.failover.attempts
            if checked.rungs:
                call.rungs, call.tries = len(checked.rungs), attempts
            plan = self._plan.plainly(call, checked) or await self._plan.closely(call, checked)  # plan
            tried = await race(call, plan, tools.attempter, attempts, _always if decides else self._may_retry)  # race
            won = self._winner(call, tried)
            try:
                if isinstance(checked.order, Ringed):
                    self._count(call, won.attempt.candidate, checked.order)
                await self._commit(call, won, out)  # commit, stream
                call.poured = True
            finally:
                won.close()
                if won.watch is not None:
                    tools.meters.chunks(won.watch.events)
        finally:
            self._tell(call)  # tell

    def _may_retry(self) -> bool:
        return self.tools.retries.take(self.tools.clock())

    def _attempts(self, checked: Checked) -> int:
        """At the System One door: eidex's tries, and those of the chain behind them."""
        settings = self.tools.settings
        checked.own = settings.routing.retry + 1
        return checked.own + (settings.failover.attempts if checked.rungs else 0)

    def _count(self, call: Call, answered: Candidate, order: Ringed) -> None:
        replica = answered.replica
        self.tools.meters.affinity(replica.backend, replica.id, order.told(answered, len(call.attempts)))

    def _winner(self, call: Call, tried: Sequence[Opened]) -> Opened:
        """The answer to commit: the winner, or the most telling failed answer of an engine; else raises the Problem."""
        if tried and tried[-1].won:
            return tried[-1]
        problem = no_decision(call) if call.decides else nothing_worked(call)
        if not call.decides or call.asked in self.tools.registry.snapshot.routes:  # else the name is the client's own
            self.tools.exhausted(call.asked, problem.message)
        telling = None if call.decides else best(tried)
        if telling is None:
            raise problem
        return telling

    # --- commit and stream ------------------------------------------------------------------------------------------

    async def _commit(self, call: Call, won: Opened, out: Out) -> None:
        if call.decides and won.whole:
            await self._decide(call, won, out)
            return
        judgement = won.attempt.judgement
        status = judgement.status if judgement is not None and judgement.status and not call.decides else won.status
        name = self._shown_name(call, won)
        if won.whole:
            body = won.pieces[0] if len(won.pieces) == 1 else b"".join(won.pieces)
            if status >= 400:
                body = refusal_of(won, status, body)
            if name and (won.watch is None or status >= 400):
                body = renamed(body, name)
            elif name:
                rewriter = ModelRewriter(name)
                body = rewriter.feed(body) + rewriter.flush()
            await out.whole(status, answer_headers(call, won), body, clean=True)
            return
        grows = bool(name) or won.watch is not None  # a stream that breaks off gets an event of ours
        await out.start(status, answer_headers(call, won, sized=not grows))
        await pour(call, won, out, self.tools.clock, ModelRewriter(name) if name and won.watch is not None else None)

    async def _decide(self, call: Call, won: Opened, out: Out) -> None:
        """A worker's answer as it came, whatever it says, but for the name in it."""
        body = won.pieces[0] if len(won.pieces) == 1 else b"".join(won.pieces)
        name = new_name(call, self.tools.settings.routing.model_override, won.fields)
        if name:
            body = overridden(body, name)
        outcome = won.attempt.outcome
        assert outcome is not None
        outcome.committed = True
        self._deciders.note(won.attempt.candidate, won.status)
        await out.whole(won.status, answer_headers(call, won), body, clean=True)

    def _shown_name(self, call: Call, won: Opened) -> str:
        """The model name to write into the answer; "" leaves the engine's own."""
        if call.decides:
            return ""
        override = self.tools.settings.openai.model_override
        if not override or any(name == b"content-encoding" for name, _ in won.headers):
            return ""
        return call.model or call.named or call.asked if override == "request" else override


def _always() -> bool:
    """The System One door asks no budget: `routing.retry` is its own."""
    return True
