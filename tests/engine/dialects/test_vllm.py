"""vLLM's shapes against what vLLM 0.32.0 really answered (facts real_backends 3)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.calls import ASKED, CHAT, HELLO, Serve, ask, stream, words


def test_health_is_empty_and_open(serve: Serve) -> None:
    """Facts c: 200 with no body; only /v1 asks for the key, and its 401 is a string."""
    engine = serve("vllm", key="k")
    health = ask(engine, "/health")
    assert (health.status_code, health.content) == (200, b"")
    refused = ask(engine, CHAT, HELLO)
    assert (refused.status_code, refused.json()) == (401, {"error": "Unauthorized"})
    assert ask(engine, "/tokenize", {"prompt": "a"}).status_code == 200
    assert ask(engine, CHAT, HELLO, headers={"Authorization": "bearer k"}).status_code == 200


def test_models_tell_the_window(serve: Serve) -> None:
    (card,) = ask(serve("vllm", context=400), "/v1/models").json()["data"]
    assert (card["id"], card["owned_by"], card["max_model_len"], card["parent"]) == ("m", "vllm", 400, None)


@pytest.mark.parametrize(
    ("prompt", "bound", "status"), [(399, None, 200), (400, None, 400), (399, 400, 200), (50, 400, 200), (50, 401, 400)]
)
def test_its_limit_rule(serve: Serve, prompt: int, bound: int | None, status: int) -> None:
    """Facts 00: the sum is not checked; a prompt of the window or more and a bound over it are refused."""
    body = words(prompt) | ({} if bound is None else {"max_tokens": bound})
    assert ask(serve("vllm", context=400), CHAT, body).status_code == status


def test_a_bound_that_does_not_fit_is_cut(serve: Serve) -> None:
    answer = ask(serve("vllm", context=400), CHAT, {**words(398), "max_tokens": 400}).json()
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"] == {"prompt_tokens": 398, "total_tokens": 400, "completion_tokens": 2}


@pytest.mark.parametrize("streams", [False, True])
def test_too_long_stops_counting(serve: Serve, streams: bool) -> None:
    """The text says "at least 401" whatever the length, and a stream gets the same JSON."""
    answer = ask(serve("vllm", context=400), CHAT, {**words(621), "stream": streams})
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"], error["code"]) == (
        400,
        "BadRequestError",
        "input_tokens",
        400,
    )
    assert (
        "maximum context length is 400 tokens. However, your prompt contains at least 401 input tokens"
        in error["message"]
    )


def test_max_tokens_over_the_window(serve: Serve) -> None:
    error = ask(serve("vllm", context=400), CHAT, {**HELLO, "max_tokens": 100000}).json()["error"]
    assert error["message"].startswith("max_tokens=100000 cannot be greater than max_model_len=400.")
    assert error["param"] == "max_tokens"


def test_max_completion_tokens_comes_first(serve: Serve) -> None:
    answer = ask(serve("vllm"), CHAT, {**HELLO, "max_tokens": 9, "max_completion_tokens": 2}).json()
    assert answer["usage"]["completion_tokens"] == 2


def test_truncation_is_obeyed(serve: Serve) -> None:
    """T5: who asks for truncation is never too long."""
    assert ask(serve("vllm", context=400), CHAT, {**words(900), "truncate_prompt_tokens": -1}).status_code == 200


def test_unknown_model(serve: Serve) -> None:
    answer = ask(serve("vllm"), CHAT, {**HELLO, "model": "nope"})
    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == "The model `nope` does not exist. Valid aliases: m."
    assert answer.json()["error"]["type"] == "NotFoundError"
    assert ask(serve("vllm"), CHAT, {**HELLO, "model": None}).status_code == 200


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"messages": None}, "body.messages"),
        ({"temperature": "hot"}, "body.temperature"),
        ({"tool_choice": "banana"}, "tool_choice"),
        ({"tools": []}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"temperature": 2.5}, "temperature"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"messages": [{"role": "user", "content": ["a"]}]}, "body.messages.0.content.0"),
        ({"messages": [{"role": 7, "content": "a"}]}, "body.messages.0.role"),
    ],
)
def test_what_it_refuses(serve: Serve, change: dict[str, Any], param: str) -> None:
    answer = ask(serve("vllm"), CHAT, HELLO | change)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize(
    "change", [{"temperature": None}, {"unknown": 1}, {"n": None}, {"logit_bias": {"1": 101}}, {"max_tokens": "5"}]
)
def test_what_it_serves(serve: Serve, change: dict[str, Any]) -> None:
    """Facts 00: a proxy that refuses these refuses work that the engine would have done."""
    assert ask(serve("vllm"), CHAT, HELLO | change).status_code == 200


def test_bad_json_names_the_place(serve: Serve) -> None:
    answer = ask(serve("vllm"), CHAT, method="POST", content=b'{"model":}')
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "body.9")


def test_paths_and_methods(serve: Serve) -> None:
    engine = serve("vllm")
    assert ask(engine, "/nope").json() == {"detail": "Not Found"}
    assert ask(engine, "/v1/models/").status_code == 404
    wrong = ask(engine, CHAT)
    assert (wrong.status_code, wrong.json(), wrong.headers["allow"]) == (405, {"detail": "Method Not Allowed"}, "POST")
    assert ask(engine, "/v1/models/m").json()["id"] == "m"
    assert ask(engine, "/version").json() == {"version": "0.32.0"}


def test_tokenize_counts_what_usage_counts(serve: Serve) -> None:
    """Facts b: the chat form is the exact count, templates and tools included."""
    engine = serve("vllm", context=400)
    tools = [{"type": "function", "function": {"name": "f", "description": "two words"}}]
    told = ask(engine, "/tokenize", {**HELLO, "tools": tools}).json()
    used = ask(engine, CHAT, {**HELLO, "tools": tools}).json()["usage"]["prompt_tokens"]
    assert (told["count"], told["max_model_len"], len(told["tokens"]), told["token_strs"]) == (used, 400, used, None)
    assert ask(engine, "/tokenize", {"prompt": "a b  c"}).json()["count"] == 3


def test_stream_shape(serve: Serve) -> None:
    """Role chunk with "", finish_reason in the last text chunk, usage chunk without choices, [DONE]."""
    heard = stream(serve("vllm"), {**HELLO, "max_tokens": 2, "stream_options": {"include_usage": True}})
    first, *texts, usage, done = heard.events
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [text["choices"][0]["finish_reason"] for text in texts] == [None, "length"]
    assert (usage["choices"], usage["usage"]["completion_tokens"], done) == ([], 2, "[DONE]")
    assert b"content-type: text/event-stream; charset=utf-8" in heard.head


def test_forced_tools(serve: Serve) -> None:
    """required ends with tool_calls, a named tool with stop; a name that does not exist is refused."""
    engine = serve("vllm")
    tools = [{"type": "function", "function": {"name": "f"}}]
    required = ask(engine, CHAT, {**HELLO, "tools": tools, "tool_choice": "required"}).json()["choices"][0]
    assert (required["finish_reason"], required["message"]["tool_calls"][0]["function"]["name"]) == ("tool_calls", "f")
    named = {"type": "function", "function": {"name": "f"}}
    assert (
        ask(engine, CHAT, {**HELLO, "tools": tools, "tool_choice": named}).json()["choices"][0]["finish_reason"]
        == "stop"
    )
    other = {"type": "function", "function": {"name": "g"}}
    assert "does not match any" in ask(engine, CHAT, {**HELLO, "tools": tools, "tool_choice": other}).text


def test_decisions(serve: Serve) -> None:
    """real_backends 4: extra fields, 400s, 404 for an unknown model."""
    engine = serve("vllm")
    answer = ask(engine, "/v1/systemone", {**ASKED, "model": None}).json()
    assert (answer["object"], answer["diagnostics"]["argmax_is_label"]) == ("structured_decision", True)
    assert set(answer["answers"]["b"]) == {"type", "noul", "probabilities", "confidence"}
    assert ask(engine, "/v1/systemone", {**ASKED, "model": "nope"}).status_code == 404
    missing = ask(engine, "/v1/systemone", {"questions": ASKED["questions"]})
    assert (missing.status_code, missing.json()["error"]["param"]) == (400, "body.state")
    banana = ask(engine, "/v1/systemone", {"state": "a", "questions": {"q": {"type": "banana"}}})
    assert "unknown question type 'banana'" in banana.json()["error"]["message"]


def test_metrics_show_running_and_waiting(serve: Serve) -> None:
    told = ask(serve("vllm"), "/metrics").text
    assert 'vllm:num_requests_running{engine="0",model_name="m"} 0' in told
    assert "vllm:num_requests_waiting" in told
    assert ask(serve("vllm"), "/load").json() == {"server_load": 0}
