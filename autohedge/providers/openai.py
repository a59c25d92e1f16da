"""OpenAI and everything that is compatible with it: names are told, lengths are not.

Source: OpenAI API 2.3.0; Groq's model list. Behind this kind may stand any engine, so it reads the error texts of all of them.

It must not know: which provider it is, but for Anthropic's key; addresses and credentials belong to the backend.
"""

from __future__ import annotations

from collections.abc import Sequence

from autohedge.core.types import Kind, LearnedModel, Limits, Secret
from autohedge.providers import common, llamacpp, ollama, sglang, tgi, vllm
from autohedge.providers.base import Dialect, Replies

_ENGINES = (vllm.DIALECT, sglang.DIALECT, ollama.DIALECT, tgi.DIALECT, llamacpp.DIALECT)


def _all(table: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for dialect in _ENGINES for text in getattr(dialect, table)))


def lessons(replies: Replies, now: float) -> tuple[LearnedModel, ...] | None:
    """Names; a window where the list gives one (Groq: context_window). What is marked as not active is left out."""
    cards = common.cards(replies)
    if cards is None:
        return None
    return tuple(
        LearnedModel(
            name,
            (name,),
            Limits(context=common.number(card.get("context_window"), "context_window, read from /v1/models", now)),
            common.name_of(card.get("owned_by")),
        )
        for card in cards
        if (name := common.name_of(card.get("id"))) and card.get("active") is not False
    )


def authorize_messages(key: Secret, host: str) -> Sequence[tuple[bytes, bytes]]:
    """The credential at the door that Anthropic made: `x-api-key`. Anthropic itself reads a bearer as a token of another kind, so
    it gets none; of those who offer the same door some read the one and some the other.
    """
    own = (b"x-api-key", key.reveal().encode())
    return (own,) if f".{host}".endswith(".anthropic.com") else (*common.bearer(key), own)


CLIENT_FAULTS: tuple[str, ...] = _all("client_faults")
CAPABILITY: tuple[str, ...] = _all("capability")
ENGINE_DEAD: tuple[str, ...] = _all("engine_dead")
ENGINE_FAILED = _all("engine_failed")
BUSY: tuple[str, ...] = (*_all("busy"), "overloaded", "at capacity", "too many requests")
LOADING: tuple[str, ...] = (
    *_all("loading"),
    "is currently loading",
    "is loading",
    "model is not ready",
    "warming up",
    "starting up",
)

DIALECT: Dialect = Dialect(
    kind=Kind.OPENAI,
    doors=common.ALL_DOORS,
    default_port=443,
    authorize=common.bearer,
    learn=(common.MODELS,),
    lessons=lessons,
    fits=common.declared_window,
    probe=common.probe,
    light="/v1/models",
    client_faults=CLIENT_FAULTS,
    capability=CAPABILITY,
    engine_dead=ENGINE_DEAD,
    engine_failed=ENGINE_FAILED,
    busy=BUSY,
    loading=LOADING,
)
