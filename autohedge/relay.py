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
from autohedge.checking import Checker, route_of
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
        self._tell = Teller(tools)
        tools.attempter.retired = self._tell.retired

    async def serve(self, call: Call, out: Out) -> None:
        """Answer `call` through `out`, or raise the Problem that says why not."""
        tools = self.tools
        won: Opened | None = None
        try:
            reading = tools.examiner.here(call) or await tools.examiner.elsewhere(call)  # read
            snapshot = tools.registry.snapshot  # look
            route = route_of(call, reading.ask, snapshot, tools)
            asked = (call, reading, snapshot, route)
            checked = self._check.plainly(*asked) or await self._check.closely(*asked)  # check
            tools.retries.primary(call.started)
            plan = self._plan.plainly(call, checked) or await self._plan.closely(call, checked)  # plan
            tried = await race(call, plan, tools.attempter, tools.settings.failover.attempts, self._may_retry)  # race
            won = self._winner(call, tried)
            await self._commit(call, won, out)  # commit, stream
            call.poured = True
        finally:
            if won is not None:
                won.close()
            self._tell(call)  # tell

    def _may_retry(self) -> bool:
        return self.tools.retries.take(self.tools.clock())

    def _winner(self, call: Call, tried: Sequence[Opened]) -> Opened:
        """The answer to commit: the winner, or the most telling failed answer of an engine; else raises the Problem."""
        if tried and tried[-1].won:
            return tried[-1]
        problem = nothing_worked(call)
        self.tools.exhausted(call.asked, problem.message)
        telling = best(tried)
        if telling is None:
            raise problem
        return telling

    # --- commit and stream ------------------------------------------------------------------------------------------

    async def _commit(self, call: Call, won: Opened, out: Out) -> None:
        judgement = won.attempt.judgement
        status = judgement.status if judgement is not None and judgement.status else won.status
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
            await out.whole(status, answer_headers(call, won, len(body)), body)
            return
        grows = bool(name) or won.watch is not None  # a stream that breaks off gets an event of ours
        await out.start(status, answer_headers(call, won, None if grows else -1))
        await pour(call, won, out, self.tools.clock, ModelRewriter(name) if name and won.watch is not None else None)

    def _shown_name(self, call: Call, won: Opened) -> str:
        """The model name to write into the answer; "" leaves the engine's own."""
        override = self.tools.settings.openai.model_override
        if not override or any(name == b"content-encoding" for name, _ in won.headers):
            return ""
        return call.model or call.named or call.asked if override == "request" else override
