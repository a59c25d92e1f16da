"""What the workers and replicas of AutoHedge tell each other about health, and what outlives a restart.

Rules
- One process probes for all: it holds the lease `LEASE` and renews it. Where the store is lost, each probes for itself.
- Probe results and openings are written to the shared book; who hears one takes it in as its own evidence.
- An opening is kept until its first trial; a breaker that closed takes it back.

It must not know: how probes are made, what a store is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from autohedge.core.types import Candidate
from autohedge.memory.entry import Opening
from autohedge.memory.health import Health
from autohedge.rules.probes import Probed, from_text, to_text
from autohedge.rules.standing import State, Transition
from autohedge.state.resilient import Shared

LEASE = "prober"
HELD = 6.0  # seconds that a lease lasts; renewed three times as often
PROBES, OPENINGS = "probe:", "opening:"
FRESH = 30.0  # seconds that a probe's result is worth telling


class Sharing:
    """`clock` and `wall` are the process's monotonic and epoch seconds."""

    def __init__(self, shared: Shared, health: Health, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._shared = shared
        self._health = health
        self._clock = clock
        self._wall = wall
        self._hearing = False  # an opening is being taken over: it is kept already
        self.leads = False
        shared.on_change(PROBES, self._probe_heard)
        shared.on_change(OPENINGS, self._opening_heard)

    async def run(self) -> None:
        """Hold the prober's lease for as long as this process lives."""
        while True:
            self.leads = await self._shared.lease(LEASE, HELD)
            await asyncio.sleep(HELD / 3)

    def may_probe(self, _replica: str) -> bool:
        return self.leads

    def probed(self, candidate: Candidate, probe: Probed) -> None:
        """Tell the others what a probe of ours found."""
        key = f"{PROBES}{candidate.replica.id}|{candidate.served}"
        self._shared.put_soon(key, {"probe": to_text(probe)}, FRESH)

    def changed(self, candidate: Candidate, transition: Transition) -> None:
        """Keep an opening, or take it back."""
        if self._hearing:
            return
        replica, model = candidate.replica.id, candidate.served
        key = f"{OPENINGS}{replica}|{model}"
        if transition.new is State.CLOSED:
            self._shared.delete_soon(key)
        elif transition.new is State.OPEN:
            for opening in self._health.openings(self._clock()):
                if (opening.replica, opening.model) == (replica, model):
                    self._shared.put_soon(key, opening.told(self._wall()), max(opening.left, 1.0))

    def _probe_heard(self, _key: str, value: Mapping[str, Any] | None) -> None:
        probe = from_text(str(value.get("probe", ""))) if value is not None and not self.leads else None
        if probe is not None:
            self._health.heard(probe, self._clock())

    def _opening_heard(self, _key: str, value: Mapping[str, Any] | None) -> None:
        opening = Opening.read(value, self._wall()) if value is not None else None
        if opening is None:
            return
        self._hearing = True
        try:
            self._health.adopt(opening, self._clock())
        finally:
            self._hearing = False
