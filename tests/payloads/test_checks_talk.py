"""Rules over several fields of messages and tools, one by one."""

from __future__ import annotations

from typing import Any

import pytest

from autohedge.payloads import checks_talk as talk
from autohedge.payloads.asking import Notes
from autohedge.payloads.checks import Check
from tests.payloads.bodies import CALL, TOOL, chat


def params(check: Check, body: dict[str, Any], notes: Notes | None = None) -> list[str | None]:
    return [detail.param for detail in check(body, notes or Notes())]


@pytest.mark.parametrize(
    ("message", "vllm", "sglang", "cpp", "others"),
    [
        ({"role": "user"}, False, True, True, True),
        ({"role": "user", "content": None}, True, True, False, True),
        ({"role": "system", "content": None}, True, False, False, True),
        ({"role": "tool"}, False, False, True, True),
        ({"role": "assistant"}, False, False, True, True),
        ({"role": "assistant", "content": None}, False, False, False, True),
        ({"role": "assistant", "content": None, "tool_calls": None}, True, False, False, True),
        ({"role": "assistant", "content": None, "tool_calls": []}, False, False, False, False),
        ({"role": "assistant", "tool_calls": None}, False, False, False, True),
        ({"role": "assistant", "tool_calls": [CALL]}, False, False, False, False),
    ],
)
def test_messages_without_content(message: dict[str, Any], vllm: bool, sglang: bool, cpp: bool, others: bool) -> None:
    """Measured for llama.cpp and vLLM, with every mix of null and absent."""
    body, notes = chat(messages=[message]), Notes(hollow=[0])
    checks = (talk.hollow_vllm, talk.hollow_sglang, talk.hollow_cpp, talk.hollow_any)
    assert [bool(params(check, body, notes)) for check in checks] == [vllm, sglang, cpp, others]


def test_parts_without_a_type() -> None:
    notes = Notes(parts=[(0, 0, {}), (0, 1, {"image_url": "u"}), (0, 2, {"type": "image_url"})])
    assert params(talk.typeless, {}, notes) == ["messages[0].content[0].type"]
    assert params(talk.untyped, {}, notes) == ["messages[0].content[0].type", "messages[0].content[1].type"]


def test_links() -> None:
    parts: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": "data:SECRET"},
        {"type": ["odd"]},
        {"type": "video_url", "video_url": {}},
    ]
    notes = Notes(parts=[(0, i, part) for i, part in enumerate(parts)])
    details = list(talk.links({}, notes))
    assert [detail.param for detail in details] == [
        "messages[0].content[0].image_url",
        "messages[0].content[2].video_url.url",
    ]
    assert "SECRET" not in details[0].message


def test_a_list_of_strings() -> None:
    body = chat(messages=[{"role": "user", "content": ["a"]}, {"role": "tool", "content": ["a"]}])
    assert params(talk.only_strings, body, Notes(wordy=[0, 1])) == ["messages[0].content[0]"]


@pytest.mark.parametrize(
    ("choice", "vllm", "sglang"),
    [
        ("none", "", ""),
        ("auto", "", ""),
        ("required", "", ""),
        (None, "", ""),
        ("any", "tool_choice", "tool_choice"),
        (5, "tool_choice", "tool_choice"),
        ([], "tool_choice", "tool_choice"),
        ({}, "tool_choice.function.name", "tool_choice.function.name"),
        ({"type": "tool", "name": "f"}, "tool_choice.type", "tool_choice.type"),
        ({"function": {"name": "f"}}, "", ""),
        ({"function": {"name": "g"}}, "tool_choice.function.name", "tool_choice.function.name"),
        ({"function": {"name": []}}, "tool_choice.function.name", "tool_choice.function.name"),
    ],
)
def test_choices(choice: Any, vllm: str, sglang: str) -> None:
    body = chat(tools=[TOOL], tool_choice=choice)
    assert params(talk.choice_vllm, body) == ([vllm] if vllm else [])
    assert params(talk.choice_sglang, body) == ([sglang] if sglang else [])


def test_choices_without_tools() -> None:
    for choice, vllm, sglang in (
        ("auto", True, False),
        ("required", True, True),
        ({"function": {"name": "f"}}, True, True),
    ):
        assert bool(params(talk.choice_vllm, chat(tool_choice=choice))) is vllm
        assert bool(params(talk.choice_sglang, chat(tool_choice=choice))) is sglang
    assert params(talk.choice_vllm, chat(tool_choice="none")) == []


def test_tools() -> None:
    body = chat(tools=[{"type": "function"}, {"type": "custom"}, {}, 5, TOOL])
    assert params(talk.functions, body) == ["tools[0].function", "tools[2].function", "tools[3].function"]
    bad = chat(tools=[{"function": {"name": "f", "parameters": []}}])
    assert params(talk.parameters_cpp, bad) == ["tools[0].function.parameters"]
    assert params(talk.parameters_cpp, {**bad, "tool_choice": "none"}) == []
