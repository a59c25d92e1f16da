"""Bodies of the embeddings doors per kind."""

from __future__ import annotations

from typing import Any

import pytest

from autohedge.core.types import Door, Kind
from tests.payloads.bodies import USER, fields, found

VLLM, SGLANG, CPP, OLLAMA, OPENAI = Kind.VLLM, Kind.SGLANG, Kind.LLAMACPP, Kind.OLLAMA, Kind.OPENAI
ALL = {VLLM, SGLANG, CPP, OLLAMA, OPENAI}
DOOR = Door.EMBEDDINGS


def refusing(**body: Any) -> set[Kind]:
    return {kind for kind in ALL if found(kind, {"model": "m", **body}, DOOR)}


@pytest.mark.parametrize(
    ("value", "by"),
    [
        ("hi", set()),
        (["a", "b"], set()),
        ([1, 2], {OLLAMA}),
        ([[1, 2], [3]], {OLLAMA}),
        ("", {VLLM, SGLANG}),
        ([""], {VLLM, SGLANG}),
        ([" "], {SGLANG}),
        ([], {VLLM, SGLANG, CPP}),
        (["a", 1], {VLLM, SGLANG, OLLAMA}),
        ([{"content": [{"type": "text", "text": "x"}]}], {OLLAMA}),
        ({"content": []}, {VLLM, SGLANG, OLLAMA}),
        ([{"prompt_string": "x"}], {OLLAMA}),
        (5, ALL),
        (True, ALL),
        (None, {VLLM, SGLANG, CPP}),
    ],
)
def test_inputs(value: Any, by: set[Kind]) -> None:
    """Fact: llama.cpp mixes lists and takes objects; vLLM and SGLang refuse what is empty; Ollama takes no token ids."""
    assert refusing(input=value) == by


def test_what_stands_in_for_input() -> None:
    assert refusing() == ALL
    assert refusing(messages=[USER]) == {SGLANG, CPP}
    assert refusing(content="x") == {VLLM, SGLANG}


@pytest.mark.parametrize(
    ("value", "by"),
    [
        ("float", set()),
        ("base64", set()),
        ("bytes", {SGLANG, CPP, OLLAMA}),
        ("int8", ALL),
        ("FLOAT", ALL - {OLLAMA}),
        (5, ALL),
        (None, {VLLM, SGLANG, CPP}),
    ],
)
def test_encoding_formats(value: Any, by: set[Kind]) -> None:
    """Section 00: nothing but float and base64, except what vLLM adds."""
    assert refusing(input="x", encoding_format=value) == by


def test_dimensions_and_user() -> None:
    assert refusing(input="x", dimensions=64, user="u") == set()
    assert refusing(input="x", dimensions="x") == {VLLM, SGLANG, OLLAMA}
    assert refusing(input="x", dimensions="5") == {OLLAMA}
    assert refusing(input="x", user=5) == {VLLM, SGLANG}
    assert fields(VLLM, {"input": "x", "truncate_prompt_tokens": "x"}, DOOR) == ["truncate_prompt_tokens"]


@pytest.mark.parametrize("door", [Door.SPARSE, Door.BOTH])
def test_doors_next_to_it(door: Door) -> None:
    assert found(OPENAI, {"input": ["a"]}, door) == ()
    assert fields(OPENAI, {"input": 5}, door) == ["input"]
    assert fields(OPENAI, {}, door) == ["input"]
