"""One piece of work: what a request asks of the engine, counted, and the first thing that is wrong with it.

Rules
- `first_wrong` finds only what every engine here refuses; measured on llama.cpp b11549, vLLM 0.32.0 and SGLang 0.5.23.
  What one engine refuses alone stands in its dialect.
- Unknown keys are never wrong.

It must not know: how an engine words its refusal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from autohedge.core.types import Door
from autohedge.engine.text import count_content, count_input, count_json, count_messages, inputs_of

REQUIRED: Mapping[Door, tuple[tuple[str, str], ...]] = {
    Door.CHAT: (("messages", "array"),),
    Door.COMPLETIONS: (("prompt", "string"),),
    Door.EMBEDDINGS: (("input", "string"),),
    Door.SPARSE: (("input", "string"),),
    Door.BOTH: (("input", "string"),),
    Door.RESPONSES: (("input", "string"),),
    Door.MESSAGES: (("messages", "array"),),
    Door.RERANK: (("query", "string"), ("documents", "array")),
}
LIMIT_FIELDS: Mapping[Door, tuple[str, ...]] = {
    Door.CHAT: ("max_completion_tokens", "max_tokens"),
    Door.COMPLETIONS: ("max_tokens",),
    Door.RESPONSES: ("max_output_tokens",),
    Door.MESSAGES: ("max_tokens",),
}
_NUMERIC = {
    **dict.fromkeys(("temperature", "top_p", "frequency_penalty", "presence_penalty"), "number"),
    **dict.fromkeys(
        ("max_tokens", "max_completion_tokens", "max_output_tokens", "n", "seed", "top_logprobs"), "integer"
    ),
}
_PARTS = frozenset(
    [
        "text",
        "image_url",
        "input_audio",
        "file",
        "video_url",
        "audio_url",
        "image_embeds",
        "audio_embeds",
        "refusal",
        "image",
        "document",
        "tool_use",
        "tool_result",
        "thinking",
        "redacted_thinking",
        "input_text",
        "output_text",
        "input_image",
        "input_file",
    ]
)
_FORMATS = frozenset({"text", "json_object", "json_schema", "structural_tag"})


@dataclass(frozen=True, slots=True)
class Wrong:
    """One fault of a body. `want` is "number", "integer", "string", "array", "boolean", "object" or a sentence."""

    field: str
    want: str
    value: Any = None
    missing: bool = False


@dataclass(slots=True)
class Work:
    """`prompt` counts all tokens in, `longest` those of the longest single input. `limit` is the explicit bound on the
    answer. `native` names an engine's own path when the work came through one ("/api/chat").
    """

    door: Door
    body: dict[str, Any]
    model: str
    prompt: int = 0
    longest: int = 0
    limit: int | None = None
    limit_field: str = "max_tokens"
    stream: bool = False
    native: str = ""
    words: list[str] = field(default_factory=list)
    finish: str = "stop"
    tool: str | None = None

    @property
    def copies(self) -> int:
        """How many choices are wanted (`n`)."""
        number = self.body.get("n")
        return number if isinstance(number, int) and 1 <= number <= 128 else 1

    @property
    def wants_usage(self) -> bool:
        options = self.body.get("stream_options")
        return isinstance(options, dict) and bool(options.get("include_usage"))

    @property
    def inputs(self) -> list[Any]:
        return inputs_of(self.body.get("prompt" if self.door is Door.COMPLETIONS else "input"))

    def usage(self) -> dict[str, int]:
        """Token counts in the words of chat and completions."""
        out = len(self.words) * self.copies
        return {"prompt_tokens": self.prompt, "total_tokens": self.prompt + out, "completion_tokens": out}


def weigh(work: Work) -> None:
    """Count the tokens of the work into `prompt` and `longest`."""
    body = work.body
    if work.door is Door.CHAT:
        sizes = [count_messages(body.get("messages") or (), body.get("tools"))]
    elif work.door is Door.MESSAGES:
        sizes = [count_messages(body.get("messages") or (), body.get("tools")) + count_content(body.get("system"))]
    elif work.door is Door.RESPONSES:
        given = body.get("input")
        asked = count_messages(given) if isinstance(given, list) else count_input(given) + 1
        sizes = [asked + count_content(body.get("instructions"))]
    elif work.door is Door.RERANK:
        query = count_content(body.get("query"))
        sizes = [query + count_input(_text_of(document)) for document in body.get("documents") or ()]
    elif work.door is Door.SYSTEMONE:
        state = count_json(body.get("state"))
        sizes = [state + count_json(question) for question in (body.get("questions") or {}).values()]
    else:
        sizes = [count_input(item) for item in work.inputs]
    work.prompt = sum(sizes)
    work.longest = max(sizes, default=0)


def _text_of(document: Any) -> Any:
    return document.get("text") if isinstance(document, dict) else document


def bound(work: Work) -> None:
    """Read the explicit bound on the answer into `limit`; the first field of `LIMIT_FIELDS` that is a number wins."""
    for name in LIMIT_FIELDS.get(work.door, ()):
        value = work.body.get(name)
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            work.limit, work.limit_field = int(float(value)), name
            return


def first_wrong(door: Door, body: dict[str, Any], *, strict: bool) -> Wrong | None:
    """The first fault, or None. `strict` refuses numbers written as strings (llama.cpp alone does)."""
    return next(_wrongs(door, body, strict), None)


def _wrongs(door: Door, body: dict[str, Any], strict: bool) -> Iterator[Wrong]:
    for name, want in REQUIRED.get(door, ()):
        if name not in body or (body[name] is None and want == "array"):
            yield Wrong(name, want, missing=True)
        elif want == "array" and not isinstance(body[name], list):
            yield Wrong(name, want, body[name])
    for name in _NUMERIC.keys() & body.keys():
        value = body[name]
        if value is not None and not _numeric(value, strict):
            yield Wrong(name, _NUMERIC[name], value)
    if door is Door.CHAT:
        yield from _wrong_messages(body["messages"])
        yield from _wrong_tools(body)
    if body.get("encoding_format") not in (None, "float", "base64"):
        yield Wrong("encoding_format", "one of float, base64", body["encoding_format"])


def _numeric(value: Any, strict: bool) -> bool:
    if isinstance(value, str) and not strict:
        try:
            value = float(value)
        except ValueError:
            return False
    return isinstance(value, int | float) and math.isfinite(value)


def _wrong_messages(messages: list[Any]) -> Iterator[Wrong]:
    for number, message in enumerate(messages):
        where = f"messages[{number}]"
        if not isinstance(message, dict):
            yield Wrong(where, "object", message)
            continue
        if not isinstance(message.get("role"), str):
            yield Wrong(f"{where}.role", "string", message.get("role"), missing="role" not in message)
        content = message.get("content")
        if not isinstance(content, str | list | None):
            yield Wrong(f"{where}.content", "string", content)
        for place, part in enumerate(content if isinstance(content, list) else ()):
            inside = f"{where}.content[{place}]"
            if not isinstance(part, dict):
                yield Wrong(inside, "object", part)
            elif str(part.get("type", "text")) not in _PARTS:
                yield Wrong(f"{inside}.type", "a known part type", part["type"])
            elif part.get("type") == "text" and not isinstance(part.get("text"), str):
                yield Wrong(f"{inside}.text", "string", part.get("text"))


def _wrong_tools(body: dict[str, Any]) -> Iterator[Wrong]:
    tools = body.get("tools")
    if tools is not None and not isinstance(tools, list):
        yield Wrong("tools", "array", tools)
        return
    for number, tool in enumerate(tools or ()):
        if not isinstance(tool, dict):
            yield Wrong(f"tools[{number}]", "object", tool)
        elif tool.get("type", "function") == "function":
            function = tool.get("function")
            if not isinstance(function, dict) or not isinstance(function.get("name"), str):
                yield Wrong(f"tools[{number}].function.name", "string", None, missing=True)
    choice = body.get("tool_choice")
    if isinstance(choice, str) and choice not in {"none", "auto", "required"}:
        yield Wrong("tool_choice", "one of none, auto, required", choice)
    wanted = body.get("response_format")
    if wanted is not None and (not isinstance(wanted, dict) or str(wanted.get("type")) not in _FORMATS):
        yield Wrong("response_format.type", "one of text, json_object, json_schema", wanted)


def forced_tool(body: dict[str, Any]) -> tuple[str | None, bool]:
    """The tool that `tool_choice` forces, and whether it was named; (None, False) when none is forced."""
    choice, tools = body.get("tool_choice"), body.get("tools") or []
    names = [tool["function"]["name"] for tool in tools if isinstance(tool.get("function"), dict)]
    if isinstance(choice, dict) and isinstance(choice.get("function"), dict):
        return choice["function"].get("name"), True
    return (names[0], False) if choice == "required" and names else (None, False)
