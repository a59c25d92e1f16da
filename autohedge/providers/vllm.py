"""vLLM: /v1/models tells the window, /tokenize counts exactly, prompt and max_tokens are each compared with the window.

Source: vLLM 0.32.0, run with a tiny model; its issues for older texts.

It must not know: what a verdict does with its texts.
"""

from __future__ import annotations

from typing import Any

from autohedge.core.ask import Ask
from autohedge.core.problems import Detail
from autohedge.core.types import Candidate, Door, Fact, Kind, LearnedModel
from autohedge.providers import common
from autohedge.providers.base import Counted, Dialect, Question, Replies, Reply
from autohedge.providers.errors import whole

ORIGIN = "max_model_len, read from /v1/models"
TOKENIZE = "/tokenize"

# Fields of a chat that change the rendered prompt and that /tokenize takes as well.
TEMPLATE = (
    "messages",
    "tools",
    "add_generation_prompt",
    "continue_final_message",
    "add_special_tokens",
    "chat_template",
    "chat_template_kwargs",
    "mm_processor_kwargs",
)


def lessons(replies: Replies, now: float) -> tuple[LearnedModel, ...] | None:
    """One model per card. A LoRA card without a window has the one of its parent."""
    cards = common.cards(replies)
    if cards is None:
        return None
    windows: dict[str, Fact[int] | None] = {}
    for card in cards:
        windows[common.name_of(card.get("id"))] = common.number(card.get("max_model_len"), ORIGIN, now)
    models = []
    for card in cards:
        name = common.name_of(card.get("id"))
        if name:
            window = windows[name] or windows.get(common.name_of(card.get("parent")))
            owner = common.name_of(card.get("owned_by"))
            models.append(LearnedModel(name, (name,), common.limits_of(window), owner))
    return tuple(models)


def count(ask: Ask, served: str) -> Question | None:
    """/tokenize with messages renders the chat template, tools included. Lists of prompts are several counts: not asked."""
    named: dict[str, Any] = {"model": served} if served else {}
    if ask.door is Door.CHAT:
        body = common.chosen(common.mapping(ask.obj), TEMPLATE)
        if "messages" not in body:
            return None
        if common.mapping(ask.obj).get("tool_choice") == "none":
            body.pop("tools", None)  # a server may leave them out then; counting less never refuses wrongly
        return Question(TOKENIZE, {**named, **body})
    text = common.only_text(ask)
    if text is None:
        return None
    return Question(
        TOKENIZE, {**named, "prompt": text, **common.chosen(common.mapping(ask.obj), ("add_special_tokens",))}
    )


def counted(reply: Reply) -> Counted:
    """`count`, or a refusal: some versions check the window already in /tokenize."""
    body = common.mapping(common.told({TOKENIZE: reply}, TOKENIZE))
    return common.count_read(reply, TOKENIZE, whole(body.get("count")))


def fits(ask: Ask, tokens: int | None, candidate: Candidate, now: float) -> list[Detail]:
    """Refused are max_tokens over the window and a prompt that leaves no room for one token.

    The sum of both is not: vLLM 0.32 cuts the answer. Pooling needs no room.
    """
    case = common.Fitting(ask, tokens, candidate, now)
    if case.nothing:
        return []
    limits = candidate.limits
    return common.found(
        common.too_many(case, limits.max_output, limits.context if case.compared else None),
        common.too_long(case, limits.max_input),
        common.too_long(case, limits.context, case.room),
    )


DIALECT: Dialect = Dialect(
    kind=Kind.VLLM,
    doors={**common.OPENAI_DOORS, Door.RERANK: "/v1/rerank", Door.SYSTEMONE: "/v1/systemone"},
    default_port=8000,
    authorize=common.bearer,
    learn=(common.MODELS,),
    lessons=lessons,
    count=count,
    counted=counted,
    fits=fits,
    probe=common.probe,
    client_faults=("surrogates not allowed",),  # a lone surrogate in `stop` is a 500 (vLLM 0.32.0)
    capability=(
        "--enable-auto-tool-choice",
        "does not support the structured decision api",
        "is not a multimodal model",
        "priority scheduling is not enabled",
    ),
    engine_dead=(
        "enginecore encountered an issue",
        "enginedeaderror",
        "background loop has errored already",
        "cuda error",
        "cuda out of memory",
    ),
    keep_alive=3.0,  # uvicorn closes after 5 s
)
