"""Pinging: one GET to every replica at an interval, whose status is all that is read.

Two uses
- the engine's own health path beside the real probes: a hint, which opens nothing but a refused connection does (B08);
- eidex's pair, light and deep, which decide alone (seed 000): each with its own interval and its own streaks, the first one
  after one interval, every replica whether well or not, 200 and nothing else is good.

Rules
- One in flight per replica and round. A failure that came while our own loop was late is thrown away (T89).
- The result counts for every model of the replica.

It must not know: what a judge makes of it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from autohedge.core.types import Candidate, Verdict
from autohedge.providers import DIALECTS
from autohedge.providers.base import Question
from autohedge.rules.probe_verdicts import AGAINST, judged_light
from autohedge.rules.probes import Probed
from autohedge.rules.standing import Via
from autohedge.watchers.means import Means, headers_for
from autohedge.watchers.turns import in_turns

LOGGER = logging.getLogger(__name__)
SIGHT = 1.0  # seconds until a new replica is noticed when nobody calls `wake`


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds. `path` "" is the health path of each replica's kind. `decides`: any failure counts as one, and none is proof."""

    via: Via
    interval: float
    timeout: float
    path: str = ""
    jitter: float = 0.0
    decides: bool = False
    external: bool = False


class Pinger:
    """One round over all replicas."""

    def __init__(self, means: Means, rounds: Round) -> None:
        self._means = means
        self._round = rounds
        self._version = -1
        self._candidates: dict[str, Candidate] = {}  # by replica id
        self._due: dict[str, float] = {}
        self._busy: set[str] = set()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """The registry may have new replicas."""
        self._woken.set()

    async def run(self) -> None:
        """Ping for ever; ends only when cancelled."""
        await in_turns(self._woken, self._start_due)

    def _start_due(self, group: asyncio.TaskGroup) -> float:
        """Start every ping that is due; returns the seconds until the next one is."""
        now, wait = asyncio.get_running_loop().time(), SIGHT
        self._refresh(now)
        for replica, candidate in self._candidates.items():
            if replica in self._busy:
                continue  # its end wakes us
            if self._due[replica] <= now:
                self._due[replica] = now + self._pause()
                self._start(group, candidate)
            wait = min(wait, self._due[replica] - now)
        return wait

    def _refresh(self, now: float) -> None:
        """Follow the snapshot: one candidate of each replica; new ones are due after one interval."""
        snapshot = self._means.registry.snapshot
        if snapshot.version == self._version:
            return
        self._version = snapshot.version
        self._means.health.settle(snapshot, now)
        found: dict[str, Candidate] = {}
        for candidate in snapshot.everybody():
            if self._round.external or not candidate.backend.external:
                found.setdefault(candidate.replica.id, candidate)
        self._candidates = found
        self._due = {replica: self._due.get(replica, now + self._pause()) for replica in found}

    def _pause(self) -> float:
        jitter = self._round.jitter
        return self._round.interval * (1 - jitter + 2 * jitter * self._means.draw())

    def _start(self, group: asyncio.TaskGroup, candidate: Candidate) -> None:
        path = self._round.path or DIALECTS[candidate.kind].light
        replica = candidate.replica.id
        if path and self._means.hooks.lease(f"probe:{replica}"):
            self._busy.add(replica)
            group.create_task(self._take(candidate, path), name=f"ping {replica}")

    async def _take(self, candidate: Candidate, path: str) -> None:
        """One ping, judged and told. Nothing but a cancel leaves here."""
        loop = asyncio.get_running_loop()
        replica, rounds, means = candidate.replica, self._round, self._means
        started = loop.time()
        try:
            reply = await means.ask(replica.address, Question(path), headers_for(candidate), rounds.timeout)
            now = loop.time()
            judgement = means.fair(judged_light(reply), started, now)
            sick = rounds.decides and judgement.verdict in AGAINST
            verdict = Verdict.SICK if sick else judgement.verdict
            probe = Probed(replica.id, "", rounds.via, verdict, judgement.reason, took=now - started)
            for pair, counted in means.health.pinged(probe, now):
                means.hooks.publish(pair, counted)
        except Exception:
            LOGGER.exception("replica %s could not be pinged", replica.id)
        finally:
            self._busy.discard(replica.id)
            self._woken.set()
