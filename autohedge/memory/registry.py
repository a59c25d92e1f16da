"""The only writer of the picture of the world: what the sources report and what the engines answered, as one snapshot.

Rules
- A request takes `snapshot` once and holds it. It is frozen and replaced as a whole; only seats live on inside.
- `Seen` replaces the set of its source; `Blind` keeps everything and is only noted (T22, B29). A replica goes when the last
  source that reported it has dropped it (B28).
- Events are differences, so the same look twice tells nothing (B20), and a late or repeated one repairs the order (B21).
- A lesson that failed keeps the older one; its reason is noted on it. So `lessons` holds only replicas that were heard.
  Lessons and refusals of vanished replicas are forgotten; a replica that comes back is asked again.
- A replica and its seat stay the same objects while its address stays. When a backend is renamed because sources disagree,
  the seat goes along, so a cap still holds over the requests in flight.
- A replica whose engine turned out to be another one serves nothing, and a note says so (identity.py). The names that a backend
  is known for stay while it has no replica that could tell: the model is known and unavailable, not unknown.
- `version` grows when something changed that a plan could feel; a look that only confirms moves just `sources`.

It must not know: clocks, sockets, engines, how anybody is told.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType

from autohedge.core.types import (
    NOTHING,
    Address,
    Appeared,
    BackendSpec,
    Blind,
    Changed,
    DiscoveryEvent,
    Lesson,
    Limits,
    Replica,
    Seat,
    Snapshot,
    SourceView,
    Sweep,
    Vanished,
)
from autohedge.memory.figures import combined, says, taught
from autohedge.memory.identity import standing, strangers
from autohedge.memory.merging import Backend, endpoint, united
from autohedge.memory.picture import Offers, bounded, offers_of, replica_id, routes_of

NAMES_COMPARED = 200  # for "did you mean": difflib takes up to 40 us a name
NAME_LENGTH = 100


@dataclass(slots=True)
class _Basis:
    """What the offers of one replica were computed from; they are kept while all of it is the same."""

    replica: Replica
    backend: Backend
    lesson: Lesson | None
    taught: Mapping[str, Limits]
    offers: Offers

    def still(self, other: tuple[Replica, Backend, Lesson | None, Mapping[str, Limits]]) -> bool:
        mine = (self.replica, self.backend, self.lesson, self.taught)
        return all(one is two for one, two in zip(mine, other, strict=True))


class Registry:
    """`order` names sources by precedence; others follow in the order in which they first report."""

    def __init__(self, order: Sequence[str] = ()) -> None:
        self.snapshot = Snapshot()
        self._declared: dict[str, tuple[BackendSpec, ...]] = dict.fromkeys(order, ())
        self._views: dict[str, SourceView] = {}  # notes are the source's own
        self._notes: Mapping[str, tuple[str, ...]] = {}  # what merging decided, by source
        self._backends: Mapping[str, Backend] = {}
        self._lessons: dict[str, Lesson] = {}
        self._taught: dict[str, Mapping[str, Limits]] = {}  # by replica id, then by the name that was sent
        self._bases: dict[str, _Basis] = {}
        self._strangers: Mapping[str, str] = {}  # why a replica serves nothing, by its id
        self._standing: Mapping[str, frozenset[str]] = {}  # the names that a backend is known for

    def apply(self, source: str, sweep: Sweep, now: float) -> list[DiscoveryEvent]:
        """Take in one look of `source`. `now` is epoch seconds. Returns what changed: new and changed backends in the
        order of the sources, then those that vanished.
        """
        view = self._views.get(source, SourceView(source))
        if isinstance(sweep, Blind):
            self._views[source] = replace(view, blind=sweep.reason)
            self._note_sources()
            return []
        same = sweep.backends == self._declared.get(source)
        self._declared[source] = sweep.backends
        self._views[source] = SourceView(source, seen_at=now, notes=sweep.notes)
        if same:  # what nearly every look of every source finds
            self._note_sources()
            return []
        return self._reunite()

    def forget(self, source: str) -> list[DiscoveryEvent]:
        """A source that is no longer configured takes its reports with it."""
        self._declared.pop(source, None)
        self._views.pop(source, None)
        return self._reunite()

    def learn(self, replica_id: str, lesson: Lesson, now: float) -> None:
        """Take in what a replica answered. `now` is epoch seconds. Nothing happens when the replica is gone by now."""
        old = self._lessons.get(replica_id)
        if replica_id not in self.snapshot.replicas or (lesson.failed and old is None):
            return
        lesson = replace(old, failed=lesson.failed) if lesson.failed and old is not None else bounded(lesson, now)
        if lesson != old:
            self._lessons[replica_id] = lesson
            self._redraw()

    def teach(self, replica_id: str, served: str, teaches: Mapping[str, int], now: float) -> None:
        """Take in limits that an engine named in an error ("context", "max_input", "max_output", in tokens) about the model
        `served`. `now` is epoch seconds. Ignored for a replica or a model that the snapshot does not have, and when the
        snapshot says the same already, so that many refused requests cost one new snapshot.
        """
        basis = self._bases.get(replica_id)
        offered = (one for one in basis.offers.firm.values() if one.served == served) if basis else iter(())
        candidate = next(offered, None)
        limits = taught(teaches, now)
        if candidate is None or says(candidate.limits, limits):
            return
        known = self._taught.get(replica_id, NOTHING)
        merged = combined(limits, known[served]) if served in known else limits
        self._taught[replica_id] = MappingProxyType({**known, served: merged})
        self._redraw()

    def _reunite(self) -> list[DiscoveryEvent]:
        """Merge the sources again and tell the differences."""
        union = united(self._declared)
        self._notes = union.notes
        old = self._backends
        new = {name: old[name] if old.get(name) == backend else backend for name, backend in union.backends.items()}
        events: list[DiscoveryEvent] = []
        for name, backend in new.items():
            if name not in old:
                events.append(Appeared(backend.spec))
            elif old[name].spec != backend.spec:
                events.append(Changed(old[name].spec, backend.spec))
        events += [Vanished(backend.spec) for name, backend in old.items() if name not in new]
        if list(new.items()) == list(old.items()):
            self._note_sources()
        else:
            self._backends = new
            self._redraw()
        return events

    def _note_sources(self) -> None:
        self.snapshot = replace(self.snapshot, sources=self._sources())

    def _sources(self) -> Mapping[str, SourceView]:
        strange: dict[str, tuple[str, ...]] = {}
        for name, why in self._strangers.items():
            for origin in self._bases[name].backend.spec.origins:
                strange[origin] = (*strange.get(origin, ()), f"replica {name} is left out: {why}")
        return MappingProxyType(
            {
                name: replace(view, notes=view.notes + self._notes.get(name, ()) + strange.get(name, ()))
                for name, view in self._views.items()
            }
        )

    def _redraw(self) -> None:
        """Build the next snapshot; offers of untouched replicas are taken over."""
        replicas = self._replicas()
        self._lessons = {name: lesson for name, lesson in self._lessons.items() if name in replicas}
        self._taught = {name: limits for name, limits in self._taught.items() if name in replicas}
        bases: dict[str, _Basis] = {}
        for name, replica in replicas.items():
            backend, lesson = self._backends[replica.backend], self._lessons.get(name)
            parts = (replica, backend, lesson, self._taught.get(name, NOTHING))
            basis = self._bases.get(name)
            bases[name] = basis if basis is not None and basis.still(parts) else _Basis(*parts, offers_of(*parts))
        self._bases = bases
        self._strangers = strangers(bases.values())
        own = {name: basis.offers for name, basis in bases.items() if name not in self._strangers}
        self._standing = standing(self._backends, bases, own, self._standing)
        self.snapshot = Snapshot(
            version=self.snapshot.version + 1,
            routes=routes_of(own.values(), chain.from_iterable(self._standing.values())),
            wild=tuple(offers.wild for offers in own.values() if offers.wild is not None),
            backends=MappingProxyType({name: backend.spec for name, backend in self._backends.items()}),
            replicas=MappingProxyType(replicas),
            lessons=MappingProxyType(self._lessons.copy()),
            sources=self._sources(),
        )

    def _replicas(self) -> dict[str, Replica]:
        """All replicas; known ones stay the same objects."""
        old = self.snapshot.replicas
        wanted: dict[str, tuple[BackendSpec, Address]] = {}
        for backend in self._backends.values():
            for address in backend.spec.addresses:
                wanted[replica_id(backend.spec.name, address)] = backend.spec, address
        left = {_place(one.address): one.seat for one in old.values() if one.id not in wanted}
        replicas: dict[str, Replica] = {}
        for name, (spec, address) in wanted.items():
            replica = old.get(name)
            if replica is None:
                replica = Replica(name, spec.name, address, left.pop(_place(address), Seat()))
            elif replica.address != address:
                replica = Replica(name, spec.name, address, replica.seat)
            replica.seat.cap = spec.concurrency
            replicas[name] = replica
        return replicas


def _place(address: Address) -> tuple[object, ...]:
    """What a seat belongs to: the same tenant at the same place."""
    return *endpoint(address), address.tenant


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """At most three known names that look like `name`, best first, for the "did you mean" of a 404. A name that differs
    only by case or by the part before its last "/" comes first. Long names and long lists are cut: a 404 stays cheap.
    """
    asked = name[:NAME_LENGTH].lower()
    spelled: dict[str, str] = {}
    for one in sorted(known)[:NAMES_COMPARED]:
        spelled.setdefault(one[:NAME_LENGTH].lower(), one)
    tail = asked.rpartition("/")[2]
    close = [low for low in spelled if tail and low.rpartition("/")[2] == tail]
    close += difflib.get_close_matches(asked, spelled, n=3, cutoff=0.6)
    return [spelled[low] for low in dict.fromkeys(close)][:3]
