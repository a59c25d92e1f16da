"""Counting and composing: simple rules that the tests of AutoHedge lean on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.engine.text import (
    MEDIA,
    NATURAL,
    OPENING,
    PER_MESSAGE,
    compose,
    count,
    count_content,
    count_input,
    count_json,
    count_messages,
    ids,
    inputs_of,
    spell,
)


@given(st.text())
def test_tokens_never_exceed_bytes(text: str) -> None:
    """Facts b: the upper bound that a proxy may use holds; each token has an id."""
    assert count(text) <= len(text.encode("utf-8", "surrogatepass"))
    assert len(ids(text)) == count(text)


def test_a_word_may_be_any_length() -> None:
    """T4 and B49: 5,000 characters can be one token, so no count of bytes refuses rightly."""
    assert count("x" * 5000) == 1


def test_media_cost_the_same_whatever_their_size() -> None:
    """T1: a picture of 4 MB is 64 tokens."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 4_000_000}}
    assert count_content([{"type": "text", "text": "a b"}, picture]) == 2 + MEDIA


def test_a_chat_costs_its_template() -> None:
    messages = [{"role": "user", "content": "a b c"}, {"role": "assistant", "content": None}]
    assert count_messages(messages) == OPENING + 2 * PER_MESSAGE + 3
    assert count_messages(messages, [{"type": "function"}]) > count_messages(messages)


@pytest.mark.parametrize(
    ("value", "inputs", "sizes"),
    [
        ("a b", 1, [2]),
        (["a", "b c"], 2, [1, 2]),
        ([1, 2, 3], 1, [3]),
        ([[1, 2], [3]], 2, [2, 1]),
        ([], 0, []),
        (None, 1, [0]),
    ],
)
def test_inputs_in_all_their_forms(value: object, inputs: int, sizes: list[int]) -> None:
    """e4: a string, strings, token ids, lists of token ids."""
    assert len(inputs_of(value)) == inputs
    assert [count_input(one) for one in inputs_of(value)] == sizes


def test_json_counts_as_it_is_rendered() -> None:
    assert (count_json("a b"), count_json(None), count_json({"a": "b c"})) == (2, 0, 3)


@pytest.mark.parametrize(
    ("budget", "go_on", "words", "finish"),
    [
        (None, False, NATURAL, "stop"),
        (3, False, 3, "length"),
        (0, False, 0, "length"),
        (100, False, NATURAL, "stop"),
        (100, True, 100, "length"),
    ],
)
def test_compose(budget: int | None, go_on: bool, words: int, finish: str) -> None:
    found, reason = compose("me", NATURAL, budget, go_on=go_on)
    assert (len(found), reason) == (words, finish)
    assert found[:1] == ["me"][:words]


@given(st.integers(0, 60))
def test_the_pieces_are_the_text(number: int) -> None:
    words, _ = compose("me", 60, number)
    assert "".join(spell(words)) == " ".join(words)
