"""How a finding about a System One request reads, and where it stands.

Rules
- A sentence reads alone: it names the question, what is wanted and what came, and shows the right form where that is short.
- The path goes along step by step, because question ids hold dots and blanks.
- Ids and names are shown shortened; states, instructions and descriptions never are.

It must not know: which kind refuses what.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from autohedge.core.problems import Detail
from autohedge.payloads.wording import path_of

Steps = tuple[str | int, ...]
LONGEST = 40
MOST = 32  # findings that are told
NAMES = {
    str: "string",
    list: "array",
    dict: "object",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}
FIELDS = frozenset({"type", "instructions", "criteria"})
# what people write in place of a field, as other APIs call it
MEANT = {
    "question": "instructions",
    "prompt": "instructions",
    "text": "instructions",
    "choices": "criteria",
    "options": "criteria",
    "levels": "criteria",
    "labels": "criteria",
    "kind": "type",
}


def at(steps: Steps, code: str, message: str) -> Detail:
    """A finding at a field; `message` reads alone."""
    return Detail(path_of(steps) or None, code, message, steps=steps)


def shown(name: str) -> str:
    """An id or a name in quotes, shortened, on one line."""
    cut = name if len(name) <= LONGEST else name[: LONGEST - 3] + "..."
    return repr(cut.encode("utf-8", "replace").decode("utf-8"))


def of(value: Any) -> str:
    """What kind of value came."""
    return NAMES.get(type(value), "something else")


def typed(steps: Steps, what: str, wanted: str, value: Any) -> Detail:
    """The finding that a field holds another kind of value."""
    return at(steps, "invalid_type", f"{what} must be {wanted}, got {of(value)}")


def listed(words: Iterable[str]) -> str:
    return ", ".join(words)


def as_object(values: list[Any]) -> str:
    """An array of options as the object that it should be."""
    names = [value for value in values if isinstance(value, str) and len(value) <= LONGEST][:3]
    more = ", ..." if len(values) > len(names) else ""
    return "{" + ", ".join(f'"{name}": null' for name in names or ["a", "b"]) + more + "}"


def unknown(question: str, key: str, kind: str, value: Any) -> Detail:
    """The finding that a question holds a field that there is not."""
    meant = MEANT.get(key)
    if meant is None:
        close = get_close_matches(key.lower()[:LONGEST], FIELDS, 1)
        meant = close[0] if close else None
    steps: Steps = ("questions", question, key)
    if meant is None:
        a = f"a {kind} question" if kind else "a question"
        return at(
            steps, "unknown_field", f"{shown(key)} is not a field of {a}; its fields are {listed(sorted(FIELDS))}"
        )
    form = ""
    if meant == "criteria" and isinstance(value, list) and key != "levels":
        form = f" as an object {as_object(value)}"
    return at(steps, "unknown_field", f"{shown(key)} is not a field, use {meant!r}{form}")
