"""SGLang: /v1/models tells the window, server_info whether it is enforced, /tokenize counts.

Source: SGLang 0.5.23, its request checks and its HTTP server.
server_info holds every start argument, an API key perhaps among them: it is read here and never shown.

It must not know: what a verdict does with its texts.
"""

from __future__ import annotations

from typing import Any

from autohedge.core.ask import Ask
from autohedge.core.problems import Detail
from autohedge.core.types import Candidate, Door, Fact, Kind, LearnedModel, Limits
from autohedge.providers import common
from autohedge.providers.base import Counted, Dialect, Question, Replies, Reply
from autohedge.providers.errors import whole

ORIGIN = "max_model_len, read from /v1/models"
TOKENIZE = "/tokenize"
# Each endpoint and the name that it had before; the old one is asked only where the new one is missing.
RENAMED = {"/model_info": "/get_model_info", "/server_info": "/get_server_info"}
TEMPLATE = ("messages", "tools", "reasoning_effort", "chat_template_kwargs", "continue_final_message")


def more(replies: Replies) -> tuple[Question, ...]:
    """The old names, for builds that answer 404 to the new ones."""
    return tuple(
        Question(old)
        for new, old in RENAMED.items()
        if (reply := replies.get(new)) is not None and reply.status in (404, 405)
    )


def _info(replies: Replies, path: str) -> tuple[Any, str]:
    body = common.told(replies, path)
    return (
        (body, path) if isinstance(body, dict) else (common.mapping(common.told(replies, RENAMED[path])), RENAMED[path])
    )


def lessons(replies: Replies, now: float) -> tuple[LearnedModel, ...] | None:
    """Windows of /v1/models; none are enforced when the server was started with --allow-auto-truncate."""
    cards = common.cards(replies)
    if cards is None:
        return None
    abilities = _abilities(replies, now)
    server, _ = _info(replies, "/server_info")
    cuts = server.get("allow_auto_truncate") is True
    models = []
    for card in cards:
        name = common.name_of(card.get("id"))
        if name:
            window = None if cuts else common.number(card.get("max_model_len"), ORIGIN, now)
            owner = common.name_of(card.get("owned_by"))
            models.append(LearnedModel(name, (name,), Limits(context=window, abilities=abilities), owner))
    return tuple(models)


def _abilities(replies: Replies, now: float) -> dict[str, Fact[bool]]:
    info, path = _info(replies, "/model_info")
    generates = info.get("is_generation")
    if not isinstance(generates, bool):
        return {}
    origin = f"is_generation, read from {path}"
    if generates:
        return {door.value: common.ability(True, origin, now) for door in common.COMPARED}
    return {
        Door.EMBEDDINGS.value: common.ability(True, origin, now),
        **{door.value: common.ability(False, origin, now) for door in common.GENERATING},
    }


def count(ask: Ask, served: str) -> Question | None:
    """/tokenize with a prompt; newer builds take messages as well, older ones refuse and the count stays unknown."""
    named: dict[str, Any] = {"model": served} if served else {}
    if ask.door is Door.CHAT:
        body = common.chosen(common.mapping(ask.obj), TEMPLATE)
        return Question(TOKENIZE, {**named, **body}) if "messages" in body else None
    if ask.door is Door.SYSTEMONE:  # every question is put behind the whole state, so the state alone bounds from below
        state = common.mapping(ask.obj).get("state")
        text = state if isinstance(state, str) else None
    else:
        text = common.only_text(ask)
    return None if text is None else Question(TOKENIZE, {**named, "prompt": text})


def counted(reply: Reply) -> Counted:
    """`count`. Its max_model_len is the tokenizer's own and says nothing about the server."""
    body = common.mapping(common.told({TOKENIZE: reply}, TOKENIZE))
    return common.count_read(reply, TOKENIZE, whole(body.get("count")))


def fits(ask: Ask, tokens: int | None, candidate: Candidate, now: float) -> list[Detail]:
    """Prompt equal to the window is refused, prompt and max_tokens together over it as well, equal is fine."""
    case = common.Fitting(ask, tokens, candidate, now)
    if case.nothing:
        return []
    limits = candidate.limits
    window = limits.context if case.compared else None
    many = common.too_many(case, limits.max_output, window)
    return common.found(
        many,
        common.too_long(case, limits.max_input),
        common.too_long(case, limits.context, case.room),
        None if many else common.too_long(case, window, max(ask.max_tokens or 0, 0)),
    )


DIALECT: Dialect = Dialect(
    kind=Kind.SGLANG,
    doors={**common.OPENAI_DOORS, Door.RERANK: "/v1/rerank", Door.SYSTEMONE: "/v1/systemone"},
    default_port=30000,
    authorize=common.bearer,
    learn=(common.MODELS, Question("/model_info"), Question("/server_info")),
    more=more,
    lessons=lessons,
    count=count,
    counted=counted,
    fits=fits,
    probe=common.probe,
    counts={"max_options": 255, "max_levels": 10},
    light="/v1/models",  # /health generates a token and takes a second at best
    capability=("--is-embedding", "does not support the structured decision api"),
    engine_dead=("cuda error", "cuda out of memory"),
    busy=("queue is full", "aborted by a higher priority request"),
    keep_alive=3.0,  # uvicorn closes after 5 s
)
