"""What an engine of a kind refuses in a body: schema, rules over several fields, quirks of the JSON, depth.

Rules
- All findings of a body at once, at most `MOST`, in the order of the body's models, one per field.
- Errors of a union are folded: where the array branch went deeper, only its errors stay; the others become one sentence
  that names all that is accepted.
- A kind that has no model of its own for a door gets the common one.
- A schema for constrained decoding that nests deeper than the configured bound is refused for every kind: it costs an
  engine seconds (llama.cpp) or is refused there anyway (vLLM 0.32: 64 levels).
- vLLM and SGLang refuse a body somewhere between 900 and 990 levels, Go at 10,000, llama.cpp at none that was tried.

It must not know: bytes, encodings, HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from autohedge.core.problems import Detail
from autohedge.core.types import Door, Kind
from autohedge.payloads import chat, completions, embeddings, others
from autohedge.payloads.asking import MANY, Notes
from autohedge.payloads.checks import ALWAYS, CHECKS, COMMON, ODD, Check
from autohedge.payloads.deep import deeper
from autohedge.payloads.parse import Parsed, Quirk
from autohedge.payloads.shapes import EXPECTED
from autohedge.payloads.wording import listed, missing, refused, said

MOST = 32
Steps = tuple[str | int, ...]

MODELS: dict[Door, tuple[Any, dict[Kind, Any]]] = {
    Door.CHAT: (chat.COMMON, chat.MODELS),
    Door.COMPLETIONS: (completions.COMMON, completions.MODELS),
    Door.EMBEDDINGS: (embeddings.COMMON, embeddings.MODELS),
    Door.SPARSE: (embeddings.COMMON, {}),
    Door.BOTH: (embeddings.COMMON, {}),
    Door.RESPONSES: (others.RESPONSES, others.RESPONSES_BY_KIND),
    Door.MESSAGES: (others.MESSAGES, others.MESSAGES_BY_KIND),
    Door.RERANK: (others.RERANK, {}),
}

# which kinds refuse which quirk; the others take it, or are not known
QUIRKS: dict[Quirk, tuple[frozenset[Kind], str]] = {
    Quirk.NOT_FINITE: (
        frozenset({Kind.LLAMACPP, Kind.OLLAMA, Kind.TGI}),
        "body: NaN and Infinity are not JSON numbers",
    ),
    Quirk.SURROGATE: (
        frozenset({Kind.LLAMACPP}),
        "body: a \\u escape is half of a surrogate pair, which stands for no character",
    ),
    Quirk.NOT_UTF8: (
        frozenset({Kind.LLAMACPP, Kind.OLLAMA, Kind.TGI}),
        "body: expected UTF-8, got UTF-16 or UTF-32",
    ),
    Quirk.NUL: (
        frozenset({Kind.VLLM, Kind.SGLANG, Kind.OLLAMA, Kind.TGI}),
        "body: there is a NUL byte behind the JSON text",
    ),
    Quirk.HUGE: (
        frozenset({Kind.LLAMACPP, Kind.VLLM, Kind.SGLANG}),
        "body: a number has more than 4300 digits",
    ),
}
DEPTHS = {Kind.VLLM: 990, Kind.SGLANG: 990, Kind.OLLAMA: 10_000}  # levels that surely fail

# where a schema for constrained decoding may stand
SCHEMAS: tuple[Steps, ...] = (
    ("response_format", "json_schema", "schema"),
    ("response_format", "schema"),
    ("text", "format", "schema"),
    ("json_schema",),
    ("guided_json",),
    ("structured_outputs", "json"),
)
SCHEMA_ROOTS = frozenset(steps[0] for steps in SCHEMAS)

WORDS = {
    "string_type": "a string",
    "list_type": "an array",
    "dict_type": "an object",
    "too_short": "a non-empty array",
    "model_attributes_type": "an object",
    "union_tag_not_found": "",
}


@dataclass(frozen=True, slots=True)
class Rules:
    """What a kind of engine demands at a door: its schema, and its checks by what triggers them."""

    kind: Kind
    validate: Callable[[Any], Any]
    always: tuple[Check, ...]
    odd: tuple[Check, ...]
    by_field: tuple[tuple[str, Check], ...]
    triggers: frozenset[str]  # the fields of `by_field`


@cache
def rules_of(door: Door, kind: Kind) -> Rules:
    """The rules of a kind, built once; those that are common to all where it has none of its own."""
    common, by_kind = MODELS[door]
    checks = CHECKS.get((door, kind), COMMON.get(door, ()))
    by_field = tuple((trigger, check) for trigger, check in checks if trigger not in {ALWAYS, ODD})
    return Rules(
        kind,
        TypeAdapter(by_kind.get(kind, common)).validator.validate_python,
        tuple(check for trigger, check in checks if trigger == ALWAYS),
        tuple(check for trigger, check in checks if trigger == ODD),
        by_field,
        frozenset(trigger for trigger, _ in by_field),
    )


def against(rules: Rules, parsed: Parsed, notes: Notes, schema_depth: int) -> tuple[Detail, ...]:
    """What an engine refuses in the body; empty when it takes it. `schema_depth` in levels."""
    found: list[Detail] = []
    obj = parsed.obj
    if parsed.quirks or parsed.depth:
        found += _unusual(rules.kind, parsed)
    if not SCHEMA_ROOTS.isdisjoint(obj):
        found += _too_deep(obj, schema_depth)
    try:
        rules.validate(trimmed(obj) if notes.crowded else obj)
    except ValidationError as error:
        found += islice(told_all(error.errors(include_url=False), obj, rules.kind), MOST)
    for check in rules.always:
        found += islice(check(obj, notes), MOST)
    if notes.hollow or notes.wordy or notes.parts:
        for check in rules.odd:
            found += islice(check(obj, notes), MOST)
    if not rules.triggers.isdisjoint(obj):
        for field, check in rules.by_field:
            if field in obj:
                found += islice(check(obj, notes), MOST)
    return _once(found) if found else ()


def _once(found: Iterable[Detail]) -> tuple[Detail, ...]:
    """The first finding of each field, `MOST` of them."""
    by_field: dict[str, Detail] = {}
    for detail in found:
        by_field.setdefault(detail.param or detail.message, detail)
    return tuple(by_field.values())[:MOST]


def _unusual(kind: Kind, parsed: Parsed) -> Iterator[Detail]:
    for quirk in parsed.quirks:
        kinds, sentence = QUIRKS[quirk]
        if kind in kinds:
            yield Detail(None, "invalid_json", sentence)
    stop = parsed.obj.get("stop")
    words = stop if isinstance(stop, list) else [stop]
    half = Quirk.SURROGATE in parsed.quirks and any(isinstance(word, str) and "\ufffd" in word for word in words)
    if half and kind is Kind.VLLM:
        yield said(("stop",), "a \\u escape is half of a surrogate pair, which stands for no character")
    if parsed.depth > DEPTHS.get(kind, parsed.depth):
        most = "about 900" if kind is not Kind.OLLAMA else "10000"
        yield Detail(
            None, "invalid_json", f"body: {parsed.depth} levels of nesting are more than the {most} that can be read"
        )


def _too_deep(obj: dict[str, Any], most: int) -> Iterator[Detail]:
    for steps in SCHEMAS:
        value: Any = obj
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
            if value is None:
                break
        else:
            if deeper(value, most):
                sentence = f"objects and arrays nest deeper than the {most} levels that are accepted in a schema"
                yield said(steps, sentence)


def trimmed(obj: dict[str, Any]) -> dict[str, Any]:
    """A copy with the first `MANY` messages, parts, calls and tools: no more mistakes than that are looked for."""
    copy = dict(obj)
    for name in ("messages", "tools"):
        if isinstance(copy.get(name), list):
            copy[name] = copy[name][:MANY]
    left = MANY
    for i, message in enumerate(copy["messages"] if isinstance(copy.get("messages"), list) else ()):
        for name in ("content", "tool_calls"):
            items = message.get(name) if isinstance(message, dict) else None
            if isinstance(items, list):
                copy["messages"][i] = message = {**message, name: items[:left]}  # noqa: PLW2901
                left = max(0, left - len(items))
    return copy


# --- from pydantic's errors to findings -----------------------------------------------------------------------------------


def told_all(errors: Iterable[ErrorDetails], obj: dict[str, Any], kind: Kind) -> Iterator[Detail]:
    """One finding per field."""
    groups: dict[Steps, list[ErrorDetails]] = {}
    for error in errors:
        groups.setdefault(_steps(error, obj), []).append(error)
    inner = {steps[:n] for steps in groups for n in range(len(steps))}
    for steps, group in groups.items():
        if steps in inner and any(error["type"] in {"string_type", EXPECTED} for error in group):
            continue  # the other branches of a union whose array branch has the real errors
        if not _unread(steps, obj, kind):
            yield _told(steps, group, obj)


def _steps(error: ErrorDetails, obj: Any) -> Steps:
    """The path of an error in the body: pydantic also names the branches of unions on the way, which no client knows."""
    node, steps, last = obj, list[str | int](), len(error["loc"]) - 1
    for n, step in enumerate(error["loc"]):
        inside = (isinstance(node, dict) and step in node) or (
            isinstance(node, list) and isinstance(step, int) and step < len(node)
        )
        if inside:
            node = node[step]
            steps.append(step)
        elif n == last and error["type"] == "missing":
            steps.append(step)
    if error["type"].startswith("union_tag"):
        steps.append("type")
    return tuple(steps)


def _told(steps: Steps, group: list[ErrorDetails], obj: dict[str, Any]) -> Detail:
    words = list(dict.fromkeys(_word(error) for error in group))
    expected = " or ".join(word for word in words if word)
    if any(error["type"] in {"missing", "union_tag_not_found"} for error in group):
        return missing(steps, expected)
    value: Any = obj
    for step in steps:
        value = value[step]
    return refused(steps, expected, value)


def _word(error: ErrorDetails) -> str:
    if error["type"] == EXPECTED:
        return error["msg"]
    if error["type"] == "union_tag_invalid":
        return listed(tuple(str(error["ctx"]["expected_tags"]).replace("'", "").split(", ")))
    if error["type"] == "missing":
        return {"messages": "an array of messages", "role": "a string"}.get(str(error["loc"][-1]), "")
    return WORDS.get(error["type"], error["msg"])


# llama.cpp reads one of several names for the same thing, the first that is set
SHADOWS: dict[str | int, tuple[str, ...]] = {
    "max_tokens": ("n_predict", "max_completion_tokens"),
    "max_completion_tokens": ("n_predict",),
    "n": ("n_cmpl",),
}


def _unread(steps: Steps, obj: dict[str, Any], kind: Kind) -> bool:
    """Whether an engine does not read this field, and so cannot mind what it holds.

    SGLang reads only role and content of a user; vLLM reads tool_calls of an assistant, tool_call_id of a tool, and no
    name of a tool. llama.cpp, Ollama and TGI read one kind of message only.
    """
    if kind is Kind.LLAMACPP and len(steps) == 1:
        return any(obj.get(name) is not None for name in SHADOWS.get(steps[0], ()))
    if len(steps) < 3 or steps[0] != "messages" or kind in {Kind.LLAMACPP, Kind.OLLAMA, Kind.TGI}:
        return False
    role = obj["messages"][steps[1]].get("role")
    if kind is Kind.SGLANG:
        return role == "user" and steps[2] not in {"role", "content"}
    return (
        (steps[2] == "tool_calls" and role != "assistant")
        or (steps[2] == "tool_call_id" and role != "tool")
        or (steps[2] == "name" and role == "tool")
    )
