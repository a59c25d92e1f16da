"""What one event of a stream says: content, proper end, or failure. Pure judgement of bytes, door by door.

Sources of the shapes: captured streams of llama.cpp b11549, vLLM 0.32 and transformers 5.19; Ollama, TGI and SGLang sources;
OpenRouter, Azure and Anthropic documentation.

Rules
- An error is an object or string under "error" (vLLM, SGLang, llama.cpp; TGI sends a string), a flat {"object": "error"}
  (older vLLM and SGLang), "type": "error", an `event: error`, response.failed, or a finish_reason "error" (OpenRouter, with
  the error beside choices). "error": null is none.
- Content is what a client would show: a delta with something in it, or the reason of an end. A role alone, Azure's first
  chunk with its filter results and no choices (B73), a choice without delta (B74) and a usage chunk are not.
- A proper end is [DONE], a finish_reason, response.completed or .incomplete, message_stop. After an error nothing is one:
  vLLM sends [DONE] behind the error of a killed engine.

It must not know: how events are cut out of a stream.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autohedge.core.types import Door

DONE = b"[DONE]"
BOM = b"\xef\xbb\xbf"

# Keys of a chat delta that hold something for the reader.
SPOKEN = ("content", "reasoning_content", "reasoning", "tool_calls", "function_call", "refusal", "audio")
ENDS = frozenset({"response.completed", "response.incomplete"})
SPEECH = frozenset({"content_block_delta", "message_delta", "message_stop"})


@dataclass(slots=True)
class Marks:
    """What a stream has said so far. `error` is the data of its first error event. `spoken`: there was more than a plain end."""

    content: bool = False
    spoken: bool = False
    finished: bool = False
    error: bytes | None = None

    def end(self) -> None:
        self.finished = self.error is None

    def fail(self, data: bytes) -> None:
        if self.error is None:
            self.error = data
        self.finished = False


def fields(block: bytes) -> tuple[bytes, bytes | None]:
    """Name and data of one event, given without its blank line. Without a data line it is none: data is None (a comment,
    a lone id). One space after the colon is no part of a value; data lines are joined by LF.
    """
    name, data = b"", []
    for raw in block.removeprefix(BOM).split(b"\n"):
        line = raw.removesuffix(b"\r")
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif line.startswith(b"event:"):
            name = line[6:].removeprefix(b" ")
        elif line == b"data":
            data.append(b"")
    return name, b"\n".join(data) if data else None


def quiet(needles: Needles, block: bytes) -> bool:
    """Whether events surely hold neither an end nor an error: found by searching, without parsing.

    Quotes in a JSON string are escaped, so `"error"` and `finish_reason"` with their quotes are keys or values, never a part
    of a text; a value that matches by chance costs one parse. Streams name their finish_reason in every chunk, mostly null.
    """
    if not _only_null(block, b'finish_reason"') or not _only_null(block, b'"error"'):
        return False
    # One line of data with an object in it has no room for [DONE] or a named event; a named delta is nothing else.
    if block.startswith(OBJECT) and block.find(b"\n", 0, -2) < 0:
        searched = needles.own
    elif block.startswith(needles.deltas) and block.count(b"\n", 0, -2) == 1:
        return True
    else:
        searched = needles.all
    for needle in searched:  # noqa: SIM110  a generator costs as much as the search
        if needle in block:
            return False
    return True


def _only_null(block: bytes, key: bytes) -> bool:
    """Whether `key` is absent, or null wherever it stands."""
    at = block.find(key)
    while at >= 0:
        at += len(key)
        if block[at : at + 5] != b":null" and block[at : at + 6] != b": null":
            return False
        at = block.find(key, at)
    return True


OBJECT = (b"data: {", b"data:{")


class Needles:
    """What an event of a door that says more than a delta holds: `own` inside of its data, `all` anywhere. `deltas` begin
    events that are deltas by their name, whatever their data hold.
    """

    __slots__ = ("all", "deltas", "own")

    def __init__(self, door: Door) -> None:
        self.own = OWN.get(door, ())
        self.all = (*self.own, DONE, b"event: error", b"event:error")
        self.deltas = tuple(b"event: %b\ndata: {" % name for name in DELTAS.get(door, ()))


OWN: Mapping[Door, tuple[bytes, ...]] = {
    Door.RESPONSES: (b"response.completed", b"response.incomplete", b"response.failed"),
    Door.MESSAGES: (b"message_stop",),
}
DELTAS: Mapping[Door, tuple[bytes, ...]] = {
    Door.RESPONSES: (
        b"response.output_text.delta",
        b"response.function_call_arguments.delta",
        b"response.reasoning_text.delta",
        b"response.reasoning_summary_text.delta",
    ),
    Door.MESSAGES: (b"content_block_delta",),
}


def judge(door: Door, block: bytes, marks: Marks, *, whole: bool = True) -> bool:
    """Put what an event says into `marks`; whether it is one. A line of bare JSON is heard when it is an error (B68).
    Where `whole` is False the event may go on, so it says something only when its data are complete.
    """
    name, data = fields(block)
    if data is None:
        bare = block.strip()
        if bare.startswith(b"{") and _is_error(_parsed(bare)):
            marks.fail(bare)
        return False
    if data.startswith(DONE):
        marks.end()
        return True
    obj = _parsed(data)
    if obj or whole:
        if name == b"error" or _is_error(obj):
            marks.fail(data)
        elif door is Door.RESPONSES:
            _response(obj, name, data, marks)
        elif door is Door.MESSAGES:
            _message(obj, name, marks)
        elif door in {Door.CHAT, Door.COMPLETIONS}:
            _choices(obj, data, marks)
        else:
            marks.content = marks.spoken = True
    return True


def _parsed(data: bytes) -> dict[str, Any]:
    """The event's object; an empty one for what is no JSON object."""
    try:
        obj = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return obj if isinstance(obj, dict) else {}


def _is_error(obj: dict[str, Any]) -> bool:
    error = obj.get("error")
    if error and isinstance(error, dict | str):
        return True
    return obj.get("object") == "error" or _kind(obj) == "error"


def _kind(obj: dict[str, Any], name: bytes = b"") -> str:
    """The type that an event's object states, or its name."""
    kind = obj.get("type")
    return kind if isinstance(kind, str) else name.decode("latin-1")


def _choices(obj: dict[str, Any], data: bytes, marks: Marks) -> None:
    choices = obj.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if not isinstance(choice, dict):
            continue
        reason = choice.get("finish_reason")
        if reason == "error":
            marks.fail(data)
            continue
        if reason:
            marks.content = True
            marks.spoken = marks.spoken or reason != "stop"
            marks.end()
        delta = choice.get("delta") or choice.get("message")
        if choice.get("text") or (isinstance(delta, dict) and any(delta.get(key) for key in SPOKEN)):
            marks.content = marks.spoken = True


def _response(obj: dict[str, Any], name: bytes, data: bytes, marks: Marks) -> None:
    kind = "" if name.endswith(b".delta") else _kind(obj, name)
    if kind == "response.failed":
        marks.fail(data)
    elif kind in ENDS:
        marks.content = True
        marks.end()
    elif name.endswith(b".delta") or kind.endswith(".delta"):
        marks.content = marks.spoken = True


def _message(obj: dict[str, Any], name: bytes, marks: Marks) -> None:
    kind = "content_block_delta" if name == b"content_block_delta" else _kind(obj, name)
    if kind in SPEECH:
        marks.content = True
        marks.spoken = marks.spoken or kind == "content_block_delta"
    if kind == "message_stop":
        marks.end()
