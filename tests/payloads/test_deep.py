"""Depth is counted and cut without recursion."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.payloads.deep import CUT, UnbalancedError, deeper, pruned


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_what_is_shallow_stays() -> None:
    body = b'{"a": [1, {"b": "]}\\""}]}'
    assert pruned(body, 1000).text == body
    assert pruned(body, 1000).depth == 3


def test_what_is_deep_becomes_null() -> None:
    body = b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b',"b":{"c":"]"}}'
    shallow = pruned(body, 1_000_000)
    assert shallow.depth == 50_001
    parsed = json.loads(shallow.text)
    assert parsed["b"] == {"c": "]"}
    assert deeper(parsed["a"], CUT - 2)
    assert not deeper(parsed["a"], CUT)


def test_positions_lead_back() -> None:
    """An error behind a cut is told at its place in the body as it came."""
    body = b'{"a":' + b"[" * 300 + b"]" * 300 + b',"b":"here"}'
    shallow = pruned(body, 1000)
    at = shallow.text.index(b"here")
    assert body[shallow.original(at) :].startswith(b"here")


@pytest.mark.parametrize(
    ("body", "at"),
    [(b"[[}", 2), (b"]", 0), (b'{"a":[', 6), (b"[" * 11 + b"]" * 11, 10)],
    ids=["mixed", "early", "open", "deep"],
)
def test_brackets_that_do_not_match(body: bytes, at: int) -> None:
    with pytest.raises(UnbalancedError) as caught:
        pruned(body, 10)
    assert caught.value.at == at


@pytest.mark.parametrize("levels", [0, 1, 2, 63, 64, 65, 140])
def test_levels_of_a_value(levels: int) -> None:
    """vLLM 0.32 counts objects and arrays, and takes 64."""
    assert deeper(nested(levels), 64) is (levels > 64)
    assert not deeper(nested(levels), 140)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=20,
)


@given(JSON, st.integers(0, 400))
def test_pruning_keeps_json_valid(value: Any, levels: int) -> None:
    body = b"[" * levels + json.dumps(value).encode() + b"]" * levels
    shallow = pruned(body, 1000)
    parsed = json.loads(shallow.text)
    assert not deeper(parsed, CUT)
    if shallow.depth <= CUT:
        assert shallow.text == body
