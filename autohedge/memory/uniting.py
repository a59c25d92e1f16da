"""The union of all sources kept up to date: what one look changes costs what changed, not what is there.

Rules
- The result is always what `merging.united` makes of all reports. The short way is taken where it cannot differ: where the
  reports that changed share neither a name nor an endpoint with any other report, and nothing else needed a decision.
- A backend that is the same stays the same object.

It must not know: replicas, lessons, clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from autohedge.core.types import BackendSpec
from autohedge.memory.merging import Backend, Endpoint, alone, endpoint, united


@dataclass(frozen=True, slots=True)
class Change:
    """What a report changed: the backends before it, the names that came, went or mean something else, and whether those that
    stayed stand in another order.
    """

    old: Mapping[str, Backend]
    touched: frozenset[str] = frozenset()
    reordered: bool = False


class Uniting:
    """`order` names sources by precedence; others follow in the order in which they first report."""

    def __init__(self, order: Sequence[str] = ()) -> None:
        self.backends: Mapping[str, Backend] = {}
        self.notes: Mapping[str, tuple[str, ...]] = {}  # what merging decided, by source
        self._declared: dict[str, tuple[BackendSpec, ...]] = dict.fromkeys(order, ())
        self._names: dict[str, int] = {}  # how many reports have a name
        self._places: dict[Endpoint, int] = {}  # how many reports have an endpoint

    def report(self, source: str, specs: tuple[BackendSpec, ...]) -> Change:
        """Take in what a source reports now."""
        old = self._declared.get(source, ())
        known = source in self._declared
        self._declared[source] = specs
        if known and specs == old:
            return Change(self.backends)
        before, after = {id(spec) for spec in old}, {id(spec) for spec in specs}
        fresh = [spec for spec in specs if id(spec) not in before]
        gone = [spec for spec in old if id(spec) not in after]
        simple = not any(self.notes.values()) and all(map(self._alone, gone))
        self._count(gone, -1)
        self._count(fresh, 1)
        if simple and all(map(self._alone, fresh)):
            return self._take(source, fresh, gone)
        return self._unite()

    def forget(self, source: str) -> Change:
        """A source takes its reports with it."""
        self._count(self._declared.pop(source, ()), -1)
        return self._unite()

    def _take(self, source: str, fresh: Sequence[BackendSpec], gone: Sequence[BackendSpec]) -> Change:
        """The short way."""
        made = {spec.name: alone(spec, source) for spec in fresh}
        names = [spec.name for specs in self._declared.values() for spec in specs]
        new = {name: made[name] if name in made else self.backends[name] for name in names}
        return self._changed(new, {*made, *(spec.name for spec in gone)})

    def _unite(self) -> Change:
        """The whole way."""
        union = united(self._declared)
        self.notes = union.notes
        return self._changed(dict(union.backends), {*self.backends, *union.backends})

    def _changed(self, new: dict[str, Backend], maybe: Iterable[str]) -> Change:
        old = self.backends
        touched = set()
        for name in maybe:
            if name in old and old[name] == new.get(name):
                new[name] = old[name]
            else:
                touched.add(name)
        self.backends = new
        reordered = [name for name in old if name in new] != [name for name in new if name in old]
        return Change(old, frozenset(touched), reordered)

    def _alone(self, spec: BackendSpec) -> bool:
        """Whether no other report has its name or one of its endpoints."""
        places = {endpoint(address) for address in spec.addresses}
        return self._names[spec.name] == 1 and all(self._places[place] == 1 for place in places)

    def _count(self, specs: Iterable[BackendSpec], number: int) -> None:
        for spec in specs:
            self._names[spec.name] = self._names.get(spec.name, 0) + number
            if not self._names[spec.name]:
                del self._names[spec.name]
            for place in {endpoint(address) for address in spec.addresses}:
                self._places[place] = self._places.get(place, 0) + number
                if not self._places[place]:
                    del self._places[place]
