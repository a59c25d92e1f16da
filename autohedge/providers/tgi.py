"""Text Generation Inference: /info tells the limits, /tokenize and /chat_tokenize count.

Source: text-generation-inference@db931fc. A 424 is a failure of the engine, not of the client.

It must not know: what a verdict does with its texts.
"""

from __future__ import annotations

from autohedge.core.ask import Ask
from autohedge.core.problems import Detail
from autohedge.core.types import Candidate, Door, Kind, LearnedModel, Limits
from autohedge.providers import common
from autohedge.providers.base import Counted, Dialect, Question, Replies, Reply
from autohedge.providers.errors import parsed

INFO, TOKENIZE, CHAT_TOKENIZE = "/info", "/tokenize", "/chat_tokenize"
TEMPLATE = ("messages", "tools", "tool_prompt", "tool_choice")
CHECKED = 1024  # tokens of max_tokens that TGI takes into account when it checks the sum


def lessons(replies: Replies, now: float) -> tuple[LearnedModel, ...] | None:
    """The one model of /info. Before 2.0 max_input_tokens was called max_input_length."""
    info = common.mapping(common.told(replies, INFO))
    name = common.name_of(info.get("model_id"))
    if not name:
        return None
    field = "max_input_tokens" if "max_input_tokens" in info else "max_input_length"
    limits = Limits(
        context=common.number(info.get("max_total_tokens"), f"max_total_tokens, read from {INFO}", now),
        max_input=common.number(info.get(field), f"{field}, read from {INFO}", now),
    )
    return (LearnedModel(name, (name,), limits),)


def count(ask: Ask, _served: str) -> Question | None:
    """A chat by /chat_tokenize, a prompt by /tokenize. TGI does not look at the model's name."""
    if ask.door is Door.CHAT:
        body = common.chosen(common.mapping(ask.obj), TEMPLATE)
        return Question(CHAT_TOKENIZE, body) if "messages" in body else None
    text = common.only_text(ask)
    return None if text is None else Question(TOKENIZE, {"inputs": text})


def counted(reply: Reply) -> Counted:
    """A list of tokens, or that list beside the rendered text."""
    body = parsed(reply.body)
    chat = common.mapping(body).get("tokenize_response")
    tokens = body if isinstance(body, list) else chat
    size = len(tokens) if isinstance(tokens, list) else None
    return common.count_read(reply, TOKENIZE if isinstance(body, list) else CHAT_TOKENIZE, size)


def fits(ask: Ask, tokens: int | None, candidate: Candidate, now: float) -> list[Detail]:
    """Prompt over max_input, or prompt and at most 1024 of max_tokens over max_total. A large max_tokens alone is fine."""
    case = common.Fitting(ask, tokens, candidate, now)
    if case.nothing:
        return []
    limits = candidate.limits
    total = limits.context if case.compared else None
    return common.found(
        common.too_many(case, limits.max_output),
        common.too_long(case, limits.max_input),
        common.too_long(case, total, min(max(ask.max_tokens or 0, 0), CHECKED)),
    )


DIALECT: Dialect = Dialect(
    kind=Kind.TGI,
    doors={Door.CHAT: "/v1/chat/completions", Door.COMPLETIONS: "/v1/completions"},
    default_port=80,
    authorize=common.bearer,
    learn=(Question(INFO),),
    lessons=lessons,
    count=count,
    counted=counted,
    fits=fits,
    probe=common.probe,
    client_faults=("input validation error:",),  # 2.4.0 sends it with 200 and no status inside (B44)
    engine_dead=("cuda error", "cuda out of memory"),
    engine_failed=("request failed during generation", "incomplete generation"),
    busy=("model is overloaded",),
)
