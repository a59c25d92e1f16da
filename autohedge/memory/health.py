"""What is known of every (replica, model): one breaker each, fed by live traffic, asked by the plan.

Rules
- A breaker is made when a pair is first seen and forgotten with its replica.
- The pool of a breaker is the set of replicas that serve the same model on the same rung; it may hold back an ejection by
  ratio (rules/pool.py), never one by hard evidence.
- Where nobody probes, a replica without evidence is as good as any: somebody has to be first.

It must not know: how outcomes are judged, sockets, who waits. Times are loop seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from autohedge.core.types import Admitted, Attempt, Candidate, Snapshot
from autohedge.rules.breaker import Breaker, Options
from autohedge.rules.pool import hold
from autohedge.rules.standing import NEVER, Admission, State, Tier, Transition, Wish
from autohedge.rules.window import Window

Key = tuple[str, str]
KNOCK = 1.0  # seconds


class Health:
    """`draw` gives random numbers in [0, 1); `told` is called once per change of state."""

    def __init__(
        self,
        draw: Callable[[], float],
        options: Options,
        told: Callable[[Candidate, Transition], None] = lambda _candidate, _transition: None,
    ) -> None:
        self._draw = draw
        self._options = options
        self._told = told
        self._breakers: dict[Key, Breaker] = {}
        self._pools: dict[str, set[Key]] = {}  # by model name that the engines know
        self._knocked: dict[str, float] = {}  # loop seconds, by replica id

    def look(self, candidate: Candidate, now: float) -> Admission:
        """What an admission would say, without taking anything."""
        seen = self._breaker(candidate, now).look(now, self._draw())
        return seen._replace(tier=Tier.GOOD) if seen.tier is Tier.UNKNOWN and not self._options.probed else seen

    def quick(self, candidates: Sequence[Candidate], now: float) -> Admitted | None:
        """The obvious first choice: the least loaded of the candidates that are plainly well; None needs a whole plan."""
        best: Admitted | None = None
        least: tuple[int, int, int] | None = None
        for candidate in candidates:
            seat = candidate.replica.seat
            if seat.cap is not None and seat.in_flight >= seat.cap:
                continue
            seen = self.look(candidate, now)
            if seen.tier is not Tier.GOOD or not seen.allowed or seen.why:
                continue
            load = (candidate.backend.priority, seat.in_flight, seat.last)
            if least is None or load < least:
                best, least = Admitted(candidate, seen.stamp), load
        return best

    def knock(self, candidates: Sequence[Candidate], now: float) -> Admitted | None:
        """The very last resort: where nobody listened a while ago, somebody may be back. Costs a refused connection at
        most, so once per `KNOCK` seconds and replica, and only where the connection was refused or reset.
        """
        for candidate in candidates:
            breaker = self._breaker(candidate, now)
            closed_door = breaker.state is State.OPEN and breaker.hard and breaker.wish is Wish.NONE
            if closed_door and now - self._knocked.get(candidate.replica.id, NEVER) >= KNOCK:
                self._knocked[candidate.replica.id] = now
                return Admitted(candidate, breaker.stamp)
        return None

    def admit(self, candidate: Candidate, now: float, *, insist: bool = False) -> Admission:
        """Ask for one live request at the moment it is sent."""
        admission = self._breaker(candidate, now).admit(now, self._draw(), insist=insist)
        if admission.moved is not None:
            self._told(candidate, admission.moved)
        return admission

    def record(self, attempt: Attempt, now: float) -> None:
        """Take the verdict of one attempt."""
        assert attempt.judgement is not None
        breaker = self._breaker(attempt.candidate, now)
        judgement = attempt.judgement
        moved = breaker.record(attempt.stamp, judgement.verdict, now, self._draw(), certain=judgement.certain)
        if moved is not None:
            self._told(attempt.candidate, moved)

    def usable(self, snapshot: Snapshot, now: float) -> int:
        """How many replicas can serve at least one of their models."""
        good = {
            candidate.replica.id
            for route in snapshot.routes.values()
            for candidate in route.candidates
            if self.look(candidate, now).tier <= Tier.UNKNOWN
        }
        return len(good)

    def keep_only(self, replicas: Iterable[str]) -> None:
        """Forget the breakers of replicas that are gone."""
        known = set(replicas)
        self._knocked = {name: at for name, at in self._knocked.items() if name in known}
        for key in [key for key in self._breakers if key[0] not in known]:
            del self._breakers[key]
            self._pools[key[1]].discard(key)

    def _breaker(self, candidate: Candidate, now: float) -> Breaker:
        key = (candidate.replica.id, candidate.served)
        breaker = self._breakers.get(key)
        if breaker is None:
            pool = self._pools.setdefault(candidate.served, set())
            pool.add(key)

            def guard(at: float) -> str:
                return hold([self._breakers[other].view(at) for other in pool if other != key], at)

            breaker = self._breakers[key] = Breaker(Window(), self._options, now, guard)
        return breaker
