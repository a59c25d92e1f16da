"""What the checks need to know of a body: model, stream, bound on the answer, size of the prompt, features used.

Rules
- Nothing here refuses or raises, whatever the body holds: what has the wrong type counts as not there.
- `text_bytes` is an upper bound of the prompt in UTF-8 bytes. Images, audio, video and files are left out (trap T1: 4 MB
  of base64 are a thousand tokens); tools, schemas and tool calls are in. A token id counts as one byte: it is one token.
- `stream` is read as the engines read it: vLLM and SGLang take "true", "yes" and 1 for true, the others refuse them.
- A bound is a whole number or a text that reads as one. max_completion_tokens stands before max_tokens (vLLM).
- `truncates` (trap T5): the request asks somebody to cut a long prompt, under any of the names in use.

It must not know: kinds, findings, how a body was parsed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from autohedge.core.ask import Ask, Sizes
from autohedge.core.types import Door

MANY = 2000  # messages, parts, calls or tools that are looked at; more mistakes than that need not be listed
MEDIA = frozenset({
    "image_url", "input_audio", "video_url", "audio_url", "input_image", "input_file", "input_video", "file", "image",
    "image_base64", "image_embeds", "audio_embeds", "video_embeds", "prompt_embeds", "image_pil", "audio", "video",
    "document", "document_url", "pdf",
})  # fmt: skip
MEDIA_KEYS = ("image_url", "input_audio", "video_url", "audio_url", "image_embeds", "audio_embeds", "video_embeds")
CONSTRAINED = ("json_schema", "json_object")
TRUTHS = frozenset({"true", "yes", "on", "1", "t", "y"})
QUOTES = 4  # bytes that JSON and a template put around a text


@dataclass(slots=True)
class Notes:
    """What was seen on the way through the messages and concerns only some kinds. Positions in `messages`."""

    hollow: list[int] = field(default_factory=list)  # no text and no parts
    wordy: list[int] = field(default_factory=list)  # a content list of nothing but strings
    parts: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)  # media, and parts without a type
    crowded: bool = False  # more than `MANY` of something


def asked(door: Door, obj: dict[str, Any]) -> tuple[Ask, Notes]:
    """The question that a body puts, and the notes for findings.py."""
    model = obj.get("model")
    ask = Ask(door, model if isinstance(model, str) else None, obj=obj)
    notes = Notes()
    stream = obj.get("stream")
    if stream:
        ask.stream = stream is True or stream == 1 or (isinstance(stream, str) and stream.lower() in TRUTHS)
    _bound(ask, obj)
    READERS[door](obj, ask, notes)
    if "response_format" in obj:
        wanted = obj["response_format"]
        ask.response_format = isinstance(wanted, dict) and wanted.get("type") in CONSTRAINED
        ask.text_bytes += size(wanted, ask)
    for name in ("tools", "functions"):
        if isinstance(obj.get(name), list) and obj[name]:
            ask.tools = True
            ask.text_bytes += size(obj[name], ask)
            notes.crowded = notes.crowded or len(obj[name]) > MANY
    if not TRUNCATING.keys().isdisjoint(obj):
        ask.truncates = any(name in obj and asks(obj[name]) for name, asks in TRUNCATING.items())
    return ask, notes


def _bound(ask: Ask, obj: dict[str, Any]) -> None:
    for name in BOUNDS.get(ask.door, ("max_tokens",)):
        value = whole(obj.get(name))
        if value is not None:
            ask.max_tokens, ask.max_tokens_param = value, name
            return


def whole(value: Any) -> int | None:
    """A whole number, or a text that reads as one; None for anything else."""
    if value is None or type(value) is int:  # as usual; the union below is built anew at every call
        return value
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return None
        number = value if isinstance(value, int) else float(value)
        return int(number)
    except (ValueError, OverflowError):
        return None


def utf8(text: str) -> int:
    """The length of a text in UTF-8 bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def size(value: Any, ask: Ask) -> int:
    """An upper bound in bytes of what a template makes of a JSON value, written compactly or with a space behind each
    comma and colon. Never recurses deeper than the value allows.
    """
    if isinstance(value, str):
        return utf8(value) + QUOTES
    try:
        text = to_json(value)
    except (PydanticSerializationError, ValueError):
        return weight(value, ask)
    return len(text) + text.count(b",") + text.count(b":")


def weight(value: Any, ask: Ask) -> int:
    """All the text in a value, without media and without recursion; notes media on the way."""
    total, stack = 0, [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            total += utf8(item) + QUOTES
        elif isinstance(item, dict):
            if isinstance(name := item.get("type"), str) and name in MEDIA:
                ask.media = True
                continue
            total += sum(utf8(key) + QUOTES for key in item)
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
        else:
            total += 20  # a number or a literal
    return total


# --- chat ---------------------------------------------------------------------------------------------------------------


def _chat(obj: dict[str, Any], ask: Ask, notes: Notes) -> None:
    messages = obj.get("messages")
    if not isinstance(messages, list):
        ask.parts = 0
        return
    ask.parts = len(messages)
    notes.crowded = len(messages) > MANY
    total = 0
    for i, message in enumerate(messages):
        if type(message) is not dict:
            continue
        content = message.get("content")
        if type(content) is str:
            total += len(content) if content.isascii() else utf8(content)
        elif type(content) is list:
            total += _parts(content, i, ask, notes)
        elif content is None and len(notes.hollow) < MANY:
            notes.hollow.append(i)
        if len(message) > 2 or content is None:
            for name in SPOKEN:
                if name in message:
                    total += size(message[name], ask)
            calls = message.get("tool_calls")
            notes.crowded = notes.crowded or (isinstance(calls, list) and len(calls) > MANY)
    ask.text_bytes = total


# what else of a message a template may print
SPOKEN = ("tool_calls", "name", "reasoning_content", "reasoning", "refusal", "function_call", "tools", "tool_call_id")


def _parts(content: list[Any], i: int, ask: Ask, notes: Notes) -> int:
    total = words = 0
    for j, part in enumerate(content):
        if type(part) is str:
            words += 1
            total += utf8(part)
            continue
        if type(part) is not dict:
            continue
        name = part.get("type")
        if (isinstance(name, str) and name in MEDIA) or (name is None and any(key in part for key in MEDIA_KEYS)):
            ask.media = True
            if len(notes.parts) < MANY:
                notes.parts.append((i, j, part))
            continue
        if name is None and len(notes.parts) < MANY:
            notes.parts.append((i, j, part))
        text = part.get("text")
        total += utf8(text) if type(text) is str else weight(part, ask)
    if words and words == len(content) and len(notes.wordy) < MANY:
        notes.wordy.append(i)
    notes.crowded = notes.crowded or len(content) > MANY
    return total


# --- prompts and inputs -------------------------------------------------------------------------------------------------


def _prompt(obj: dict[str, Any], ask: Ask, _notes: Notes) -> None:
    _inputs(obj.get("prompt"), ask)
    if isinstance(obj.get("suffix"), str):
        ask.text_bytes += utf8(obj["suffix"])


def _input(obj: dict[str, Any], ask: Ask, notes: Notes) -> None:
    if "input" not in obj and isinstance(obj.get("messages"), list):
        _chat(obj, ask, notes)
    else:
        _inputs(obj.get("input", obj.get("content")), ask)


def _inputs(value: Any, ask: Ask) -> None:
    """One text, several, one row of token ids, or several."""
    if not isinstance(value, list):
        ask.text_bytes = 0 if value is None else _one(value, ask)
        return
    if value and all(type(item) is int for item in value):
        ask.text_bytes = len(value)
        return
    ask.parts = len(value)
    ask.text_bytes = sum(_one(item, ask) for item in value)


def _one(value: Any, ask: Ask) -> int:
    if isinstance(value, str):
        return utf8(value)
    if isinstance(value, list) and all(type(item) is int for item in value):
        return len(value)
    if isinstance(value, dict) and ("image" in value or "video" in value):
        ask.media = True
        return utf8(value["text"]) if isinstance(value.get("text"), str) else 0
    return weight(value, ask)


# --- the other doors ----------------------------------------------------------------------------------------------------


def _responses(obj: dict[str, Any], ask: Ask, _notes: Notes) -> None:
    items = obj.get("input")
    ask.parts = len(items) if isinstance(items, list) else 1
    ask.text_bytes = sum(weight(obj[name], ask) for name in ("instructions", "input", "text") if name in obj)
    form = obj["text"].get("format") if isinstance(obj.get("text"), dict) else None
    ask.response_format = isinstance(form, dict) and form.get("type") in CONSTRAINED


def _messages(obj: dict[str, Any], ask: Ask, notes: Notes) -> None:
    messages = obj.get("messages")
    ask.parts = len(messages) if isinstance(messages, list) else 0
    notes.crowded = ask.parts > MANY
    ask.text_bytes = sum(weight(obj[name], ask) for name in ("system", "messages") if name in obj)


def _rerank(obj: dict[str, Any], ask: Ask, _notes: Notes) -> None:
    documents = obj.get("documents", obj.get("texts"))
    ask.parts = len(documents) if isinstance(documents, list) else 1
    ask.text_bytes = sum(weight(obj[name], ask) for name in ("query", "instruct", "documents", "texts") if name in obj)


def _systemone(obj: dict[str, Any], ask: Ask, notes: Notes) -> None:
    questions = obj.get("questions")
    sizes = ask.sizes = Sizes()
    if type(questions) is dict:
        ask.parts = sizes.questions = len(questions)
        notes.crowded = ask.parts > MANY
        _criteria(questions, sizes)
    ask.media = bool(obj.get("images") or obj.get("files") or obj.get("assets"))
    for name in ("images", "files"):
        if isinstance(obj.get(name), list):
            sizes.images += len(obj[name])


def weighed(ask: Ask, body_bytes: int) -> None:
    """Puts down how large the texts of a System One request are. The body bounds them, so they are not written out: a server
    adds at most a blank to each comma and colon.
    """
    sizes = ask.sizes
    assert sizes is not None
    sizes.body_bytes = body_bytes
    state = ask.obj.get("state")
    sizes.state_bytes = utf8(state) if type(state) is str else body_bytes
    ask.text_bytes = body_bytes + body_bytes // 2


def _criteria(questions: dict[str, Any], sizes: Sizes) -> None:
    """How many options and levels each question has."""
    options, levels = [], []
    for name, question in questions.items():
        if type(question) is not dict:
            continue
        criteria = question.get("criteria")
        if type(criteria) is dict:
            if question.get("type") == "choice":
                options.append((name, len(criteria)))
        elif type(criteria) is list and question.get("type") == "score":
            levels.append((name, len(criteria)))
    sizes.options, sizes.levels = tuple(options), tuple(levels)


READERS: dict[Door, Callable[[dict[str, Any], Ask, Notes], None]] = {
    Door.CHAT: _chat,
    Door.COMPLETIONS: _prompt,
    Door.EMBEDDINGS: _input,
    Door.SPARSE: _input,
    Door.BOTH: _input,
    Door.RESPONSES: _responses,
    Door.MESSAGES: _messages,
    Door.RERANK: _rerank,
    Door.SYSTEMONE: _systemone,
}

BOUNDS: dict[Door, tuple[str, ...]] = {
    Door.CHAT: ("max_completion_tokens", "max_tokens"),
    Door.RESPONSES: ("max_output_tokens",),
}


def _given(value: Any) -> bool:
    return value is not None and value is not False and value != "NONE"


TRUNCATING: dict[str, Callable[[Any], bool]] = {
    "truncate_prompt_tokens": _given,  # vLLM
    "truncation_side": _given,  # vLLM
    "truncate": _given,  # TGI: a number; embedding servers and Ollama: true; Cohere: "START", "END"
    "truncation_direction": _given,  # embedding servers
    "auto_truncate": _given,
    "truncation": lambda value: value not in (None, False, "disabled"),  # responses: "auto"
    "transforms": bool,  # OpenRouter: ["middle-out"]
}
