"""Whether a replica is who its backend says, and what a backend is known for while none of its replicas can tell.

An address may be handed on: after a split network the old container still runs and the new one has the same address; a task
may be replaced by one that serves something else. What answers there is then asked under a name that is not its own.

Rules
- Where a source knows what the engine was told to call its model (`by_args`), an engine that lists none of the declared names is
  a stranger.
- Otherwise a replica is a stranger when its engine lists nothing that its backend declares or that another replica of the same
  backend lists, but something that another backend's replicas list. One replica alone is never a stranger by that rule.
- A stranger serves nothing until it answers as it should.
- The names of a backend stay known while it has no replica that was heard, or not all were: a service that is scaled to zero
  or loads its model is unavailable (503), not unknown (404). They are forgotten when all its replicas say otherwise.

It must not know: how a lesson came about, breakers, requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from autohedge.core.types import Lesson, Replica
from autohedge.memory.merging import Backend
from autohedge.memory.picture import Offers

MOST_NAMES = 2000  # names that one backend is known for
SHOWN = 80


class Basis(Protocol):
    """What the registry keeps of one replica."""

    @property
    def replica(self) -> Replica: ...

    @property
    def backend(self) -> Backend: ...

    @property
    def lesson(self) -> Lesson | None: ...


def strangers(bases: Iterable[Basis]) -> Mapping[str, str]:
    """The replicas that are not who their backend says, with the reason, by id."""
    found: dict[str, str] = {}
    groups: dict[str, dict[str, frozenset[str]]] = {}
    specs: dict[str, Backend] = {}
    for basis in bases:
        lesson, spec = basis.lesson, basis.backend.spec
        if lesson is None or not lesson.models or spec.external or spec.takes_any or spec.exact:
            continue
        names = _names(lesson)
        if "" in names:  # it takes any name
            continue
        if spec.by_args and names.isdisjoint(spec.models):
            found[basis.replica.id] = f"its engine serves {_shown(names)}, not {_shown(spec.models)}"
            continue
        groups.setdefault(spec.name, {})[basis.replica.id] = names
        specs[spec.name] = basis.backend
    owners: dict[str, set[str]] | None = None
    for backend, listed in groups.items():
        if len(listed) < 2 or len(set(listed.values())) < 2:
            continue
        owners = _owners(groups) if owners is None else owners
        for replica, names in listed.items():
            siblings = frozenset().union(*(theirs for other, theirs in listed.items() if other != replica))
            spec = specs[backend].spec
            if not names.isdisjoint((*siblings, *spec.models, *spec.aliases.values())):
                continue
            others = set().union(*(owners[name] for name in names)) - {backend}
            if others:
                found[replica] = (
                    f"its engine serves {_shown(names)}, as backend {min(others)} does and its own does not"
                )
    return found


def standing(
    backends: Mapping[str, Backend],
    bases: Mapping[str, Basis],
    own: Mapping[str, Offers],
    before: Mapping[str, frozenset[str]],
) -> Mapping[str, frozenset[str]]:
    """The names that each backend is known for. `own` holds what replicas offer, strangers left out; `before` is the last result."""
    offered: dict[str, set[str]] = {}
    silent: set[str] = set()
    for name, basis in bases.items():
        owner = basis.replica.backend
        offers = own.get(name)
        if offers is None or basis.lesson is None or not basis.lesson.models:
            silent.add(owner)
        if offers is not None:
            offered.setdefault(owner, set()).update(offers.firm, offers.spare)
    known = {}
    for name, backend in backends.items():
        if not backend.spec.listed:
            continue
        told = frozenset(offered.get(name, ()))
        if not told or name in silent:
            old = before.get(name, frozenset())
            told = told | _declared(backend) | (old if len(old) < MOST_NAMES else frozenset())
        known[name] = told
    return known


def _declared(backend: Backend) -> frozenset[str]:
    """What a backend is known for before anybody was heard."""
    spec = backend.spec
    spare = backend.names if len(spec.models) < 2 and not spec.external else ()
    return frozenset((*spec.models, *spec.aliases, *spare))


def _names(lesson: Lesson) -> frozenset[str]:
    return frozenset(name for model in lesson.models for name in (model.id, *model.names))


def _owners(groups: Mapping[str, Mapping[str, frozenset[str]]]) -> dict[str, set[str]]:
    """The backends whose replicas list a name."""
    owners: dict[str, set[str]] = {}
    for backend, listed in groups.items():
        for names in listed.values():
            for name in names:
                owners.setdefault(name, set()).add(backend)
    return owners


def _shown(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)[:3])[:SHOWN]
