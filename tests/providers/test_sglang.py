"""SGLang's own words: windows, what kind of model it is, counts and arithmetic."""

from __future__ import annotations

import pytest

from autohedge.core.ask import Ask
from autohedge.core.types import Door, Kind, Limits
from autohedge.providers import sglang
from autohedge.providers.base import Counted, Question
from tests.providers.saying import NOW, chat, engine, place, reply

MODELS = {"object": "list", "data": [{"id": "qwen", "owned_by": "sglang", "max_model_len": 40960}]}
LIMITS = Limits(context=engine(400))


def test_the_window_is_max_model_len() -> None:
    """Table a: model_config.context_len stands in /v1/models."""
    models = sglang.lessons({"/v1/models": reply(MODELS)}, NOW)
    assert models is not None
    assert models[0].limits.context is not None
    assert models[0].limits.context.value == 40960
    assert models[0].limits.abilities == {}


@pytest.mark.parametrize("path", ["/model_info", "/get_model_info"])
def test_an_embedding_model_does_not_chat(path: str) -> None:
    """Table a: is_generation false, in the newer and in the older endpoint."""
    models = sglang.lessons({"/v1/models": reply(MODELS), path: reply({"is_generation": False})}, NOW)
    assert models is not None
    known = models[0].limits.abilities
    assert known["embeddings"].value
    assert not known["chat"].value
    assert known["chat"].told(NOW + 3) == f"is_generation, read from {path} 3 s ago"


def test_a_generating_model_may_still_embed() -> None:
    models = sglang.lessons({"/v1/models": reply(MODELS), "/model_info": reply({"is_generation": True})}, NOW)
    assert models is not None
    assert models[0].limits.abilities["chat"].value
    assert "embeddings" not in models[0].limits.abilities


@pytest.mark.parametrize("path", ["/server_info", "/get_server_info"])
def test_a_server_that_cuts_long_prompts_enforces_no_window(path: str) -> None:
    """T5: --allow-auto-truncate; refusing there would refuse what the engine serves."""
    models = sglang.lessons({"/v1/models": reply(MODELS), path: reply({"allow_auto_truncate": True})}, NOW)
    assert models is not None
    assert models[0].limits.context is None


def test_old_names_are_asked_only_where_the_new_ones_are_missing() -> None:
    replies = {"/v1/models": reply(MODELS), "/model_info": reply({}, 404), "/server_info": reply({})}
    assert sglang.more(replies) == (Question("/get_model_info"),)


@pytest.mark.parametrize(
    ("ask", "tokens", "fields"),
    [
        (chat(), 399, []),
        (chat(), 400, ["messages"]),  # 00: prompt equal to the window is refused
        (chat(100), 300, []),  # 00: the sum equal to the window is fine
        (chat(101), 300, ["messages"]),  # above it is not
        (chat(400), None, []),
        (chat(401), None, ["max_tokens"]),
        (chat(401), 10, ["max_tokens"]),
        (chat(101, truncates=True), 300, []),
        (Ask(Door.EMBEDDINGS, "m"), 400, []),
        (Ask(Door.RESPONSES, "m", max_tokens=101), 300, []),
    ],
)
def test_the_arithmetic_is_the_engines_own(ask: Ask, tokens: int | None, fields: list[str]) -> None:
    """Rules of b with 00 standing over them."""
    details = sglang.fits(ask, tokens, place(Kind.SGLANG, LIMITS), NOW)
    assert [detail.param for detail in details] == fields


def test_the_sum_names_both_numbers() -> None:
    message = sglang.fits(chat(101), 300, place(Kind.SGLANG, LIMITS), NOW)[0].message
    assert "300 tokens" in message
    assert "with the 101 tokens of max_tokens into the 400" in message


def test_counting() -> None:
    """Table b: prompt in every build, messages in newer ones."""
    question = sglang.count(chat(obj={"messages": [1], "temperature": 1}), "m")
    assert question == Question("/tokenize", {"model": "m", "messages": [1]})
    assert sglang.count(Ask(Door.COMPLETIONS, "m", obj={"prompt": "x"}), "m") == Question(
        "/tokenize", {"model": "m", "prompt": "x"}
    )
    assert sglang.count(Ask(Door.COMPLETIONS, "m", obj={"prompt": ["x"]}), "m") is None
    decision = Ask(Door.SYSTEMONE, "m", obj={"state": "x", "questions": {}})
    assert sglang.count(decision, "m") == Question("/tokenize", {"model": "m", "prompt": "x"})
    assert (
        sglang.count(Ask(Door.SYSTEMONE, "m", obj={"state": {"a": 1}}), "m") is None
    )  # who knows how it is written down
    assert sglang.counted(reply({"tokens": [1, 2], "count": 2, "max_model_len": -1})) == Counted(2, method="/tokenize")
    assert sglang.counted(reply({"tokens": [[1]], "count": [1], "max_model_len": -1})).tokens is None
    refused = {
        "object": "error",
        "message": "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
        "code": 400,
    }
    assert sglang.counted(reply(refused, 400)).too_long
    assert sglang.counted(reply({"message": "prompt: Field required"}, 400)) == Counted(method="/tokenize")
