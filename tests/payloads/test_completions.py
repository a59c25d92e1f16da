"""Bodies of /v1/completions per kind; who serves what is in test_recorded.py, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from autohedge.core.types import Door, Kind
from tests.payloads.bodies import PLAIN, fields, found

VLLM, SGLANG, CPP, OLLAMA, OPENAI = Kind.VLLM, Kind.SGLANG, Kind.LLAMACPP, Kind.OLLAMA, Kind.OPENAI
DOOR = Door.COMPLETIONS


def body(**more: Any) -> dict[str, Any]:
    return {**PLAIN[DOOR], **more}


@pytest.mark.parametrize(
    ("prompt", "refusing"),
    [
        ("hi", set()),
        (["a", "b"], {OLLAMA}),
        ([1, 2], {OLLAMA}),
        ([[1, 2], [3]], {OLLAMA}),
        (None, {VLLM, SGLANG, CPP}),
        ("", {VLLM, SGLANG}),
        (["a", 1], {VLLM, SGLANG, OLLAMA}),
        ({"prompt_string": "x"}, {VLLM, SGLANG, OLLAMA}),
        (5, {VLLM, SGLANG, CPP, OLLAMA, OPENAI}),
        ([1.5], {VLLM, SGLANG, CPP, OLLAMA}),
        ([None], {VLLM, SGLANG, CPP, OLLAMA}),
        ([-1], {VLLM, CPP, OLLAMA}),
    ],
)
def test_prompts(prompt: Any, refusing: set[Kind]) -> None:
    """e4: null is allowed by the reference, and refused by the three that were asked."""
    assert {k for k in (VLLM, SGLANG, CPP, OLLAMA, OPENAI) if found(k, body(prompt=prompt), DOOR)} == refusing


@pytest.mark.parametrize("field", ["temperature", "top_p", "max_tokens", "echo", "n", "stream"])
def test_00_sglang_refuses_null(field: str) -> None:
    assert fields(SGLANG, body(**{field: None}), DOOR) == [field]
    assert found(OPENAI, body(**{field: None}), DOOR) == ()


def test_numbers() -> None:
    """e4: max_tokens 0 is valid in the reference; best_of is read by nobody but SGLang; logprobs is a number here."""
    assert found(OPENAI, body(max_tokens=0, best_of="x", logprobs=5, suffix="y"), DOOR) == ()
    assert found(CPP, body(max_tokens=0, logprobs=5, best_of="x"), DOOR) == ()
    assert fields(VLLM, body(max_tokens=0), DOOR) == ["max_tokens"]
    assert found(VLLM, body(max_tokens=0, echo=True, logprobs=True), DOOR) == ()
    assert fields(VLLM, body(logprobs=-2), DOOR) == ["logprobs"]
    assert fields(SGLANG, body(best_of="x", max_tokens=0), DOOR) == ["best_of", "max_tokens"]
    assert fields(CPP, body(n=0, echo=1), DOOR) == ["n", "echo"]
    assert fields(OLLAMA, body(temperature="1"), DOOR) == ["temperature"]


def test_long_lists_are_not_listed_item_by_item() -> None:
    """A million wrong ids make one finding."""
    found_ = found(VLLM, body(prompt=[1.5] * 100_000), DOOR)
    assert [detail.param for detail in found_] == ["prompt"]
    assert len(found_[0].message) < 300
