"""Rules over several fields of the answer's form, one by one."""

from __future__ import annotations

from typing import Any

import pytest

from autohedge.payloads import checks_answer as answer
from autohedge.payloads.asking import Notes
from autohedge.payloads.checks import Check

SCHEMA = {"type": "object"}


def params(check: Check, **body: Any) -> list[str | None]:
    return [detail.param for detail in check(body, Notes())]


@pytest.mark.parametrize(
    ("wanted", "vllm", "sglang", "cpp"),
    [
        ({"type": "text"}, "", "", ""),
        ({"type": "json_object"}, "", "", ""),
        ({"type": "json_object", "schema": SCHEMA}, "", "", ""),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}, "", "", ""),
        ({"type": "json_schema", "schema": SCHEMA}, "json_schema", "", ""),
        ({"type": "json_schema"}, "json_schema", "json_schema", ""),
        ({"type": "json_schema", "json_schema": {"schema": SCHEMA}}, "json_schema.name", "json_schema.name", ""),
        ({"type": "json_schema", "json_schema": {"name": "x"}}, "json_schema.schema", "json_schema.schema", ""),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": []}}, *["json_schema.schema"] * 2, ""),
        (
            {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": "yes"}},
            "",
            "json_schema.strict",
            "",
        ),
        (
            {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": []}},
            *["json_schema.strict"] * 2,
            "",
        ),
        ({"type": "text", "json_schema": "x"}, "json_schema", "json_schema", ""),
        ({"type": "structural_tag"}, "", "", "type"),
        ({"type": "banana"}, "type", "type", "type"),
        ({"type": []}, "type", "type", ""),
        ({}, "type", "type", ""),
    ],
)
def test_formats(wanted: Any, vllm: str, sglang: str, cpp: str) -> None:
    for check, field in ((answer.format_vllm, vllm), (answer.format_sglang, sglang), (answer.format_word, cpp)):
        assert params(check, response_format=wanted) == ([f"response_format.{field}"] if field else []), check
    assert params(answer.format_word_any, response_format=wanted) == (
        ["response_format.type"] if wanted == {"type": "banana"} else []
    )


@pytest.mark.parametrize("wanted", ["json_object", 5, True, []])
def test_formats_that_are_no_objects(wanted: Any) -> None:
    assert params(answer.format_vllm, response_format=wanted) == ["response_format"]
    assert params(answer.format_sglang, response_format=wanted) == ["response_format"]
    assert params(answer.format_word, response_format=wanted) == []


@pytest.mark.parametrize(
    ("stop", "vllm", "sglang", "cpp"),
    [
        (None, False, False, False),
        ("x", False, False, False),
        (["x"] * 14, False, False, False),
        ([], False, False, False),
        ("", True, False, False),
        (["a", ""], True, False, False),
        (5, True, True, False),
        ({}, True, True, False),
        ([1], True, True, True),
        ([False], True, True, True),
        ([None], True, True, False),
        ([[]], True, True, False),
        ([["a"]], True, True, True),
    ],
)
def test_stops(stop: Any, vllm: bool, sglang: bool, cpp: bool) -> None:
    """How many stop strings vLLM takes is a setting of the engine (4 by default): not checked."""
    checks = (answer.stop_words, answer.stop_sglang, answer.stop_items)
    assert [bool(params(check, stop=stop)) for check in checks] == [vllm, sglang, cpp]


def test_stream_options() -> None:
    usage = {"include_usage": True}
    assert params(answer.options_vllm, stream=True, stream_options=usage) == []
    assert params(answer.options_vllm, stream_options=usage) == ["stream_options"]
    assert params(answer.options_vllm, stream_options={}) == []
    assert params(answer.options_object, stream_options="x") == ["stream_options"]
    assert params(answer.options_object, stream_options={"include_usage": "yes"}) == []
    assert params(answer.options_object, stream_options={"include_usage": "hot"}) == ["stream_options.include_usage"]
    assert params(answer.options_cpp, stream_options={"include_usage": "yes"}) == ["stream_options.include_usage"]
    assert params(answer.options_cpp, stream_options="x") == []


@pytest.mark.parametrize(
    ("top", "logprobs", "vllm", "cpp"),
    [
        (None, None, False, False),
        (5, True, False, False),
        (0, None, False, True),
        (5, None, True, True),
        (1, 1, False, True),
        (-1, True, False, False),
        (-2, True, True, False),
        (1.5, True, True, False),
        ("1", True, True, False),
    ],
)
def test_top_logprobs(top: Any, logprobs: Any, vllm: bool, cpp: bool) -> None:
    assert bool(params(answer.top_vllm, top_logprobs=top, logprobs=logprobs)) is vllm
    assert bool(params(answer.top_cpp, top_logprobs=top, logprobs=logprobs)) is cpp


@pytest.mark.parametrize("good", [None, {}, {"5": 1}, {"5": "1"}, {"-5": True}, {" 7 ": 0.5}])
@pytest.mark.parametrize("bad", [[], "x", 5, {"x": 1}, {"5": "x"}, {"5": None}, {"5": float("nan")}])
def test_logit_bias(good: Any, bad: Any) -> None:
    assert params(answer.bias, logit_bias=good) == []
    assert len(params(answer.bias, logit_bias=bad)) == 1


def test_room_for_the_answer() -> None:
    assert params(answer.room_vllm, max_tokens=1) == []
    assert params(answer.room_vllm, max_tokens=0) == ["max_tokens"]
    assert params(answer.room_vllm, max_tokens=-1, max_completion_tokens=3) == []
    assert params(answer.room_vllm, max_tokens=5, max_completion_tokens=0) == ["max_completion_tokens"]
    assert params(answer.room_vllm, prompt="x", echo=True, max_tokens=0) == []
    assert params(answer.room_vllm, max_tokens=5, min_tokens=6) == ["min_tokens"]
    assert params(answer.room_sglang, max_tokens=0) == []
    assert params(answer.room_sglang, max_tokens=-1) == ["max_tokens"]


def test_the_rest() -> None:
    assert params(answer.continued, continue_final_message=True) == ["continue_final_message"]
    assert params(answer.continued, continue_final_message=True, add_generation_prompt=False) == []
    assert params(answer.continued_word, continue_final_message="content") == []
    assert params(answer.continued_word, continue_final_message={}) == ["continue_final_message"]
    assert params(answer.prompt_logprobs, prompt_logprobs=1, stream=True) == ["prompt_logprobs"]
    assert params(answer.grammar_cpp, grammar="root", tools=[1]) == ["grammar"]
    assert params(answer.grammar_cpp, grammar="root", tools=[1], tool_choice="none") == []
    assert params(answer.grammar_cpp, grammar="root", json_schema={}) == ["grammar"]
    assert params(answer.thinking_cpp, chat_template_kwargs={"enable_thinking": "false"})
    assert params(answer.thinking_cpp, chat_template_kwargs={"enable_thinking": False}) == []
    assert params(answer.one_bound, max_tokens=1, max_completion_tokens=1) == ["max_completion_tokens"]
    good: list[Any] = [None, "none", "ultra", 0.5, 0, "0.5"]
    bad: list[Any] = ["banana", 1, True, [], -0.1]
    assert [value for value in good if params(answer.effort_sglang, reasoning_effort=value)] == []
    assert [value for value in bad if not params(answer.effort_sglang, reasoning_effort=value)] == []
