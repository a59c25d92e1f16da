"""TGI's own words: /info, both tokenizers, and a sum that looks at 1024 tokens at most."""

from __future__ import annotations

import pytest

from autohedge.core.ask import Ask
from autohedge.core.types import Door, Kind, Limits
from autohedge.providers import tgi
from autohedge.providers.base import Counted, Question
from tests.providers.saying import NOW, chat, engine, place, reply

INFO = {
    "model_id": "HuggingFaceH4/zephyr",
    "max_input_tokens": 3000,
    "max_total_tokens": 4096,
    "max_concurrent_requests": 128,
}
LIMITS = Limits(
    context=engine(4096, "max_total_tokens, read from /info"),
    max_input=engine(3000, "max_input_tokens, read from /info"),
)


@pytest.mark.parametrize("field", ["max_input_tokens", "max_input_length"])
def test_both_names_of_the_longest_input(field: str) -> None:
    """Table a: the name changed with 2.0."""
    info = {"model_id": "zephyr", field: 3000, "max_total_tokens": 4096}
    models = tgi.lessons({"/info": reply(info)}, NOW)
    assert models is not None
    limits = models[0].limits
    assert limits.max_input is not None
    assert limits.context is not None
    assert (limits.max_input.value, limits.max_input.source) == (3000, f"{field}, read from /info")
    assert limits.context.value == 4096


def test_what_has_no_model_id_is_no_tgi() -> None:
    assert tgi.lessons({"/info": reply({"max_total_tokens": 5})}, NOW) is None
    assert tgi.lessons({"/info": reply(INFO, 404)}, NOW) is None
    assert tgi.lessons({}, NOW) is None


@pytest.mark.parametrize(
    ("ask", "tokens", "fields"),
    [
        (chat(), 3000, []),
        (chat(), 3001, ["messages"]),
        (chat(1_000_000), None, []),  # b: max_tokens alone is never refused
        (chat(1_000_000), 3000, []),  # 3000 + 1024 fits: only 1024 of max_tokens are looked at
        (chat(1024), 2999, []),
        (chat(1_000_000), 3073, ["messages"]),
        (chat(500, truncates=True), 5000, []),
    ],
)
def test_the_arithmetic_is_the_engines_own(ask: Ask, tokens: int | None, fields: list[str]) -> None:
    """Fact 15: prompt > max_input, or prompt + min(max_new, 1024) > max_total."""
    assert [detail.param for detail in tgi.fits(ask, tokens, place(Kind.TGI, LIMITS), NOW)] == fields


def test_the_sum_is_checked_where_the_input_alone_would_fit() -> None:
    limits = Limits(context=engine(3500), max_input=engine(3000))
    assert [detail.limit for detail in tgi.fits(chat(600), 2900, place(Kind.TGI, limits), NOW)] == []
    assert [detail.limit for detail in tgi.fits(chat(601), 2900, place(Kind.TGI, limits), NOW)] == [3500]


def test_counting() -> None:
    """Table b: /chat_tokenize takes a chat, /tokenize an input; the model's name is not looked at."""
    assert tgi.count(chat(obj={"messages": [1], "stream": True}), "m") == Question("/chat_tokenize", {"messages": [1]})
    assert tgi.count(Ask(Door.COMPLETIONS, "m", obj={"prompt": "x"}), "m") == Question("/tokenize", {"inputs": "x"})
    token = {"id": 1, "text": "x", "start": 0, "stop": 1}
    assert tgi.counted(reply([token, token])) == Counted(2, method="/tokenize")
    assert tgi.counted(reply({"tokenize_response": [token], "templated_text": "x"})) == Counted(
        1, method="/chat_tokenize"
    )
    assert (
        tgi.counted(reply({"error": "No fast tokenizer available", "error_type": "no_fast_tokenizer"}, 404)).size
        is None
    )
    too_long = {
        "error": "Input validation error: `inputs` must have less than 3000 tokens. Given: 5000",
        "error_type": "validation",
    }
    assert tgi.counted(reply(too_long, 422)).too_long
