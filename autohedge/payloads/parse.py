"""Bytes to a parsed object, as leniently as the most lenient engine, with a note of every leniency that was needed.

Rules
- The fast parser (jiter) reads what is plain JSON. Only what it refuses is looked at again, by the standard library,
  which tells what is wrong and where, or shows that one of the engines would take it.
- What only some engines take is served and noted as a `Quirk`; findings.py knows which kinds refuse which quirk.
  Measured: llama.cpp b11549 stops reading at a NUL byte; vLLM 0.32 and SGLang read UTF-16 and UTF-32, NaN and Infinity,
  and lone surrogate escapes; all of them skip one UTF-8 byte order mark, and keep the last of duplicate keys.
- What nobody takes is a 400 `invalid_json` with byte, line and column: trailing data, comments, single quotes, trailing
  commas, control characters in strings, bytes that are not UTF-8, an empty body.
- Depth never ends in a RecursionError: see deep.py.

It must not know: doors, fields, kinds.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NoReturn

from pydantic_core import from_json

from autohedge.core.problems import BadRequest
from autohedge.payloads.deep import UnbalancedError, deeper, pruned

BOM = b"\xef\xbb\xbf"
SHALLOW = 200  # levels that jiter takes, so no parsed copy is deeper than that, and anybody may walk or write it
DIGITS = 4300  # the interpreter's own bound for turning text into an integer
# every escape from left to right, so that an escaped backslash cannot pose as the start of one; group 1 is a lone half
ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


class Quirk(Enum):
    """Something in the body that JSON forbids and some engines take."""

    NOT_FINITE = auto()  # NaN, Infinity
    SURROGATE = auto()  # half of a \\u pair; replaced by U+FFFD in the parsed copy
    NOT_UTF8 = auto()  # UTF-16 or UTF-32
    NUL = auto()  # a NUL byte ends the text; what follows is not read
    HUGE = auto()  # an integer of more than 4300 digits


@dataclass(slots=True)
class Parsed:
    """`depth` is 0 when it was not worth counting: at most the 200 levels that the fast parser takes."""

    obj: dict[str, Any]
    quirks: frozenset[Quirk] = frozenset()
    depth: int = 0


def parse(raw: bytes, max_depth: int) -> Parsed:
    """The body as a dict. Raises BadRequest: `invalid_json`, or `invalid_body` for JSON that is not an object."""
    try:
        value = from_json(raw[3:] if raw.startswith(BOM) else raw, allow_inf_nan=False)
    except ValueError as error:
        odd = _Odd(raw, max_depth)
        return odd.deep() if "recursion limit" in str(error) else odd.parsed()
    return Parsed(_object(value))


def _object(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise BadRequest(f"body: expected a JSON object, got {NAMES[type(value)]}", code="invalid_body")
    return value


NAMES = {
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
    dict: "an object",
}


class _Odd:
    """One body that the fast parser refused."""

    def __init__(self, raw: bytes, max_depth: int) -> None:
        self.quirks: set[Quirk] = set()
        self.max_depth = max_depth
        self.skipped = len(BOM) if raw.startswith(BOM) else 0  # bytes before the text
        self.encoding = "utf-8"
        self.raw = raw[self.skipped :]

    def parsed(self) -> Parsed:
        text = self._text()
        if not text.strip():
            raise BadRequest("body is not valid JSON: it is empty", code="invalid_json")
        try:
            value = self._loads(text)
            if not deeper(value, SHALLOW):
                return Parsed(_object(value), frozenset(self.quirks))
        except RecursionError:
            pass
        except json.JSONDecodeError as error:
            self._refuse(len(text[: error.pos].encode(self.encoding)), text[: error.pos], error.msg)
        return self.deep()

    def _text(self) -> str:
        """The body as text; notes and removes what JSON has no place for."""
        guess = json.detect_encoding(self.raw)
        if guess.startswith(("utf-16", "utf-32")):
            self.quirks.add(Quirk.NOT_UTF8)
            self.encoding = guess
        elif b"\0" in self.raw:
            self.quirks.add(Quirk.NUL)
            self.raw = self.raw[: self.raw.index(0)]
        try:
            text = self.raw.decode(self.encoding)
        except UnicodeDecodeError as error:
            before = self.raw[: error.start].decode(self.encoding, "replace")
            self._refuse(error.start, before, f"this is not {self.encoding.upper()}")
        if "\\ud" in text or "\\uD" in text:
            whole = ESCAPES.sub(self._whole, text.encode("utf-8"))
            text = whole.decode("utf-8")
        return text

    def _whole(self, escape: re.Match[bytes]) -> bytes:
        if escape[1] is None:
            return escape[0]
        self.quirks.add(Quirk.SURROGATE)
        return b"\\ufffd"

    def _loads(self, text: str) -> Any:
        return json.loads(text, parse_constant=self._constant, parse_int=self._integer)

    def _constant(self, name: str) -> float:
        self.quirks.add(Quirk.NOT_FINITE)
        return float(name)

    def _integer(self, digits: str) -> int | float:
        if len(digits) <= DIGITS:
            return int(digits)
        self.quirks.add(Quirk.HUGE)
        return float("-inf" if digits[0] == "-" else "inf")

    def deep(self) -> Parsed:
        """For a body that goes deeper than a recursive parser can follow."""
        body = self._text().encode("utf-8")
        try:
            shallow = pruned(body, self.max_depth)
        except UnbalancedError as error:
            self._refuse(error.at, body[: error.at].decode("utf-8", "replace"), str(error))
        try:
            return Parsed(_object(self._loads(shallow.text.decode("utf-8"))), frozenset(self.quirks), shallow.depth)
        except json.JSONDecodeError as error:
            before = shallow.text.decode("utf-8")[: error.pos].encode("utf-8")
            at = shallow.original(len(before))
            self._refuse(at, body[:at].decode("utf-8", "replace"), error.msg)

    def _refuse(self, byte: int, before: str, why: str) -> NoReturn:
        """A 400 that tells where: `byte` counts from 0 in the text behind a byte order mark, line and column from 1."""
        line = before.count("\n") + 1
        column = len(before) - before.rfind("\n")
        where = f"line {line}, column {column} (byte {byte + self.skipped})"
        message = f"body is not valid JSON at {where}: {why[:1].lower()}{why[1:]}"
        raise BadRequest(message, code="invalid_json") from None
