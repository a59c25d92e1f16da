"""How a finding reads, and what it never shows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.payloads.wording import LONGEST, listed, missing, path_of, refused, said, short, told


def test_paths() -> None:
    assert path_of(("messages", 0, "content", 1, "type")) == "messages[0].content[1].type"
    assert path_of(("temperature",)) == "temperature"


def test_a_message_reads_alone() -> None:
    detail = refused(("temperature",), "a number", "hot")
    assert detail.message == 'temperature: expected a number, got the string "hot"'
    assert (detail.param, detail.code, detail.value) == ("temperature", "invalid_value", "hot")
    assert missing(("messages",), "an array").message == "messages: is required, expected an array"
    assert said(("grammar",), "cannot be combined with tools").message == "grammar: cannot be combined with tools"
    assert listed(("a", "b", "c")) == '"a", "b" or "c"'


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "null"),
        (True, "true"),
        (5, "the number 5"),
        (-0.5, "the number -0.5"),
        (float("nan"), "the number NaN"),
        (10**400, "the number with about 398 digits"),
        ([], "an empty array"),
        ([1, 2], "an array of 2"),
        ({}, "an empty object"),
        ({"url": 1, "key": "sk-x"}, "an object with url, key"),
    ],
)
def test_what_came(value: Any, words: str) -> None:
    assert told(value) == words


def test_long_values_are_cut() -> None:
    assert len(short("x" * 500)) <= LONGEST
    assert len(short({"k" * 30 + str(i): 1 for i in range(100)})) <= LONGEST
    assert len(refused(("stop",), "a string", "y" * 10_000).message) < 200


@pytest.mark.parametrize("name", ["api_key", "token", "access_token", "client_secret", "password", "Authorization"])
def test_secrets_are_not_shown(name: str) -> None:
    detail = refused(("x", name), "a number", "sk-12345")
    assert "sk-12345" not in detail.message
    assert detail.value is None


@pytest.mark.parametrize(
    "steps", [("messages", 0, "content"), ("messages", 0, "content", 1), ("prompt",), ("input", 3)]
)
def test_what_people_wrote_is_not_shown(steps: tuple[str | int, ...]) -> None:
    detail = refused(steps, "an array", "my diary")
    assert "diary" not in detail.message
    assert detail.value is None


def test_counts_of_tokens_are_shown() -> None:
    assert refused(("max_tokens",), "a number", "many").value == "many"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
    max_leaves=10,
)


@given(JSON)
def test_any_value_can_be_told(value: Any) -> None:
    """Also NaN and lone surrogates: a finding is always written as JSON and UTF-8."""
    detail = refused(("x",), "a number", value)
    json.dumps(detail.shown(), allow_nan=False, ensure_ascii=False).encode()
