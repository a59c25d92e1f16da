"""The order of replicas inside one rung (and one tier): who is tried first, who next.

Policies (seed 000): `least_outstanding` by requests in flight, ties to the one that waited longest; `round_robin` by turn;
`state_hash` by the ring. A request without a key is ordered by least outstanding whatever the policy.

Rules
- A replica without a free seat comes last: it would only make the request wait.
- The smaller priority number comes first (as in the registry); a policy orders inside one priority.
- A backend of weight 3 gets three requests in flight for each one of its equals with weight 1.
- Turns are `Seat.last`, written by whoever starts an attempt; nothing here writes.

It must not know: health, tiers, the chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from autohedge.core.types import Candidate
from autohedge.rules.ring import Ring, bounded


class Policy(StrEnum):
    LEAST = "least_outstanding"
    ROUND_ROBIN = "round_robin"
    STATE_HASH = "state_hash"


def least_outstanding(candidates: Sequence[Candidate]) -> Iterable[Candidate]:
    """Fewest requests in flight first, ties round robin."""
    return candidates if len(candidates) < 2 else sorted(candidates, key=_load)


def round_robin(candidates: Sequence[Candidate]) -> Iterable[Candidate]:
    """The one that waited longest first."""
    return candidates if len(candidates) < 2 else sorted(candidates, key=_turn)


def state_hash(candidates: Sequence[Candidate], ring: Ring, key: int, c: float = 1.25) -> Iterator[Candidate]:
    """Clockwise from `key`, members of the ring by replica id; who is not on it comes last, the least loaded first."""
    here = {candidate.replica.id: candidate for candidate in candidates}
    ordered = [here.pop(member) for member in ring.walk(key) if member in here]
    ordered += least_outstanding(list(here.values()))
    spilled = list(bounded(ordered, _in_flight, c))
    spilled.sort(key=_rank)  # stable: the walk stays the order inside one priority
    return iter(spilled)


def ordered(
    candidates: Sequence[Candidate], policy: Policy, ring: Ring | None = None, key: int | None = None, c: float = 1.25
) -> Iterable[Candidate]:
    """`candidates` in the order of `policy`."""
    if policy is Policy.STATE_HASH and ring is not None and key is not None:
        return state_hash(candidates, ring, key, c)
    return round_robin(candidates) if policy is Policy.ROUND_ROBIN else least_outstanding(candidates)


def _load(candidate: Candidate) -> tuple[bool, int, float, int]:
    seat, backend = candidate.replica.seat, candidate.backend
    cap, busy = seat.cap, seat.in_flight
    return cap is not None and busy >= cap, backend.priority, busy / backend.weight, seat.last


def _turn(candidate: Candidate) -> tuple[bool, int, int]:
    seat = candidate.replica.seat
    return not seat.free, candidate.backend.priority, seat.last


def _rank(candidate: Candidate) -> tuple[bool, int]:
    return not candidate.replica.seat.free, candidate.backend.priority


def _in_flight(candidate: Candidate) -> int:
    return candidate.replica.seat.in_flight
