"""The three ways to ask where a request would go."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from tests.doors.office import Office

BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
SENT = {"backend": "pair", "replica": "pair@one:1", "model": "m", "rung": 0}


def test_door_and_body() -> None:
    shown = Office().post("/admin/explain", {"door": "chat", "body": BODY})
    assert (shown["door"], shown["outcome"]) == ("chat", {"sent_to": SENT})


@pytest.mark.parametrize(
    ("path", "body", "door"),
    [
        ("/admin/explain", BODY, "chat"),
        ("/admin/explain", {"model": "m", "prompt": "hi"}, "completions"),
        ("/admin/explain", {"model": "m", "input": "hi"}, "embeddings"),
        ("/admin/explain?door=responses", {"model": "m", "input": "hi"}, "responses"),
        ("/admin/explain", {"model": "m"}, "chat"),
        ("/admin/explain/v1/chat/completions", BODY, "chat"),
        ("/admin/explain/openai/v1/embeddings", {"model": "m", "input": "hi"}, "embeddings"),
    ],
)
def test_a_request_as_it_is(path: str, body: Any, door: str) -> None:
    """The door is told by the path, by ?door=, or by the body's own keys."""
    assert Office().post(path, body)["door"] == door


def test_a_model_in_the_path_may_hold_an_encoded_slash() -> None:
    """Azure's form."""
    shown = Office().post(
        "/admin/explain/openai/deployments/org%2Fbig/chat/completions", {"messages": BODY["messages"]}
    )
    assert shown["outcome"]["sent_to"]["backend"] == "cloud"


def test_headers_and_encodings_count() -> None:
    office = Office("fallback_chain: [{provider: swarm, model: big}]")
    path, headers = "/admin/explain/v1/chat/completions", {"x-autohedge-no-fallback": "1"}
    assert office.post(path, BODY)["candidates"][-1]["rung"] == 1
    assert office.post(path, BODY, headers)["fallback"] is False
    packed = gzip.compress(json.dumps(BODY).encode())
    assert office.post(path, packed, {"content-encoding": "gzip"})["outcome"] == {"sent_to": SENT}
    assert office.post(path, BODY, {"content-encoding": "identity"})["outcome"] == {"sent_to": SENT}


@pytest.mark.parametrize("body", ["{", "\ud800", '{"model": 5}', "[]"])
def test_what_no_engine_would_get_is_explained(body: str) -> None:
    """As text in the wrapper; the outcome is the refusal."""
    shown = Office().post("/admin/explain", {"door": "chat", "body": body})
    assert shown["outcome"]["status"] == 400


def test_a_broken_body_is_an_outcome_where_the_path_names_the_door() -> None:
    assert Office().post("/admin/explain/v1/chat/completions", b"{")["outcome"]["code"] == "invalid_json"
    assert Office().refused("POST", "/admin/explain", b"{")[:2] == (400, "invalid_json")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/admin/explain?door=chatt", BODY, 400),
        ("/admin/explain", {"door": "x", "body": {}}, 400),
        ("/admin/explain", {"door": 5, "body": {}}, 400),
        ("/admin/explain/v1/nope", BODY, 404),
    ],
)
def test_a_question_that_names_no_door(path: str, body: Any, status: int) -> None:
    assert Office().refused("POST", path, body)[0] == status


def test_nothing_is_sent_or_counted() -> None:
    """The desk's attempter fails the test when it is used."""
    office = Office()
    before = office.desk.tools.meters.dump(())
    office.post("/admin/explain", {"door": "chat", "body": BODY | {"max_tokens": 10**6}})
    assert office.desk.tools.meters.dump(()) == before
