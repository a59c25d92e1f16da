"""How a finding reads: one sentence with the field's path, what is accepted, and what came instead.

Rules
- A message reads alone, without the body and without knowing an engine.
- A value is shown shortened to `LONGEST` characters; of objects and arrays only the outline is shown, because anything
  may be inside. What people wrote (prompts, contents) and fields whose name hints at a secret show only what kind of
  value came: findings travel to logs and reports. Counts of tokens are no secrets.

It must not know: schemas, kinds.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any

from autohedge.core.problems import Detail

LONGEST = 80
SECRET = re.compile(r"key|token(?!s\b)|secret|password|credential|authorization", re.IGNORECASE)
PRIVATE = frozenset(
    {"content", "text", "prompt", "input", "arguments", "query", "documents", "reasoning_content", "user"}
)


def path_of(steps: Iterable[str | int]) -> str:
    """The field's path as a client writes it: ("messages", 0, "role") is "messages[0].role"."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return _clean(text[:200])


def told(value: Any) -> str:
    """What came, as it stands behind "got "."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the string {_quoted(value)}"
    if isinstance(value, int | float):
        return f"the number {_number(value)}"
    return _outline(value)


def short(value: Any) -> Any:
    """A copy of a value that is safe to show."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, str):
        return _quoted(value)[1:-1]
    if isinstance(value, int | float):
        number = _number(value)
        return value if math.isfinite(value) and number[:4] != "with" else number
    return _outline(value)


def refused(steps: Iterable[str | int], expected: str, value: Any) -> Detail:
    """The finding that a field holds something else than `expected`."""
    steps = tuple(steps)
    path = path_of(steps)
    name = next((step for step in reversed(steps) if isinstance(step, str)), "")
    if isinstance(value, str) and (name in PRIVATE or SECRET.search(name)):
        return Detail(path, "invalid_value", f"{path}: expected {expected}, got a string")
    return Detail(path, "invalid_value", f"{path}: expected {expected}, got {told(value)}", value=short(value))


def missing(steps: Iterable[str | int], expected: str = "") -> Detail:
    """The finding that a field is not there."""
    path = path_of(steps)
    return Detail(path, "invalid_value", f"{path}: is required" + (f", expected {expected}" if expected else ""))


def said(steps: Iterable[str | int], sentence: str) -> Detail:
    """A finding in other words; `sentence` follows the path and a colon."""
    path = path_of(steps)
    return Detail(path, "invalid_value", f"{path}: {sentence}")


def _quoted(text: str) -> str:
    cut = text if len(text) <= LONGEST - 2 else text[: LONGEST - 5] + "..."
    return _clean(f'"{cut}"')


def _clean(text: str) -> str:
    """Without halves of surrogate pairs, which no encoding can write."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _number(value: float) -> str:
    if isinstance(value, int) and value.bit_length() > 256:
        return f"with about {value.bit_length() * 3 // 10} digits"
    return json.dumps(value)


def _outline(value: Any) -> str:
    if isinstance(value, dict):
        names = ", ".join(str(name) for name in list(value)[:8])
        text = f"an object with {names}" if value else "an empty object"
    else:
        text = f"an array of {len(value)}" if value else "an empty array"
    return _clean(text if len(text) <= LONGEST else text[: LONGEST - 3] + "...")


def listed(words: tuple[str, ...]) -> str:
    """Words in quotes, as a sentence lists them."""
    return ", ".join(f'"{word}"' for word in words[:-1]) + f' or "{words[-1]}"'
