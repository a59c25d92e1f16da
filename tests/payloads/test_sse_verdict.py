"""What single events say, shape by shape. Most shapes were captured from real engines."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autohedge.core.types import Door
from autohedge.payloads.sse_verdict import Marks, Needles, fields, judge, quiet


def said(door: Door, block: bytes) -> tuple[bool, bool, bool]:
    """Content, finished, failed."""
    marks = Marks()
    assert judge(door, block, marks)
    return marks.content, marks.finished, marks.error is not None


def data(obj: Any, name: str = "") -> bytes:
    return (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(obj).encode()


def chat(delta: Any = None, reason: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        **more,
    }


NOTHING = (False, False, False)
CONTENT = (True, False, False)
ENDED = (True, True, False)
FAILED = (False, False, True)
OBJECT = {"message": "m", "type": "InternalServerError", "param": None, "code": 500}

CHAT = {
    "role alone (llama.cpp)": (chat({"role": "assistant", "content": None}), NOTHING),
    "role and empty text (vLLM)": (chat({"role": "assistant", "content": ""}), NOTHING),
    "Azure's filter results (B73)": ({"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}, NOTHING),
    "no delta (B74)": ({"choices": [{"index": 0, "finish_reason": None}]}, NOTHING),
    "null delta": (chat(None), NOTHING),
    "usage": ({"choices": [], "usage": {"total_tokens": 3}}, NOTHING),
    "choices null": ({"choices": None}, NOTHING),
    "choices of other things": ({"choices": [None, "x", 1]}, NOTHING),
    "error null": (chat({"content": ""}, error=None), NOTHING),
    "error empty": (chat({"content": ""}, error={}), NOTHING),
    "dead runner of Ollama (B71)": (chat({"role": "assistant", "content": ""}), NOTHING),
    "reason empty": (chat({}, ""), NOTHING),
    "type of another kind": (chat({}, type=["error"]), NOTHING),
    "text": (chat({"content": "x"}), CONTENT),
    "parts (Mistral)": (chat({"content": [{"type": "text", "text": "x"}]}), CONTENT),
    "reasoning (vLLM)": (chat({"reasoning": "x"}), CONTENT),
    "reasoning_content (SGLang)": (chat({"reasoning_content": "x"}), CONTENT),
    "tool call": (chat({"tool_calls": [{"index": 0}]}), CONTENT),
    "function call": (chat({"function_call": {"name": "f"}}), CONTENT),
    "refusal": (chat({"refusal": "no"}), CONTENT),
    "audio": (chat({"audio": {"data": "AA"}}), CONTENT),
    "whole message": ({"choices": [{"message": {"content": "x"}}]}, CONTENT),
    "second choice": ({"choices": [{"delta": {}}, {"delta": {"content": "x"}}]}, CONTENT),
    "end": (chat({}, "stop"), ENDED),
    "end with text (vLLM)": (chat({"content": "x"}, "length"), ENDED),
    "error object": ({"error": OBJECT}, FAILED),
    "error string (TGI)": ({"error": "Request failed", "error_type": "generation"}, FAILED),
    "flat error (old vLLM)": ({"object": "error", "message": "m", "type": "BadRequestError", "code": 400}, FAILED),
    "error beside choices (OpenRouter)": (chat({"content": ""}, "error", error={"code": 502}), FAILED),
    "reason error": (chat({"content": ""}, "error"), FAILED),
    "text that looks like an error": (chat({"content": '{"error": {"message": "x"}}'}), CONTENT),
    "text that looks like an end": (chat({"content": '"finish_reason":"stop" [DONE]'}), CONTENT),
}


@pytest.mark.parametrize(("obj", "expected"), CHAT.values(), ids=CHAT)
def test_chat(obj: Any, expected: tuple[bool, bool, bool]) -> None:
    assert said(Door.CHAT, data(obj)) == expected


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"text": ""}, NOTHING),
        ({"text": "x"}, CONTENT),
        ({"text": "", "finish_reason": "length"}, ENDED),
        ({}, NOTHING),
    ],
)
def test_completions(choice: Any, expected: tuple[bool, bool, bool]) -> None:
    assert said(Door.COMPLETIONS, data({"choices": [choice]})) == expected


RESPONSES = {
    "created": ({"type": "response.created", "response": {"error": None}}, NOTHING),
    "in progress": ({"type": "response.in_progress"}, NOTHING),
    "item added": ({"type": "response.output_item.added"}, NOTHING),
    "text": ({"type": "response.output_text.delta", "delta": "x"}, CONTENT),
    "arguments": ({"type": "response.function_call_arguments.delta"}, CONTENT),
    "completed": ({"type": "response.completed", "response": {"error": None}}, ENDED),
    "incomplete": ({"type": "response.incomplete"}, ENDED),
    "failed": ({"type": "response.failed", "response": {"error": {"code": "server_error"}}}, FAILED),
    "error (B77)": ({"type": "error", "code": "insufficient_quota", "message": "m", "param": None}, FAILED),
    "no type": ({"x": 1}, NOTHING),
}


@pytest.mark.parametrize(("obj", "expected"), RESPONSES.values(), ids=RESPONSES)
@pytest.mark.parametrize("named", [False, True])
def test_responses(obj: Any, expected: tuple[bool, bool, bool], named: bool) -> None:
    assert said(Door.RESPONSES, data(obj, obj.get("type", "") if named else "")) == expected


MESSAGES = {
    "start": ({"type": "message_start", "message": {"content": []}}, NOTHING),
    "ping": ({"type": "ping"}, NOTHING),
    "block start": ({"type": "content_block_start", "index": 0}, NOTHING),
    "text": ({"type": "content_block_delta", "delta": {"text": "x"}}, CONTENT),
    "stop reason": ({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, CONTENT),
    "stop": ({"type": "message_stop"}, ENDED),
    "error": ({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, FAILED),
}


@pytest.mark.parametrize(("obj", "expected"), MESSAGES.values(), ids=MESSAGES)
@pytest.mark.parametrize("named", [False, True])
def test_messages(obj: Any, expected: tuple[bool, bool, bool], named: bool) -> None:
    assert said(Door.MESSAGES, data(obj, obj["type"] if named else "")) == expected


def test_names_stand_in_for_types() -> None:
    """An event whose object has no type goes by its name."""
    assert said(Door.RESPONSES, b"event: response.completed\ndata: {}") == ENDED
    assert said(Door.MESSAGES, b"event: message_stop\ndata: {}") == ENDED


@pytest.mark.parametrize("door", Door)
def test_every_door(door: Door) -> None:
    """[DONE], a named error and an error object say the same at every door; data that is no JSON is nothing, where JSON is due."""
    assert said(door, b"data: [DONE]") == (False, True, False)
    assert said(door, b"data:[DONE]") == (False, True, False)
    assert said(door, b"event: error\ndata: it broke") == FAILED
    assert said(door, data({"error": OBJECT})) == FAILED
    plain = {Door.CHAT, Door.COMPLETIONS, Door.RESPONSES, Door.MESSAGES}
    assert said(door, b"data: hello") == (NOTHING if door in plain else CONTENT)


def test_nothing_ends_well_after_an_error() -> None:
    """vLLM with a killed engine sends [DONE] behind the error; an error behind a finish_reason spoils it too."""
    marks = Marks()
    for block in (data({"error": OBJECT}), b"data: [DONE]", data(chat({}, "stop"))):
        judge(Door.CHAT, block, marks)
    assert (marks.finished, marks.error) == (False, json.dumps({"error": OBJECT}).encode())
    marks = Marks()
    for block in (data(chat({}, "stop")), data({"error": "late"}), data({"error": "later"})):
        judge(Door.CHAT, block, marks)
    assert (marks.finished, marks.error) == (False, b'{"error": "late"}')


def test_no_events() -> None:
    """Comments (B85), lone ids and names, and blank blocks are none; a bare JSON error line is heard (B68)."""
    for block in (b": OPENROUTER PROCESSING", b"id: 7", b"event: error", b"", b"retry: 10", b"{}", b'{"choices": []}'):
        marks = Marks()
        assert not judge(Door.CHAT, block, marks)
        assert marks == Marks()
    marks = Marks()
    assert not judge(Door.CHAT, b'{"error": "llama runner process has terminated"}', marks)
    assert marks.error == b'{"error": "llama runner process has terminated"}'


def test_deep_json() -> None:
    """Nesting that the parser refuses is no error and no failure of ours."""
    assert said(Door.CHAT, b"data: " + b'{"a":' * 100_000 + b"1" + b"}" * 100_000) == NOTHING


def test_fields() -> None:
    """Lines by the rules of the HTML standard, LF and CRLF."""
    assert fields(b"event: a\r\nid: 1\r\ndata: x\r\ndata:y\r\ndata") == (b"a", b"x\ny\n")
    assert fields(b"\xef\xbb\xbfdata:  x") == (b"", b" x")
    assert fields(b"data") == (b"", b"")
    assert fields(b": data: x\nxdata: y") == (b"", None)


# --- the search -----------------------------------------------------------------------------------------------------

STRINGS = st.sampled_from(
    [
        '"error"',
        "error",
        "[DONE]",
        '"finish_reason":"stop"',
        "\n\nevent: error\ndata: {}",
        "response.completed",
        "message_stop",
        "\\",
        '"',
    ]
)
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "type": STRINGS
        | st.sampled_from(
            ["error", "response.failed", "response.x.delta", "response.completed", "content_block_delta"]
        ),
        "object": st.sampled_from(["error", "chunk"]),
        "error": st.none() | STRINGS | st.just({}) | st.just({"message": "m"}),
        "choices": st.lists(
            st.fixed_dictionaries(
                {"delta": st.fixed_dictionaries({"content": STRINGS})},
                optional={"finish_reason": st.none() | st.sampled_from(["stop", "error", ""]), "text": STRINGS},
            ),
            max_size=2,
        ),
    },
)
NAMES = st.sampled_from(["", "error", "response.output_text.delta", "content_block_delta", "message_stop", "message"])


@settings(deadline=None, max_examples=500)
@given(door=st.sampled_from(Door), obj=OBJECTS, name=NAMES, tight=st.booleans())
def test_what_is_quiet_says_nothing(door: Door, obj: Any, name: str, tight: bool) -> None:
    """What the search lets pass would not have changed the marks of a stream that has content: it is exact to one side."""
    separators = (",", ":") if tight else None
    block = (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(obj, separators=separators).encode()
    if quiet(Needles(door), block):
        marks = Marks(content=True, spoken=True)
        judge(door, block, marks)
        assert marks == Marks(content=True, spoken=True)


@pytest.mark.parametrize(
    "block",
    [
        data(chat({"content": 'an "error" and [DONE] and "finish_reason":"stop"'})),
        data(chat({"content": "x"}, error=None)),
        b'data: {"choices":[{"delta":{"content":"x"},"finish_reason":null},{"delta":{},"finish_reason": null}]}',
        data({"type": "response.output_text.delta", "delta": "response.completed"}, "response.output_text.delta"),
        b": comment",
    ],
)
def test_usual_chunks_are_quiet(block: bytes) -> None:
    """Needles inside of JSON strings, and null reasons and errors, cost no parse."""
    assert quiet(Needles(Door.CHAT), block) or b"response" in block
    assert quiet(Needles(Door.RESPONSES), block)
