"""Speech: one dialect per kind of engine, and how to tell the kinds apart by asking.

Rules
- A kind is recognised by something that only this engine says. What could be two kinds is the more general one; what says
  nothing readable stays unknown.

It must not know: who asks the questions, or when.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autohedge.core.types import UNKNOWN_LIMITS, Fact, Kind, Lesson, Limits, Rank
from autohedge.providers import azure, common, llamacpp, ollama, openai, sglang, systemone, tgi, vllm
from autohedge.providers.base import Dialect, Question, Replies
from autohedge.providers.errors import parsed, said_in

DIALECTS: Mapping[Kind, Dialect] = {
    dialect.kind: dialect
    for dialect in (
        vllm.DIALECT,
        sglang.DIALECT,
        ollama.DIALECT,
        tgi.DIALECT,
        llamacpp.DIALECT,
        azure.DIALECT,
        openai.DIALECT,
        systemone.DIALECT,
        systemone.TYPESAFE,
        replace(openai.DIALECT, kind=Kind.AUTO),  # not recognised yet: spoken to in the common language
    )
}

# What each kind takes at the System One door unless an operator or the engine says otherwise.
USUAL: Mapping[Kind, Limits] = {
    kind: Limits(
        counts={name: Fact(value, f"usual for {kind.value}", Rank.KIND) for name, value in dialect.counts.items()}
    )
    if dialect.counts
    else UNKNOWN_LIMITS
    for kind, dialect in DIALECTS.items()
}

# The few questions that tell engines apart. Each is cheap, and none of them starts an inference or loads a model.
RECOGNITION: tuple[Question, ...] = (
    common.MODELS,
    Question("/props"),
    Question("/version"),
    Question("/api/version"),
    Question("/info"),
    Question("/model_info"),
    Question("/get_model_info"),
)

_OWNERS = {"llamacpp": Kind.LLAMACPP, "sglang": Kind.SGLANG, "vllm": Kind.VLLM, "library": Kind.OLLAMA}


def recognise(replies: Replies) -> Kind | None:
    """The kind that these replies to `RECOGNITION` speak for; None when nothing readable came."""
    if common.mapping(common.told(replies, "/props")).keys() & {"default_generation_settings", "total_slots"}:
        return Kind.LLAMACPP
    # SGLang also answers in Ollama's manner, and TGI lists models in OpenAI's: their own words come first.
    for path in ("/model_info", "/get_model_info"):
        if common.mapping(common.told(replies, path)).keys() & {"is_generation", "tokenizer_path"}:
            return Kind.SGLANG
    info = common.mapping(common.told(replies, "/info"))
    if "max_total_tokens" in info and common.name_of(info.get("model_id")):
        return Kind.TGI
    return _by_list(replies) or _while_loading(replies)


def _by_list(replies: Replies) -> Kind | None:
    cards = common.cards(replies)
    owners = {common.name_of(card.get("owned_by")) for card in cards or []}
    for owner, kind in _OWNERS.items():
        if owner in owners:
            return kind
    if common.mapping(common.told(replies, "/api/version")).get("version"):
        return Kind.OLLAMA  # also while it has no model, and then its list is null
    if cards is None:
        return None
    if common.mapping(common.told(replies, "/version")).get("version") and any(
        "max_model_len" in card for card in cards
    ):
        return Kind.VLLM
    listed = common.objects(common.mapping(common.told(replies, common.MODELS.path)).get("models"))
    return Kind.SYSTEMONE if any("release_date" in card for card in listed) else Kind.OPENAI


def _while_loading(replies: Replies) -> Kind | None:
    """llama.cpp answers every path with its own 503 until the model is loaded."""
    for reply in replies.values():
        said = said_in(reply.body) if reply.status == 503 and parsed(reply.body) is not None else None
        if said is not None and said.type == "unavailable_error" and said.message == "Loading model":
            return Kind.LLAMACPP
    return None


def lesson(kind: Kind, replies: Replies, now: float) -> Lesson:
    """What the replies to `learn` and `more` of this kind teach. Never raises; `failed` tells why nothing was learned."""
    dialect = DIALECTS[kind]
    models = dialect.lessons(replies, now)
    if models is None:
        answered = [reply.status for reply in replies.values() if reply.status]
        mute = bool(answered) and max(answered) < 500
        return Lesson(kind, at=now, failed=_why(dialect, replies), mute=mute)
    return Lesson(kind, models, now, slots=dialect.slots(replies))


def _why(dialect: Dialect, replies: Replies) -> str:
    for reply in replies.values():
        if reply.status == 503:
            text = said_in(reply.body).message.lower()
            if any(part in text for part in (*dialect.loading, *openai.LOADING)):
                return "loading"
        if reply.status in (401, 403):
            return f"{reply.status}: the key is missing or not accepted"
    statuses = {reply.status for reply in replies.values()}
    if statuses <= {0}:
        return next((reply.failure for reply in replies.values() if reply.failure), "no answer")
    like = "any known engine" if dialect.kind is Kind.AUTO else dialect.kind.value
    return f"does not answer like {like} ({', '.join(str(status) for status in sorted(statuses))})"
