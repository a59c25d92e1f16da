"""Looking again at what is retired: some 410s are rehearsals (GitHub's brownouts), some models come back.

Rules
- A fact is looked at when its time has come (15 minutes, doubling to a day), by one minimal inference; also at a paid
  provider, since one question in hours is cheaper than a provider that stays lost.
- It is asked where the fact was seen (an embedding model has no chat); where that is not known, at its doors one after the
  other until one suits.
- An answer undoes the fact, the same sentence again doubles the pause, anything else waits as long once more.
- One process looks for all. A backend that is no longer there is not asked; its fact runs out by itself.

It must not know: what a fact does to plans, how facts are kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from autohedge.core.types import Candidate, Door, Outcome
from autohedge.memory.registry import Registry
from autohedge.memory.retired import Retirements
from autohedge.providers import DIALECTS
from autohedge.rules.probe_verdicts import UNSUITABLE, Expected, judged
from autohedge.rules.probes import SMALL, doors_of
from autohedge.rules.retirement import ALL, Retired
from autohedge.watchers.asking import Asking
from autohedge.watchers.inference import put

LOGGER = logging.getLogger(__name__)
LOOK = 5.0  # seconds between two looks at what is due
LIMIT = 30.0  # seconds for one question
TOKENS = 16


class Rechecker:
    """`leads`: whether this process is the one that looks. `wall` gives epoch seconds."""

    def __init__(
        self,
        retirements: Retirements,
        registry: Registry,
        ask: Asking,
        wall: Callable[[], float],
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self._retirements = retirements
        self._registry = registry
        self._ask = ask
        self._wall = wall
        self._leads = leads

    async def run(self) -> None:
        """Look for ever; ends only when cancelled."""
        while True:
            await asyncio.sleep(LOOK)
            if self._leads():
                for fact in self._retirements.due(self._wall()):
                    await self._look(fact)

    async def _look(self, fact: Retired) -> None:
        candidate = self._candidate(fact)
        if candidate is None:
            return
        dialect = DIALECTS[candidate.kind]
        own_key = candidate.backend.key is not None
        for door in _doors(fact, candidate):
            reply = await put(self._ask, candidate, door, TOKENS, LIMIT)
            judgement = judged(reply, dialect, Expected(door, own_key=own_key))
            if judgement.absent or judgement.verdict not in UNSUITABLE:
                break
        else:
            return
        content_type = reply.headers.get("content-type", "")
        outcome = Outcome(status=reply.status, content_type=content_type, excerpt=reply.body, own_key=own_key)
        after = self._retirements.recheck(fact, judgement, outcome, self._wall())
        word = "it is back" if after is None else f"still {judgement.verdict.value}"
        LOGGER.info("looked again at %s, model %s: %s", fact.provider, fact.model, word)

    def _candidate(self, fact: Retired) -> Candidate | None:
        """Any place where the fact can be looked at."""
        snapshot = self._registry.snapshot
        for route in snapshot.routes.values():
            for candidate in route.candidates:
                if candidate.backend.name == fact.provider and fact.model in {ALL, candidate.served}:
                    return candidate
        spec = snapshot.backends.get(fact.provider)
        replica = next((one for one in snapshot.replicas.values() if one.backend == fact.provider), None)
        if spec is None or replica is None:
            return None
        served = fact.model if fact.model != ALL else next(iter(spec.models), "")
        return Candidate(replica, spec, spec.kind, served, spec.hints, known=False) if served else None


def _doors(fact: Retired, candidate: Candidate) -> tuple[Door, ...]:
    """The doors that may be asked, the one where the fact was seen first."""
    dialect = DIALECTS[candidate.kind]
    doors = doors_of(candidate, dialect)
    seen = [door for door in SMALL if door == fact.door and door in dialect.doors]
    return tuple(dict.fromkeys((*seen, *doors)))
