"""The OpenAI SDK, unmodified, against AutoHedge in front of real llama.cpp servers (issue acceptance 2)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from tests.e2e.conftest import House

pytestmark = pytest.mark.real
HELLO: list[Any] = [{"role": "user", "content": "hello"}]


@pytest.fixture
def client(house: House) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{house.edge.url}/v1", api_key="anything", max_retries=0) as made:
        yield made


def test_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=8)
    assert answer.choices[0].message.content
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8


def test_stream(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="tiny", messages=HELLO, max_tokens=8, stream=True, stream_options={"include_usage": True}
        )
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert chunks[-1].usage is not None


def test_completions(client: openai.OpenAI) -> None:
    assert client.completions.create(model="tiny", prompt="hello", max_tokens=4).choices[0].text


def test_embeddings_as_the_sdk_asks_for_them(client: openai.OpenAI) -> None:
    """openai-python asks for base64 by default and decodes it."""
    answer = client.embeddings.create(model="vectors", input=["hello", "world"])
    assert [len(one.embedding) for one in answer.data] == [64, 64]


def test_models(client: openai.OpenAI) -> None:
    """The union of what is served, with each window as the engine told it."""
    listed = {model.id: model for model in client.models.list()}
    assert {"tiny", "vectors", "gpt-4o-mini"} <= set(listed)
    assert listed["tiny"].max_model_len == 400  # type: ignore[attr-defined]
    assert client.models.retrieve("tiny").id == "tiny"


def test_an_alias_reaches_the_same_engine(client: openai.OpenAI) -> None:
    """The name is rewritten on the way in; the answer keeps the engine's own."""
    assert client.chat.completions.create(model="gpt-4o-mini", messages=HELLO, max_tokens=2).model == "tiny"


def test_context_overflow_is_refused_before_the_engine(client: openai.OpenAI, house: House) -> None:
    """The engine's own count decides; the message names the window and where it was learned."""
    with pytest.raises(openai.BadRequestError) as raised:
        client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "ba " * 600}])
    error = raised.value.body
    assert isinstance(error, dict)
    assert error["code"] == "context_length_exceeded"
    assert "400" in error["message"]
    assert "read from" in error["message"]
    assert "tiny" in error["message"]
    assert raised.value.response.headers.get("x-autohedge-backend") is None  # nobody was asked


def test_unknown_model_names_the_nearest(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as raised:
        client.chat.completions.create(model="tinny", messages=HELLO)
    assert isinstance(raised.value.body, dict)
    assert raised.value.body["code"] == "model_not_found"
    assert "did you mean tiny" in raised.value.body["message"]


def test_a_wrong_key_is_the_engine_s_own_answer(client: openai.OpenAI) -> None:
    """The client's Authorization reaches an engine of ours that has no key configured; its 401 is the client's."""
    with pytest.raises(openai.AuthenticationError) as raised:
        client.chat.completions.create(model="locked", messages=HELLO)
    assert "Invalid API Key" in str(raised.value)


def test_the_backend_s_own_key_replaces_the_client_s(client: openai.OpenAI) -> None:
    assert client.chat.completions.create(model="opened", messages=HELLO, max_tokens=2).choices


@pytest.mark.parametrize("value", ["Bearer", "Basic abc", "sk-123", "Bearer a b"])
def test_a_malformed_token_is_a_401(house: House, value: str) -> None:
    """Article 5.1: "Invalid Bearer token format"."""
    answer = httpx.post(
        f"{house.edge.url}/v1/chat/completions",
        json={"model": "tiny", "messages": HELLO},
        headers={"authorization": value},
    )
    assert answer.status_code == 401
    assert "Invalid Bearer token format" in answer.json()["error"]["message"]


@pytest.mark.parametrize("value", ["bearer sk-1", "BEARER sk-1", "Bearer   sk-1"])
def test_the_scheme_is_read_leniently(house: House, value: str) -> None:
    """RFC 9110: case does not matter; facts e7.17: neither do more spaces."""
    answer = httpx.post(
        f"{house.edge.url}/v1/chat/completions",
        json={"model": "tiny", "messages": HELLO, "max_tokens": 1},
        headers={"authorization": value},
    )
    assert answer.status_code == 200


def events(url: str, body: dict[str, Any]) -> list[bytes]:
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=30) as answer:
        assert answer.status_code == 200
        return b"".join(answer.iter_raw()).split(b"\n\n")


VOLATILE = {"created", "id", "timings"}


def steady(event: bytes) -> Any:
    """An event without what differs from run to run."""
    text = event.removeprefix(b"data: ")
    if text in (b"", b"[DONE]"):
        return text
    return {key: value for key, value in json.loads(text).items() if key not in VOLATILE}


def test_the_stream_is_the_engine_s_own_event_by_event(house: House) -> None:
    """Same seed, same text: the events through AutoHedge are those of the engine, in order and in spelling."""
    body = {
        "model": "tiny",
        "messages": HELLO,
        "max_tokens": 20,
        "temperature": 0,
        "seed": 1,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    through, direct = events(house.edge.url, body), events(house.one.url, body)
    assert [steady(event) for event in through] == [steady(event) for event in direct]
    assert through[0].startswith(b'data: {"choices":[{')  # llama.cpp's own key order


SECTION_3: list[tuple[str, dict[str, Any], int, str]] = [
    ("max_tokens 100000 is served", {"max_tokens": 100000, "messages": HELLO}, 200, ""),
    ("messages missing", {}, 400, "messages"),
    ("temperature hot", {"messages": HELLO, "temperature": "hot"}, 400, "temperature"),
    ("tool_choice banana", {"messages": HELLO, "tool_choice": "banana"}, 400, "tool_choice"),
    ("temperature true is served", {"messages": HELLO, "temperature": True, "max_tokens": 1}, 200, ""),
    ("negative temperature is served", {"messages": HELLO, "temperature": -1, "max_tokens": 1}, 200, ""),
]


@pytest.mark.parametrize(("name", "body", "status", "param"), SECTION_3, ids=[row[0] for row in SECTION_3])
def test_rows_of_section_3(house: House, name: str, body: dict[str, Any], status: int, param: str) -> None:
    """real_backends 3: what llama.cpp serves passes, what it refuses is refused by us with the field's name."""
    answer = httpx.post(f"{house.edge.url}/v1/chat/completions", json={"model": "tiny", **body}, timeout=60)
    assert answer.status_code == status, answer.text
    if param:
        assert answer.json()["error"]["param"] == param
        assert "x-autohedge-backend" not in answer.headers


def test_bad_json_says_where(house: House) -> None:
    answer = httpx.post(f"{house.edge.url}/v1/chat/completions", content=b'{"model": "tiny",\n "messages": [}')
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == "invalid_json"
    assert "line 2" in error["message"]
    assert "column" in error["message"]


@pytest.mark.parametrize(
    ("model", "path", "body"),
    [
        ("vectors", "/v1/embeddings", {"input": "ba " * 600}),  # llama.cpp: 500 for a client's too long input
        ("vectors", "/v1/chat/completions", {"messages": HELLO}),  # llama.cpp: 500 for chat on an embedding server
        ("tiny", "/v1/embeddings", {"input": "hello"}),  # llama.cpp: 501
    ],
)
def test_a_client_s_fault_in_a_5xx_dress_takes_no_replica_out(
    house: House, model: str, path: str, body: dict[str, Any]
) -> None:
    """real_backends 3: the client reads the engine's own error, and the next good request is served at once."""
    for _ in range(12):
        answer = httpx.post(f"{house.edge.url}{path}", json={"model": model, **body})
        assert answer.status_code >= 400
    good = (
        ("/v1/embeddings", {"input": "hello"})
        if model == "vectors"
        else ("/v1/chat/completions", {"messages": HELLO, "max_tokens": 1})
    )
    assert httpx.post(f"{house.edge.url}{good[0]}", json={"model": model, **good[1]}).status_code == 200


def test_no_secret_reaches_the_log(house: House, client: openai.OpenAI) -> None:
    """The access log runs at debug here; neither the client's nor the backend's key is in anything that was printed."""
    httpx.post(
        f"{house.edge.url}/v1/chat/completions",
        json={"model": "opened", "messages": HELLO, "max_tokens": 1},
        headers={"authorization": "Bearer sk-client-secret"},
    )
    assert "sk-client-secret" not in house.edge.output()
    assert "sk-engine" not in house.edge.output()
