"""One minimal inference: asked of one model on one replica, and judged.

Rules
- Where an engine loads models by name, it is asked first which are loaded. One that is not is not asked (B14, B16), and one
  that nobody uses is let alone, or our probes would keep it in memory for ever.
- What the first question already proves (nobody listens, nothing comes, 503) is the result.

It must not know: when probes are sent, what a breaker does with a verdict.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from autohedge.core.types import Candidate, Door, Judgement, Verdict
from autohedge.providers import DIALECTS
from autohedge.providers.base import Reply
from autohedge.rules.probe_verdicts import UNSUITABLE, Expected, judged, silent
from autohedge.rules.probes import LOADED_MODELS, newer_bound, question, resident
from autohedge.watchers.asking import Asking
from autohedge.watchers.means import headers_for

NOT_LOADED = Judgement(Verdict.CAPABILITY, "not loaded, and a probe would load it")
LEAST = 0.1  # seconds that are left for the inference at least


@dataclass(frozen=True, slots=True)
class Wanted:
    """`limit` is seconds for all of it; `unused`: nobody used the model lately, so it may be unloaded in peace."""

    expected: Expected
    tokens: int
    limit: float
    unused: bool


@dataclass(frozen=True, slots=True)
class Heard:
    """`silent`: nothing came in time. `unsuitable`: the door or the body does not suit the model. `spared`: why no inference
    was asked after all, while nothing spoke against the replica. `reply` is what the inference was answered with.
    """

    judgement: Judgement
    silent: bool = False
    unsuitable: bool = False
    spared: str = ""
    reply: Reply | None = None


async def infer(ask: Asking, candidate: Candidate, wanted: Wanted) -> Heard:
    """Ask and judge. Never raises for what an engine does."""
    loop = asyncio.get_running_loop()
    end = loop.time() + wanted.limit
    dialect, headers, address = DIALECTS[candidate.kind], headers_for(candidate), candidate.replica.address
    if candidate.kind in LOADED_MODELS:
        reply = await ask(address, LOADED_MODELS[candidate.kind], headers, wanted.limit)
        if reply.status == 0 or reply.status >= 500:
            return Heard(judged(reply, dialect, wanted.expected), silent(reply))
        loaded = resident(candidate.kind, reply, candidate.served)
        if loaded is False:
            return Heard(NOT_LOADED, spared=NOT_LOADED.reason)
        if loaded and wanted.unused:
            return Heard(Judgement(Verdict.ABANDONED), spared="unused, and a probe would keep it in memory")
    reply = await put(ask, candidate, wanted.expected.door, wanted.tokens, max(LEAST, end - loop.time()))
    judgement = judged(reply, dialect, wanted.expected)
    return Heard(judgement, silent(reply), judgement.verdict in UNSUITABLE, reply=reply)


async def put(ask: Asking, candidate: Candidate, door: Door, tokens: int, limit: float) -> Reply:
    """The reply to the smallest inference of a door, within `limit` seconds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + limit
    address, headers = candidate.replica.address, headers_for(candidate)
    asked = question(candidate, door, tokens, DIALECTS[candidate.kind])
    reply = await ask(address, asked, headers, limit)
    again = newer_bound(asked, reply)
    return reply if again is None else await ask(address, again, headers, max(LEAST, end - loop.time()))
