"""llama.cpp's shapes against what b11549 really answered (facts real_backends 3-4)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.calls import ASKED, CHAT, HELLO, Serve, ask, request, stream, talk, words


def test_health_is_open_and_everything_else_is_closed(serve: Serve) -> None:
    engine = serve("llamacpp", key="k")
    assert ask(engine, "/health").json() == {"status": "ok"}
    for path in ("/v1/models", "/props", "/slots", "/metrics"):
        refused = ask(engine, path)
        assert refused.status_code == 401
        assert refused.json()["error"] == {"code": 401, "message": "Invalid API Key", "type": "authentication_error"}


@pytest.mark.parametrize(("prompt", "status"), [(399, 200), (400, 400)])
@pytest.mark.parametrize("bound", [None, -1, 100_000])
def test_its_limit_rule(serve: Serve, prompt: int, status: int, bound: int | None) -> None:
    """Facts 15: the prompt must be under the window; max_tokens is never refused."""
    assert ask(serve("llamacpp", context=400), CHAT, {**words(prompt), "max_tokens": bound}).status_code == status


def test_too_long_tells_both_numbers(serve: Serve) -> None:
    """Measured: n_prompt_tokens and n_ctx, and the connection is closed."""
    heard = talk(serve("llamacpp", context=400), request(CHAT, {**words(621), "stream": True}))
    assert heard.json["error"] == {
        "code": 400,
        "message": "request (621 tokens) exceeds the available context size (400 tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 621,
        "n_ctx": 400,
    }
    assert heard.end == "closed"


def test_the_model_name_is_ignored(serve: Serve) -> None:
    assert ask(serve("llamacpp"), CHAT, {**HELLO, "model": 7}).json()["model"] == "m"


def test_window_is_told_per_slot(serve: Serve) -> None:
    """Facts a: /props n_ctx, /v1/models meta.n_ctx, with Ollama's list before OpenAI's."""
    engine = serve("llamacpp", context=400, slots=3)
    props = ask(engine, "/props").json()
    assert (props["default_generation_settings"]["n_ctx"], props["total_slots"]) == (400, 3)
    models = ask(engine, "/v1/models").json()
    assert list(models) == ["models", "object", "data"]
    assert (models["data"][0]["meta"]["n_ctx"], models["data"][0]["owned_by"]) == (400, "llamacpp")
    assert [slot["is_processing"] for slot in ask(engine, "/slots").json()] == [False] * 3


@pytest.mark.parametrize("path", ["/nope", CHAT])
def test_wrong_path_and_wrong_method_are_the_same_404(serve: Serve, path: str) -> None:
    answer = ask(serve("llamacpp"), path)
    assert (answer.status_code, answer.json()["error"]["message"]) == (404, "File Not Found")


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({"messages": None}, 400, "'messages' is required"),
        ({"temperature": "0.5"}, 400, "type must be number, but is string"),
        ({"tool_choice": "banana"}, 400, "Invalid tool_choice: banana"),
        ({"stream": "true"}, 400, "stream"),
        ({"n": 9}, 400, "slots"),
        ({"top_logprobs": 3}, 400, "logprobs"),
        ({"messages": [{"role": 7, "content": "a"}]}, 500, "server_error"),
        ({"tools": {"a": 1}}, 500, "server_error"),
    ],
)
def test_what_it_refuses(serve: Serve, change: dict[str, Any], status: int, text: str) -> None:
    """Facts 00: some of the client's mistakes are dressed as 500."""
    answer = ask(serve("llamacpp"), CHAT, HELLO | change)
    assert answer.status_code == status
    assert text in answer.text


@pytest.mark.parametrize(
    "change", [{"temperature": -1}, {"max_tokens": 1.5}, {"messages": []}, {"stop": 7}, {"model": None}]
)
def test_what_it_alone_serves(serve: Serve, change: dict[str, Any]) -> None:
    assert ask(serve("llamacpp"), CHAT, HELLO | change).status_code == 200


def test_compressed_bodies_are_415(serve: Serve) -> None:
    assert ask(serve("llamacpp"), CHAT, HELLO, headers={"Content-Encoding": "gzip"}).status_code == 415


def test_a_long_embedding_is_a_500(serve: Serve) -> None:
    """Measured: the client's fault dressed as 5xx; it must not open a breaker."""
    engine = serve("llamacpp", context=4096)
    assert ask(engine, "/v1/embeddings", {"input": "a " * 512}).status_code == 200
    answer = ask(engine, "/v1/embeddings", {"input": "a " * 602})
    assert answer.status_code == 500
    assert answer.json()["error"]["message"].startswith("input (602 tokens) is too large to process.")


def test_counts_agree(serve: Serve) -> None:
    """Facts b: input_tokens of a chat, of responses and of messages; /tokenize of plain text."""
    engine = serve("llamacpp")
    used = ask(engine, CHAT, HELLO).json()["usage"]["prompt_tokens"]
    counted = ask(engine, f"{CHAT}/input_tokens", HELLO).json()
    assert counted == {"input_tokens": used, "object": "response.input_tokens"}
    assert ask(engine, "/v1/messages/count_tokens", HELLO).json() == {"input_tokens": used}
    assert len(ask(engine, "/tokenize", {"content": "a b c"}).json()["tokens"]) == 3
    assert "hello there" in ask(engine, "/apply-template", HELLO).json()["prompt"]


def test_stream_shape(serve: Serve) -> None:
    """Choices first, null content in the role chunk, an empty delta with finish_reason, timings in the usage chunk."""
    heard = stream(serve("llamacpp"), {**HELLO, "stream_options": {"include_usage": True}})
    first, *_, last, usage, done = heard.events
    assert next(iter(first)) == "choices"
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": None}
    assert (last["choices"][0]["delta"], last["choices"][0]["finish_reason"]) == ({}, "stop")
    assert ("timings" in usage, usage["choices"], done) == (True, [], "[DONE]")
    assert b"server: llama.cpp" in heard.head


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"state": ...}, '\\"state\\" must be provided'),
        ({"questions": {"a": {"type": "banana"}}}, 'questions.a: \\"type\\" must be one of: choice, score, noul'),
        (
            {"questions": {"a": {"type": "score", "criteria": ["x"]}}},
            'questions.a: \\"criteria\\" must be an array of 2 to 10 levels',
        ),
        ({"questions": {"a": {"type": "choice", "criteria": dict.fromkeys(map(str, range(64)))}}}, "at most 52"),
        ({"questions": {"a": {"type": "noul"}}}, "must have criteria or instructions"),
    ],
)
def test_decisions_are_refused_with_400(serve: Serve, change: dict[str, Any], text: str) -> None:
    body = {key: value for key, value in (ASKED | change).items() if value is not ...}
    answer = ask(serve("llamacpp"), "/v1/systemone", body)
    assert answer.status_code == 400
    assert text in answer.text


def test_decisions_take_unknown_keys_and_models(serve: Serve) -> None:
    question = {"type": "noul", "instructions": "x", "odd": 1}
    answer = ask(serve("llamacpp"), "/v1/systemone", {"state": None, "model": "x", "questions": {"q": question}})
    assert set(answer.json()["answers"]["q"]) == {"type", "noul"}
