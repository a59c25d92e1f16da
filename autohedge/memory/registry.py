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
from dataclasses import replace
from types import MappingProxyType

from autohedge.core.types import (
    NOTHING,
    Appeared,
    Blind,
    Changed,
    DiscoveryEvent,
    Lesson,
    Snapshot,
    SourceView,
    Sweep,
    Vanished,
)
from autohedge.memory.drawing import Drawing, Heard
from autohedge.memory.figures import combined, says, taught
from autohedge.memory.picture import bounded
from autohedge.memory.uniting import Change, Uniting

NAMES_COMPARED = 200  # for "did you mean": difflib takes up to 40 us a name
NAME_LENGTH = 100
MOST_NOTES = 100  # of one source, about what was drawn


class Registry:
    """`order` names sources by precedence; others follow in the order in which they first report."""

    def __init__(self, order: Sequence[str] = ()) -> None:
        self.snapshot = Snapshot()
        self._views: dict[str, SourceView] = {}  # notes are the source's own
        self._union = Uniting(order)
        self._heard = Heard({}, {})
        self._drawing = Drawing()

    def apply(self, source: str, sweep: Sweep, now: float) -> list[DiscoveryEvent]:
        """Take in one look of `source`. `now` is epoch seconds. Returns what changed: new and changed backends in the
        order of the sources, then those that vanished.
        """
        view = self._views.get(source, SourceView(source))
        if isinstance(sweep, Blind):
            self._views[source] = replace(view, blind=sweep.reason)
            self._note_sources()
            return []
        self._views[source] = SourceView(source, seen_at=now, notes=sweep.notes)
        return self._reunite(self._union.report(source, sweep.backends))

    def forget(self, source: str) -> list[DiscoveryEvent]:
        """A source that is no longer configured takes its reports with it."""
        self._views.pop(source, None)
        return self._reunite(self._union.forget(source))

    def learn(self, replica_id: str, lesson: Lesson, now: float) -> None:
        """Take in what a replica answered. `now` is epoch seconds. Nothing happens when the replica is gone by now."""
        old = self._heard.lessons.get(replica_id)
        if replica_id not in self.snapshot.replicas or (lesson.failed and old is None):
            return
        lesson = replace(old, failed=lesson.failed) if lesson.failed and old is not None else bounded(lesson, now)
        if lesson != old:
            self._heard.lessons[replica_id] = lesson
            self._redraw(replica_id)

    def teach(self, replica_id: str, served: str, teaches: Mapping[str, int], now: float) -> None:
        """Take in limits that an engine named in an error ("context", "max_input", "max_output", in tokens) about the model
        `served`. `now` is epoch seconds. Ignored for a replica or a model that the snapshot does not have, and when the
        snapshot says the same already, so that many refused requests cost one new snapshot.
        """
        basis = self._drawing.bases.get(replica_id)
        offered = (one for one in basis.offers.firm.values() if one.served == served) if basis else iter(())
        candidate = next(offered, None)
        limits = taught(teaches, now)
        if candidate is None or says(candidate.limits, limits):
            return
        known = self._heard.taught.get(replica_id, NOTHING)
        merged = combined(limits, known[served]) if served in known else limits
        self._heard.taught[replica_id] = MappingProxyType({**known, served: merged})
        self._redraw(replica_id)

    def _reunite(self, change: Change) -> list[DiscoveryEvent]:
        """Draw what changed, and tell the differences."""
        old, new = change.old, self._union.backends
        if not change.touched and not change.reordered:  # what nearly every look of every source finds
            self._note_sources()
            return []
        events: list[DiscoveryEvent] = []
        for name, backend in new.items():
            if name in change.touched:
                if name not in old:
                    events.append(Appeared(backend.spec))
                elif old[name].spec != backend.spec:
                    events.append(Changed(old[name].spec, backend.spec))
        events += [Vanished(backend.spec) for name, backend in old.items() if name not in new]
        self._drawing.place(new, change.touched)
        self._heard.keep_only(self._drawing.replicas)
        self._drawing.draw(new, self._heard, change.touched)
        if change.reordered:
            self._drawing.redraw()
        self._publish()
        return events

    def _redraw(self, replica: str) -> None:
        backend = self.snapshot.replicas[replica].backend
        self._drawing.draw(self._union.backends, self._heard, (backend,))
        self._publish()

    def _note_sources(self) -> None:
        self.snapshot = replace(self.snapshot, sources=self._sources())

    def _sources(self) -> Mapping[str, SourceView]:
        drawn: dict[str, list[str]] = {}
        for name, why in self._drawing.strangers.items():
            for origin in self._drawing.bases[name].backend.spec.origins:
                drawn.setdefault(origin, []).append(f"replica {name} is left out: {why}")
        for model, (owner, others) in self._drawing.contested.items():
            for name in others:
                for origin in self._union.backends[name].spec.origins:
                    told = (
                        f"service {name} does not serve {model}: it belongs to stack {owner} (shared_models allows it)"
                    )
                    drawn.setdefault(origin, []).append(told)
        merged = self._union.notes
        return MappingProxyType(
            {
                name: replace(view, notes=(*view.notes, *merged.get(name, ()), *drawn.get(name, ())[:MOST_NOTES]))
                for name, view in self._views.items()
            }
        )

    def _publish(self) -> None:
        """The next snapshot."""
        drawing = self._drawing
        self.snapshot = Snapshot(
            version=self.snapshot.version + 1,
            routes=MappingProxyType(drawing.routes),
            wild=drawing.wild,
            backends=MappingProxyType({name: backend.spec for name, backend in self._union.backends.items()}),
            replicas=MappingProxyType(drawing.replicas),
            lessons=MappingProxyType(self._heard.lessons.copy()),
            sources=self._sources(),
        )


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
