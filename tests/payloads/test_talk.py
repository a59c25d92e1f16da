"""Messages, parts, calls and tools per kind."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from autohedge.core.types import Kind
from autohedge.payloads.talk import PartType
from tests.payloads.bodies import CALL, TOOL, USER, chat, fields, found

VLLM, SGLANG, CPP, OPENAI = Kind.VLLM, Kind.SGLANG, Kind.LLAMACPP, Kind.OPENAI
AT = "messages[0].content[0]"


def part(**value: Any) -> dict[str, Any]:
    return chat(messages=[{"role": "user", "content": [value]}])


def call(**change: Any) -> dict[str, Any]:
    return chat(messages=[USER, {"role": "assistant", "tool_calls": [{**CALL, **change}]}, USER])


def tool(**change: Any) -> dict[str, Any]:
    return chat(tools=[{**TOOL, **change}])


@pytest.mark.parametrize("name", get_args(PartType))
def test_known_part_types_pass_for_an_unknown_engine(name: str) -> None:
    assert found(OPENAI, part(type=name)) == ()


@pytest.mark.parametrize(
    ("value", "vllm", "sglang", "cpp"),
    [
        ({"type": "text", "text": "a"}, None, None, None),
        ({"type": "text"}, None, f"{AT}.text", f"{AT}.text"),
        ({"text": "a"}, f"{AT}.type", f"{AT}.type", f"{AT}.type"),
        ({"type": "input_text", "text": "a"}, None, f"{AT}.type", f"{AT}.type"),
        ({"type": "video_url", "video_url": {"url": "u"}}, None, None, None),
        ({"type": "audio_url", "audio_url": {"url": "u"}}, None, None, f"{AT}.type"),
        (
            {"type": "input_audio", "input_audio": {"data": "A", "format": "ogg"}},
            None,
            f"{AT}.input_audio.format",
            None,
        ),
        ({"type": "image_url", "image_url": {}}, f"{AT}.image_url.url", f"{AT}.image_url.url", None),
        ({"type": "image_url"}, f"{AT}.image_url", f"{AT}.image_url", None),
        ({"image_url": "u"}, None, f"{AT}.type", f"{AT}.type"),
        ({"type": "image_url", "image_url": {"url": "u", "detail": "default"}}, None, None, None),
        ({"type": "image_url", "image_url": None, "uuid": "1"}, None, f"{AT}.image_url", None),
        ({"type": "thinking", "thinking": "x"}, None, None, f"{AT}.type"),
        ({"type": "image_embeds", "image_embeds": "A"}, None, f"{AT}.type", f"{AT}.type"),
    ],
)
def test_parts(value: dict[str, Any], vllm: str | None, sglang: str | None, cpp: str | None) -> None:
    body = part(**value)
    for kind, field in ((VLLM, vllm), (SGLANG, sglang), (CPP, cpp)):
        assert fields(kind, body) == ([field] if field else []), kind


def test_mixed_lists() -> None:
    """vLLM reads a string among parts, and {} for an empty list; nobody else does."""
    mixed = chat(messages=[{"role": "user", "content": [{"type": "text", "text": "a"}, "b"]}])
    assert found(VLLM, mixed) == found(OPENAI, mixed) == ()
    assert fields(CPP, mixed) == fields(SGLANG, mixed) == ["messages[0].content[1]"]
    nothing = chat(messages=[{"role": "user", "content": {}}])
    assert found(VLLM, nothing) == ()
    assert fields(CPP, nothing) == ["messages[0].content"]
    assert fields(VLLM, chat(messages=[{"role": "user", "content": {"a": 1}}])) == ["messages[0].content"]


@pytest.mark.parametrize(
    ("change", "vllm", "sglang", "cpp"),
    [
        ({}, "", "", ""),
        ({"id": None}, "id", "", "id"),
        ({"type": "custom"}, "type", "type", "type"),
        ({"function": None}, "function", "function", "function"),
        ({"function": {"name": "f", "arguments": {}}}, "function.arguments", "", ""),
        ({"function": {"name": "f"}}, "function.arguments", "", "function.arguments"),
        ({"function": {"arguments": "{}"}}, "function.name", "", "function.name"),
        ({"function": {"name": 1, "arguments": "{}"}}, "function.name", "function.name", "function.name"),
        ({"function": {"name": "f", "arguments": 1}}, "function.arguments", "function.arguments", ""),
    ],
)
def test_calls(change: dict[str, Any], vllm: str, sglang: str, cpp: str) -> None:
    for kind, field in ((VLLM, vllm), (SGLANG, sglang), (CPP, cpp)):
        assert fields(kind, call(**change)) == ([f"messages[1].tool_calls[0].{field}"] if field else []), kind


@pytest.mark.parametrize(
    ("change", "vllm", "sglang", "cpp"),
    [
        ({}, "", "", ""),
        ({"type": "banana"}, "type", "", "type"),
        ({"type": None}, "type", "type", "type"),
        ({"function": {"name": "f", "description": None}}, "", "", "function.description"),
        ({"function": {"name": "f", "description": 1}}, *["function.description"] * 3),
        ({"function": {"name": "f", "parameters": "x"}}, *["function.parameters"] * 3),
        ({"function": {"name": "f", "parameters": True}}, "function.parameters", "", "function.parameters"),
        ({"function": {"name": "f", "strict": "x"}}, "function.strict", "function.strict", ""),
        ({"function": {"name": ""}}, "", "", ""),
    ],
)
def test_tools(change: dict[str, Any], vllm: str, sglang: str, cpp: str) -> None:
    for kind, field in ((VLLM, vllm), (SGLANG, sglang), (CPP, cpp)):
        assert fields(kind, tool(**change)) == ([f"tools[0].{field}"] if field else []), kind


@pytest.mark.parametrize(
    ("key", "value", "refusing"),
    [
        ("name", None, {VLLM, CPP}),
        ("tool_call_id", None, {CPP}),
        ("reasoning_content", None, {CPP}),
        ("reasoning_content", [], {CPP, SGLANG}),
        ("tool_calls", None, set()),
        ("tool_calls", {}, {SGLANG}),
        ("refusal", 5, set()),
    ],
)
def test_keys_of_a_message(key: str, value: Any, refusing: set[Kind]) -> None:
    body = chat(messages=[USER, {"role": "assistant", "content": "a", key: value}])
    assert {kind for kind in (VLLM, SGLANG, CPP, OPENAI) if found(kind, body)} == refusing


def test_keys_that_a_role_does_not_read() -> None:
    """SGLang reads role and content of a user; vLLM reads tool_calls of an assistant only."""
    user = chat(messages=[{"role": "user", "content": "a", "name": 5, "tool_calls": "x"}])
    assert found(SGLANG, user) == ()
    assert fields(VLLM, user) == ["messages[0].name"]
    assert found(OPENAI, user) == ()
    answer = chat(messages=[{"role": "tool", "content": "a", "name": 5, "tool_call_id": "c"}])
    assert found(VLLM, answer) == ()
