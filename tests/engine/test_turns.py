"""The Responses and Messages APIs: whole and streamed tell the same."""

from __future__ import annotations

from tests.engine.calls import HELLO, Serve, ask, request, talk


def test_responses(serve: Serve) -> None:
    """e4: response.created first, response.completed last, numbered without a gap; no [DONE]."""
    engine = serve("vllm")
    body = {"model": "m", "input": "hi there", "instructions": "be brief"}
    whole = ask(engine, "/v1/responses", body).json()
    heard = talk(engine, request("/v1/responses", {**body, "stream": True}))
    events = heard.events
    assert [events[0]["type"], events[-1]["type"]] == ["response.created", "response.completed"]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    assert text == whole["output"][0]["content"][0]["text"]
    assert events[-1]["response"]["usage"] == whole["usage"]
    assert whole["usage"]["input_tokens"] == 5
    assert "[DONE]" not in events


def test_responses_cut_short_are_incomplete(serve: Serve) -> None:
    answer = ask(serve("vllm"), "/v1/responses", {"model": "m", "input": "hi", "max_output_tokens": 2}).json()
    assert (answer["status"], answer["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


def test_messages(serve: Serve) -> None:
    """message_start first, message_stop last; every event's name is its type."""
    engine = serve("vllm")
    body = {**HELLO, "max_tokens": 100}
    whole = ask(engine, "/v1/messages", body).json()
    heard = talk(engine, request("/v1/messages", {**body, "stream": True}))
    assert [heard.events[0]["type"], heard.events[-1]["type"]] == ["message_start", "message_stop"]
    text = "".join(event["delta"]["text"] for event in heard.events if event["type"] == "content_block_delta")
    assert [{"type": "text", "text": text}] == whole["content"]
    assert heard.events[-2]["usage"] == whole["usage"]
    assert whole["stop_reason"] == "end_turn"
    assert heard.body.startswith(b'event: message_start\ndata: {"type":"message_start"')


def test_both_keep_the_pace(serve: Serve) -> None:
    engine = serve("vllm", pace=100.0)
    heard = talk(engine, request("/v1/messages", {**HELLO, "max_tokens": 100, "stream": True}))
    assert heard.whole >= 0.12
