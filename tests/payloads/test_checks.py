"""Rules over prompts and inputs, and the table of who gets which rule."""

from __future__ import annotations

from typing import Any

import pytest

from autohedge.core.types import Door, Kind
from autohedge.payloads import checks, checks_answer, checks_talk
from autohedge.payloads.asking import Notes
from autohedge.payloads.checks import Check


def params(check: Check, **body: Any) -> list[str | None]:
    return [detail.param for detail in check(body, Notes())]


@pytest.mark.parametrize(
    ("prompt", "vllm", "sglang"),
    [
        ("x", [], []),
        ("", ["prompt"], ["prompt"]),
        ([""], ["prompt[0]"], ["prompt"]),
        (["a", ""], ["prompt[1]"], []),
        ([[]], ["prompt[0]"], ["prompt"]),
    ],
)
def test_prompts(prompt: Any, vllm: list[str], sglang: list[str]) -> None:
    assert params(checks.prompt_needed, prompt=prompt) == vllm
    assert params(checks.prompt_sglang, prompt=prompt) == sglang


def test_missing_prompts_and_inputs() -> None:
    assert params(checks.prompt_needed) == params(checks.prompt_needed, prompt=None) == ["prompt"]
    assert params(checks.prompt_needed, prompt_embeds="A") == []
    assert params(checks.input_needed) == params(checks.input_vllm) == params(checks.input_cpp) == ["input"]
    assert params(checks.input_needed, messages=[]) == params(checks.input_vllm, messages=[]) == []
    assert params(checks.input_cpp, messages=[]) == ["input"]
    assert params(checks.input_cpp, content="x") == []
    assert params(checks.input_vllm, input="") == ["input"]


@pytest.mark.parametrize(
    ("value", "field"),
    [("x", None), (" ", "input"), (["a", " "], "input[1]"), ([1, -1], "input[1]"), ([1], None), (None, None)],
)
def test_inputs_of_sglang(value: Any, field: str | None) -> None:
    assert params(checks.input_sglang, input=value) == ([field] if field else [])


def test_every_rule_is_used() -> None:
    """A rule that no kind gets is dead code."""
    used = {check for table in (*checks.CHECKS.values(), *checks.COMMON.values()) for _, check in table}
    for module in (checks, checks_talk, checks_answer):
        for name, value in vars(module).items():
            if getattr(value, "__module__", "") == module.__name__ and callable(value) and not name.startswith("_"):
                assert value in used or name == "dicts", name


def test_triggers_are_fields_or_marks() -> None:
    for (door, kind), table in checks.CHECKS.items():
        assert isinstance(door, Door)
        assert isinstance(kind, Kind)
        for trigger, _ in table:
            assert trigger in {checks.ALWAYS, checks.ODD} or trigger.isidentifier()
