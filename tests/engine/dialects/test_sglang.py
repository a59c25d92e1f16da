"""SGLang's shapes: flat errors, the slow health path, its own arithmetic, FastAPI's 422 on System One."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.calls import ASKED, CHAT, HELLO, Serve, ask, stream, words
from tests.support.fair import Watch


def test_health_takes_a_second(serve: Serve) -> None:
    """B10: the handler looks once per second; /ready and /ping do not."""
    engine = serve("sglang", key="k")
    health = ask(engine, "/health")
    assert (health.status_code, health.content) == (200, b"")
    assert health.elapsed.total_seconds() >= 1.0
    watch = Watch()
    assert ask(engine, "/ready").status_code == 200
    assert watch.seconds < 0.5


@pytest.mark.parametrize(
    ("prompt", "bound", "status"), [(399, None, 200), (400, None, 400), (300, 100, 200), (300, 101, 400)]
)
def test_its_limit_rule(serve: Serve, prompt: int, bound: int | None, status: int) -> None:
    """Facts 00: prompt and bound may fill the window; a prompt of the whole window may not."""
    body = words(prompt) | ({} if bound is None else {"max_tokens": bound})
    assert ask(serve("sglang", context=400), CHAT, body).status_code == status


def test_errors_are_flat(serve: Serve) -> None:
    """d1: no key "error" on the chat route; the numbers stand in the text."""
    engine = serve("sglang", context=400)
    long = ask(engine, CHAT, words(500)).json()
    assert long == {
        "object": "error",
        "message": "The input (500 tokens) is longer than the model's context length (400 tokens).",
        "type": "BadRequestError",
        "param": None,
        "code": 400,
    }
    both = ask(engine, CHAT, {**words(300), "max_tokens": 200}).json()["message"]
    assert (
        "You requested a total of 500 tokens: 300 tokens from the input messages and 200 tokens for the completion"
        in both
    )
    assert "error" in ask(engine, "/v1/responses", {"model": "m"}).json()


def test_the_model_name_is_ignored_on_chat(serve: Serve) -> None:
    engine = serve("sglang")
    assert ask(engine, CHAT, {**HELLO, "model": "other"}).json()["model"] == "m"
    missing = ask(engine, "/v1/models/other")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")


@pytest.mark.parametrize(
    "change", [{"stream": None}, {"n": None}, {"frequency_penalty": None}, {"messages": []}, {"temperature": "hot"}]
)
def test_what_it_refuses(serve: Serve, change: dict[str, Any]) -> None:
    assert ask(serve("sglang"), CHAT, HELLO | change).status_code == 400


def test_the_content_type_matters(serve: Serve) -> None:
    engine = serve("sglang")
    assert ask(engine, CHAT, method="POST", content=b"{}").status_code == 400
    refused = ask(engine, "/v1/systemone", method="POST", content=b"{}")
    assert (refused.status_code, refused.json()["detail"][0]["loc"]) == (422, ["header", "content-type"])


def test_what_it_tells_of_itself(serve: Serve) -> None:
    """Facts a: the models list has the window; /get_model_info has none; /get_server_info shows the key."""
    engine = serve("sglang", context=400, key="k")
    headers = {"Authorization": "Bearer k"}
    assert ask(engine, "/v1/models", headers=headers).json()["data"][0]["max_model_len"] == 400
    told = ask(engine, "/get_model_info", headers=headers).json()
    assert told["is_generation"] is True
    assert "max_model_len" not in told
    server = ask(engine, "/server_info", headers=headers).json()
    assert (server["version"], server["api_key"], server["context_length"]) == ("0.5.23", "k", None)
    assert ask(engine, "/get_model_info").status_code == 401
    assert ask(engine, "/get_load", headers=headers).json()[0]["num_reqs"] == 0


def test_tokenize_counts_what_usage_counts(serve: Serve) -> None:
    engine = serve("sglang")
    used = ask(engine, CHAT, HELLO).json()["usage"]["prompt_tokens"]
    assert ask(engine, "/v1/tokenize", HELLO).json()["count"] == used
    assert ask(engine, "/tokenize", {"prompt": "a b"}).json()["count"] == 2


def test_stream_and_its_errors(serve: Serve) -> None:
    """Every chunk has a usage field; an error inside a stream is nested, though plain errors are flat."""
    engine = serve("sglang", faults=["error-event=1:times=1"])
    broken = stream(engine)
    error = next(event for event in broken.events if "error" in event)["error"]
    assert (error["object"], error["code"]) == ("error", 500)
    healthy = stream(engine)
    assert all(event["usage"] is None for event in healthy.events[:-1])
    assert healthy.events[-1] == "[DONE]"


@pytest.mark.parametrize(
    ("change", "kind", "loc"),
    [
        ({"model": ...}, "missing", ["body", "model"]),
        ({"state": ...}, "missing", ["body", "state"]),
        ({"questions": {}}, "too_short", ["body", "questions"]),
        ({"questions": {"q": {"instructions": "x"}}}, "union_tag_not_found", ["body", "questions", "q"]),
        ({"questions": {"q": {"type": "Noul"}}}, "union_tag_invalid", ["body", "questions", "q"]),
        ({"questions": {"q": {"type": "noul"}}}, "value_error", ["body", "questions", "q", "noul"]),
        (
            {"questions": {"q": {"type": "noul", "instructions": "x", "choices": []}}},
            "extra_forbidden",
            ["body", "questions", "q", "noul", "choices"],
        ),
    ],
)
def test_decisions_are_refused_with_422(serve: Serve, change: dict[str, Any], kind: str, loc: list[str]) -> None:
    """Facts systemone 3: FastAPI's list, without `input`."""
    body = {key: value for key, value in (ASKED | change).items() if value is not ...}
    answer = ask(serve("sglang"), "/v1/systemone", body)
    assert answer.status_code == 422
    (detail,) = answer.json()["detail"]
    assert (detail["type"], detail["loc"], set(detail)) == (kind, loc, {"type", "loc", "msg"})


def test_decisions_ignore_the_model_name_and_stream(serve: Serve) -> None:
    answer = ask(serve("sglang"), "/v1/systemone", {**ASKED, "model": "other", "stream": True}).json()
    assert answer["model"] == "m"
    assert answer["answers"]["t"]["x_label_mass"] == 1.0
