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

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from autohedge.core.ask import Ask
from autohedge.core.types import Candidate, Door, Route
from autohedge.rules.balance import Policy, least_outstanding, round_robin, state_hash
from autohedge.rules.keys import key_of
from autohedge.rules.ring import CALM, Ring
from autohedge.settings.routing import Routing

Order = Callable[[Sequence[Candidate]], Iterable[Candidate]]
SYSTEMONE, CHAT = Door.SYSTEMONE, Door.CHAT  # looked up in their enum they cost every request
KEPT = 1000  # sets of candidates whose ring is at hand
RINGS = 100


class Ringed:
    """The order of one request: clockwise from its key."""

    __slots__ = ("_bound", "_key", "_pool", "_ring", "_spilled", "home")

    def __init__(self, pool: Pool, key: int | None, bound: float) -> None:
        self._pool = pool
        self._ring = pool.ring
        self._key = key
        self._bound = bound
        self._spilled: bool | None = None  # None: nobody asked yet
        self.home = ""  # the replica that the key belongs to, as long as it can be asked
        if key is not None:
            own = pool.own
            self.home = next((member for member in pool.ring.walk(key) if member in own), "")

    def at_home(self, candidates: Sequence[Candidate]) -> Candidate | None:
        """The one that `__call__` would name first, where that is plain: home is there and has little to do."""
        pool = self._pool
        home = pool.own.get(self.home) if candidates is pool.candidates else None
        if home is None:
            return None
        seat = home.replica.seat
        return home if seat.in_flight < CALM and seat.free else None

    def __call__(self, candidates: Sequence[Candidate]) -> Iterable[Candidate]:
        key = self._key
        if key is None:
            return least_outstanding(candidates)
        if len(candidates) < 2:
            return candidates
        found = list(state_hash(candidates, self._ring, key, self._bound))
        if self._spilled is None:
            self._spilled = any(one.replica.id == self.home for one in candidates)
        return found

    def told(self, answered: Candidate, tries: int) -> str:
        """Why this one answered: none (no key), home, failover (another one was tried first), spill (home was there and had too
        much to do), or skip (home could not be asked).
        """
        if self._key is None:
            return "none"
        if answered.replica.id == self.home:
            return "home"
        if tries > 1:
            return "failover"
        return "spill" if self._spilled else "skip"


@dataclass(frozen=True, slots=True)
class Pool:
    """The candidates of a route with their ring. `own` are those that a key may belong to: the candidates of the best priority."""

    candidates: Sequence[Candidate]
    spare: Sequence[Candidate]
    own: Mapping[str, Candidate]
    ring: Ring


class Affinity:
    """One per process."""

    def __init__(self) -> None:
        self._at_hand: dict[int, Pool] = {}  # by the identity of a route's candidates
        self._rings: dict[tuple[int, tuple[tuple[str, str], ...]], Ring] = {}

    def order(self, ask: Ask, route: Route, routing: Routing) -> Order | None:
        """How the candidates of a route are ordered for this request; None: the least loaded first."""
        if ask.door is SYSTEMONE:
            if routing.policy == Policy.ROUND_ROBIN:
                return round_robin
            if routing.policy != Policy.STATE_HASH:
                return None
        elif routing.affinity == "off" or ask.door is not CHAT:
            return None
        if len(route.candidates) + len(route.spare) < 2:
            return None
        return Ringed(self._pool(route, routing.virtual_nodes), key_of(ask), routing.bounded_load)

    def _pool(self, route: Route, nodes: int) -> Pool:
        candidates = route.candidates or route.spare
        kept = self._at_hand.get(id(candidates))
        if kept is not None and kept.spare is route.spare and kept.ring.nodes == nodes:
            return kept
        named = {one.replica.id: str(one.replica.address) for one in (*route.candidates, *route.spare)}
        key = (nodes, tuple(sorted(named.items())))
        ring = self._rings.get(key)
        if ring is None:
            while len(self._rings) >= RINGS:
                del self._rings[next(iter(self._rings))]
            ring = self._rings[key] = Ring(named, nodes)
        if len(self._at_hand) >= KEPT:
            self._at_hand.clear()
        best = min(one.backend.priority for one in candidates)
        own = {one.replica.id: one for one in reversed(candidates) if one.backend.priority == best}
        pool = self._at_hand[id(candidates)] = Pool(candidates, route.spare, own, ring)
        return pool
