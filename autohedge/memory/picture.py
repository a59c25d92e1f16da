"""Which model names a replica answers for, and the routes that follow: the pure half of the registry.

Where a public model name comes from, strongest first; a replica offers each name once:
1. an alias of the backend: the operator's own word, so it also hides a model of that name on the engine
2. a model that the engine lists, under its id and all its names
3. a model that the source declares (label, environment, configuration)
4. a name of the backend itself (the Swarm service name), when the engine lists exactly one model or, before it was asked,
   the source declares exactly one. It only counts where nobody offers that name in one of the ways above.

Rules
- The name that is sent is the id that the engine lists. A declared name that the engine does not list stands for the
  engine's only model, when it lists exactly one: a service is called "vllm-qwen2-7b", its engine says
  "/models/qwen2-7b-instruct" (the AutoHedge article). Not so for engines that hold many models and load them by name
  (Ollama, Azure) and for external providers: there it would answer with a model that nobody asked for.
- A declared model that the engine has not confirmed is a candidate with `known=False`, sent as declared. Azure lists no
  deployments, so there what is declared counts as known.
- An exact backend (a worker of the System One door) serves the models it declares under these very names: nothing that its
  engine lists beside them, nothing under its own name, and the name goes out as it came in.
- An external backend that declares models serves only these: what else the account could buy is not offered.
- A backend that takes any model has a wildcard beside its names: its only model while it lists one, so that both share what is
  known of their health, else one without a name. What is asked reaches it as it came (attempt.py).
- Candidates are ordered by priority, the lower number first, then as the sources gave them.

It must not know: how a lesson came about, seats, breakers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autohedge.core.types import (
    NOTHING,
    UNKNOWN_LIMITS,
    Address,
    BackendSpec,
    Candidate,
    Kind,
    LearnedModel,
    Lesson,
    Limits,
    Replica,
    Route,
)
from autohedge.memory.figures import combined
from autohedge.memory.merging import Backend
from autohedge.providers import USUAL
from autohedge.rules.limits import lacking, room

MANY = frozenset({Kind.OLLAMA, Kind.AZURE})  # kinds whose engine picks the model by its exact name
UNASKED = Lesson(Kind.AUTO)
HOUSE = "autohedge"  # owned_by of a model whose engine names no owner


@dataclass(frozen=True, slots=True)
class Offers:
    """What one replica could serve, by public name. `spare` counts only for names that nobody offers in `firm`, `wild` is for
    any name.
    """

    firm: Mapping[str, Candidate]
    spare: Mapping[str, Candidate]
    owners: Mapping[str, str]  # by the name that is sent
    wild: Candidate | None = None


def replica_id(backend: str, address: Address) -> str:
    """`backend@host:port`, with prefix and "#tenant" where there are such; stable while the address and who lives there are."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    tenant = f"#{address.tenant}" if address.tenant else ""
    return f"{backend}@{host}:{address.port}{address.prefix}{tenant}"


def offers_of(replica: Replica, backend: Backend, lesson: Lesson | None, taught: Mapping[str, Limits]) -> Offers:
    """What `replica` serves. `taught` holds what the engine's refusals said, by the name that was sent."""
    if not backend.spec.listed:
        return Offers(NOTHING, NOTHING, NOTHING)
    seen = _Seen(replica, backend.spec, lesson or UNASKED, taught)
    spec, models = backend.spec, seen.lesson.models
    firm = {public: seen.named(target) for public, target in spec.aliases.items()}
    if not (spec.exact or (spec.external and spec.models)):
        for model in models:
            for name in (model.id, *model.names):
                if name and name not in firm:
                    firm[name] = seen.listed(model)
    for name in spec.models:
        if name not in firm:
            firm[name] = seen.named(name)
    only = _only(seen, firm)
    spare = {name: only for name in backend.names if name not in firm} if only is not None else NOTHING
    owners = {model.id: model.owned_by for model in models if model.owned_by}
    wild = (only or seen.unheard()) if spec.takes_any else None
    return Offers(firm, spare, owners, wild)


def _only(seen: _Seen, firm: Mapping[str, Candidate]) -> Candidate | None:
    """The candidate that the backend's own name stands for: its only model, or whatever it serves while nobody knows."""
    spec, models = seen.spec, seen.lesson.models
    if len(models) == 1 and not (spec.external and spec.models):
        return seen.listed(models[0])
    if len(spec.models) == 1:
        return firm[spec.models[0]]
    return None if models or spec.models or spec.external else seen.unheard()


def route_of(name: str, candidates: Sequence[Candidate], owners: Sequence[Mapping[str, str]]) -> Route:
    """The route of a name to these candidates in their order, the best first. `owners` is what the replica of each says of the
    owners of models, by the name that is sent.
    """
    if not candidates:
        return Route(name, (), frozenset())
    kinds = frozenset(candidate.kind for candidate in candidates)
    served = candidates[0].served
    owner = next((told[served] for told in owners if served in told), HOUSE)
    return Route(name, tuple(candidates), kinds, owner, room(candidates), lacking(candidates))


@dataclass(frozen=True, slots=True)
class _Seen:
    """One replica with all that is known of it."""

    replica: Replica
    spec: BackendSpec
    lesson: Lesson
    taught: Mapping[str, Limits]

    def listed(self, model: LearnedModel) -> Candidate:
        return self._candidate(model.id, model.limits, known=True)

    def named(self, name: str) -> Candidate:
        """The candidate for a name that the source or the operator gives."""
        model = self._match(name)
        if self.spec.exact:
            return self._candidate(name, UNKNOWN_LIMITS if model is None else model.limits, known=True)
        if model is not None:
            return self.listed(model)
        return self._candidate(name, UNKNOWN_LIMITS, known=self._kind() is Kind.AZURE)

    def unheard(self) -> Candidate:
        """A replica that has not told anything yet, or that will not tell us (a key that only clients have): the backend's
        own name leads there, and the model's name goes through as it came.
        """
        return self._candidate("", UNKNOWN_LIMITS, known=False)

    def _match(self, name: str) -> LearnedModel | None:
        models = self.lesson.models
        for model in models:
            if name == model.id or name in model.names:
                return model
        alone = len(models) == 1 and not self.spec.external and self._kind() not in MANY
        return models[0] if alone else None

    def _kind(self) -> Kind:
        return self.lesson.kind if self.spec.kind is Kind.AUTO else self.spec.kind

    def _candidate(self, served: str, learned: Limits, *, known: bool) -> Candidate:
        kind = self._kind()
        limits = combined(combined(learned, self.spec.hints), self.taught.get(served, UNKNOWN_LIMITS))
        return Candidate(self.replica, self.spec, kind, served, combined(limits, USUAL[kind]), known=known)


def bounded(lesson: Lesson, now: float, most: int = 1000, longest: int = 256) -> Lesson:
    """A lesson that cannot fill the memory: at most `most` models, no names over `longest` characters, and a time."""
    models = tuple(
        replace(model, names=tuple(name for name in model.names[:most] if len(name) <= longest))
        for model in lesson.models[:most]
        if len(model.id) <= longest
    )
    return replace(lesson, models=models, at=lesson.at or now)
