"""Whether a replica is who its backend says, and what a backend is known for while none of its replicas can tell.

An address may be handed on: after a split network the old container still runs and the new one has the same address; a task
may be replaced by one that serves something else. What answers there is then asked under a name that is not its own.

Rules
- Where a source knows what the engine was told to call its model (`by_args`), an engine that lists none of the declared names
  is a stranger.
- Otherwise a replica is a stranger when its engine lists nothing that its backend declares or that another replica of the same
  backend lists, but something that another backend's replicas list. One replica alone is never a stranger by that rule.
- A stranger serves nothing until it answers as it should.
- The names of a backend stay known while it has no replica that was heard, or not all were: a service that is scaled to zero
  or loads its model is unavailable (503), not unknown (404). They are forgotten when all its replicas say otherwise.

It must not know: how a lesson came about, breakers, requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from autohedge.core.types import Lesson, Limits, Replica
from autohedge.memory.merging import Backend
from autohedge.memory.picture import Offers

MOST_NAMES = 2000  # names that one backend is known for
SHOWN = 80
NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Basis:
    """What the offers of one replica were computed from; they are kept while all of it is the same."""

    replica: Replica
    backend: Backend
    lesson: Lesson | None
    taught: Mapping[str, Limits]
    offers: Offers

    def still(self, other: tuple[Replica, Backend, Lesson | None, Mapping[str, Limits]]) -> bool:
        mine = (self.replica, self.backend, self.lesson, self.taught)
        return all(one is two for one, two in zip(mine, other, strict=True))

    @property
    def heard(self) -> bool:
        """Whether it told its models."""
        return self.lesson is not None and bool(self.lesson.models)


class Strangers:
    """Keeps who is a stranger; a backend is looked at when something about it changed."""

    def __init__(self) -> None:
        self.found: Mapping[str, str] = {}  # why, by replica id
        self._plain: dict[str, dict[str, str]] = {}  # those that their own arguments give away, by backend
        self._listed: dict[str, dict[str, frozenset[str]]] = {}  # what the others list, by backend and replica
        self._backends: dict[str, Backend] = {}
        self._divided: set[str] = set()  # backends whose replicas list different names

    def update(self, changed: Mapping[str, Sequence[Basis]]) -> set[str]:
        """Look at these backends anew, with all their replicas; one without any is forgotten. Returns the replicas about whom
        the judgement is another one now.
        """
        for name, bases in changed.items():
            self._look(name, bases)
        found = {replica: why for plain in self._plain.values() for replica, why in plain.items()}
        if self._divided:
            found |= self._foreign()
        before, self.found = self.found, found
        return {name for name in {*before, *found} if before.get(name) != found.get(name)}

    def _look(self, name: str, bases: Sequence[Basis]) -> None:
        plain: dict[str, str] = {}
        listed: dict[str, frozenset[str]] = {}
        for basis in bases:
            spec = basis.backend.spec
            names = _names(basis)
            if not names or spec.external or spec.takes_any or spec.exact:
                continue
            if spec.by_args and names.isdisjoint(spec.models):
                plain[basis.replica.id] = f"its engine serves {_shown(names)}, not {_shown(spec.models)}"
            else:
                listed[basis.replica.id] = names
        self._plain.pop(name, None)
        self._listed.pop(name, None)
        self._backends.pop(name, None)
        if plain:
            self._plain[name] = plain
        if listed:
            self._listed[name] = listed
            self._backends[name] = bases[0].backend
        if len(set(listed.values())) > 1:
            self._divided.add(name)
        else:
            self._divided.discard(name)

    def _foreign(self) -> Mapping[str, str]:
        """Those of the divided backends that answer as another backend does."""
        owners: dict[str, set[str]] = {}
        for name, listed in self._listed.items():
            for model in NOBODY.union(*listed.values()):
                owners.setdefault(model, set()).add(name)
        found: dict[str, str] = {}
        for name in self._divided:
            listed, spec = self._listed[name], self._backends[name].spec
            for replica, names in listed.items():
                siblings = NOBODY.union(*(theirs for other, theirs in listed.items() if other != replica))
                if not names.isdisjoint((*siblings, *spec.models, *spec.aliases.values())):
                    continue
                others = set().union(*(owners[model] for model in names)) - {name}
                if others:
                    told = f"its engine serves {_shown(names)}, as backend {min(others)} does and its own does not"
                    found[replica] = told
        return found


def standing(
    backend: Backend, bases: Sequence[Basis], strange: Mapping[str, str], before: frozenset[str]
) -> frozenset[str]:
    """The names that a backend is known for; `before` is the last result."""
    if not backend.spec.listed:
        return NOBODY
    told: set[str] = set()
    silent = not bases
    for basis in bases:
        if basis.replica.id in strange:
            silent = True
            continue
        told.update(basis.offers.firm, basis.offers.spare)
        silent = silent or not basis.heard
    if told and not silent:
        return frozenset(told)
    return frozenset((*told, *_declared(backend), *(before if len(before) < MOST_NAMES else ())))


def _declared(backend: Backend) -> frozenset[str]:
    """What a backend is known for before anybody was heard."""
    spec = backend.spec
    spare = backend.names if len(spec.models) < 2 and not spec.external else ()
    return frozenset((*spec.models, *spec.aliases, *spare))


def _names(basis: Basis) -> frozenset[str]:
    """What an engine lists, nothing when it was not heard or takes any name."""
    if basis.lesson is None or any(not model.id for model in basis.lesson.models):
        return NOBODY
    return frozenset(name for model in basis.lesson.models for name in (model.id, *model.names))


def _shown(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)[:3])[:SHOWN]
