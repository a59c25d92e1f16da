"""OpenAI-compatible providers, Azure, Anthropic's API and bge-m3-embedding-server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.calls import CHAT, HELLO, Serve, ask, request, stream, talk, words

AZURE = "/openai/deployments/m/chat/completions?api-version=2026-01-01"


@pytest.mark.parametrize(
    ("prompt", "bound", "status"), [(400, None, 200), (401, None, 400), (300, 100, 200), (300, 101, 400)]
)
def test_its_limit_rule(serve: Serve, prompt: int, bound: int | None, status: int) -> None:
    body = words(prompt) | ({} if bound is None else {"max_tokens": bound})
    assert ask(serve("openai-compatible", context=400), CHAT, body).status_code == status


def test_context_error(serve: Serve) -> None:
    """d2: code context_length_exceeded, param messages, all numbers in the text."""
    error = ask(serve("openai-compatible", context=400), CHAT, {**words(300), "max_tokens": 200}).json()["error"]
    assert (error["code"], error["param"], error["type"]) == (
        "context_length_exceeded",
        "messages",
        "invalid_request_error",
    )
    assert (
        "maximum context length is 400 tokens. However, you requested 500 tokens (300 in the messages, 200 in the completion)"
        in error["message"]
    )


def test_errors(serve: Serve) -> None:
    """d1: all four fields; 404 model_not_found, 401 invalid_api_key, unknown URL, missing model."""
    engine = serve("openai-compatible", key="k")
    refused = ask(engine, CHAT, HELLO)
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
    headers = {"Authorization": "Bearer k"}
    unknown = ask(engine, CHAT, {**HELLO, "model": "nope"}, headers=headers)
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
    assert ask(engine, "/v1/nope", headers=headers).json()["error"]["message"] == "Invalid URL (GET /v1/nope)"
    assert ask(engine, CHAT, headers=headers).status_code == 405
    assert (
        ask(engine, CHAT, {"messages": []}, headers=headers).json()["error"]["message"]
        == "you must provide a model parameter"
    )
    assert ask(engine, "/v1/models/org%2Fname", headers=headers).status_code == 404


@pytest.mark.parametrize(
    "change",
    [{"messages": "x"}, {"temperature": "hot"}, {"encoding_format": "hex"}, {"response_format": {"type": "x"}}],
)
def test_what_everyone_refuses(serve: Serve, change: dict[str, Any]) -> None:
    answer = ask(serve("openai-compatible"), CHAT, HELLO | change)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_type")


def test_health_is_bge_m3s(serve: Serve) -> None:
    """Seed 001 reads status, workers.live and queue_depth."""
    told = ask(serve("openai-compatible", slots=2), "/health").json()
    assert (told["status"], told["workers"], told["queue_depth"]) == ("ok", {"live": 2, "total": 2}, 0)


@pytest.mark.parametrize("path", ["/v1/embeddings:both", "/v1/embeddings%3Aboth", "/v1/embeddings%3aboth"])
def test_both_with_and_without_the_colon_encoded(serve: Serve, path: str) -> None:
    (item,) = ask(serve("openai-compatible"), path, {"input": "a b"}).json()["data"]
    assert set(item) == {"index", "embedding", "sparse_values"}


def test_messages_api(serve: Serve) -> None:
    """Anthropic: x-api-key, max_tokens needed, its own errors and counts."""
    engine = serve("openai-compatible", context=50, key="k")
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    whole = ask(engine, "/v1/messages", {**HELLO, "max_tokens": 2}, headers=headers).json()
    assert (whole["content"], whole["stop_reason"]) == ([{"type": "text", "text": "sample answers:"}], "max_tokens")
    assert ask(engine, "/v1/messages/count_tokens", {**HELLO, "max_tokens": 1}, headers=headers).json() == {
        "input_tokens": 7
    }
    missing = ask(engine, "/v1/messages", HELLO, headers=headers).json()
    assert (missing["type"], missing["error"]["type"]) == ("error", "invalid_request_error")
    long = ask(engine, "/v1/messages", {**words(60), "max_tokens": 1}, headers=headers).json()
    assert long["error"]["message"] == "prompt is too long: 60 tokens > 50 maximum"
    assert ask(engine, "/v1/messages", HELLO).json()["error"]["type"] == "authentication_error"


def test_an_error_event_per_api(serve: Serve) -> None:
    """d4: `event: error` on messages and responses, plain data on chat."""
    engine = serve("openai-compatible", faults=["error-event-cut=1"])
    message = talk(engine, request("/v1/messages", {**HELLO, "max_tokens": 9, "stream": True}))
    assert b"event: error\ndata: " in message.body
    assert message.events[-1]["type"] == "error"
    reply = talk(engine, request("/v1/responses", {"model": "m", "input": "hi", "stream": True}))
    assert reply.events[-1]["type"] == "error"
    assert stream(engine).events[-1]["error"]["message"]


def test_stream_shape(serve: Serve) -> None:
    heard = stream(serve("openai-compatible"), {**HELLO, "max_tokens": 1})
    assert [event["choices"][0]["finish_reason"] for event in heard.events[:-1]] == [None, None, "length"]


def test_azure(serve: Serve) -> None:
    """Facts 00b: deployment in the path, api-key, model null; no api-version is 404; the first chunk has no choices."""
    engine = serve("azure", key="k")
    refused = ask(engine, AZURE, HELLO, headers={"Authorization": "Bearer k"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "401")
    headers = {"api-key": "k"}
    assert ask(engine, AZURE, {**HELLO, "model": None}, headers=headers).status_code == 200
    assert ask(engine, AZURE.partition("?")[0], HELLO, headers=headers).json() == {
        "error": {"code": "404", "message": "Resource not found"}
    }
    missing = ask(engine, AZURE.replace("/m/", "/other/"), HELLO, headers=headers)
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "DeploymentNotFound")
    first = talk(engine, request(AZURE, {**HELLO, "stream": True}, headers=headers)).events[0]
    assert (first["choices"], "prompt_filter_results" in first) == ([], True)
    assert ask(engine, CHAT, HELLO, headers=headers).status_code == 404


def test_azure_v1_names_the_deployment_in_the_body(serve: Serve) -> None:
    engine = serve("azure")
    assert ask(engine, "/openai/v1/chat/completions", HELLO).status_code == 200
    assert (
        ask(engine, "/openai/v1/chat/completions", {**HELLO, "model": "x"}).json()["error"]["code"]
        == "DeploymentNotFound"
    )
    assert ask(engine, "/openai/v1/models").json()["data"][0]["id"] == "m"
    assert ask(engine, "/openai/deployments/m/embeddings?api-version=1", {"input": "a"}).status_code == 200
