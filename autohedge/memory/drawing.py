"""The picture kept up to date: replicas, what they offer and the routes that follow, drawn anew only where something changed.

With two thousand replicas a lesson comes every few milliseconds; drawing everything for each would hold the event loop.

Rules
- What is drawn in steps is the same as what would be drawn from nothing.
- A route's candidates stand in the order of the backends and their addresses, the lower priority number first. A name that
  somebody offers firmly counts nobody's spare offer.
- A model that backends of several stacks serve belongs to the stack whose backend came first: who may deploy a service must not
  get another's traffic by it. What a backend `shares` and what belongs to no stack (the operator's own word) stays.
- A replica stays the same object while its address and its tenant do. When a backend is renamed, the seat goes along.

It must not know: sources, clocks, who reads the routes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from autohedge.core.types import NOTHING, Address, Candidate, Lesson, Limits, Replica, Route, Seat
from autohedge.memory.identity import NOBODY, Basis, Strangers, standing
from autohedge.memory.merging import Backend, endpoint
from autohedge.memory.picture import Offers, offers_of, replica_id, route_of

EVERY = "*"  # in `shares`


@dataclass(slots=True)
class Heard:
    """What was heard of the replicas, by their ids; `taught` by the name that was sent as well."""

    lessons: dict[str, Lesson]
    taught: dict[str, Mapping[str, Limits]]

    def keep_only(self, replicas: Mapping[str, Replica]) -> None:
        self.lessons = {name: lesson for name, lesson in self.lessons.items() if name in replicas}
        self.taught = {name: limits for name, limits in self.taught.items() if name in replicas}


class Contested(NamedTuple):
    """A model that another stack has: whose it is, and the backends that do not get it."""

    owner: str
    others: tuple[str, ...]


class Drawing:
    def __init__(self) -> None:
        self.replicas: Mapping[str, Replica] = {}
        self.routes: Mapping[str, Route] = {}
        self.bases: dict[str, Basis] = {}
        self._strangers = Strangers()
        self._standing: dict[str, frozenset[str]] = {}
        self._known: dict[str, int] = {}  # how many backends are known for a name
        self._of: dict[str, tuple[str, ...]] = {}  # replica ids in their order, by backend
        self._rank: Mapping[str, int] = {}
        self._firm: dict[str, dict[str, Candidate]] = {}  # by name, then by replica id
        self._spare: dict[str, dict[str, Candidate]] = {}
        self._wild: dict[str, Candidate] = {}
        self._gone: list[str] = []
        self.contested: dict[str, Contested] = {}  # by the name of the model

    @property
    def strangers(self) -> Mapping[str, str]:
        """Why a replica serves nothing, by its id."""
        return self._strangers.found

    @property
    def wild(self) -> tuple[Candidate, ...]:
        return tuple(self._wild[name] for name in sorted(self._wild, key=self._rank.__getitem__))

    def place(self, backends: Mapping[str, Backend], touched: Iterable[str]) -> None:
        """Replicas come and go with the addresses of the touched backends; all backends may stand in another order."""
        wanted: dict[str, tuple[Backend, Address]] = {}
        of: dict[str, tuple[str, ...]] = {}
        for name in touched:
            if name in backends:
                places = {replica_id(name, one): (backends[name], one) for one in backends[name].spec.addresses}
                of[name] = tuple(places)
                wanted |= places
        old = {name: self.replicas[name] for backend in touched for name in self._of.get(backend, ())}
        left = {_place(one.address): one.seat for name, one in old.items() if name not in wanted}
        self._gone += [name for name in old if name not in wanted]
        made: dict[str, Replica] = {}
        for name, (backend, address) in wanted.items():
            replica = old.get(name)
            if replica is None:
                replica = Replica(name, backend.spec.name, address, left.pop(_place(address), Seat()))
            elif replica.address != address:
                replica = Replica(name, backend.spec.name, address, replica.seat)
            replica.seat.cap = backend.spec.concurrency
            made[name] = replica
        self._of = {name: of[name] if name in of else self._of[name] for name in backends}
        ids = [name for names in self._of.values() for name in names]
        self.replicas = {name: made[name] if name in made else self.replicas[name] for name in ids}
        self._rank = {name: number for number, name in enumerate(ids)}

    def draw(self, backends: Mapping[str, Backend], heard: Heard, touched: Iterable[str]) -> None:
        """Offers and routes of the touched backends, with all that follows from them for others."""
        names: set[str] = set()
        for name in self._gone:
            if name in self.bases:
                self._withdraw(name, self.bases.pop(name).offers, names)
        self._gone.clear()
        fresh: dict[str, Basis | None] = {}  # what stood before, by replica id
        groups = {name: self._based(name, backends.get(name), heard, fresh) for name in touched}
        before = frozenset(self.strangers)
        moved = self._strangers.update(groups)
        for name in {*fresh, *moved} & self.bases.keys():
            last = fresh[name] if name in fresh else self.bases[name]
            if last is not None and name not in before:
                self._withdraw(name, last.offers, names)
            if name not in self.strangers:
                self._offer(name, self.bases[name].offers, names)
        also = {self.bases[name].replica.backend for name in moved & self.bases.keys()}
        for name in {*groups, *also}:
            self._know(name, backends.get(name), names)
        self._route(names)

    def _based(self, name: str, backend: Backend | None, heard: Heard, fresh: dict[str, Basis | None]) -> list[Basis]:
        """The bases of a backend's replicas; those that had to be computed anew are put into `fresh`."""
        group: list[Basis] = []
        for replica in self._of.get(name, ()):
            assert backend is not None
            known = self.bases.get(replica)
            parts = (self.replicas[replica], backend, heard.lessons.get(replica), heard.taught.get(replica, NOTHING))
            if known is None or not known.still(parts):
                fresh[replica] = known
                known = self.bases[replica] = Basis(*parts, offers_of(*parts))
            group.append(known)
        return group

    def redraw(self) -> None:
        """The backends stand in another order: every route does."""
        self._route({*self._firm, *self._spare, *self._known})

    # --- offers -------------------------------------------------------------------------------------------------------

    def _offer(self, replica: str, offers: Offers, names: set[str]) -> None:
        for table, offered in ((self._firm, offers.firm), (self._spare, offers.spare)):
            for name, candidate in offered.items():
                table.setdefault(name, {})[replica] = candidate
            names.update(offered)
        if offers.wild is not None:
            self._wild[replica] = offers.wild

    def _withdraw(self, replica: str, offers: Offers, names: set[str]) -> None:
        for table, offered in ((self._firm, offers.firm), (self._spare, offers.spare)):
            for name in offered:
                rest = table.get(name, {})
                rest.pop(replica, None)
                if not rest:
                    table.pop(name, None)
            names.update(offered)
        self._wild.pop(replica, None)

    def _know(self, name: str, backend: Backend | None, names: set[str]) -> None:
        """What a backend is known for, and by how many a name is."""
        old = self._standing.pop(name, NOBODY)
        new = NOBODY
        if backend is not None:
            bases = [self.bases[replica] for replica in self._of.get(name, ())]
            new = self._standing[name] = standing(backend, bases, self.strangers, old)
        for one in new - old:
            self._known[one] = self._known.get(one, 0) + 1
        for one in old - new:
            self._known[one] -= 1
            if not self._known[one]:
                del self._known[one]
        names |= old ^ new

    def _route(self, names: Iterable[str]) -> None:
        """Routes of these names anew; one that nobody offers and nobody is known for goes."""
        made: dict[str, Route | None] = {}
        for name in names:
            offered = self._firm.get(name) or self._spare.get(name) or {}
            ids = sorted(offered, key=lambda one: (offered[one].backend.priority, self._rank[one]))
            ids = self._rightful(name, ids, offered)
            if ids or name in self._known:
                owners = [self.bases[one].offers.owners for one in ids]
                made[name] = route_of(name, [offered[one] for one in ids], owners)
            else:
                made[name] = None
                self.contested.pop(name, None)
        if not made:
            return
        routes = {**self.routes, **made}
        if self.routes.keys() != routes.keys():
            routes = dict(sorted(routes.items()))
        self.routes = {name: route for name, route in routes.items() if route is not None}

    def _rightful(self, name: str, ids: list[str], offered: Mapping[str, Candidate]) -> list[str]:
        """Those of the replicas that may serve a name."""
        self.contested.pop(name, None)
        if len({offered[one].backend.stack for one in ids} - {""}) < 2:
            return ids
        first = min((one for one in ids if offered[one].backend.stack), key=self._rank.__getitem__)
        owner = offered[first].backend.stack
        kept, others = [], set()
        for one in ids:
            spec = offered[one].backend
            if spec.stack in {"", owner} or not {name, EVERY}.isdisjoint(spec.shares):
                kept.append(one)
            else:
                others.add(spec.name)
        if others:
            self.contested[name] = Contested(owner, tuple(sorted(others)))
        return kept


def _place(address: Address) -> tuple[object, ...]:
    """What a seat belongs to: the same tenant at the same place."""
    return *endpoint(address), address.tenant
