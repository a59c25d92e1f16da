"""A hosted System One server: three shapes of `detail`, two of 40x (facts systemone 3)."""

from __future__ import annotations

import json
from typing import Any

import pytest
import zstandard

from tests.engine.calls import ASKED, CHAT, HELLO, Serve, ask, words

PATH = "/v1/systemone"


def test_answer(serve: Serve) -> None:
    """Section 2: model, answers, usage; a request id as a header; jev-latest is an alias."""
    answer = ask(serve("systemone"), PATH, {**ASKED, "model": "jev-latest"})
    told = answer.json()
    assert list(told) == ["model", "answers", "usage"]
    assert told["model"] == "m"
    assert set(told["answers"]["b"]) == {"type", "noul"}
    assert answer.headers["x-typesafe-request-id"]


@pytest.mark.parametrize(
    ("change", "status", "detail"),
    [
        ({"model": ...}, 422, [{"type": "missing", "loc": ["body", "model"], "msg": "Field required"}]),
        ({"model": "x"}, 400, {"error_type": "api_usage_error", "message": "Unknown model: x"}),
        ({"questions": {"q": {"type": "box"}}}, 400, {"error_type": "api_usage_error", "message": "Invalid request."}),
        ({"questions": {"q": {"type": "noul"}}}, 400, "Noul question must have criteria or instructions: q"),
        (
            {"questions": {"q": {"type": "choice", "criteria": dict.fromkeys(map(str, range(256)))}}},
            400,
            "Too many choices. Must have at most 255 choices.",
        ),
        (
            {"questions": {"q": {"type": "score", "criteria": ["x"] * 11}}},
            400,
            "Too many score levels. Must have at most 10 levels.",
        ),
        ({"state": "a " * 5000}, 400, {"error_type": "max_tokens_exceeded"}),
    ],
)
def test_refusals(serve: Serve, change: dict[str, Any], status: int, detail: Any) -> None:
    body = {key: value for key, value in (ASKED | change).items() if value is not ...}
    answer = ask(serve("systemone"), PATH, body)
    assert (answer.status_code, answer.json()["detail"]) == (status, detail)


def test_bad_json_and_wrong_shape(serve: Serve) -> None:
    engine = serve("systemone")
    bad = ask(engine, PATH, method="POST", content=b'{"model":')
    assert (bad.status_code, bad.json()["detail"][0]["type"]) == (422, "json_invalid")
    assert ask(engine, PATH, method="POST", content=b"[]").status_code == 422


def test_no_key_is_403_and_a_wrong_one_401(serve: Serve) -> None:
    engine = serve("systemone", key="k")
    assert ask(engine, PATH, ASKED).status_code == 403
    assert ask(engine, PATH, ASKED, headers={"Authorization": "Bearer x"}).status_code == 401
    assert ask(engine, PATH, ASKED, headers={"Authorization": "Bearer k"}).status_code == 200


def test_models_in_both_shapes(serve: Serve) -> None:
    """Fact 7: typesafe-sdk needs `models`, OpenAI clients `data`."""
    told = ask(serve("systemone", context=100), "/v1/models").json()
    assert told["models"][0]["name"] == told["data"][0]["id"] == "m"
    assert told["data"][0]["max_model_len"] == 100


def test_health_paths(serve: Serve) -> None:
    engine = serve("systemone")
    assert ask(engine, "/health").json()["status"] == "ok"
    assert ask(engine, "/health_generate").status_code == 200


def test_zstd_bodies_are_read(serve: Serve) -> None:
    """Fact 6: typesafe-sdk compresses bodies of 1024 bytes and more."""
    packed = zstandard.ZstdCompressor().compress(json.dumps(ASKED).encode())
    assert (
        ask(serve("systemone"), PATH, method="POST", content=packed, headers={"Content-Encoding": "zstd"}).status_code
        == 200
    )
    assert (
        ask(serve("systemone"), PATH, method="POST", content=b"no", headers={"Content-Encoding": "zstd"}).status_code
        == 422
    )


def test_it_does_nothing_else(serve: Serve) -> None:
    engine = serve("systemone")
    assert ask(engine, CHAT, HELLO).status_code == 404
    assert ask(engine, CHAT, words(10)).json() == {"detail": "Not Found"}
