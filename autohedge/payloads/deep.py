"""Nesting without recursion: how deep a body goes, and a copy of it that any parser can take.

Rules
- Depth counts objects and arrays, as vLLM 0.32 counts the nesting of a schema: `{}` is 1, `{"a": []}` is 2.
- Parsers give up far earlier than llama.cpp, which serves 100,000 levels in a field that it does not know. So what lies
  deeper than `CUT` levels is replaced by null before the body is parsed; the engine still gets every byte.
- Brackets are matched in the part that is cut out; its other grammar is left to the engine. Nothing valid is refused.

It must not know: fields, doors, kinds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

CUT = 150  # levels kept: below what jiter (200) and the standard library (the interpreter's recursion limit) can take
TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
CLOSES = {ord("]"): ord("["), ord("}"): ord("{")}


class UnbalancedError(ValueError):
    """A bracket that closes nothing, or that was never closed; `at` is its byte position in the body."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at


@dataclass(slots=True)
class Pruned:
    """`text` is the body without what lies deeper than `CUT`; `depth` is the depth of the whole body."""

    text: bytes
    depth: int
    cuts: list[tuple[int, int]] = field(default_factory=list)  # position in `text`, bytes missing there

    def original(self, at: int) -> int:
        """The byte position in the whole body that belongs to position `at` of `text`."""
        return at + sum(missing for start, missing in self.cuts if start < at)


def pruned(body: bytes, most: int) -> Pruned:
    """Cuts what lies deeper than `CUT` levels. Raises UnbalancedError, also for a body deeper than `most` levels."""
    open_: list[tuple[int, int]] = []
    pieces: list[bytes] = []
    cuts: list[tuple[int, int]] = []
    depth = kept_to = length = 0
    for token in TOKEN.finditer(body):
        at = token.start()
        byte = body[at]
        if byte == 0x22:
            continue
        if byte in CLOSES:
            if not open_ or open_[-1][0] != CLOSES[byte]:
                raise UnbalancedError(at, f"{chr(byte)!r} closes nothing")
            start = open_.pop()[1]
            if len(open_) == CUT:
                pieces += body[kept_to:start], b"null"
                length += start - kept_to + 4
                cuts.append((length, token.end() - start - 4))
                kept_to = token.end()
        else:
            open_.append((byte, at))
            if len(open_) > depth:
                depth = len(open_)
                if depth > most:
                    raise UnbalancedError(at, f"nested deeper than {most} levels")
    if open_:
        raise UnbalancedError(len(body), f"{chr(open_[-1][0])!r} at byte {open_[-1][1]} is never closed")
    pieces.append(body[kept_to:])
    return Pruned(b"".join(pieces), depth, cuts)


def deeper(value: Any, most: int) -> bool:
    """Whether objects and arrays nest more than `most` levels in a parsed value."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(most):
        if not level:
            return False
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
    return bool(level)
