"""Who is asked first when requests with the same beginning belong together: the ring of each set of candidates.

Rules
- The ring holds every candidate of a route, the sick ones and the spare ones too: who cannot be asked is skipped on the walk, so
  a flap moves no other document. Members are placed by their address: every process, and every AutoHedge, has the same ring.
- Rings are kept by the candidates of a route; a new snapshot makes only those anew whose members changed.
- Whoever has no key goes to the least loaded.
- `told` says afterwards whether a document was answered where it belongs.

It must not know: health, what a key is made of, requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from autohedge.core.ask import Ask
from autohedge.core.types import Attempt, Candidate, Door, Route
from autohedge.rules.balance import Policy, least_outstanding, round_robin, state_hash
from autohedge.rules.keys import key_of
from autohedge.rules.ring import Ring
from autohedge.settings.routing import Routing

Order = Callable[[Sequence[Candidate]], Iterable[Candidate]]
KEPT = 1000  # sets of candidates whose ring is at hand
RINGS = 100


class Ringed:
    """The order of one request: clockwise from its key."""

    __slots__ = ("_bound", "_key", "_ring", "_route", "_spilled")

    def __init__(self, route: Route, ring: Ring, key: int | None, bound: float) -> None:
        self._route = route
        self._ring = ring
        self._key = key
        self._bound = bound
        self._spilled: bool | None = None  # None: nobody asked yet

    def __call__(self, candidates: Sequence[Candidate]) -> Iterable[Candidate]:
        key = self._key
        if key is None:
            return least_outstanding(candidates)
        if len(candidates) < 2:
            return candidates
        found = list(state_hash(candidates, self._ring, key, self._bound))
        if self._spilled is None:
            mine = {candidate.replica.id for candidate in candidates}
            self._spilled = next((one for one in self._ring.walk(key) if one in mine), "") != found[0].replica.id
        return found

    @property
    def home(self) -> str:
        """The replica that the key belongs to, as long as it can be asked; "" without a key."""
        if self._key is None:
            return ""
        own = {candidate.replica.id for candidate in self._route.candidates or self._route.spare}
        return next((member for member in self._ring.walk(self._key) if member in own), "")

    def told(self, attempts: Sequence[Attempt]) -> str:
        """Where the last of the attempts went: none (no key), home, failover (another one failed first), spill (home had too much
        to do), or skip (home could not be asked).
        """
        if self._key is None:
            return "none"
        if attempts[-1].candidate.replica.id == self.home:
            return "home"
        if len(attempts) > 1:
            return "failover"
        return "spill" if self._spilled else "skip"


class Affinity:
    """One per process."""

    def __init__(self) -> None:
        self._at_hand: dict[int, tuple[Route, Ring]] = {}  # by the identity of a route
        self._rings: dict[tuple[int, tuple[tuple[str, str], ...]], Ring] = {}

    def order(self, ask: Ask, route: Route, routing: Routing) -> Order | None:
        """How the candidates of a route are ordered for this request; None: the least loaded first."""
        if ask.door is Door.SYSTEMONE:
            if routing.policy == Policy.ROUND_ROBIN:
                return round_robin
            if routing.policy != Policy.STATE_HASH:
                return None
        elif routing.affinity == "off" or ask.door is not Door.CHAT:
            return None
        if len(route.candidates) + len(route.spare) < 2:
            return None
        return Ringed(route, self._ring(route, routing.virtual_nodes), key_of(ask), routing.bounded_load)

    def _ring(self, route: Route, nodes: int) -> Ring:
        candidates = route.candidates or route.spare
        kept = self._at_hand.get(id(candidates))
        if kept is not None and kept[0].spare is route.spare and kept[1].nodes == nodes:
            return kept[1]
        named = {one.replica.id: str(one.replica.address) for one in (*route.candidates, *route.spare)}
        key = (nodes, tuple(sorted(named.items())))
        ring = self._rings.get(key)
        if ring is None:
            while len(self._rings) >= RINGS:
                del self._rings[next(iter(self._rings))]
            ring = self._rings[key] = Ring(named, nodes)
        if len(self._at_hand) >= KEPT:
            self._at_hand.clear()
        self._at_hand[id(candidates)] = (route, ring)
        return ring
