"""Responses, messages, rerank and System One, as far as engines agree."""

from __future__ import annotations

from typing import Any

import pytest

from autohedge.core.types import Door, Kind
from tests.payloads.bodies import USER, fields, found

CPP, OPENAI, VLLM = Kind.LLAMACPP, Kind.OPENAI, Kind.VLLM


@pytest.mark.parametrize(
    "body",
    [
        {"input": "hi"},
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": "x"}]}], "max_output_tokens": 5},
        {"input": [], "instructions": 5, "tools": [], "reasoning": {}, "text": {"format": {"type": "text"}}},
    ],
)
def test_responses_pass(body: dict[str, Any]) -> None:
    assert found(OPENAI, body, Door.RESPONSES) == found(CPP, body, Door.RESPONSES) == ()


def test_responses_refused() -> None:
    assert fields(OPENAI, {"input": 5, "temperature": "hot"}, Door.RESPONSES) == ["input", "temperature"]
    assert found(OPENAI, {"previous_response_id": "r1"}, Door.RESPONSES) == ()
    assert fields(CPP, {}, Door.RESPONSES) == ["input"]
    assert fields(CPP, {"input": "x", "max_output_tokens": "5"}, Door.RESPONSES) == ["max_output_tokens"]


def test_messages() -> None:
    """B65: a system role among the messages passes. llama.cpp takes any messages, and numbers without quotes."""
    body = {
        "messages": [{"role": "system", "content": "x"}, USER],
        "max_tokens": 5,
        "system": [{"type": "text", "text": "a"}],
    }
    assert found(OPENAI, body, Door.MESSAGES) == found(VLLM, body, Door.MESSAGES) == ()
    assert fields(OPENAI, {"messages": "x"}, Door.MESSAGES) == ["messages"]
    assert found(CPP, {"messages": "x"}, Door.MESSAGES) == ()
    assert fields(CPP, {"messages": [USER], "max_tokens": "x"}, Door.MESSAGES) == ["max_tokens"]
    assert fields(CPP, {}, Door.MESSAGES) == ["messages"]
    assert fields(OPENAI, {"messages": [{"role": 5, "content": 5}]}, Door.MESSAGES) == [
        "messages[0].role",
        "messages[0].content",
    ]


def test_rerank() -> None:
    assert found(OPENAI, {"query": "a", "documents": ["b"], "top_n": 1}, Door.RERANK) == ()
    assert fields(OPENAI, {"query": 5, "documents": "b", "top_n": "x"}, Door.RERANK) == ["query", "documents", "top_n"]
