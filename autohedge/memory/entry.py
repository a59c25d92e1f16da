"""One (replica, model) as health keeps it: its breaker with what surrounds it, and how that is shown and shared.

It must not know: who asks, pools, when anything happens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from autohedge.core.types import Candidate
from autohedge.rules.breaker import DEFAULT as BREAKER
from autohedge.rules.breaker import Breaker, Options
from autohedge.rules.pool import DEFAULT as POOL
from autohedge.rules.pool import PoolRules
from autohedge.rules.probes import RECENT, Probed
from autohedge.rules.standing import NEVER, Judge, State, no_wait
from autohedge.rules.window import Window

UNPROBED = replace(BREAKER, probed=False)
PRESSED = 30.0  # seconds: the time that a live request has until its first byte
TRAILING = 3  # failures in a row that let a replica go where another rung can take over


@dataclass(frozen=True, slots=True)
class Opening:
    """An open breaker as it is persisted and shared. `left`: seconds until its first trial."""

    replica: str
    model: str
    left: float
    reason: str
    hard: bool
    level: int

    def told(self, wall: float) -> dict[str, Any]:
        """The opening as JSON keeps it. `wall` is epoch seconds; the time that is left becomes its end."""
        shown = asdict(self)
        del shown["left"]
        return {**shown, "until": wall + self.left}

    @classmethod
    def read(cls, value: Mapping[str, Any], wall: float) -> Opening | None:
        """The opening that was told so, None when it is over or something else."""
        try:
            left = float(value["until"]) - wall
            return (
                cls(
                    str(value["replica"]),
                    str(value["model"]),
                    left,
                    str(value["reason"]),
                    hard=bool(value["hard"]),
                    level=int(value["level"]),
                )
                if left > 0
                else None
            )
        except (KeyError, TypeError, ValueError):
            return None


@dataclass(frozen=True, slots=True)
class Rules:
    """`probed` tells which candidates somebody probes. `options` and `judge` are for those, the other pair for all that live
    traffic alone can judge. `spare` tells whether another rung could take over from a candidate. `yields`:
    see `Breaker`.
    """

    options: Options = BREAKER
    judge: Callable[[], Judge] = Window
    unprobed: Options = UNPROBED
    unprobed_judge: Callable[[], Judge] = Window
    probed: Callable[[Candidate], bool] = lambda candidate: not candidate.backend.external
    pool: PoolRules = POOL
    spare: Callable[[Candidate], bool] = lambda _candidate: False
    yields: Callable[[], float] = no_wait


class Entry:
    """One (replica, model). `live` holds the times of its latest live answers, `used` the time of its latest admission."""

    __slots__ = ("breaker", "candidate", "live", "made", "pressed_at", "probe", "probed_at", "spared", "used")

    def __init__(self, candidate: Candidate, breaker: Breaker, now: float = 0.0) -> None:
        self.candidate = candidate
        self.breaker = breaker
        self.live: deque[float] = deque(maxlen=RECENT)
        self.made = now
        self.used = NEVER
        self.pressed_at = NEVER  # since when probes go unanswered while live requests run
        self.probe: Probed | None = None
        self.probed_at = NEVER
        self.spared = ""  # why the latest probe that was due was not sent


def pressed(entry: Entry, now: float) -> bool:
    """Whether a probe that got no answer says nothing, because live requests run there and will tell: for `PRESSED` seconds
    after the first such probe, unless an answer comes, and not once an attempt has failed.
    """
    breaker = entry.breaker
    running = entry.candidate.replica.seat.in_flight > 0
    if not running or breaker.state is not State.CLOSED or breaker.failed_at > breaker.answered_at:
        return False
    if entry.pressed_at <= breaker.answered_at:
        entry.pressed_at = now
    return now - entry.pressed_at < PRESSED


def keeps_failing(breaker: Breaker, now: float) -> bool:
    """Whether the latest outcomes are failures and nothing else."""
    latest = breaker.judge.evidence(now)[-TRAILING:]
    return len(latest) == TRAILING and not any(piece["ok"] for piece in latest)


def described(entry: Entry, now: float) -> dict[str, Any]:
    """State, reasons and ages in seconds, for the admin API."""
    candidate, probe = entry.candidate, entry.probe
    shown: dict[str, Any] = {
        "replica": candidate.replica.id,
        "backend": candidate.backend.name,
        "model": candidate.served,
        "tier": entry.breaker.view(now).tier.name.lower(),
        **entry.breaker.describe(now),
        "probed": entry.breaker.options.probed,
    }
    if probe is not None:
        shown["probe"] = {
            "verdict": probe.verdict.value,
            "reason": probe.reason,
            "s_ago": round(now - entry.probed_at, 1),
            "took_s": round(probe.took, 3),
        }
    if entry.spared:
        shown["not_probed"] = entry.spared
    if entry.live:
        shown["live_answer_s_ago"] = round(now - entry.live[-1], 1)
    return shown
