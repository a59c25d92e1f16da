"""Ollama: /api/tags lists models, /api/ps the windows of the loaded ones, /api/show what a model can do.

Source: ollama@fb30760; the bounds of System One: its handler at 26e546d and a88b3af.
The window of a loaded model is told but never enforced: a longer prompt is cut or refused depending on model and version,
and max_tokens may be anything. The length in /api/show is the training maximum, not a limit (0.16), and is not read.

It must not know: what a verdict does with its texts.
"""

from __future__ import annotations

from typing import Any

from autohedge.core.types import Door, Fact, Kind, LearnedModel, Limits
from autohedge.providers import common
from autohedge.providers.base import Dialect, Question, Replies

TAGS = "/api/tags"
LOADED = "/api/ps"
SHOW = "/api/show"
ORIGIN = "context_length, read from /api/ps"
MOST = 64  # models that are asked about in one round


def _shown(name: str) -> str:
    return f"{SHOW} {name}"


def _listed(replies: Replies) -> list[dict[str, Any]] | None:
    tags = common.cards(replies, TAGS)
    return tags if tags is not None else common.cards(replies)


def _name(card: dict[str, Any]) -> str:
    return next((name for key in ("model", "name", "id") if (name := common.name_of(card.get(key)))), "")


def names(name: str) -> tuple[str, ...]:
    """A model answers to its name with and without the tag ":latest"."""
    if name.endswith(":latest"):
        return (name, name.removesuffix(":latest"))
    return (name,) if ":" in name.rpartition("/")[2] else (name, f"{name}:latest")


def more(replies: Replies) -> tuple[Question, ...]:
    """One /api/show per model; it does not load the model."""
    found = [name for card in _listed(replies) or [] if (name := _name(card))]
    return tuple(Question(SHOW, {"model": name}, _shown(name)) for name in found[:MOST])


def lessons(replies: Replies, now: float) -> tuple[LearnedModel, ...] | None:
    """Every model on disk; a window only while the model is loaded, abilities where the build tells them."""
    cards = _listed(replies)
    if cards is None:
        return None
    windows = {
        name: common.number(card.get("context_length"), ORIGIN, now)
        for card in common.cards(replies, LOADED) or []
        if (name := _name(card))
    }
    return tuple(
        LearnedModel(
            name,
            names(name),
            Limits(context=windows.get(name), abilities=_abilities(common.told(replies, _shown(name)), now)),
            common.name_of(card.get("owned_by")),
        )
        for card in cards
        if (name := _name(card))
    )


def _abilities(shown: Any, now: float) -> dict[str, Fact[bool]]:
    """Known when the build lists capabilities. A missing "embedding" is no no: Ollama embeds with any model."""
    listed = common.mapping(shown).get("capabilities")
    if not isinstance(listed, list) or not listed:
        return {}
    has = {item for item in listed if isinstance(item, str)}
    origin = "capabilities, read from /api/show"
    known = {door.value: common.ability("completion" in has, origin, now) for door in common.GENERATING}
    if "embedding" in has:
        known[Door.EMBEDDINGS.value] = common.ability(True, origin, now)
    known["tools"] = common.ability("tools" in has, origin, now)
    known["vision"] = common.ability(bool({"vision", "audio"} & has), origin, now)
    return known


DIALECT: Dialect = Dialect(
    kind=Kind.OLLAMA,
    doors={**common.OPENAI_DOORS, Door.SYSTEMONE: "/v1/systemone"},
    default_port=11434,
    authorize=common.bearer,
    learn=(Question(TAGS), Question(LOADED)),
    more=more,
    lessons=lessons,
    fits=common.declared_only,
    probe=common.probe,
    counts={
        "max_questions": 64,
        "min_options": 2,
        "max_options": 26,
        "min_levels": 2,
        "max_levels": 26,
        "max_body_bytes": 65_536,
    },
    light="/api/version",
    capability=tuple(
        f"does not support {what}" for what in ("tools", "chat", "generate", "thinking", "embed", "insert")
    ),
    engine_dead=("process has terminated", "process no longer running", "cuda error", "cuda out of memory"),
    busy=("server busy", "maximum pending requests exceeded", "server overloaded"),
)
