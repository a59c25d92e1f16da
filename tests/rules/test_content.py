"""Answers with nothing in them, in every spelling, told from those that speak."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.rules.content import EMPTY, SAME, ZEROS, hollow, no_vector

SPELLINGS = [(spaced, ascii_only) for spaced in (True, False) for ascii_only in (True, False)]


def spelt(body: Any, spaced: bool, ascii_only: bool) -> bytes:
    separators = None if spaced else (",", ":")
    return json.dumps(body, separators=separators, ensure_ascii=ascii_only).encode()


def chat(*texts: Any, reason: str | None = "stop", **message: Any) -> dict[str, Any]:
    choices = [{"index": 0, "message": {"content": text, **message}, "finish_reason": reason} for text in texts]
    return {"id": "x", "model": "m", "choices": choices}


NO_ANSWERS: list[tuple[Any, str]] = [
    (chat(""), EMPTY),
    (chat(None), EMPTY),
    (chat(" \n\t "), EMPTY),
    (chat([{"type": "text", "text": ""}]), EMPTY),
    (chat("", ""), EMPTY),
    (chat("/" * 16), SAME),
    (chat("!" * 8), SAME),
    (chat("! ! ! ! ! ! ! ! !"), SAME),
    (chat("\u00e9" * 9), SAME),
    (chat("\u4f60" * 40), SAME),
    (chat("\U0001f30d" * 12), SAME),
    (chat("!" * 4000, reason="length"), SAME),
    (chat("", reasoning_content="_" * 16), SAME),
    ({"choices": [{}]}, EMPTY),
    ({"choices": [{"index": 0, "message": None}]}, EMPTY),
    ({"choices": [{"text": "", "finish_reason": "stop"}]}, EMPTY),
    ({"choices": [{"text": "." * 30, "finish_reason": "stop"}]}, SAME),
    ({"object": "list", "data": [{"embedding": [0.0, 0.0]}]}, ZEROS),
    ({"object": "list", "data": [{"embedding": [0, 0, 0]}]}, ZEROS),
    ({"object": "list", "data": [{"embedding": [[0.0]]}]}, ZEROS),
    ({"object": "list", "data": [{"embedding": [float("nan")]}]}, "no number"),
    ({"object": "list", "data": [{"embedding": [None]}]}, "no number"),
    ({"object": "list", "data": [{"embedding": []}]}, "no vector"),
]
ANSWERS: list[Any] = [
    chat("hello you"),
    chat("x"),
    chat("!" * 7),
    chat("ha" * 20),
    chat("....... 1"),
    chat("-" * 30 + "+"),
    chat("", "second"),
    chat("", reason="length"),
    chat(None, tool_calls=[{"id": "1"}]),
    chat(None, function_call={"name": "f"}),
    chat("", refusal="no"),
    chat("", reasoning="let me think"),
    chat([{"type": "text", "text": "parts"}]),
    chat('"quoted"'),
    chat("\\n" + "a" * 30),
    {"choices": [{"text": "abc"}]},
    {"object": "list", "data": [{"embedding": [0.0, 0.1]}]},
    {"object": "list", "data": [{"embedding": [0.1] * 3}]},
    {"object": "list", "data": [{"embedding": "AAAA"}]},
    {"model": "m", "answers": {"q": {"noul": 0.5}}},
    {"content": [{"type": "text", "text": ""}], "stop_reason": "end_turn"},
]


@pytest.mark.parametrize(("spaced", "ascii_only"), SPELLINGS)
@pytest.mark.parametrize(("body", "why"), NO_ANSWERS)
def test_nothing_is_seen_in_every_spelling(body: Any, why: str, spaced: bool, ascii_only: bool) -> None:
    """T88, article 3.3."""
    assert why in (hollow(spelt(body, spaced, ascii_only), 8) or "answer")


@pytest.mark.parametrize(("spaced", "ascii_only"), SPELLINGS)
@pytest.mark.parametrize("body", ANSWERS)
def test_what_speaks_is_never_called_nothing(body: Any, spaced: bool, ascii_only: bool) -> None:
    assert hollow(spelt(body, spaced, ascii_only), 8) == ""


@given(text=st.text(max_size=60), spaced=st.booleans(), ascii_only=st.booleans(), repeats=st.integers(0, 20))
def test_the_search_agrees_with_the_reading(text: str, spaced: bool, ascii_only: bool, repeats: int) -> None:
    """Whatever a model says: nothing is a text of blanks, or of one character that stands often enough."""
    seen = "".join(text.split())
    expected = EMPTY if not seen else SAME if 0 < repeats <= len(seen) and len(set(seen)) == 1 else ""
    body = json.dumps(chat(text), separators=None if spaced else (",", ":"), ensure_ascii=ascii_only).encode(
        "utf-8", "surrogatepass"
    )
    assert hollow(body, repeats) == expected


@given(body=st.binary(max_size=80) | st.binary(max_size=40).map(lambda tail: b'{"choices":[{"text":"' + tail))
def test_any_bytes_are_judged(body: bytes) -> None:
    """Nothing raises, whatever came: a body may end anywhere."""
    assert isinstance(hollow(body, 8), str)


def test_large_answers_are_not_parsed() -> None:
    """A text that speaks is known by its first bytes: half a megabyte costs as much as a word (acceptance 7 and design 4.2)."""
    assert hollow(b'{"choices":[{"message":{"content":"abc def ghi jkl mno pqrs' + b"x" * 500_000, 8) == ""


def test_a_vector_may_be_of_any_kind() -> None:
    assert no_vector({"data": [{"embedding": ""}]}) == "an empty vector"
    assert no_vector({}) == "no vector"
