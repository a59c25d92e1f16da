"""Short ways to write backends, lessons and figures in tests of the memory."""

from __future__ import annotations

from typing import Any

from autohedge.core.types import Address, BackendSpec, Fact, Kind, LearnedModel, Lesson, Limits, Rank, Seen


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
