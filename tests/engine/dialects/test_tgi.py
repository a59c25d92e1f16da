"""TGI's shapes: strings with an error_type, 422, 429, /info, and its own generate API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engine.calls import CHAT, HELLO, Serve, ask, dial, listen, request, stream, talk, until, words


def test_info_tells_both_limits(serve: Serve) -> None:
    """Facts a: /info has them, /v1/models has none."""
    engine = serve("tgi", context=400, slots=3)
    told = ask(engine, "/info").json()
    assert (told["max_input_tokens"], told["max_total_tokens"], told["max_concurrent_requests"]) == (399, 400, 3)
    assert "max_model_len" not in ask(engine, "/v1/models").json()["data"][0]
    health = ask(engine, "/health")
    assert (health.status_code, health.content) == (200, b"")


@pytest.mark.parametrize(
    ("prompt", "bound", "status"),
    [(1999, None, 200), (2000, None, 422), (1500, 500, 200), (1500, 501, 422), (976, 99_999, 200), (977, 99_999, 422)],
)
def test_its_limit_rule(serve: Serve, prompt: int, bound: int | None, status: int) -> None:
    """Facts 15: input + min(max_new, 1024) <= max_total."""
    assert ask(serve("tgi", context=2000), CHAT, {**words(prompt), "max_tokens": bound}).status_code == status


def test_errors_are_strings(serve: Serve) -> None:
    engine = serve("tgi", context=400)
    assert ask(engine, CHAT, words(500)).json() == {
        "error": "Input validation error: `inputs` must have less than 399 tokens. Given: 500",
        "error_type": "validation",
    }
    both = ask(engine, CHAT, {**words(300), "max_tokens": 200}).json()["error"]
    assert "must be <= 400. Given: 300 `inputs` tokens and 200 `max_new_tokens`" in both


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"stop": "x"}, "stop"),
        ({"top_p": 1.0}, "`top_p` must be > 0.0 and < 1.0"),
        ({"max_tokens": 5, "max_completion_tokens": 5}, "duplicate field `max_tokens`"),
        ({"messages": ...}, "missing field `messages`"),
    ],
)
def test_what_it_refuses(serve: Serve, change: dict[str, Any], text: str) -> None:
    """Facts e2; the JSON layer below answers in plain text."""
    body = {key: value for key, value in (HELLO | change).items() if value is not ...}
    answer = ask(serve("tgi"), CHAT, body)
    assert (answer.status_code, text in answer.text) == (422, True)


def test_the_model_name_is_ignored_and_truncate_is_obeyed(serve: Serve) -> None:
    assert ask(serve("tgi"), CHAT, {**HELLO, "model": "x"}).json()["model"] == "m"
    assert ask(serve("tgi", context=100), CHAT, {**words(500), "truncate": 50}).status_code == 200


def test_more_than_its_slots_is_429(serve: Serve) -> None:
    """d2: TGI refuses where others queue."""
    engine = serve("tgi", slots=1, latency=0.3)
    with dial(engine) as link:
        link.sendall(request(CHAT, HELLO))
        assert until(lambda: engine.state.running == 1)
        refused = ask(engine, CHAT, HELLO)
        assert (refused.status_code, refused.json()) == (
            429,
            {"error": "Model is overloaded", "error_type": "overloaded"},
        )
        assert listen(link).status == 200


def test_empty_404_405_and_401(serve: Serve) -> None:
    engine = serve("tgi", key="k")
    headers = {"Authorization": "Bearer k"}
    assert (ask(engine, CHAT, HELLO).status_code, ask(engine, CHAT, HELLO).content) == (401, b"")
    assert (ask(engine, "/nope", headers=headers).status_code, ask(engine, "/nope", headers=headers).content) == (
        404,
        b"",
    )
    assert ask(engine, CHAT, headers=headers).status_code == 405


def test_tokenize(serve: Serve) -> None:
    engine = serve("tgi")
    assert [
        (token["text"], token["start"], token["stop"]) for token in ask(engine, "/tokenize", {"inputs": "ab  c"}).json()
    ] == [("ab", 0, 2), ("c", 4, 5)]
    used = ask(engine, CHAT, HELLO).json()["usage"]["prompt_tokens"]
    assert len(ask(engine, "/chat_tokenize", HELLO).json()["tokenize_response"]) == used


def test_generate(serve: Serve) -> None:
    """Its own API: an object on /generate, a list on /, events with tokens on /generate_stream."""
    engine = serve("tgi")
    body = {"inputs": "hi", "parameters": {"max_new_tokens": 2}}
    assert ask(engine, "/generate", body).json() == {"generated_text": "sample answers:"}
    assert ask(engine, "/", body).json() == [{"generated_text": "sample answers:"}]
    heard = talk(engine, request("/generate_stream", body))
    assert heard.body.startswith(b"data:{")
    assert [event["generated_text"] for event in heard.events] == [None, "sample answers:"]
    assert heard.events[-1]["details"]["finish_reason"] == "length"


def test_stream_shape(serve: Serve) -> None:
    heard = stream(serve("tgi"), {**HELLO, "max_tokens": 1, "stream_options": {"include_usage": True}})
    assert heard.events[0]["choices"][0]["delta"] == {"role": "assistant", "content": "sample"}
    assert heard.events[0]["usage"] is None
    assert heard.events[-1] == "[DONE]"
    assert json.dumps(heard.events[-2]["usage"])


def test_loading_and_metrics(serve: Serve) -> None:
    """c: unhealthy is 503 with error_type healthcheck."""
    engine = serve("tgi", faults=["loading-503=1"])
    assert ask(engine, "/health").json() == {"error": "unhealthy", "error_type": "healthcheck"}
    engine.set_faults()
    assert "tgi_queue_size 0" in ask(engine, "/metrics").text
