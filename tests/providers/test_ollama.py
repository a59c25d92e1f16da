"""Ollama's own words: names with and without a tag, loaded windows, capabilities, and no limit that is enforced."""

from __future__ import annotations

import pytest

from autohedge.core.ask import Ask
from autohedge.core.types import Door, Kind, Limits
from autohedge.providers import ollama
from autohedge.providers.base import Reply
from tests.providers.saying import NOW, chat, config, engine, place, reply

TAGS = {"models": [{"name": "llama3:8b", "model": "llama3:8b"}, {"name": "nomic-embed-text:latest"}]}
LOADED = {"models": [{"name": "llama3:8b", "model": "llama3:8b", "context_length": 4096, "size_vram": 5}]}


def taught(**more: Reply) -> dict[str, Limits]:
    replies = {
        "/api/tags": reply(TAGS),
        "/api/ps": reply(LOADED),
        **{key.replace("__", " "): value for key, value in more.items()},
    }
    models = ollama.lessons(replies, NOW)
    assert models is not None
    return {model.id: model.limits for model in models}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("llama3:8b", ("llama3:8b",)),
        ("nomic-embed-text:latest", ("nomic-embed-text:latest", "nomic-embed-text")),
        ("nomic-embed-text", ("nomic-embed-text", "nomic-embed-text:latest")),
        ("host:5000/team/x", ("host:5000/team/x", "host:5000/team/x:latest")),
    ],
)
def test_a_model_answers_with_and_without_latest(name: str, expected: tuple[str, ...]) -> None:
    assert ollama.names(name) == expected


def test_the_window_is_that_of_the_loaded_model() -> None:
    """Fact 16: the real window is the one of /api/ps, and only while the model is loaded."""
    limits = taught()
    assert limits["llama3:8b"].context is not None
    assert limits["llama3:8b"].context.told(NOW + 2) == "context_length, read from /api/ps 2 s ago"
    assert limits["llama3:8b"].context.value == 4096
    assert limits["nomic-embed-text:latest"].context is None


def test_the_training_maximum_is_no_limit() -> None:
    """Fact 16: /api/show says 40960 where 4096 are allocated; it is not read as a limit."""
    show = reply(
        {"model_info": {"general.architecture": "bert", "bert.context_length": 40960}, "capabilities": ["embedding"]}
    )
    replies = {"/api/tags": reply(TAGS), "/api/ps": reply({"models": []}), "/api/show nomic-embed-text:latest": show}
    models = ollama.lessons(replies, NOW)
    assert models is not None
    assert models[1].limits.context is None


def test_one_question_per_model_about_its_abilities() -> None:
    questions = ollama.more({"/api/tags": reply(TAGS)})
    assert [(q.path, q.json, q.key) for q in questions] == [
        ("/api/show", {"model": "llama3:8b"}, "/api/show llama3:8b"),
        ("/api/show", {"model": "nomic-embed-text:latest"}, "/api/show nomic-embed-text:latest"),
    ]
    assert ollama.more({"/api/tags": reply(None, 0)}) == ()


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        (["completion", "tools", "vision"], {"chat": True, "tools": True, "vision": True}),
        (["completion"], {"chat": True, "tools": False, "vision": False}),
        (["embedding"], {"chat": False, "embeddings": True}),
        ([], {}),
        (None, {}),
        ("completion", {}),
        ([5, None], {"chat": False}),
    ],
)
def test_capabilities_become_abilities(capabilities: object, expected: dict[str, bool]) -> None:
    """Table a: tools, vision, embeddings, chat; a build that lists none says nothing."""
    replies = {"/api/tags": reply(TAGS), "/api/show llama3:8b": reply({"capabilities": capabilities})}
    models = ollama.lessons(replies, NOW)
    assert models is not None
    known = models[0].limits.abilities
    assert {name: fact.value for name, fact in known.items() if name in expected} == expected
    if not expected:
        assert not known
    if capabilities == ["completion"]:
        assert "embeddings" not in known  # Ollama embeds with any model


def test_any_max_tokens_and_any_prompt_pass() -> None:
    """b: never refuse a large max_tokens on Ollama; a long prompt is cut there."""
    candidate = place(Kind.OLLAMA, Limits(context=engine(4096)))
    assert ollama.DIALECT.fits(chat(1_000_000), 10**6, candidate, NOW) == []
    assert ollama.DIALECT.count(chat(obj={"messages": []}), "m") is None


def test_an_operators_ceiling_is_kept() -> None:
    """The article sets max_tokens 8192 for its Ollama."""
    candidate = place(Kind.OLLAMA, Limits(max_output=config(8192)))
    assert [d.limit for d in ollama.DIALECT.fits(chat(1_000_000), None, candidate, NOW)] == [8192]
    assert ollama.DIALECT.fits(Ask(Door.CHAT, "m", max_tokens=8192), None, candidate, NOW) == []


def test_the_openai_list_is_read_where_tags_are_missing() -> None:
    models = ollama.lessons({"/v1/models": reply({"data": [{"id": "llama3:8b", "owned_by": "library"}]})}, NOW)
    assert models is not None
    assert models[0].id == "llama3:8b"
    assert ollama.lessons({"/api/tags": reply({"models": None})}, NOW) is None
