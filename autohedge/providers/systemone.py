"""A System One server of unknown make, and TypeSafe's own: /v1/models in either of its two shapes, and one door.

Sources: SGLang 0.5.23, vLLM 0.32.0, llama.cpp b11549, typesafe-sdk 0.7.5 (which wants `models`). Servers refuse a bad body with 400 or 422; both are the client's.
TypeSafe cannot be told from its many imitators by asking; an operator names it.

It must not know: what a decision means.
"""

from __future__ import annotations

from dataclasses import replace

from autohedge.core.types import Door, Fact, Kind, LearnedModel, Limits
from autohedge.providers import common, openai
from autohedge.providers.base import Dialect, Replies

ORIGIN = "kind systemone"


def lessons(replies: Replies, now: float) -> tuple[LearnedModel, ...] | None:
    """Names from `data[].id` or from `models[].name`; every one of them decides."""
    cards = common.cards(replies)
    if cards is None:
        return None
    decides: dict[str, Fact[bool]] = {Door.SYSTEMONE.value: common.ability(True, ORIGIN, now)}
    return tuple(
        LearnedModel(name, (name,), Limits(abilities=decides), common.name_of(card.get("owned_by")))
        for card in cards
        if (name := common.name_of(card.get("id")) or common.name_of(card.get("name")))
    )


DIALECT: Dialect = Dialect(
    kind=Kind.SYSTEMONE,
    doors={Door.SYSTEMONE: "/v1/systemone"},
    default_port=8000,
    authorize=common.bearer,
    learn=(common.MODELS,),
    lessons=lessons,
    fits=common.declared_only,
    probe=common.probe,
    light="/v1/models",
    client_faults=openai.CLIENT_FAULTS,
    capability=openai.CAPABILITY,
    engine_dead=openai.ENGINE_DEAD,
    busy=openai.BUSY,
    loading=openai.LOADING,
)
TYPESAFE = replace(DIALECT, kind=Kind.TYPESAFE, default_port=443, counts={"max_options": 255, "max_levels": 10})
