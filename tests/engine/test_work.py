"""Reading a body: what is counted, what bounds the answer, what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from autohedge.core.types import Door
from autohedge.engine.work import Work, bound, first_wrong, forced_tool, weigh


def work(door: Door, body: dict[str, Any]) -> Work:
    found = Work(door, body, "m")
    weigh(found)
    bound(found)
    return found


@pytest.mark.parametrize(
    ("door", "body", "prompt", "longest"),
    [
        (Door.CHAT, {"messages": [{"role": "user", "content": "a b"}]}, 7, 7),
        (
            Door.MESSAGES,
            {"system": "s", "messages": [{"role": "user", "content": [{"type": "text", "text": "a b"}]}]},
            8,
            8,
        ),
        (Door.RESPONSES, {"input": "a b", "instructions": "c"}, 4, 4),
        (Door.COMPLETIONS, {"prompt": ["a", "b c"]}, 3, 2),
        (Door.EMBEDDINGS, {"input": [[1, 2], [3]]}, 3, 2),
        (Door.SPARSE, {"input": "a b"}, 2, 2),
        (Door.RERANK, {"query": "q", "documents": ["a b", {"text": "c"}]}, 5, 3),
        (Door.SYSTEMONE, {"state": "a b", "questions": {"q": "c", "r": "d e"}}, 7, 4),
    ],
)
def test_weight(door: Door, body: dict[str, Any], prompt: int, longest: int) -> None:
    """Usage counts all inputs; a limit is held against the longest."""
    found = work(door, body)
    assert (found.prompt, found.longest) == (prompt, longest)


@pytest.mark.parametrize(
    ("body", "limit", "field"),
    [
        ({}, None, "max_tokens"),
        ({"max_tokens": 5}, 5, "max_tokens"),
        ({"max_tokens": 5, "max_completion_tokens": 7}, 7, "max_completion_tokens"),
        ({"max_tokens": 5, "max_completion_tokens": None}, 5, "max_tokens"),
        ({"max_tokens": "6"}, 6, "max_tokens"),
        ({"max_tokens": True}, None, "max_tokens"),
    ],
)
def test_bound(body: dict[str, Any], limit: int | None, field: str) -> None:
    found = work(Door.CHAT, {"messages": [], **body})
    assert (found.limit, found.limit_field) == (limit, field)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "messages"),
        ({"messages": "x"}, "messages"),
        ({"messages": ["x"]}, "messages[0]"),
        ({"messages": [{"content": "a"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "odd"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]}, "messages[0].content[0].text"),
        ({"messages": [], "tools": {}}, "tools"),
        ({"messages": [], "tools": [1]}, "tools[0]"),
        ({"messages": [], "tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"messages": [], "tool_choice": "any"}, "tool_choice"),
        ({"messages": [], "response_format": {"type": "xml"}}, "response_format.type"),
        ({"messages": [], "top_p": float("nan")}, "top_p"),
        ({"messages": [], "n": "many"}, "n"),
        ({"messages": [], "encoding_format": "hex"}, "encoding_format"),
    ],
)
def test_what_all_three_engines_refuse(body: dict[str, Any], field: str) -> None:
    """Facts 00, the second list."""
    found = first_wrong(Door.CHAT, body, strict=False)
    assert found is not None
    assert found.field == field


@pytest.mark.parametrize(
    "extra",
    [
        {"temperature": True},
        {"metadata": 7},
        {"unknown": {}},
        {"logit_bias": {"1": 101}},
        {"tools": None},
        {"tool_choice": {"type": "x"}},
    ],
)
def test_what_all_three_engines_serve(extra: dict[str, Any]) -> None:
    """Facts 00, the first list: an unknown key or an odd role order is no fault."""
    messages = [{"role": "tool", "content": "a"}, {"role": "assistant"}, {"role": "user", "content": []}]
    assert first_wrong(Door.CHAT, {"messages": messages, **extra}, strict=False) is None


def test_numbers_as_strings_are_refused_only_where_strict() -> None:
    body = {"messages": [], "temperature": "0.5"}
    assert first_wrong(Door.CHAT, body, strict=False) is None
    assert first_wrong(Door.CHAT, body, strict=True) is not None


def test_forced_tool() -> None:
    tools = [{"function": {"name": "f"}}, {"type": "custom"}]
    assert forced_tool({"tools": tools, "tool_choice": "required"}) == ("f", False)
    assert forced_tool({"tools": tools, "tool_choice": {"function": {"name": "g"}}}) == ("g", True)
    assert forced_tool({"tools": tools, "tool_choice": "auto"}) == (None, False)
    assert forced_tool({"tool_choice": "required"}) == (None, False)
