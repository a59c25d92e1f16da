"""What the dialects share: reading lists of models, sentences for findings, counting and probing in the usual forms.

Rules
- A figure keeps its origin: every `Fact` made here says which field of which path it was read from.
- A name from an engine is taken only if it can stand in a log line and a header; everything else is unknown.
- A finding reads alone: it names the field, the value, the limit, the model, the backend and where the limit was learned.

It must not know: one engine's habits; those live in the engine's own file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from autohedge.core.ask import Ask
from autohedge.core.problems import Detail
from autohedge.core.types import Candidate, Door, Fact, LearnedModel, Limits, Rank, Secret
from autohedge.providers.base import TOO_LONG, Counted, Question, Replies, Reply
from autohedge.providers.errors import about_length, parsed, said_in, whole

MODELS: Question = Question("/v1/models")

OPENAI_DOORS: Mapping[Door, str] = {
    Door.CHAT: "/v1/chat/completions",
    Door.COMPLETIONS: "/v1/completions",
    Door.EMBEDDINGS: "/v1/embeddings",
    Door.RESPONSES: "/v1/responses",
    Door.MESSAGES: "/v1/messages",
}
ALL_DOORS: Mapping[Door, str] = {
    **OPENAI_DOORS,
    Door.RERANK: "/v1/rerank",
    Door.SPARSE: "/v1/sparse-embeddings",
    Door.BOTH: "/v1/embeddings:both",
    Door.SYSTEMONE: "/v1/systemone",
}

# Doors whose answer is generated, so that max_tokens means something.
GENERATING = frozenset({Door.CHAT, Door.COMPLETIONS, Door.RESPONSES, Door.MESSAGES})
# Doors where the engines were seen to compare max_tokens with the window; the other two convert or cut it themselves.
COMPARED = frozenset({Door.CHAT, Door.COMPLETIONS})

_PROMPT_PARAM = {Door.CHAT: "messages", Door.MESSAGES: "messages", Door.COMPLETIONS: "prompt", Door.SYSTEMONE: "state"}
_LONGEST_NAME = 512
_LONGEST_SHOWN = 100  # characters of a model's name in a sentence


def bearer(key: Secret) -> Sequence[tuple[bytes, bytes]]:
    """The credential as most engines want it."""
    return ((b"authorization", b"Bearer " + key.reveal().encode()),)


# --- reading what engines tell ----------------------------------------------------------------------------------------


def told(replies: Replies, key: str) -> Any:
    """The JSON of a good reply, None for everything else."""
    reply = replies.get(key)
    return parsed(reply.body) if reply is not None and reply.status == 200 else None


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one: reading on from it finds nothing."""
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list, [] when it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def name_of(value: Any) -> str:
    """A model's name, or "" when it is not a string that can be shown and sent (control characters, lone surrogates)."""
    return value if isinstance(value, str) and len(value) <= _LONGEST_NAME and value.isprintable() else ""


def cards(replies: Replies, key: str = MODELS.path) -> list[dict[str, Any]] | None:
    """The entries of a model list in any known shape: `data`, `models`, or a bare array. None when it is no list."""
    body = told(replies, key)
    found = body
    if isinstance(body, dict):
        found = body.get("data") if isinstance(body.get("data"), list) else body.get("models")
    return objects(found) if isinstance(found, list) else None


def number(value: Any, origin: str, now: float) -> Fact[int] | None:
    """A length that the engine told, None when it is no positive whole number. `origin`: "max_model_len, read from /v1/models"."""
    length = whole(value)
    return None if length is None else Fact(length, origin, Rank.ENGINE, now)


def ability(value: bool, origin: str, now: float) -> Fact[bool]:
    """Something that the engine can or cannot do, by its own word."""
    return Fact(value, origin, Rank.ENGINE, now)


def plain_models(found: Iterable[Mapping[str, Any]], key: str = "id") -> tuple[LearnedModel, ...]:
    """Models of which nothing but the name is told."""
    return tuple(
        LearnedModel(name, (name,), owned_by=name_of(card.get("owned_by")))
        for card in found
        if (name := name_of(card.get(key)))
    )


# --- findings ---------------------------------------------------------------------------------------------------------


class Fitting(NamedTuple):
    """What a dialect's arithmetic looks at: the ask, the engine's own count of the prompt (None: not counted), the place."""

    ask: Ask
    tokens: int | None
    candidate: Candidate
    now: float

    @property
    def nothing(self) -> bool:
        """Nothing to compare with any limit."""
        return self.tokens is None and self.ask.max_tokens is None

    @property
    def room(self) -> int:
        """Tokens of answer that a prompt must leave free: one where something is generated."""
        return 1 if self.ask.door in GENERATING else 0

    @property
    def compared(self) -> bool:
        """Whether this door compares max_tokens with the window, and the ask does not have its prompt cut (trap T5)."""
        return self.ask.door in COMPARED and not self.ask.truncates


def who(ask: Ask, candidate: Candidate) -> str:
    """The model as the client named it, and the backend: "model qwen2-7b on vllm-qwen2-7b"."""
    name = ask.model or candidate.served
    return f"model {name[:_LONGEST_SHOWN]} on {candidate.backend.name}" if name else candidate.backend.name


def too_many(case: Fitting, *limits: Fact[int] | None) -> Detail | None:
    """An explicit max_tokens over the tightest of `limits`; the better-founded one speaks when two are equal."""
    ask, now = case.ask, case.now
    asked = ask.max_tokens
    if asked is None or ask.door not in GENERATING:
        return None
    over = [limit for limit in limits if limit is not None and asked > limit.value]
    if not over:
        return None
    limit = min(over, key=lambda fact: (fact.value, -fact.rank))
    source = limit.told(now)
    place = who(ask, case.candidate)
    message = f"{ask.max_tokens_param}: {asked} is more than the {limit.value} that {place} accepts ({source})"
    return Detail(ask.max_tokens_param, "limit_exceeded", message, value=asked, limit=limit.value, source=source)


def too_long(case: Fitting, limit: Fact[int] | None, room: int = 0) -> Detail | None:
    """A counted prompt that does not fit `limit` together with `room` tokens of answer.

    Asks that have the engine cut a long prompt (trap T5) always fit.
    """
    ask, tokens, candidate, now = case
    if tokens is None or limit is None or ask.truncates or tokens + room <= limit.value:
        return None
    param = _PROMPT_PARAM.get(ask.door, "input")
    source = limit.told(now)
    refused = tokens >= TOO_LONG  # the engine would not even count it
    what = "state alone" if ask.door is Door.SYSTEMONE else "prompt"
    length = f"the {what}" if refused else f"the {what} of {tokens} tokens, counted by the engine,"
    answer = {0: "", 1: " with the first token of an answer"}.get(
        room, f" with the {room} tokens of {ask.max_tokens_param}"
    )
    place = who(ask, candidate)
    message = f"{param}: {length} does not fit{answer} into the {limit.value} that {place} accepts ({source})"
    value = None if refused else tokens
    return Detail(param, "context_length_exceeded", message, value=value, limit=limit.value, source=source)


def found(*details: Detail | None) -> list[Detail]:
    """The findings, at most one per field: the first rule that a field breaks is enough to mend it."""
    kept: list[Detail] = []
    for detail in details:
        if detail is not None and all(detail.param != other.param for other in kept):
            kept.append(detail)
    return kept


def declared_only(ask: Ask, tokens: int | None, candidate: Candidate, now: float) -> list[Detail]:
    """For engines that refuse no length by themselves: only ceilings that an operator set or an error taught."""
    case = Fitting(ask, tokens, candidate, now)
    if case.nothing:
        return []
    limits = candidate.limits
    return found(too_many(case, limits.max_output), too_long(case, limits.max_input))


def declared_window(ask: Ask, tokens: int | None, candidate: Candidate, now: float) -> list[Detail]:
    """For counterparts of unknown arithmetic: as `declared_only`, and a declared window is a ceiling for max_tokens too.

    A window that such a counterpart told itself is not: vLLM cuts where SGLang refuses, so nobody knows.
    """
    case = Fitting(ask, tokens, candidate, now)
    if case.nothing:
        return []
    limits = candidate.limits
    window = limits.context if limits.context is not None and limits.context.rank < Rank.ENGINE else None
    return found(too_many(case, limits.max_output, window), too_long(case, limits.max_input))


# --- counting and probing ---------------------------------------------------------------------------------------------


def chosen(obj: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """Those of `fields` that the request really sets."""
    return {name: value for name in fields if (value := obj.get(name)) is not None}


def only_text(ask: Ask) -> str | None:
    """The prompt of a completion or the input of an embedding, when it is one string; lists are several prompts."""
    text = mapping(ask.obj).get({Door.COMPLETIONS: "prompt", Door.EMBEDDINGS: "input"}.get(ask.door, ""))
    return text if isinstance(text, str) else None


def count_read(reply: Reply, method: str, tokens: int | None) -> Counted:
    """A count, or a refusal: 400, 413 or 422 whose text says that the prompt is too long. Everything else is unknown."""
    if reply.status == 200:
        return Counted(tokens if tokens is None or tokens >= 0 else None, method=method)
    too_long_said = reply.status in (400, 413, 422) and about_length(said_in(reply.body))
    return Counted(too_long=too_long_said, method=method)


def probe(model: str, door: Door, tokens: int) -> Question:
    """The smallest real inference of a door, with at most `tokens` tokens of answer. No model name when any will do."""
    named: dict[str, Any] = {"model": model} if model else {}
    return Question(ALL_DOORS[door], {**named, **_smallest(door, tokens)})


def _smallest(door: Door, tokens: int) -> dict[str, Any]:
    hello = [{"role": "user", "content": "hi"}]
    bodies: dict[Door, dict[str, Any]] = {
        Door.CHAT: {"messages": hello, "max_tokens": tokens, "stream": False},
        Door.COMPLETIONS: {"prompt": "hi", "max_tokens": tokens, "stream": False},
        Door.RESPONSES: {"input": "hi", "max_output_tokens": tokens, "stream": False},
        Door.MESSAGES: {"messages": hello, "max_tokens": tokens, "stream": False},
        Door.RERANK: {"query": "hi", "documents": ["hi"]},
        # Every server read so far takes this form; criteria are left out because Ollama refuses null there.
        Door.SYSTEMONE: {"state": "ok", "questions": {"p": {"type": "noul", "instructions": "Is this text ok?"}}},
    }
    return bodies.get(door, {"input": "hi"})


def limits_of(context: Fact[int] | None, abilities: Mapping[str, Fact[bool]] | None = None) -> Limits:
    """Limits with a window and abilities, the usual two."""
    return Limits(context=context, abilities=abilities or {})
