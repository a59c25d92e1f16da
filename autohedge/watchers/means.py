"""What every prober works with, and what it tells and asks others.

It must not know: which probers there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from autohedge.core.types import Candidate, Door, Judgement, Outcome, Replica, Verdict
from autohedge.memory.health import Health
from autohedge.memory.registry import Registry
from autohedge.providers import DIALECTS
from autohedge.rules.probe_verdicts import AGAINST
from autohedge.rules.probes import Probed
from autohedge.watchers.asking import Asking, Headers
from autohedge.watchers.pulse import Pulse

LAG = 1.0  # seconds by which our own loop may be late


@dataclass(frozen=True, slots=True)
class Hooks:
    """`lease`: whether this process may probe the replica with that name ("probe:" and its id), asked before each probe.
    `publish` hears every result as it was counted. `poke` asks for a new lesson of a replica. `freed` hears of seats that are
    given back. `gone` hears of an answer that a model or its provider is gone for good, and at which door;
    `barred` tells why a place that is gone is not asked any more, "" where it is.
    """

    lease: Callable[[str], bool] = lambda _name: True
    publish: Callable[[Candidate, Probed], None] = lambda _candidate, _probe: None
    poke: Callable[[str], None] = lambda _replica: None
    freed: Callable[[Replica], None] = lambda _replica: None
    gone: Callable[[Candidate, Judgement, Outcome, Door], object] = lambda *_: None
    barred: Callable[[Candidate], str] = lambda _candidate: ""


@dataclass(frozen=True, slots=True)
class Means:
    """`draw` gives random numbers in [0, 1)."""

    registry: Registry
    health: Health
    ask: Asking
    draw: Callable[[], float]
    hooks: Hooks = field(default_factory=Hooks)
    pulse: Pulse = field(default_factory=Pulse)

    def fair(self, judgement: Judgement, since: float, now: float) -> Judgement:
        """The judgement of a probe that began at `since`, or, when it speaks against a replica and our own loop was late
        meanwhile, one that says nothing (T89). A good one is good.
        """
        late = self.pulse.late(since, now)
        if judgement.verdict not in AGAINST or late <= LAG:
            return judgement
        return Judgement(Verdict.ABANDONED, f"thrown away: our own event loop was {late:.1f} s late")


def headers_for(candidate: Candidate) -> Headers:
    """The backend's own credential as its kind wants it; a client's never."""
    key = candidate.backend.key
    return () if key is None else DIALECTS[candidate.kind].authorize(key)
