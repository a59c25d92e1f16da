"""OpenAI-compatible counterparts: names, Groq's window, and every engine's error texts."""

from __future__ import annotations

import pytest

from autohedge.core.types import Door, Fact, Kind, Limits, Rank, Secret
from autohedge.providers import llamacpp, ollama, openai, vllm
from tests.providers.saying import NOW, chat, config, engine, place, reply


def test_names_and_groqs_window() -> None:
    """Table a: OpenAI tells no lengths, Groq tells context_window and what is not active."""
    listed = {
        "data": [
            {"id": "gpt-4o", "owned_by": "system"},
            {"id": "llama", "context_window": 131072},
            {"id": "old", "active": False},
        ]
    }
    models = openai.lessons({"/v1/models": reply(listed)}, NOW)
    assert models is not None
    assert [model.id for model in models] == ["gpt-4o", "llama"]
    assert models[0].limits.context is None
    assert models[1].limits.context is not None
    assert models[1].limits.context.value == 131072


def test_a_bare_array_is_a_list_too() -> None:
    models = openai.lessons({"/v1/models": reply([{"id": "a"}, 5, {"id": None}])}, NOW)
    assert models is not None
    assert [model.id for model in models] == ["a"]


@pytest.mark.parametrize("kind", [Kind.OPENAI, Kind.AZURE, Kind.AUTO])
def test_only_declared_or_taught_ceilings_are_checked(kind: Kind) -> None:
    """b: explicit max_tokens over max_output; a window that the provider told may be cut or refused, nobody knows."""
    fits = openai.DIALECT.fits
    taught = Fact(8192, "an error of the provider, read", Rank.ERROR, NOW - 5)
    assert [d.limit for d in fits(chat(9000), None, place(kind, Limits(max_output=taught)), NOW)] == [8192]
    assert fits(chat(8192), None, place(kind, Limits(max_output=taught)), NOW) == []
    assert fits(chat(9000), None, place(kind, Limits(context=engine(8192))), NOW) == []
    # The article: MAX_MODEL_LEN=32768 in the service's environment makes max_tokens 1000000 a 400.
    hint = Fact(32768, "MAX_MODEL_LEN of the service", Rank.ENV)
    assert [d.source for d in fits(chat(1_000_000), None, place(kind, Limits(context=hint)), NOW)] == [
        "MAX_MODEL_LEN of the service"
    ]
    assert fits(chat(5), None, place(kind, Limits(context=hint, max_output=config(10))), NOW) == []


def test_behind_it_may_stand_any_engine() -> None:
    for dialect in (vllm.DIALECT, ollama.DIALECT, llamacpp.DIALECT):
        assert set(dialect.engine_dead) <= set(openai.DIALECT.engine_dead)
        assert set(dialect.client_faults) <= set(openai.DIALECT.client_faults)


def test_the_credential_is_a_bearer_token() -> None:
    assert openai.DIALECT.authorize(Secret("sk-x")) == ((b"authorization", b"Bearer sk-x"),)


def test_every_door_has_a_path() -> None:
    """bge-m3 servers speak three of them."""
    assert set(openai.DIALECT.doors) == set(Door)
    assert openai.DIALECT.doors[Door.BOTH] == "/v1/embeddings:both"


@pytest.mark.parametrize(
    ("host", "names"),
    [
        ("api.anthropic.com", [b"x-api-key"]),
        ("anthropic.com.evil.example", [b"authorization", b"x-api-key"]),
        ("proxy.house", [b"authorization", b"x-api-key"]),
    ],
)
def test_the_key_at_anthropic_s_door(host: str, names: list[bytes]) -> None:
    """/v1/messages wants x-api-key; a bearer beside it is for those who read only that, never for Anthropic itself."""
    headers = openai.authorize_messages(Secret("k"), host)
    assert [name for name, _ in headers] == names
    assert headers[-1] == (b"x-api-key", b"k")
