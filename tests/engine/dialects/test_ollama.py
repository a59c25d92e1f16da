"""Ollama's shapes: two APIs, silent truncation, a window that only /api/ps tells."""

from __future__ import annotations

import json
from typing import Any

import pytest
import zstandard

from tests.engine.calls import ASKED, CHAT, HELLO, Serve, ask, request, stream, talk, words


def test_health_is_a_sentence(serve: Serve) -> None:
    engine = serve("ollama")
    assert ask(engine, "/").text == "Ollama is running"
    assert ask(engine, "/api/version").json() == {"version": "0.32.1"}
    assert ask(engine, "/health").text == "404 page not found"


def test_the_window_stands_in_ps_and_not_in_show(serve: Serve) -> None:
    """Facts 16: /api/ps is the allocated window, /api/show the trained one, /v1/models neither."""
    engine = serve("ollama", context=4096)
    assert ask(engine, "/api/ps").json()["models"][0]["context_length"] == 4096
    shown = ask(engine, "/api/show", {"model": "m"}).json()
    assert shown["model_info"]["sample.context_length"] == 40960
    assert "completion" in shown["capabilities"]
    assert set(ask(engine, "/v1/models").json()["data"][0]) == {"id", "object", "created", "owned_by"}
    assert ask(engine, "/api/tags").json()["models"][0]["name"] == "m"


@pytest.mark.parametrize(("path", "shape"), [(CHAT, dict), ("/api/chat", str), ("/api/show", str)])
def test_unknown_model_in_both_shapes(serve: Serve, path: str, shape: type) -> None:
    answer = ask(serve("ollama"), path, {**HELLO, "model": "nope"})
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert isinstance(error, shape)
    assert "model 'nope' not found" in str(error)
    if isinstance(error, dict):
        assert error == {"message": "model 'nope' not found", "type": "not_found_error", "param": None, "code": None}


def test_names_may_carry_latest(serve: Serve) -> None:
    assert ask(serve("ollama"), CHAT, {**HELLO, "model": "m:latest"}).json()["model"] == "m:latest"


def test_a_long_prompt_is_truncated_in_silence(serve: Serve) -> None:
    """B46: 200, and usage never passes the window."""
    answer = ask(serve("ollama", context=400), CHAT, words(900))
    assert answer.status_code == 200
    assert answer.json()["usage"]["total_tokens"] <= 400


def test_v1_knows_only_max_tokens(serve: Serve) -> None:
    """Facts 16: max_completion_tokens, n, tool_choice and num_ctx are not read there."""
    engine = serve("ollama")
    assert ask(engine, CHAT, {**HELLO, "max_completion_tokens": 2}).json()["usage"]["completion_tokens"] == 14
    assert ask(engine, CHAT, {**HELLO, "max_tokens": 2}).json()["usage"]["completion_tokens"] == 2
    tools = [{"type": "function", "function": {"name": "f"}}]
    answer = ask(engine, CHAT, {**HELLO, "n": 3, "tools": tools, "tool_choice": "required"}).json()
    assert len(answer["choices"]) == 1
    assert "tool_calls" not in answer["choices"][0]["message"]


def test_native_options_are_read_on_api(serve: Serve) -> None:
    answer = ask(
        serve("ollama"), "/api/chat", {**HELLO, "stream": False, "options": {"num_predict": 2, "num_ctx": 8}}
    ).json()
    assert (answer["message"]["content"], answer["done_reason"], answer["eval_count"]) == ("sample", "length", 1)


@pytest.mark.parametrize(("path", "key"), [("/api/chat", "message"), ("/api/generate", "response")])
def test_native_streams_are_ndjson_by_default(serve: Serve, path: str, key: str) -> None:
    heard = talk(serve("ollama"), request(path, {**HELLO, "prompt": "hi"}))
    lines = [json.loads(line) for line in heard.body.splitlines()]
    assert b"application/x-ndjson" in heard.head
    assert [line["done"] for line in lines] == [False] * 14 + [True]
    assert all(key in line for line in lines)
    assert lines[-1]["done_reason"] == "stop"


def test_embeddings(serve: Serve) -> None:
    """No token arrays; too long is truncated unless told not to."""
    engine = serve("ollama", context=10)
    assert (
        ask(engine, "/v1/embeddings", {"model": "m", "input": [1, 2]}).json()["error"]["message"]
        == "invalid input type"
    )
    assert ask(engine, "/v1/embeddings", {"model": "m", "input": "a " * 20}).status_code == 200
    refused = ask(engine, "/api/embed", {"model": "m", "input": "a " * 20, "truncate": False})
    assert (refused.status_code, refused.json()) == (400, {"error": "the input length exceeds the context length"})
    assert len(ask(engine, "/api/embed", {"model": "m", "input": ["a", "b"]}).json()["embeddings"]) == 2


def test_stream_shape(serve: Serve) -> None:
    """The role in every chunk, no chunk of its own for it."""
    heard = stream(serve("ollama"), {**HELLO, "max_tokens": 2})
    deltas = [event["choices"][0]["delta"] for event in heard.events[:-1]]
    assert deltas == [{"role": "assistant", "content": text} for text in ("sample", " answers:", "")]
    assert heard.events[-1] == "[DONE]"


def test_messages_have_anthropics_errors(serve: Serve) -> None:
    answer = ask(serve("ollama", faults=["B28"]), "/v1/messages", {**HELLO, "max_tokens": 5}).json()
    assert (answer["type"], answer["error"]["type"]) == ("error", "overloaded_error")


def test_zstd_bodies_are_read(serve: Serve) -> None:
    packed = zstandard.ZstdCompressor().compress(json.dumps(HELLO).encode())
    engine = serve("ollama")
    answer = ask(engine, CHAT, method="POST", content=packed, headers={"Content-Encoding": "zstd"})
    assert answer.status_code == 200
    assert engine.last_request is not None
    assert engine.last_request.body == packed


@pytest.mark.parametrize(
    ("content", "text"), [(b"{", "unexpected EOF"), (b"{x", "invalid character"), (b"[]", "cannot unmarshal array")]
)
def test_bad_json(serve: Serve, content: bytes, text: str) -> None:
    answer = ask(serve("ollama"), CHAT, method="POST", content=content)
    assert (answer.status_code, text in answer.json()["error"]["message"]) == (400, True)


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({"model": ...}, 400, "model is required"),
        ({"state": 7}, 400, "state: must be a string, object, or array"),
        ({"questions": {}}, 400, "questions"),
        ({"state": "a" * 70_000}, 413, "too large"),
        (
            {"questions": {"q": {"type": "choice", "criteria": {"one": None}}}},
            400,
            "criteria must contain 2-26 candidates",
        ),
    ],
)
def test_decisions_are_refused_with_a_string(serve: Serve, change: dict[str, Any], status: int, text: str) -> None:
    """Facts systemone 3."""
    body = {key: value for key, value in (ASKED | change).items() if value is not ...}
    answer = ask(serve("ollama"), "/v1/systemone", body)
    assert answer.status_code == status
    assert text in answer.json()["error"]


def test_methods_and_key(serve: Serve) -> None:
    engine = serve("ollama", key="k")
    assert ask(engine, "/api/tags").status_code == 401
    headers = {"Authorization": "Bearer k"}
    assert ask(engine, CHAT, headers=headers).status_code == 405
