"""Two short cuts of the plan: the obvious first choice, and the very last resort.

- `first`: nearly every request goes to the least loaded replica that is plainly well. A whole plan is computed only when
  there is none, or when this one failed.
- `knock`: where nobody listened a while ago, somebody may be back. When a request has nowhere else to go, one in `KNOCK`
  seconds tries a replica whose connections were refused: it costs a refused connection at most. Once somebody answered, the
  door counts as open for those who have nowhere else to go, until probes have closed the breaker.

It must not know: how breakers judge, the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autohedge.core.types import Admitted, Candidate
from autohedge.memory.affinity import Order, Ringed
from autohedge.memory.health import Entry, Health
from autohedge.rules.standing import NEVER, State, Tier, Wish

GOOD, UNKNOWN, CLOSED = Tier.GOOD, Tier.UNKNOWN, State.CLOSED  # looked up in their enums they cost every request
KNOCK = 1.0  # seconds
DOORS = frozenset({State.OPEN, State.HALF_OPEN})
KNOCKED = 10_000  # replicas remembered


class Choice:
    """Chooses by what `health` knows. Times are loop seconds."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._knocked: dict[str, float] = {}

    def first(
        self, candidates: Sequence[Candidate], now: float, retired: Callable[[Candidate], object]
    ) -> Admitted | None:
        """The least loaded of the candidates that are plainly well; None asks for a whole plan. `retired` gives the
        evidence that a candidate is gone for good, None without any.
        """
        best: Admitted | None = None
        chosen: Entry | None = None
        least: tuple[int, float, int] | None = None
        for candidate in candidates:
            seat = candidate.replica.seat
            busy = seat.in_flight
            if seat.cap is not None and busy + seat.promised >= seat.cap:
                continue
            backend = candidate.backend
            load = (backend.priority, busy / backend.weight if busy else 0, seat.last)
            if least is not None and load >= least:
                continue
            entry = self._health.entry(candidate, now)
            breaker = entry.breaker
            seen = breaker.look(now, 1.0)
            well = seen.tier is GOOD or (seen.tier is UNKNOWN and not breaker.options.probed)
            if well and seen.allowed and breaker.state is CLOSED and retired(candidate) is None:
                best, least, chosen = Admitted(candidate, seen.stamp), load, entry
        if chosen is not None:
            chosen.used = now
        return best

    def first_by(
        self,
        order: Order,
        candidates: Sequence[Candidate],
        now: float,
        retired: Callable[[Candidate], object],
        *,
        unheard: bool,
    ) -> Admitted | None:
        """The same by an order. `unheard`: one that never answered is as good as those that did."""

        def well(candidate: Candidate) -> bool:
            breaker = self._health.entry(candidate, now).breaker
            seen = breaker.look(now, 1.0)
            good = seen.tier is GOOD or (seen.tier is UNKNOWN and (unheard or not breaker.options.probed))
            return good and seen.allowed and breaker.state is CLOSED and retired(candidate) is None

        best = order.at_home(candidates) if isinstance(order, Ringed) else None
        if best is None or not well(best):
            usable = [one for one in candidates if one.replica.seat.free and well(one)]
            best = next(iter(order(usable)), None) if usable else None
        if best is None:
            return None
        entry = self._health.entry(best, now)
        entry.used = now
        return Admitted(best, entry.breaker.stamp)

    def knock(self, candidates: Sequence[Candidate], now: float) -> Admitted | None:
        """One of `candidates` whose connections were refused or reset, if it is time to try it again."""
        due: Admitted | None = None
        pending: Admitted | None = None  # a knock is out there and was not refused yet
        for candidate in candidates:
            breaker = self._health.entry(candidate, now).breaker
            if breaker.state not in DOORS or not breaker.hard or breaker.wish is not Wish.NONE:
                continue
            knocked = self._knocked.get(candidate.replica.id, NEVER)
            if breaker.answered_at >= knocked > NEVER:
                return Admitted(candidate, breaker.stamp)
            if due is None and now - knocked >= KNOCK:
                due = Admitted(candidate, breaker.stamp)
            elif knocked > breaker.failed_at:
                pending = Admitted(candidate, breaker.stamp)
        if due is not None:
            if len(self._knocked) >= KNOCKED:
                self._knocked.clear()
            self._knocked[due.candidate.replica.id] = now
        return due or pending
