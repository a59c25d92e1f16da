"""The plan of one request: where it may go, rung by rung, and why it may not go elsewhere.

Rung 0 is the model that was asked for. The rungs after it come from `fallback_chain`. Nothing is computed before it is
needed: most requests use the first candidate, and the chain costs them nothing.

Rules
- The spare candidates of a route (wildcards) are offered where none of its own is.
- In one rung: known-good replicas, then slow, ramping and unknown ones; the given order inside each tier.
- A candidate that cannot fit the request, is retired, open, misconfigured, forced out or draining is skipped, and the
  reason is kept. So is a rung without candidates. What an earlier rung already offered is not offered again.
- A rung's candidate carries the name its own engine knows (`served`) and its rung.
- Chain first, panic last: when all rungs are exhausted, loading replicas are tried, and softly opened ones where fewer than
  half of their pool is usable (resilience facts 7.1).
- `fallback` off ends the plan after rung 0, also when it is switched off on the way.
- A swarm or static rung never leads to an external provider: that costs money and needs its own rung.

It must not know: how fit, retirement and health are judged (`Checks`), YAML, attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from autohedge.core.types import Candidate, Kind, Route, Snapshot
from autohedge.rules.pool import panics
from autohedge.rules.standing import Admission, Tier


class RungKind(StrEnum):
    SWARM = "swarm"
    STATIC = "static"
    OLLAMA = "ollama"
    EXTERNAL = "external"


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of a fallback chain. `models`: names to ask for, in order; () is the model of the request (for an external
    backend its first declared model). `backend`: the external backend's name in the snapshot.
    """

    kind: RungKind
    models: tuple[str, ...] = ()
    backend: str = ""
    name: str = ""

    @property
    def told(self) -> str:
        return self.name or " ".join((self.kind.value, self.backend, *self.models)).replace("  ", " ").strip()


@dataclass(frozen=True, slots=True)
class Skipped:
    """What the plan left out, and why. `where` names a replica or a whole rung (then `candidate` is None)."""

    rung: int
    where: str
    reason: str
    candidate: Candidate | None = None


@dataclass(frozen=True, slots=True)
class Checks:
    """What others judge. `fits` and `retired` give a reason against, or ""; `order` sorts equals (balance.py)."""

    look: Callable[[Candidate], Admission]
    fits: Callable[[Candidate], str]
    retired: Callable[[Candidate], str]
    order: Callable[[Sequence[Candidate]], Iterable[Candidate]]


class Plan:
    """Iterate it once for the candidates in their order. `skipped` grows on the way; `panic` is set when the end of the
    chain was reached and softly opened replicas are being tried.
    """

    __slots__ = ("_asked", "_checks", "_late", "_route", "_rungs", "_snapshot", "fallback", "panic", "skipped")

    def __init__(
        self,
        snapshot: Snapshot,
        route: Route,
        checks: Checks,
        rungs: Sequence[Rung] = (),
        *,
        fallback: bool = True,
    ) -> None:
        self._snapshot = snapshot
        self._route = route
        self._asked = route.model
        self._checks = checks
        self._rungs = rungs
        self._late: list[tuple[Tier, int, int, Candidate]] = []
        self.fallback = fallback
        self.panic = False
        self.skipped: list[Skipped] = []

    def __iter__(self) -> Iterator[Candidate]:
        none = True
        for candidate in self._group(self._route.candidates):
            none = False
            yield candidate
        offered = {_key(candidate) for candidate in self._route.candidates}
        if none and self._route.spare:
            offered.update(map(_key, self._route.spare))
            yield from self._group(self._route.spare)
        for index, rung in enumerate(self._rungs, 1):
            if not self.fallback:
                self.skipped.append(Skipped(index, rung.told, "fallback is off for this request"))
                continue
            for name, found in self._found(rung):
                fresh = [replace(candidate, rung=index) for candidate in found if _key(candidate) not in offered]
                offered.update(map(_key, fresh))
                if not fresh:
                    reason = "offered by an earlier rung" if found else f"no backend of this rung serves {name!r}"
                    self.skipped.append(Skipped(index, rung.told, reason))
                yield from self._group(fresh)
        for tier, _, _, candidate in sorted(self._late, key=lambda late: late[:3]):
            self.panic = tier is Tier.RATIO
            yield candidate

    def _group(self, candidates: Sequence[Candidate]) -> Iterator[Candidate]:
        """One pool: usable candidates by tier, the rest into `skipped`, what may be tried at the very end into `_late`."""
        checks = self._checks
        usable: dict[Tier, list[Candidate]] = {}
        barred: list[tuple[Admission, Candidate]] = []
        tiers: list[Tier] = []
        for candidate in candidates:
            reason = checks.fits(candidate) or checks.retired(candidate)
            if reason:
                self._skip(candidate, reason)
                continue
            seen = checks.look(candidate)
            tiers.append(seen.tier)
            if seen.tier <= Tier.UNKNOWN:
                usable.setdefault(seen.tier, []).append(candidate)
            else:
                barred.append((seen, candidate))
        panic = bool(barred) and panics(tiers)
        for seen, candidate in barred:
            self._skip(candidate, seen.why)
            if seen.tier is Tier.LOADING or (seen.tier is Tier.RATIO and panic):
                self._late.append((seen.tier, candidate.rung, seen.failures, candidate))
        for tier in sorted(usable):
            yield from checks.order(usable[tier])

    def _skip(self, candidate: Candidate, reason: str) -> None:
        self.skipped.append(Skipped(candidate.rung, candidate.replica.id, reason, candidate))

    def _found(self, rung: Rung) -> Iterator[tuple[str, list[Candidate]]]:
        """Each model name of the rung with the candidates that serve it."""
        if rung.kind is RungKind.EXTERNAL:
            yield from _external(self._snapshot, rung, self._asked)
            return
        for name in rung.models or (self._asked,):
            route = self._snapshot.routes.get(name)
            listed = [c for c in route.candidates if not c.backend.external] if route is not None else []
            if rung.kind is RungKind.OLLAMA:
                listed = [c for c in listed if c.kind is Kind.OLLAMA] or self._unasked_ollama(name)
            yield name, listed

    def _unasked_ollama(self, name: str) -> list[Candidate]:
        """Replicas of Ollama backends that were never heard: they may have the model; those that were heard have not."""
        names = [
            spec.name for spec in self._snapshot.backends.values() if spec.kind is Kind.OLLAMA and not spec.external
        ]
        heard = self._snapshot.lessons
        return [c for backend in names for c in _unasked(self._snapshot, backend, name) if c.replica.id not in heard]


def outside(snapshot: Snapshot, rung: Rung, asked: str) -> Iterator[Candidate]:
    """Every place of an external rung, for a request that asks for the model `asked`."""
    for _, found in _external(snapshot, rung, asked):
        yield from found


def _external(snapshot: Snapshot, rung: Rung, asked: str) -> Iterator[tuple[str, list[Candidate]]]:
    backend = snapshot.backends.get(rung.backend)
    declared = backend.models[:1] if backend is not None else ()
    for name in rung.models or declared or (asked,):
        route = snapshot.routes.get(name)
        listed = [c for c in route.candidates if c.backend.name == rung.backend] if route is not None else []
        yield name, listed or _unasked(snapshot, rung.backend, name)


def _unasked(snapshot: Snapshot, backend: str, name: str) -> list[Candidate]:
    spec = snapshot.backends.get(backend)
    if spec is None:
        return []
    replicas = [replica for replica in snapshot.replicas.values() if replica.backend == backend]
    served = spec.aliases.get(name, name)
    return [Candidate(replica, spec, spec.kind, served, spec.hints, known=False) for replica in replicas]


def _key(candidate: Candidate) -> tuple[str, str]:
    return candidate.replica.id, candidate.served
