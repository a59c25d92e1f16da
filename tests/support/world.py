"""Short ways to write backends, lessons and figures in tests of the memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from autohedge.core.types import (
    Address,
    BackendSpec,
    Candidate,
    Fact,
    Kind,
    LearnedModel,
    Lesson,
    Limits,
    Rank,
    Route,
    Seen,
)
from autohedge.memory.picture import Offers, route_of


def place(text: str) -> Address:
    """`host`, `host:port` or `host:port/prefix`."""
    where, slash, prefix = text.partition("/")
    host, _, port = where.partition(":")
    return Address(host, int(port or 8000), prefix=slash + prefix)


def backend(name: str, *places: str, **fields: Any) -> BackendSpec:
    return BackendSpec(name, addresses=tuple(place(text) for text in places), **fields)


def seen(*backends: BackendSpec) -> Seen:
    return Seen(backends)


def told(value: int, at: float = 0.0, rank: Rank = Rank.ENGINE) -> Fact[int]:
    return Fact(value, "max_model_len, read from /v1/models", rank, at)


def model(name: str, *names: str, context: int | None = None, at: float = 0.0, owned_by: str = "") -> LearnedModel:
    limits = Limits(context=told(context, at)) if context is not None else Limits()
    return LearnedModel(name, names, limits, owned_by)


def lesson(*models: LearnedModel, at: float = 1.0, kind: Kind = Kind.VLLM) -> Lesson:
    return Lesson(kind, models, at)


def failed(reason: str = "connection refused") -> Lesson:
    return Lesson(Kind.AUTO, failed=reason)


def routes_of(offers: Iterable[Offers]) -> dict[str, Route]:
    """The routes that follow from these replicas, drawn from nothing."""
    firm: dict[str, list[tuple[Candidate, Offers]]] = {}
    spare: dict[str, list[tuple[Candidate, Offers]]] = {}
    for offer in offers:
        for table, offered in ((firm, offer.firm), (spare, offer.spare)):
            for name, candidate in offered.items():
                table.setdefault(name, []).append((candidate, offer))
    routes = {}
    for name, pairs in sorted((spare | firm).items()):
        pairs.sort(key=lambda pair: pair[0].backend.priority)
        routes[name] = route_of(name, [one for one, _ in pairs], [offer.owners for _, offer in pairs])
    return routes
