"""Shapes of error bodies, and the limits that their texts name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.providers.errors import Said, about_length, error_in, limits_named, said_in
from tests.providers.saying import keyed

KEYS = [
    "error",
    "message",
    "type",
    "code",
    "status",
    "param",
    "detail",
    "msg",
    "loc",
    "object",
    "response",
    "choices",
    "finish_reason",
    "error_type",
    "n_ctx",
]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # d1, one row per shape
        ({"error": {"message": "m", "type": "T", "param": "p", "code": "C"}}, Said("m", "t", "c", "p")),
        (
            {"error": {"message": "m", "type": "BadRequestError", "param": None, "code": 400}},
            Said("m", "badrequesterror", "", "", 400),
        ),
        (
            {"object": "error", "message": "m", "type": "BadRequestError", "param": None, "code": 400},
            Said("m", "badrequesterror", "", "", 400),
        ),
        ({"error": "m", "error_type": "validation"}, Said("m", "validation")),
        ({"error": "Unauthorized"}, Said("Unauthorized")),
        (
            {"type": "error", "error": {"type": "overloaded_error", "message": "m"}, "request_id": "r"},
            Said("m", "overloaded_error"),
        ),
        ({"type": "error", "code": "insufficient_quota", "message": "m"}, Said("m", "error", "insufficient_quota")),
        ({"error": {"code": "404", "message": "Resource not found"}}, Said("Resource not found", "", "404", "", 404)),
        ({"error": {"message": "m", "code": 502, "metadata": {}}, "user_id": "u"}, Said("m", status=502)),
        ({"error": {"message": "m"}, "status": 503}, Said("m", status=503)),
        (
            {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "m"}}},
            Said("m", "", "server_error"),
        ),
        ({"choices": [{"finish_reason": "error", "error": {"code": 502, "message": "m"}}]}, Said("m", status=502)),
        ({"error": True, "message": "m"}, Said("m")),
    ],
)
def test_explicit_errors_are_errors_with_any_status(body: Any, expected: Said) -> None:
    """d1 and d4: found inside a 200 as well."""
    raw = json.dumps(body).encode()
    assert error_in(raw) == expected
    assert said_in(raw) == expected
    event = b"event: error\r\ndata: " + raw + b"\r\n\r\ndata: [DONE]\n\n"
    assert error_in(event) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"detail": "Not Found"}, Said("Not Found")),
        (
            {"detail": [{"type": "missing", "loc": ["body"], "msg": "Field required", "input": "SECRET"}]},
            Said("Field required"),
        ),
        (
            {"detail": {"error_type": "api_usage_error", "message": "Unknown model: X"}},
            Said("Unknown model: X", "api_usage_error"),
        ),
        ({"detail": {"error": {"code": "bad", "message": "m"}}}, Said("m", "", "bad")),
        ({"message": "m", "code": 422}, Said("m", status=422)),
        ("Model is overloaded", Said("Model is overloaded")),
        ([1], Said()),
        ({}, Said()),
    ],
)
def test_loose_shapes_are_errors_only_by_their_status(body: Any, expected: Said) -> None:
    raw = json.dumps(body).encode()
    assert error_in(raw) is None
    assert said_in(raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", Said()),
        (b"Internal Server Error", Said("Internal Server Error")),
        (b"<html><body>413 Request Entity Too Large</body></html>", Said()),
        (b"\xff\xfe", Said("��")),
        (b'{"error": {"mess', Said()),
        (b"[" * 100_000, Said()),
    ],
)
def test_bodies_that_are_no_json(raw: bytes, expected: Said) -> None:
    """d1: nginx pages and plain text happen; a deep nest of brackets must not end in a RecursionError."""
    assert said_in(raw) == expected
    assert error_in(raw) is None


def test_the_last_line_of_ndjson_is_read() -> None:
    """B70: Ollama's own stream."""
    assert error_in(
        b'{"message":{"content":"a"},"done":false}\n{"error":"llama runner process has terminated"}\n'
    ) == Said("llama runner process has terminated")


@pytest.mark.parametrize(
    "body",
    [
        {"error": None, "choices": []},
        {"error": {}},
        {"error": ""},
        {"error": False},
        {"choices": None},
        {"choices": [1]},
    ],
)
def test_an_empty_error_is_none(body: Any) -> None:
    """The Responses API carries `"error": null` in every good answer."""
    assert error_in(json.dumps(body).encode()) is None


CTX = "context"
# fmt: off
NAMED = [
    ("vllm-0.32", "This model's maximum context length is 400 tokens. However, your prompt contains at least 401 input tokens, which", {CTX: 400}),
    ("vllm-new", "You passed 500 input tokens and requested 10 output tokens. However, the model's context length is only 400 tokens, resulting", {CTX: 400}),
    ("vllm-chars", "You passed 90000 input characters and requested 10 output tokens. However, the model's context length is only 400 tokens", {CTX: 400}),
    ("vllm-length", "Input length (500) exceeds model's maximum context length (400).", {CTX: 400}),
    ("vllm-v1", "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure", {CTX: 4096}),
    ("vllm-max", "max_tokens=100000 cannot be greater than max_model_len=400. Please request fewer output tokens.", {CTX: 400}),
    ("vllm-old-max", "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 4096 tokens and", {CTX: 4096}),
    ("openai", "This model's maximum context length is 4097 tokens. However, you requested 4927 tokens (3927 in the messages, 1000 in", {CTX: 4097}),
    ("article", "This model's maximum context length is 1048576 tokens. However", {CTX: 1048576}),
    ("B41", "The input (61709 tokens) is longer than the model's context length (40960 tokens).", {CTX: 40960}),
    ("sglang-sum", "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of", {CTX: 4096}),
    ("sglang-500", "Internal server error: The input (5 tokens) is longer than the model's context length (4 tokens).", {CTX: 4}),
    ("tgi-input", "Input validation error: `inputs` must have less than 1024 tokens. Given: 2000", {"max_input": 1024}),
    ("tgi-sum", "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 2000 `inputs` tokens and 100", {CTX: 2048}),
    ("llamacpp", "request (621 tokens) exceeds the available context size (400 tokens), try increasing it", {CTX: 400}),
    ("llamacpp-emb", "input (401 tokens) is larger than the max context size (400 tokens). skipping", {CTX: 400}),
    ("llamacpp-batch", "input (602 tokens) is too large to process. increase the physical batch size (current batch size: 512)", {"max_input": 512}),
    ("anthropic", "prompt is too long: 213462 tokens > 200000 maximum", {CTX: 200000}),
    ("xai", "This model's maximum prompt length is 131072 but the request contains 140000 tokens.", {"max_input": 131072}),
    ("gemini", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", {"max_input": 1048576}),
    ("openrouter", "This endpoint's maximum context length is 131,072 tokens. However, you requested about 200000 tokens", {CTX: 131072}),
    ("openai-max", "max_completion_tokens is too large: 99999. This model supports at most 16384 completion tokens, whereas", {"max_output": 16384}),
    ("B50", "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", {"max_output": 8192}),
    ("anthropic-max", "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for claude", {"max_output": 8192}),
    ("groq-max", "`max_tokens` must be less than or equal to `8192`, the maximum value", {"max_output": 8192}),
    ("gateway", "Error code: 400 - This model's maximum context length is 400 tokens.", {CTX: 400}),
    ("none", "The model `x` does not exist.", {}),
]
# fmt: on


@pytest.mark.parametrize(("message", "expected"), [row[1:] for row in NAMED], ids=[row[0] for row in NAMED])
def test_limits_are_learned_from_texts(message: str, expected: dict[str, int]) -> None:
    """d2: one row per sentence that was seen."""
    assert dict(limits_named(Said(message))) == expected
    assert about_length(Said(message)) is bool(expected)


@pytest.mark.parametrize(
    "message",
    [
        "The model `This model's maximum context length is 1 tokens` does not exist.",
        "Unknown model: This model's maximum context length is 1 tokens",
        '"prompt is too long: 9 tokens > 1 maximum" does not support tools',
        "Invalid value for `tool_choice`: max_tokens=9 cannot be greater than max_model_len=1",
        'questions.a: too many options (9), this model supports at most 1: "type" must be one of: choice, score, noul',
        "question 'a': it has 9 options, but the served tokenizer and chat template can label at most 1': is wrong",
    ],
)
def test_a_client_cannot_teach_a_limit(message: str) -> None:
    """B116: what an engine echoes stands after the engine's own words, and those decide."""
    assert not limits_named(Said(message))
    assert not about_length(Said(message))


@pytest.mark.parametrize(
    "message",
    [
        "questions.queue: too many options (64), this model supports at most 52",
        "question 'queue': it has 64 options, but the served tokenizer and chat template can label at most 52",
    ],
)
def test_the_options_that_a_model_takes_are_learned(message: str) -> None:
    """llama.cpp b11549 (run) and SGLang 0.5.23 (read) say it when they refuse; it has nothing to do with a length."""
    assert dict(limits_named(Said(message))) == {"max_options": 52}
    assert not about_length(Said(message))


def test_a_window_beside_the_message_is_learned() -> None:
    """llama.cpp: n_ctx in the error object."""
    raw = json.dumps(
        {
            "error": {
                "code": 400,
                "message": "too long",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 621,
                "n_ctx": 400,
            }
        }
    )
    assert dict(limits_named(said_in(raw.encode()))) == {CTX: 400}


@pytest.mark.parametrize(
    "said",
    [
        Said("max_tokens must be at least 1, got -7584"),  # B40
        Said("the prompt is longer than the context length currently available to the model; shorten the prompt, ..."),
        Said("the input length exceeds the context length"),
        Said("the request exceeds the available context size. try increasing the context size"),
        Said("x", code="context_length_exceeded"),
        Said("", type="max_tokens_exceeded"),  # TypeSafe sends no message
    ],
)
def test_too_long_without_a_number(said: Said) -> None:
    assert about_length(said)
    assert not limits_named(said)


@given(body=keyed(*KEYS))
def test_no_json_makes_it_raise(body: Any) -> None:
    raw = json.dumps(body).encode()
    for said in (said_in(raw), error_in(raw) or Said()):
        limits_named(said)
        about_length(said)
        assert said.status == 0 or 400 <= said.status <= 599


@given(raw=st.binary(max_size=300))
def test_no_bytes_make_it_raise(raw: bytes) -> None:
    said_in(raw)
    error_in(raw)
