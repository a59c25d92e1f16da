"""Lists that come again and again: each element is decoded and read once, while it stays the same.

Rules
- A list whose elements are objects that begin with their ID, as Docker writes them, is cut at their borders without decoding.
  Inside of an element the same bytes would be between brackets, so a cut there leaves no JSON: then the whole list is decoded
  as lists are.

It must not know: what the elements mean.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from autohedge.sources.docker_api import elements

T = TypeVar("T")

HEAD, BORDER, ENDS = b'{"ID":"', b'},{"ID":"', (b"}]", b"}]\n")


class Recall(Generic[T]):
    """What the elements of one list mean. `read` is asked once for each that is new."""

    def __init__(self, read: Callable[[Any], T]) -> None:
        self._read = read
        self._known: dict[bytes, T] = {}

    def take(self, body: bytes, who: str, breathe: Callable[[], object]) -> list[T]:
        """What every element of the list means, in order. Raises ApiError for what is no list; `who` begins its sentence."""
        if body.startswith(b"[" + HEAD) and body.endswith(ENDS):
            try:
                return self._pieces(body, breathe)
            except ValueError:
                pass
        return [self._read(element) for element in elements(body.decode("utf-8", "replace"), who)]

    def _pieces(self, body: bytes, breathe: Callable[[], object]) -> list[T]:
        known: dict[bytes, T] = {}
        found = []
        for piece in _cut(body, 1 + len(HEAD), body.rindex(b"}]")):
            breathe()
            one = known.get(piece)
            if one is None:
                one = self._known.get(piece)
                if one is None:
                    one = self._read(json.loads(HEAD + piece + b"}"))
                known[piece] = one
            found.append(one)
        self._known = known
        return found


def _cut(body: bytes, at: int, end: int) -> Iterator[bytes]:
    """What stands between the borders. One after the other: to cut megabytes at once holds the interpreter for 10 ms."""
    while (border := body.find(BORDER, at, end)) >= 0:
        yield body[at:border]
        at = border + len(BORDER)
    yield body[at:end]
