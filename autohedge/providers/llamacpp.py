"""llama.cpp: /props tells the window per slot, /v1/models what the model is, two endpoints count.

Source: llama.cpp b11549, run with tiny models.
It answers 500 to many mistakes of clients; none of those is a failure of the engine.

It must not know: what a verdict does with its texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from autohedge.core.ask import Ask
from autohedge.core.problems import Detail
from autohedge.core.types import Candidate, Door, Fact, Kind, LearnedModel, Limits
from autohedge.providers import common
from autohedge.providers.base import Counted, Dialect, Question, Replies, Reply
from autohedge.providers.errors import whole

PROPS, TOKENIZE, INPUT_TOKENS = "/props", "/tokenize", "/v1/chat/completions/input_tokens"
# Fields of a chat that change the rendered prompt.
TEMPLATE = (
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "json_schema",
    "grammar",
    "reasoning_format",
    "reasoning_effort",
    "chat_template_kwargs",
    "add_generation_prompt",
)


def _props_of(name: str) -> str:
    """The router's question about one model; it must not load the model."""
    return f"{PROPS}?model={quote(name, safe='')}&autoload=false"


def _state(card: Mapping[str, Any]) -> Any:
    """In router mode: unloaded, loading, loaded, sleeping, downloading; None for a server of one model."""
    return common.mapping(card.get("status")).get("value")


def more(replies: Replies) -> tuple[Question, ...]:
    """A router tells the window of each loaded model only when asked for it by name."""
    return tuple(
        Question(_props_of(name))
        for card in common.cards(replies) or []
        if _state(card) == "loaded" and (name := common.name_of(card.get("id")))
    )


def slots(replies: Replies) -> int | None:
    """Requests that are worked on at once; the others wait without a byte, not even headers."""
    return whole(common.mapping(common.told(replies, PROPS)).get("total_slots"))


def lessons(replies: Replies, now: float) -> tuple[LearnedModel, ...] | None:
    """Windows per slot, vision by the loaded projector, System One by the model's output modality.

    Embeddings stay unknown until a 501 was seen: no field tells them.
    """
    cards = common.cards(replies)
    if cards is None:
        return None
    return tuple(
        LearnedModel(name, _names(card, name), _limits(card, replies, now), common.name_of(card.get("owned_by")))
        for card in cards
        if (name := common.name_of(card.get("id")))
    )


def _names(card: Mapping[str, Any], name: str) -> tuple[str, ...]:
    aliases = card.get("aliases")
    known = [name, *(common.name_of(alias) for alias in (aliases if isinstance(aliases, list) else []))]
    return tuple(dict.fromkeys(alias for alias in known if alias))


def _limits(card: Mapping[str, Any], replies: Replies, now: float) -> Limits:
    state = _state(card)
    path = PROPS if state is None else _props_of(common.name_of(card.get("id")))
    props = common.mapping(common.told(replies, path))
    settings = common.mapping(props.get("default_generation_settings"))
    window = common.number(settings.get("n_ctx"), f"n_ctx per slot, read from {PROPS}", now)
    if window is None:
        window = common.number(common.mapping(card.get("meta")).get("n_ctx"), "meta.n_ctx, read from /v1/models", now)
    return Limits(context=window, abilities=_abilities(card, props, now))


def _abilities(card: Mapping[str, Any], props: Mapping[str, Any], now: float) -> dict[str, Fact[bool]]:
    known: dict[str, Fact[bool]] = {}
    seen = [value for value in common.mapping(props.get("modalities")).values() if isinstance(value, bool)]
    if seen:
        known["vision"] = common.ability(any(seen), f"modalities, read from {PROPS}", now)
    outputs = common.mapping(card.get("architecture")).get("output_modalities")
    if isinstance(outputs, list) and outputs:
        decides = common.ability("decisions" in outputs, "output_modalities, read from /v1/models", now)
        known[Door.SYSTEMONE.value] = decides
    return known


def count(ask: Ask, _served: str) -> Question | None:
    """A chat by its own endpoint, tools and template included; one string by /tokenize with the BOS token."""
    if ask.door is Door.CHAT:
        body = common.chosen(common.mapping(ask.obj), TEMPLATE)
        return Question(INPUT_TOKENS, body) if "messages" in body else None
    text = common.only_text(ask)
    return None if text is None else Question(TOKENIZE, {"content": text, "add_special": True, "parse_special": True})


def counted(reply: Reply) -> Counted:
    """`input_tokens` of the one endpoint, the length of `tokens` of the other."""
    body = common.mapping(common.told({TOKENIZE: reply}, TOKENIZE))
    tokens = body.get("tokens")
    if isinstance(tokens, list):
        return common.count_read(reply, TOKENIZE, len(tokens))
    return common.count_read(reply, INPUT_TOKENS, whole(body.get("input_tokens")))


def fits(ask: Ask, tokens: int | None, candidate: Candidate, now: float) -> list[Detail]:
    """A prompt as long as the window is refused (for embeddings: longer); max_tokens never is."""
    case = common.Fitting(ask, tokens, candidate, now)
    if case.nothing:
        return []
    limits = candidate.limits
    return common.found(
        common.too_many(case, limits.max_output),
        common.too_long(case, limits.max_input),
        common.too_long(case, limits.context, case.room),
    )


DIALECT: Dialect = Dialect(
    kind=Kind.LLAMACPP,
    doors={**common.OPENAI_DOORS, Door.RERANK: "/v1/rerank", Door.SYSTEMONE: "/v1/systemone"},
    default_port=8080,
    authorize=common.bearer,
    learn=(common.MODELS, Question(PROPS)),
    more=more,
    slots=slots,
    lessons=lessons,
    count=count,
    counted=counted,
    fits=fits,
    probe=common.probe,
    counts={"min_levels": 2, "max_levels": 10, "max_images": 8},  # options differ by model; its refusal names them
    # All seen as 500 with type server_error on b11549. The tool texts repeat what the client sent.
    client_faults=(
        "failed to parse messages",
        "failed to parse tools",
        "is too large to process",
        "[json.exception.",
        "invalid role",
    ),
    capability=(
        "does not support logits computation",  # a chat on an embedding server, 500
        "input is not supported - hint",  # an image or audio without a projector, 500
        "this server does not support",
        "this model is not a decision model",
        "requires --jinja",
    ),
    engine_dead=("cuda error", "cuda out of memory"),
    loading=("loading model",),
    keep_alive=3.0,  # cpp-httplib closes after 5 s
)
