"""The words of semantic health: what a breaker can be, what it answers, and what a judge of evidence must offer.

Rules
- Observation (`State`) and the operator's wish (`Wish`) are two things; a wish never overwrites what was observed.
- `Tier` is the order in which one pool is used. It ranks; the plan decides.

It must not know: how evidence is judged, who measures it, or what a pool looks like.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple, Protocol

from autohedge.core.types import Verdict

NEVER = float("-inf")  # "this has not happened yet", as a time


def no_wait() -> float:
    """For a process that yields to nobody."""
    return 0.0


# Verdicts that prove a live engine without proving a good answer: neutral for every count, but "not dead, not loading".
ALIVE = frozenset({Verdict.CLIENT_FAULT, Verdict.CAPABILITY, Verdict.BUSY})


class State(StrEnum):
    """What the evidence says of one (replica, model). No evidence is CLOSED and not known, never OPEN."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"
    LOADING = "loading"
    MISCONFIGURED = "misconfigured"


class Wish(StrEnum):
    """What the operator wants, whatever the evidence says. DRAIN lets requests in flight end and admits no new one."""

    NONE = "none"
    OPEN = "forced-open"
    CLOSED = "forced-closed"
    DRAIN = "drain"


class Via(StrEnum):
    """Where a piece of evidence comes from: live traffic, a probe that really infers, or the engine's own health path."""

    LIVE = "live"
    DEEP = "deep"
    LIGHT = "light"


class Tier(IntEnum):
    """How gladly a replica is used; lower first. Up to UNKNOWN it belongs to the plan of its rung; LOADING and RATIO are
    for the end of an exhausted chain; OUT is never used.
    """

    GOOD = 0
    SLOW = 1  # answers, but most first bytes came later than the model's own limit
    RAMPING = 2  # just closed; this request is not among its share
    UNKNOWN = 3  # never answered yet: only behind those that did
    LOADING = 4
    RATIO = 5  # opened by ratio, usable in panic only
    OUT = 6  # opened by hard evidence, misconfigured, forced open or draining


class Admission(NamedTuple):
    """May this request go there? `stamp` goes back into `record`; `failures` orders a panic (least first); `moved` is
    set when the admission itself changed the state (open -> half-open).
    """

    allowed: bool
    stamp: int
    why: str = ""
    tier: Tier = Tier.GOOD
    failures: int = 0
    moved: Transition | None = None


@dataclass(frozen=True, slots=True)
class Transition:
    """One change of state, told once: "closed -> open: 6/10 succeeded". `until` is when a half-open may be tried."""

    old: State
    new: State
    reason: str
    at: float
    hard: bool = False
    until: float | None = None


@dataclass(frozen=True, slots=True)
class View:
    """What the pool rules need to see of one breaker. `opened_at` is its latest opening, also when it has closed since."""

    tier: Tier = Tier.GOOD
    opened_at: float = NEVER
    failures: int = 0


class Judge(Protocol):
    """Turns counted outcomes into "sick" or not. It never sees a neutral outcome.

    `heals`: true when the judge itself says that a replica is well again (eidex's streaks); false when that is left to
    the breaker's half-open trial.
    """

    heals: bool

    def note(self, ok: bool, via: Via, now: float) -> None:
        """Take one counted outcome (answer or failure)."""

    def sick(self, now: float) -> str:
        """Why the evidence calls for opening ("6/10 succeeded"); "" when it does not."""

    def failures(self, now: float) -> int:
        """Counted failures still in view."""

    def clear(self) -> None:
        """Forget everything."""

    def told(self, now: float) -> str:
        """The evidence in a few words, for logs and the admin API."""

    def evidence(self, now: float) -> list[dict[str, object]]:
        """Each piece of evidence in view with its age in seconds, oldest first."""
