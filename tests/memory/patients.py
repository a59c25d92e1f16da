"""Pairs of replica and model, and health around them, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from autohedge.core.types import (
    Address,
    Attempt,
    BackendSpec,
    Candidate,
    Judgement,
    Kind,
    Limits,
    Outcome,
    Replica,
    Route,
    Seat,
    Snapshot,
    Verdict,
)
from autohedge.memory.entry import Rules
from autohedge.memory.health import Health
from autohedge.rules.probes import Probed
from autohedge.rules.standing import State, Transition, Via

A, S, D, C = Verdict.ANSWER, Verdict.SICK, Verdict.DEAD, Verdict.CAPABILITY


def candidate(host: str = "h1", model: str = "m", *, external: bool = False) -> Candidate:
    spec = BackendSpec("b", Kind.VLLM, external=external)
    replica = Replica(f"b@{host}:1", "b", Address(host, 1), Seat())
    return Candidate(replica, spec, Kind.VLLM, model, Limits())


def snapshot(*candidates: Candidate) -> Snapshot:
    routes = {
        model: Route(model, tuple(one for one in candidates if one.served == model), frozenset({Kind.VLLM}))
        for model in {one.served for one in candidates}
    }
    return Snapshot(routes=routes, replicas={one.replica.id: one.replica for one in candidates})


@dataclass
class Ward:
    rules: Rules | None = None
    draw: Callable[[], float] = lambda: 0.5
    now: float = 1000.0
    told: list[tuple[str, Transition]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.health = Health(self.draw, None, lambda one, moved: self.told.append((one.replica.id, moved)), self.rules)

    def live(self, one: Candidate, *verdicts: Verdict, certain: bool = False, insist: bool = True) -> None:
        """Live requests, a second apart, each admitted and ended."""
        for verdict in verdicts:
            self.now += 1.0
            admission = self.health.admit(one, self.now, insist=insist)
            judgement = Judgement(verdict, certain=certain)
            attempt = Attempt(one, self.now, admission.stamp, outcome=Outcome(), judgement=judgement)
            self.health.record(attempt, self.now)

    def probe(self, one: Candidate, *verdicts: Verdict, silent: bool = False, gap: float = 1.0) -> list[Probed]:
        """Probes of our own, each with whatever lease there is."""
        counted = []
        for verdict in verdicts:
            self.now += gap
            lease = self.health.lease(one, self.now)
            probe = probed(one, verdict, silent=silent)
            counted.append(self.health.probed(lease.stamp, probe, self.now))
        return counted

    def hear(self, one: Candidate, *verdicts: Verdict, gap: float = 1.0) -> None:
        """Probes of another worker."""
        for verdict in verdicts:
            self.now += gap
            self.health.heard(probed(one, verdict), self.now)

    def state(self, one: Candidate) -> State:
        return self.health.entry(one, self.now).breaker.state


def probed(one: Candidate, verdict: Verdict, via: Via = Via.DEEP, *, silent: bool = False) -> Probed:
    return Probed(one.replica.id, one.served, via, verdict, f"it was {verdict}", silent=silent, took=0.1)


def busy(one: Candidate) -> Candidate:
    """A live request runs there."""
    one.replica.seat.in_flight = 1
    return one


def other_host(one: Candidate, host: str) -> Candidate:
    return replace(one, replica=Replica(f"b@{host}:1", "b", Address(host, 1), Seat()))
