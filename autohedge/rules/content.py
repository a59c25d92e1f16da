"""What an answer holds: text, a vector, or nothing at all, however well it is formed.

Rules
- Reasoning, a tool call or a refusal is something; so is an answer that its bound cut off before its first visible word
  (`finish_reason: length`).
- One character again and again is nothing (T88), and so is a vector of zeros.
- `hollow` is for answers to callers. It finds what may be nothing by a search, and parses only that: an answer that speaks is not
  parsed. A caller may have wanted such an answer (a stop text that came at once), so it speaks against nobody; but it proves
  nothing either, or it would keep the probes away from a model that has gone dumb.

It must not know: verdicts, probes, whose answer it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeGuard

from autohedge.providers import common
from autohedge.providers.errors import parsed

EMPTY, SAME, ZEROS = "an empty answer", "one character again and again", "a vector of zeros"
_REASONING = ("reasoning_content", "reasoning", "thinking")
_OTHER = ("tool_calls", "function_call", "refusal", "audio")
_HEAD = 1024  # bytes in which an answer begins to speak
_LONGEST = 4  # bytes of one character
_HALF = 12  # bytes: a character that is repeated fills them, however many bytes it has
_DOUBTFUL = frozenset(b'"\\ \t')  # what a text that may be nothing begins with: its end, an escape, a blank


def no_text(choice: Mapping[str, Any], repeats: int) -> str:
    """Why a choice says nothing, or "". `repeats`: how often one character must stand alone to be no text, 0 never."""
    message = common.mapping(choice.get("message"))
    text = _text(message.get("content")) or _text(choice.get("text"))
    text = text or next((found for key in _REASONING if (found := _text(message.get(key)))), "")
    if text:
        seen = "".join(text.split())
        same = 0 < repeats <= len(seen) and len(set(seen)) == 1
        return SAME if same else ""
    return "" if any(map(message.get, _OTHER)) or choice.get("finish_reason") == "length" else EMPTY


def _text(value: Any) -> str:
    """Text with something in it: a string, or the text parts of a list."""
    if isinstance(value, list):
        value = "".join(part["text"] for part in common.objects(value) if isinstance(part.get("text"), str))
    return value if isinstance(value, str) and value.strip() else ""


def no_vector(body: Mapping[str, Any]) -> str:
    """Why the first vector is none, or ""."""
    data = common.objects(body.get("data"))
    vector = data[0].get("embedding") if data else None
    if isinstance(vector, str):  # base64
        return "" if vector else "an empty vector"
    numbers = vector if isinstance(vector, list) else []
    if numbers and isinstance(numbers[0], list):  # one vector per token
        numbers = numbers[0]
    if not numbers:
        return "no vector"
    if not all(is_number(value) for value in numbers):
        return "a vector with something that is no number"
    return "" if any(numbers) else ZEROS


def is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def hollow(body: bytes, repeats: int) -> str:
    """Why a whole answer to a caller holds nothing, or "" when it does or cannot be told."""
    if body.find(b'"choices"', 0, _HEAD) >= 0:
        return "" if _speaks(body, repeats) else _all_silent(body, repeats)
    at = body.find(b'"embedding"', 0, _HEAD)
    if at < 0:
        return ""
    start = body.find(b"[", at, at + 20) + 1
    if not start or body[start : start + 4].lstrip(b"[ \n")[:1] not in (b"0", b"n", b"N", b"]"):
        return ""
    found = common.mapping(parsed(body))
    return no_vector(found) if found else ""


def _speaks(body: bytes, repeats: int) -> bool:
    """Whether a text surely says something, by its first bytes."""
    at = body.find(b'"content":', 0, _HEAD) + 10
    if at < 10:
        at = body.find(b'"text":', 0, _HEAD) + 7
        if at < 7:
            return False
    if body[at : at + 1] == b" ":
        at += 1
    if body[at : at + 1] != b'"':
        return False
    seen = body[at + 1 : at + 1 + 2 * _HALF]
    if not seen or seen[0] in _DOUBTFUL:
        return False
    end = seen.find(b'"')
    if end < 0:
        return seen[:_HALF] != seen[_HALF:]
    return end < repeats or len(set(seen[:end])) > _LONGEST


def _all_silent(body: bytes, repeats: int) -> str:
    choices = common.objects(common.mapping(parsed(body)).get("choices"))
    why = [no_text(choice, repeats) for choice in choices]
    return why[0] if why and all(why) else ""
