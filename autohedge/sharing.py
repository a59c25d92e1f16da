"""What the workers and replicas of AutoHedge tell each other about health, and what outlives a restart.

Rules
- One process probes for all: it holds the lease `LEASE`, renews it, and gives it back when it ends: the next one need not wait
  until it is over. Where the store is lost, each probes for itself; and so
  does one that waits for evidence to begin with: the one that leads may not probe at all while its own traffic proves health.
- Probe results and openings are written to the shared book; who hears one takes it in as its own evidence.
- An opening is kept until its first trial; a breaker that closed takes it back. Where live requests are the trials, the process
  that leads has its own first and the others hear how it ended; they begin `YIELDED` later, since it may have no such requests.

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
from autohedge.rules.standing import State, Transition, Wish
from autohedge.state.resilient import Shared

LEASE = "prober"
HELD = 6.0  # seconds that a lease lasts; renewed three times as often
PROBES, OPENINGS, METERS, WISHES = "probe:", "opening:", "meters:", "wish:"
YIELDED = 2.0  # seconds
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
        self.waits: Callable[[], bool] = lambda: (
            False
        )  # whether this process serves nobody before it has seen for itself
        self._counting: tuple[str, Callable[[], dict[str, Any]]] | None = None
        shared.on_change(PROBES, self._probe_heard)
        shared.on_change(OPENINGS, self._opening_heard)
        shared.on_change(WISHES, self._wish_heard)

    async def run(self) -> None:
        """Hold the prober's lease for as long as this process lives, and leave it to the next one."""
        try:
            while True:
                self.leads = await self._shared.lease(LEASE, HELD)
                if self._counting is not None:
                    name, dump = self._counting
                    self._shared.put_soon(METERS + name, dump(), 3 * HELD)
                await asyncio.sleep(HELD / 3)
        finally:
            if self.leads:
                await self._shared.release(LEASE)

    def count(self, name: str, dump: Callable[[], dict[str, Any]]) -> None:
        """Share what this worker counted as `name` ("host:number"), so that any worker of the host can be scraped for all."""
        self._counting = (name, dump)

    def others_counted(self) -> list[Mapping[str, Any]]:
        """What the other workers of this host counted, at most two seconds old."""
        if self._counting is None:
            return []
        mine = METERS + self._counting[0]
        host = mine.rpartition(":")[0] + ":"
        return [value for key, value in self._shared.under(host).items() if key != mine]

    def yields(self) -> float:
        """Seconds by which this process leaves a live trial to the one that leads."""
        return 0.0 if self.leads else YIELDED

    def may_probe(self, _replica: str) -> bool:
        return self.leads or self.waits()

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

    def force(self, replica: str, wish: Wish, model: str | None) -> int:
        """An operator's wish, for all workers and after a restart; NONE takes it back. How many breakers it concerns here."""
        key = f"{WISHES}{replica}|{model or ''}"
        if wish is Wish.NONE:
            self._shared.delete_soon(key)
        else:
            self._shared.put_soon(key, {"wish": wish.value})
        return self._health.force(replica, wish, model)

    def _wish_heard(self, key: str, value: Mapping[str, Any] | None) -> None:
        replica, _, model = key.removeprefix(WISHES).rpartition("|")
        told = str(value.get("wish")) if value is not None else Wish.NONE.value
        if told in set(Wish):
            self._health.force(replica, Wish(told), model or None)

    def _probe_heard(self, _key: str, value: Mapping[str, Any] | None) -> None:
        probe = from_text(str(value.get("probe", ""))) if value is not None and not self.leads else None
        if probe is not None:
            self._health.heard(probe, self._clock())

    def _opening_heard(self, key: str, value: Mapping[str, Any] | None) -> None:
        if value is None:
            replica, _, model = key.removeprefix(OPENINGS).rpartition("|")
            self._health.relieve(replica, model, self._clock())
            return
        opening = Opening.read(value, self._wall())
        if opening is None:
            return
        self._hearing = True
        try:
            self._health.adopt(opening, self._clock())
        finally:
            self._hearing = False
