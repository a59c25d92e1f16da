"""Faults inside streams, where one line of the table does not tell everything."""

from __future__ import annotations

import json

import openai
import pytest

from tests.engine.calls import CHAT, HELLO, Serve, request, stream, talk


@pytest.mark.parametrize(
    ("kind", "key"),
    [("vllm", "code"), ("sglang", "object"), ("ollama", "type"), ("llamacpp", "code"), ("openai-compatible", "type")],
)
def test_error_events_in_each_kinds_shape(serve: Serve, kind: str, key: str) -> None:
    """Fact 6: an object with the kind's own fields."""
    heard = stream(serve(kind, faults=["B26"]))
    error = next(event["error"] for event in heard.events if isinstance(event, dict) and "error" in event)
    assert key in error
    assert heard.events[-1] == "[DONE]"


def test_tgi_errors_are_strings(serve: Serve) -> None:
    heard = stream(serve("tgi", faults=["error-event-cut=1"]))
    assert isinstance(heard.events[-1]["error"], str)


def test_vllm_puts_blanks_into_its_error_event(serve: Serve) -> None:
    """Captured from a killed engine: data: {"error": {"message": ..."""
    assert b'data: {"error": {"message": "EngineCore' in stream(serve("vllm", faults=["B26"])).body


@pytest.mark.parametrize("kind", ["vllm", "llamacpp", "ollama", "tgi", "sglang"])
def test_split_bytes_change_no_byte(serve: Serve, kind: str) -> None:
    """B83: the same body, whatever the chunks; an emoji is split in four."""
    engine = serve(kind)
    whole = stream(engine)
    engine.set_faults("split-bytes")
    split = stream(engine)
    assert split.text == whole.text
    assert {b"\xf0", b"\x9f", b"\x8c", b"\x8d"} <= set(split.chunks)


def test_a_plain_answer_is_split_too(serve: Serve) -> None:
    heard = talk(serve("vllm", faults=["split-bytes"]), request(CHAT, HELLO))
    assert "你好" in json.loads(heard.body)["choices"][0]["message"]["content"]


def test_the_openai_client_accepts_odd_but_legal_streams(serve: Serve) -> None:
    """d4: CRLF, no blank, comments, split bytes, no [DONE], all in one chunk: the client reads the same text."""
    engine = serve("vllm")
    texts = set()
    with openai.OpenAI(base_url=f"{engine.url}/v1", api_key="k", max_retries=0) as ai:
        for fault in (
            "",
            "crlf",
            "tight-data",
            "comments",
            "split-bytes",
            "no-done",
            "lump",
            "gzip",
            "trailers",
            "informational",
        ):
            engine.set_faults(*([fault] if fault else []))
            made = ai.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=True)
            texts.add("".join(piece.choices[0].delta.content or "" for piece in made))
    assert len(texts) == 1


def test_the_openai_client_fails_where_the_facts_say_so(serve: Serve) -> None:
    """Facts 9, d4: ": ping" after id and data that is a comment raise; a flat error passes as a chunk."""
    engine = serve("openai-compatible")
    messages: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]
    with openai.OpenAI(base_url=f"{engine.url}/v1", api_key="k", max_retries=0) as ai:
        for fault in ("B86", "keepalive-data"):
            engine.set_faults(fault)
            with pytest.raises(json.JSONDecodeError):
                list(ai.chat.completions.create(model="m", messages=messages, stream=True))
        engine.set_faults("error-event-flat=1")
        chunks = list(ai.chat.completions.create(model="m", messages=messages, stream=True))
        assert "choices" not in chunks[-1].model_dump(exclude_none=True)
        engine.set_faults("cut-after=2")
        with pytest.raises(openai.APIConnectionError):
            list(ai.chat.completions.create(model="m", messages=messages, stream=True))


def test_preamble_of_each_api_comes_before_the_error(serve: Serve) -> None:
    """B77: response.created, message_start or the role chunk, then the error."""
    engine = serve("openai-compatible", faults=["B77"])
    message = talk(engine, request("/v1/messages", {**HELLO, "max_tokens": 9, "stream": True}))
    assert [event["type"] for event in message.events] == ["message_start", "error"]
    assert message.events[1]["error"]["type"] == "rate_limit_error"
    chat = stream(engine)
    assert chat.events[1]["error"]["code"] == "insufficient_quota"
    assert talk(engine, request(CHAT, HELLO)).status == 429


def test_faults_of_streams_leave_other_answers_readable(serve: Serve) -> None:
    """A fault of streams on a plain answer changes nothing, or says 500: never broken bytes by accident."""
    engine = serve("vllm")
    for fault in (
        "no-done",
        "comments",
        "lump",
        "B73",
        "B74",
        "no-finish",
        "done-alone",
        "B71",
        "long-event",
        "response-failed",
        "crlf",
    ):
        engine.set_faults(fault)
        heard = talk(engine, request(CHAT, HELLO))
        assert heard.status == 200
        assert heard.json["choices"]
