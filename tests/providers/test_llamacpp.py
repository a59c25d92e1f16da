"""llama.cpp's own words, as b11549 spoke them: /v1/models, /props, two ways to count, and its arithmetic."""

from __future__ import annotations

from typing import Any

import pytest

from autohedge.core.ask import Ask
from autohedge.core.types import Door, Kind, LearnedModel, Limits
from autohedge.providers import llamacpp
from autohedge.providers.base import Counted, Question
from tests.providers.saying import NOW, chat, engine, place, reply


def card(**more: Any) -> dict[str, Any]:
    return {
        "id": "tiny-random",
        "aliases": ["tiny-random", "tiny"],
        "object": "model",
        "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
        "owned_by": "llamacpp",
        "meta": {"n_ctx": 400, "n_ctx_train": 8192},
        **more,
    }


PROPS = {
    "default_generation_settings": {"n_ctx": 400, "params": {"n_predict": -1}},
    "total_slots": 2,
    "modalities": {"vision": False, "video": False, "audio": False},
}
LIMITS = Limits(context=engine(400, "n_ctx per slot, read from /props"))


def taught(models: object, props: object = PROPS) -> LearnedModel:
    found = llamacpp.lessons({"/v1/models": reply({"models": [], "data": [models]}), "/props": reply(props)}, NOW)
    assert found is not None
    return found[0]


def test_window_per_slot_names_and_slots() -> None:
    """Table a: n_ctx of /props is that of one slot, n_ctx_train is no limit."""
    model = taught(card())
    assert model.names == ("tiny-random", "tiny")
    assert model.limits.context is not None
    assert (model.limits.context.value, model.limits.context.source) == (400, "n_ctx per slot, read from /props")
    assert llamacpp.slots({"/props": reply(PROPS)}) == 2
    assert llamacpp.slots({"/props": reply({"total_slots": "2"})}) is None


def test_the_list_gives_the_window_where_props_are_closed() -> None:
    model = taught(card(), None)
    assert model.limits.context is not None
    assert model.limits.context.source == "meta.n_ctx, read from /v1/models"
    assert taught(card(meta=None), None).limits.context is None


@pytest.mark.parametrize(
    ("modalities", "expected"),
    [
        ({"vision": False, "audio": False}, False),
        ({"vision": True, "audio": False}, True),
        ({"vision": False, "audio": True}, True),  # "vision" says no only when no medium is read
        ({}, None),
        (None, None),
        ({"vision": "yes"}, None),
    ],
)
def test_media_are_known_from_the_loaded_projector(modalities: object, expected: bool | None) -> None:
    known = taught(card(), {**PROPS, "modalities": modalities}).limits.abilities.get("vision")
    assert (known.value if known else None) is expected


def test_decisions_are_known_and_embeddings_are_not() -> None:
    """Table a: output_modalities "decisions" serves /v1/systemone; an embedding server looks like any other until its 501."""
    jev = taught(card(architecture={"output_modalities": ["decisions"]}))
    assert jev.limits.abilities["systemone"].value
    assert not taught(card()).limits.abilities["systemone"].value
    assert "embeddings" not in taught(card()).limits.abilities
    assert "systemone" not in taught(card(architecture=None)).limits.abilities


def test_a_router_is_asked_about_its_loaded_models_without_loading_any() -> None:
    """Table a: GETs need ?model= in router mode, and a question can load a model."""
    listed = {"data": [card(id="a b", status={"value": "loaded"}), card(id="c", status={"value": "unloaded"})]}
    replies = {"/v1/models": reply(listed), "/props": reply({"error": {}}, 400)}
    questions = llamacpp.more(replies)
    assert questions == (Question("/props?model=a%20b&autoload=false"),)
    found = llamacpp.lessons({**replies, questions[0].key: reply({"default_generation_settings": {"n_ctx": 777}})}, NOW)
    assert found is not None
    assert found[0].limits.context is not None
    assert found[0].limits.context.value == 777


@pytest.mark.parametrize(
    ("ask", "tokens", "fields"),
    [
        (chat(1_000_000), None, []),  # 00: max_tokens is never refused
        (chat(-1), None, []),
        (chat(100), 399, []),  # measured: 399 of 400 is served, 400 is not
        (chat(), 400, ["messages"]),
        (Ask(Door.COMPLETIONS, "m"), 400, ["prompt"]),
        (Ask(Door.EMBEDDINGS, "m"), 400, []),  # measured: "larger than the max context size"
        (Ask(Door.EMBEDDINGS, "m"), 401, ["input"]),
    ],
)
def test_the_arithmetic_is_the_engines_own(ask: Ask, tokens: int | None, fields: list[str]) -> None:
    assert [detail.param for detail in llamacpp.fits(ask, tokens, place(Kind.LLAMACPP, LIMITS), NOW)] == fields


def test_a_batch_that_an_error_named_bounds_embeddings() -> None:
    """real row "embeddings too long": the physical batch is smaller than the window."""
    limits = Limits(context=engine(8192), max_input=engine(512, "an error"))
    assert [d.limit for d in llamacpp.fits(Ask(Door.EMBEDDINGS, "m"), 602, place(Kind.LLAMACPP, limits), NOW)] == [512]


def test_counting() -> None:
    """Table b: a chat has its own endpoint, which takes tools and template fields; a string counts with its BOS."""
    body = {
        "messages": [1],
        "tools": [2],
        "tool_choice": "auto",
        "chat_template_kwargs": {},
        "stream": True,
        "max_tokens": 5,
    }
    kept = {"messages": [1], "tools": [2], "tool_choice": "auto", "chat_template_kwargs": {}}
    assert llamacpp.count(chat(obj=body), "m") == Question("/v1/chat/completions/input_tokens", kept)
    plain = {"content": "x", "add_special": True, "parse_special": True}
    assert llamacpp.count(Ask(Door.COMPLETIONS, "m", obj={"prompt": "x"}), "m") == Question("/tokenize", plain)
    counted = reply({"input_tokens": 23, "object": "response.input_tokens"})
    assert llamacpp.counted(counted) == Counted(23, method="/v1/chat/completions/input_tokens")
    assert llamacpp.counted(reply({"tokens": [424, 359]})) == Counted(2, method="/tokenize")
    error = {"error": {"code": 400, "message": "Expected 'messages' to be an array", "type": "invalid_request_error"}}
    assert llamacpp.counted(reply(error, 400)).size is None
