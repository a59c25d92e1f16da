"""Telling engines apart by a few cheap questions, and saying why a replica taught nothing."""

from __future__ import annotations

import pytest

from autohedge.core.types import Kind
from autohedge.providers import RECOGNITION, lesson, recognise
from autohedge.providers.base import Reply
from tests.providers.saying import NOW, reply

LOADING = reply({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}, 503)
VLLM_MODELS = reply({"object": "list", "data": [{"id": "m", "owned_by": "vllm", "max_model_len": 400}]})
RENAMED_MODELS = reply({"object": "list", "data": [{"id": "m", "owned_by": "my-team", "max_model_len": 400}]})
LLAMA_MODELS = reply({"models": [{"name": "m", "modified_at": ""}], "data": [{"id": "m", "owned_by": "llamacpp"}]})


@pytest.mark.parametrize(
    ("replies", "kind"),
    [
        ({"/v1/models": VLLM_MODELS, "/version": reply({"version": "0.32.0"})}, Kind.VLLM),
        ({"/v1/models": RENAMED_MODELS, "/version": reply({"version": "0.32.0"})}, Kind.VLLM),
        ({"/v1/models": RENAMED_MODELS}, Kind.OPENAI),
        ({"/v1/models": VLLM_MODELS, "/model_info": reply({"is_generation": True, "model_path": "x"})}, Kind.SGLANG),
        ({"/get_model_info": reply({"is_generation": False}), "/api/version": reply({"version": "1"})}, Kind.SGLANG),
        (
            {"/v1/models": LLAMA_MODELS, "/props": reply({"total_slots": 1, "default_generation_settings": {}})},
            Kind.LLAMACPP,
        ),
        ({"/v1/models": LLAMA_MODELS, "/props": reply({"error": {}}, 401)}, Kind.LLAMACPP),
        ({"/v1/models": LOADING, "/props": LOADING}, Kind.LLAMACPP),
        (
            {"/api/version": reply({"version": "0.32.1"}), "/v1/models": reply({"object": "list", "data": None})},
            Kind.OLLAMA,
        ),
        ({"/v1/models": reply({"data": [{"id": "llama3:8b", "owned_by": "library"}]})}, Kind.OLLAMA),
        (
            {"/info": reply({"model_id": "x", "max_total_tokens": 5}), "/v1/models": reply({"data": [{"id": "x"}]})},
            Kind.TGI,
        ),
        (
            {"/info": reply({"model_id": "x", "max_input_length": 512}), "/v1/models": reply({"data": [{"id": "x"}]})},
            Kind.OPENAI,
        ),  # TEI
        ({"/v1/models": reply({"models": [{"name": "jev", "description": "", "release_date": ""}]})}, Kind.SYSTEMONE),
        ({"/v1/models": reply({"data": [{"id": "gpt-4o"}]})}, Kind.OPENAI),
        ({"/v1/models": reply({"error": "Unauthorized"}, 401)}, None),
        ({"/v1/models": reply(b"<html>")}, None),
        ({"/v1/models": Reply(0, failure="connection refused")}, None),
        ({}, None),
    ],
)
def test_kinds_are_told_apart(replies: dict[str, Reply], kind: Kind | None) -> None:
    assert recognise(replies) == kind


def test_the_questions_are_cheap() -> None:
    """No question starts an inference: all are plain GETs, and SGLang's /health (a generation) is none of them."""
    assert all(question.json is None for question in RECOGNITION)
    assert not {question.path for question in RECOGNITION} & {"/health", "/health_generate", "/server_info"}


def test_a_lesson_holds_models_slots_and_time() -> None:
    props = reply({"total_slots": 4, "default_generation_settings": {"n_ctx": 512}})
    learned = lesson(Kind.LLAMACPP, {"/v1/models": LLAMA_MODELS, "/props": props}, NOW)
    assert (learned.kind, learned.at, learned.slots, learned.failed) == (Kind.LLAMACPP, NOW, 4, "")
    assert [model.id for model in learned.models] == ["m"]


@pytest.mark.parametrize(
    ("kind", "replies", "failed"),
    [
        (Kind.LLAMACPP, {"/v1/models": LOADING, "/props": LOADING}, "loading"),  # B22
        (Kind.VLLM, {"/v1/models": LOADING}, "loading"),
        (Kind.VLLM, {"/v1/models": reply({"error": "Unauthorized"}, 401)}, "401: the key is missing or not accepted"),
        (Kind.VLLM, {"/v1/models": Reply(0, failure="connection refused")}, "connection refused"),
        (Kind.VLLM, {}, "no answer"),
        (Kind.VLLM, {"/v1/models": reply(b"Internal Server Error", 500)}, "does not answer like vllm (500)"),
        (Kind.AUTO, {"/v1/models": reply(b"<html>", 200)}, "does not answer like any known engine (200)"),
    ],
)
def test_a_lesson_that_failed_says_why(kind: Kind, replies: dict[str, Reply], failed: str) -> None:
    """The caller keeps what it knew; "loading" is a state of its own."""
    learned = lesson(kind, replies, NOW)
    assert learned.models == ()
    assert learned.failed == failed
