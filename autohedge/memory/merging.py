"""One set of backends out of what several sources report: who owns an endpoint, and what a shared name means.

Rules
- Sources are read in order; what an earlier one says of a field stays, a later one fills gaps.
- One endpoint (host, port, prefix) that several sources report is one replica (B28). It belongs to the backend that had it
  first; the later backend's names, models and figures are added to that one, and its origin is noted.
- Same name and a shared endpoint, or no endpoint at all on one side: the same backend, endpoints united.
- Same name, different endpoints: two backends. The later one is renamed "name~source" and a note says so: refusing it
  would lose replicas, uniting it would send one backend's key and limits to foreign servers.
- An external backend is never extended and never takes over: its key must not travel to an endpoint that another source
  added. Endpoints on top of its own are left out with a note.
- Two backends of one source may share an endpoint (two accounts at one provider); that is meant and stays.

It must not know: lessons, replicas, clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar

from autohedge.core.types import Address, BackendSpec, Kind
from autohedge.memory.figures import combined

T = TypeVar("T")
Endpoint = tuple[str, int, str]

DEFAULT = BackendSpec("")


@dataclass(frozen=True, slots=True)
class Backend:
    """A backend as all sources together describe it. `names` are all names that may stand for its model, its own first."""

    spec: BackendSpec
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Union:
    """All backends by name, in order, and what was decided, by source."""

    backends: Mapping[str, Backend]
    notes: Mapping[str, tuple[str, ...]]


def endpoint(address: Address) -> Endpoint:
    """What makes two addresses the same place; the scheme is not part of it."""
    return address.host.lower(), address.port, address.prefix


def united(declared: Mapping[str, Sequence[BackendSpec]]) -> Union:
    """Merge the sets of all sources; `declared` is by source name, in order of precedence."""
    merger = _Merger()
    for source, specs in declared.items():
        merger.source = source
        merger.notes[source] = []
        for spec in specs:
            merger.add(reported(spec, source))
    return Union(MappingProxyType(merger.backends), {name: tuple(notes) for name, notes in merger.notes.items()})


def reported(spec: BackendSpec, source: str) -> BackendSpec:
    """A backend as one source reports it: each endpoint once, and where it comes from."""
    return replace(spec, addresses=_distinct(spec.addresses, key=endpoint), origins=(source,))


def alone(spec: BackendSpec, source: str) -> Backend:
    """The backend that follows from a report that no other report has to do with."""
    return Backend(reported(spec, source), _named(spec))


class _Merger:
    def __init__(self) -> None:
        self.source = ""
        self.backends: dict[str, Backend] = {}
        self.notes: dict[str, list[str]] = {}
        self._holders: dict[Endpoint, str] = {}  # the backend inside the house that had it first
        self._reporters: dict[Endpoint, set[str]] = {}  # the sources that reported it so far

    def add(self, spec: BackendSpec) -> None:
        rest = spec.addresses
        if not spec.external:
            rest = self._give_to_holders(spec)
        if len(rest) == len(spec.addresses) or rest:
            self._settle(replace(spec, addresses=rest))
        if not spec.external:
            for address in spec.addresses:
                self._reporters.setdefault(endpoint(address), set()).add(self.source)

    def _give_to_holders(self, spec: BackendSpec) -> tuple[Address, ...]:
        """Hand endpoints that another backend of another source has already to that one; what is left is returned."""
        shared: dict[str, list[Address]] = {}
        rest: list[Address] = []
        for address in spec.addresses:
            where = endpoint(address)
            holder = self._holders.get(where, spec.name)
            foreign = holder != spec.name and self.source not in self._reporters[where]
            (shared.setdefault(holder, []) if foreign else rest).append(address)
        for holder, addresses in shared.items():
            self._join(holder, replace(spec, addresses=tuple(addresses)))
            places = ", ".join(address.authority for address in addresses)
            self._note(f"backend {spec.name}: {places} belongs to backend {holder}; counted there")
        return tuple(rest)

    def _settle(self, spec: BackendSpec) -> None:
        """Put a backend under its own name, into the one of that name, or under a new name."""
        same = self.backends.get(spec.name)
        if same is None:
            self._put(Backend(spec, _named(spec)))
            return
        known = {endpoint(address) for address in same.spec.addresses}
        extra = tuple(address for address in spec.addresses if endpoint(address) not in known)
        shares = len(extra) < len(spec.addresses) or not known or not spec.addresses
        if not shares:
            name = self._free_name(f"{spec.name}~{self.source}")
            self._note(f"backend {spec.name}: another source has this name for other addresses; called {name} here")
            self._put(Backend(replace(spec, name=name), () if spec.exact else (name,)))
            return
        if extra and (same.spec.external or spec.external):
            places = ", ".join(address.authority for address in extra)
            self._note(f"backend {spec.name}: it is external, so {places} is not added to it")
            spec = replace(spec, addresses=())
        self._join(spec.name, spec)

    def _join(self, name: str, later: BackendSpec) -> None:
        old = self.backends[name]
        self._put(Backend(_joined(old.spec, later), _distinct((*old.names, *_named(later)))))

    def _put(self, backend: Backend) -> None:
        self.backends[backend.spec.name] = backend
        if not backend.spec.external:
            for address in backend.spec.addresses:
                self._holders.setdefault(endpoint(address), backend.spec.name)

    def _free_name(self, wanted: str) -> str:
        name, number = wanted, 2
        while name in self.backends:
            name, number = f"{wanted}~{number}", number + 1
        return name

    def _note(self, text: str) -> None:
        self.notes[self.source].append(text)


def _named(spec: BackendSpec) -> tuple[str, ...]:
    """The names under which a backend may be asked for as if it were a model."""
    return () if spec.exact else (spec.name,)


def _joined(first: BackendSpec, later: BackendSpec) -> BackendSpec:
    return replace(
        first,
        kind=later.kind if first.kind is Kind.AUTO else first.kind,
        addresses=_distinct((*first.addresses, *later.addresses), key=endpoint),
        models=_distinct((*first.models, *later.models)),
        exact=first.exact and later.exact,
        by_args=first.by_args or later.by_args,
        stack=first.stack if first.stack == later.stack else "",  # what the operator names himself is nobody's claim
        shares=_distinct((*first.shares, *later.shares)),
        takes_any=first.takes_any or later.takes_any,
        aliases=_filled(first.aliases, later.aliases),
        hints=combined(first.hints, later.hints),
        key=later.key if first.key is None else first.key,
        external=first.external or later.external,
        concurrency=later.concurrency if first.concurrency is None else first.concurrency,
        pool=first.pool or later.pool,
        priority=later.priority if first.priority == DEFAULT.priority else first.priority,
        weight=later.weight if first.weight == DEFAULT.weight else first.weight,
        origins=_distinct((*first.origins, *later.origins)),
        labels=_filled(first.labels, later.labels),
        params=_filled(first.params, later.params),
    )


def _filled(first: Mapping[str, str], later: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType({**later, **first}) if later else first


def _distinct(items: Iterable[T], key: object = None) -> tuple[T, ...]:
    """The items in order, each once."""
    seen: dict[object, T] = {}
    for item in items:
        seen.setdefault(key(item) if callable(key) else item, item)
    return tuple(seen.values())
