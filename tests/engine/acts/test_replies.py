"""Faults of whole replies, where one line of the table does not tell everything."""

from __future__ import annotations

import base64
import json

from tests.engine.calls import CHAT, HELLO, Serve, ask, request, stream, talk


def test_busy_grows(serve: Serve) -> None:
    """B35: Retry-After 1, then 60, then 60."""
    engine = serve("vllm", faults=["B35"])
    assert [ask(engine, CHAT, HELLO).headers["retry-after"] for _ in range(3)] == ["1", "60", "60"]


def test_busy_once(serve: Serve) -> None:
    """B31: 429 with Retry-After 1, then well."""
    engine = serve("vllm", faults=["B31"])
    assert [ask(engine, CHAT, HELLO).status_code for _ in range(3)] == [429, 200, 200]


def test_echo_returns_every_byte(serve: Serve) -> None:
    """B61: body and headers as received, inside an answer that is still one."""
    engine = serve("vllm", faults=["echo"])
    body = b'{"model":"m",  "messages":[{"role":"user","content":"\\u4f60"}],"x":1e0}'
    answer = ask(engine, CHAT + "?v=1", method="POST", content=body, headers={"X-Odd": "yes"}).json()
    assert base64.b64decode(answer["echo"]["body_base64"]) == body
    assert ["X-Odd", "yes"] in answer["echo"]["headers"]
    assert answer["echo"]["target"] == CHAT + "?v=1"
    assert answer["choices"]


def test_echo_of_what_was_refused(serve: Serve) -> None:
    answer = ask(serve("vllm", faults=["echo"]), CHAT, {"model": "nope", "messages": []})
    assert answer.status_code == 404
    assert json.loads(answer.json()["echo"]["body"])["model"] == "nope"


def test_the_same_fault_in_each_kinds_shape(serve: Serve) -> None:
    """d1: one cause, five envelopes."""
    shapes = {
        kind: ask(serve(kind, faults=["status=500"]), CHAT, HELLO).json()
        for kind in ("vllm", "sglang", "ollama", "tgi", "llamacpp")
    }
    assert shapes["vllm"]["error"]["code"] == 500
    assert shapes["sglang"]["object"] == "error"
    assert shapes["ollama"]["error"]["code"] is None
    assert isinstance(shapes["tgi"]["error"], str)
    assert shapes["llamacpp"]["error"]["type"] == "server_error"


def test_retired_text_reaches_plain_and_stream_alike(serve: Serve) -> None:
    """B116: it is content, with 200 and a proper end."""
    engine = serve("ollama", faults=["B116"])
    plain = ask(engine, CHAT, HELLO).json()["choices"][0]
    assert "410 gone api access has been retired" in plain["message"]["content"]
    assert stream(engine).text == plain["message"]["content"]


def test_brownout_ends(serve: Serve) -> None:
    """B106: 410 for a while, then 200."""
    engine = serve("openai-compatible", faults=["B106=0.3"])
    codes = [ask(engine, CHAT, HELLO).status_code]
    while codes[-1] == 410 and len(codes) < 500:
        codes.append(ask(engine, CHAT, HELLO).status_code)
    assert (codes[0], codes[-1]) == (410, 200)


def test_capabilities_leave_other_doors_alone(serve: Serve) -> None:
    """CAP: no embeddings, but chat; no tools, but chat without."""
    engine = serve("llamacpp", faults=["no-embeddings", "no-systemone", "no-tools"])
    assert ask(engine, CHAT, HELLO).status_code == 200
    only = serve("llamacpp", faults=["no-chat"])
    assert ask(only, "/v1/embeddings", {"input": "a"}).status_code == 200


def test_truncation_shows_in_the_stream_too(serve: Serve) -> None:
    """B46: usage is exactly the window."""
    heard = stream(serve("ollama", faults=["B46=5"]), {**HELLO, "stream_options": {"include_usage": True}})
    assert heard.events[-2]["usage"]["prompt_tokens"] == 5


def test_empty_stream_is_an_event_stream(serve: Serve) -> None:
    """Fact 10: 200, text/event-stream, and not one event."""
    heard = talk(serve("vllm", faults=["empty-body"]), request(CHAT, {**HELLO, "stream": True}))
    assert heard.chunks == [b""]
