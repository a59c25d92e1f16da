"""One remembered fact as the store holds it, and what two pictures of it become.

The text is JSON: {"at": epoch seconds of the writing, "until": epoch seconds of its end or null, "value": object or null}.
A null value is a deletion: it is kept for a while, or a worker that was cut off would bring the fact back.

Rules
- The later writing wins. Equal times are settled by the text, so that every worker settles them the same way.
- Where the kind of fact has a merge, two values become one; a deletion is never merged, only later or earlier.
- A merge gets (later, earlier), must be total and must add nothing when applied again, or two workers would correct each other
  for ever.

It must not know: stores, topics, what the values mean.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Value = Mapping[str, Any]
Merge = Callable[[Value, Value], Value]


@dataclass(frozen=True, slots=True)
class Entry:
    """Made by `entry` and `read` only, which keep `text` and the other fields the same fact."""

    value: Value | None
    at: float
    until: float | None
    text: str

    def over(self, now: float) -> bool:
        return self.until is not None and now >= self.until


def entry(value: Value | None, at: float, until: float | None = None) -> Entry:
    """A fact written at `at`; it gets a copy of `value`. Raises TypeError, ValueError or RecursionError when that is no JSON."""
    text = _text(value, at, until)
    return Entry(json.loads(text)["value"], at, until, text)


def read(text: str) -> Entry | None:
    """The fact in a stored text, or None: counters, leases and what others wrote stand beside them."""
    try:
        held = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(held, dict) or held.keys() != {"at", "until", "value"}:
        return None
    value, at, until = held["value"], held["at"], held["until"]
    if not _number(at) or not (until is None or _number(until)) or not (value is None or isinstance(value, dict)):
        return None
    try:
        return Entry(value, at, until, _text(value, at, until))
    except ValueError:  # NaN and Infinity are no JSON, though they can be read
        return None


def resolved(one: Entry, other: Entry, merge: Merge | None) -> Entry:
    """What both together say; the order of the two does not matter."""
    if one.text == other.text:
        return one
    late, early = (one, other) if (one.at, one.text) > (other.at, other.text) else (other, one)
    if merge is None or late.value is None or early.value is None:
        return late
    both = merge(late.value, early.value)
    return late if both == late.value else entry(both, late.at, late.until)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Value | None, at: float, until: float | None) -> str:
    fact = {"at": at, "until": until, "value": value}
    return json.dumps(fact, sort_keys=True, separators=(",", ":"), allow_nan=False)
