r"""The bytes of the top-level "model" value, so that a name can be replaced without touching anything else of a body.

Rules
- The last top-level "model" counts: every parser in use keeps the last of duplicate keys.
- A key may be spelled with escapes ("mod\u0065l"); whitespace may stand anywhere JSON allows it; a byte order mark stays.
- Nothing here parses. Escapes are blanked out in a copy of the same length, in which every quote is then a real one; the
  nesting at a place is counted in what stands outside of strings behind it. All of that runs in C, so a 32 MiB body with
  an image costs milliseconds.
- For bytes that are no JSON object the answer has no meaning, but there is one: nothing is raised.

It must not know: doors, what a model is.
"""

from __future__ import annotations

import json
import re

BOM = b"\xef\xbb\xbf"
KEY = b'"model"'
ESCAPED_KEY = re.compile(rb'"(?:m|\\u006[dD])(?:o|\\u006[fF])(?:d|\\u0064)(?:e|\\u0065)(?:l|\\u006[cC])"')
COLON = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*")
BARE = re.compile(rb"[^ \t\r\n,\]}]*")
BRACKET_OR_STRING = re.compile(rb'"[^"]*"|[\[\]{}]')
OPENING = re.compile(rb"[ \t\r\n]*\{[ \t\r\n]*")


def model_span(body: bytes) -> tuple[int, int] | None:
    """Start and end of the value of the last top-level "model", quotes included; None when there is none.

    Also None for a body that is not UTF-8: `with_model` can handle those, byte positions cannot.
    """
    if _encoding(body) != "utf-8":
        return None
    plain = body
    if b"\\" in body:
        plain = body.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    stop = plain.find(b"\0")  # llama.cpp reads no further, and nobody else takes such a body
    level, behind = 0, len(plain) if stop < 0 else stop
    for end in reversed(_key_ends(plain, behind)):
        level += rise(plain, end, behind)
        behind = end
        colon = COLON.match(plain, end)
        if level == 1 and colon:
            return colon.end(), _value_end(plain, colon.end())
    return None


def with_model(body: bytes, name: str) -> bytes:
    """The body with `name` as its model. A value that stands there, null too, is replaced; where there is none, one is
    put in front of the first member. Nothing else changes, and a body that is no object comes back as it is.
    """
    encoding = _encoding(body)
    if encoding != "utf-8":
        return _elsewise(body, name, encoding)
    value = json.dumps(name).encode("ascii")
    span = model_span(body)
    if span:
        return b"".join((body[: span[0]], value, body[span[1] :]))
    opening = OPENING.match(body, len(BOM) if body.startswith(BOM) else 0)
    if not opening:
        return body
    at = body.index(b"{", opening.start()) + 1
    comma = b"" if body[opening.end() : opening.end() + 1] == b"}" else b","
    return b"".join((body[:at], b'"model":', value, comma, body[at:]))


def _key_ends(plain: bytes, stop: int) -> list[int]:
    """Where strings end that read "model", keys or values, in order."""
    if b"\\u00" in plain:
        return [match.end() for match in ESCAPED_KEY.finditer(plain, 0, stop)]
    return key_ends(plain, KEY, stop)


def key_ends(plain: bytes, key: bytes, stop: int) -> list[int]:
    """Where `key`, quotes included, ends in a text without escapes, in order."""
    ends = []
    at = plain.find(key, 0, stop)
    while at >= 0:
        ends.append(at + len(key))
        at = plain.find(key, at + 1, stop)
    return ends


def _elsewise(body: bytes, name: str, encoding: str) -> bytes:
    """UTF-16 and UTF-32, which vLLM and SGLang read: the same by way of UTF-8, in the byte order that the body has."""
    order, mark = {
        "utf-16": ("utf-16-le" if body[:1] == b"\xff" else "utf-16-be", body[:2]),
        "utf-32": ("utf-32-le" if body[:1] == b"\xff" else "utf-32-be", body[:4]),
    }.get(encoding, (encoding, b""))
    try:
        text = body[len(mark) :].decode(order)
    except UnicodeDecodeError:
        return body
    return mark + with_model(text.encode("utf-8"), name).decode("utf-8").encode(order)


def _encoding(body: bytes) -> str:
    """UTF-8 unless a NUL or a byte order mark among the first bytes says otherwise."""
    if b"\0" not in body[:4] and body[:2] not in {b"\xff\xfe", b"\xfe\xff"}:
        return "utf-8"
    return json.detect_encoding(body)


def rise(plain: bytes, start: int, end: int) -> int:
    """How many more brackets close than open outside of strings between two places that are outside themselves."""
    outside = plain[start:end]
    if b'"' in outside:
        outside = b"".join(outside.split(b'"')[::2])
    return (outside.count(b"}") + outside.count(b"]")) - (outside.count(b"{") + outside.count(b"["))


def _value_end(plain: bytes, start: int) -> int:
    first = plain[start : start + 1]
    if first == b'"':
        end = plain.find(b'"', start + 1)
        return len(plain) if end < 0 else end + 1
    if first not in {b"{", b"["}:
        bare = BARE.match(plain, start)
        return bare.end() if bare else start
    level = 0
    for token in BRACKET_OR_STRING.finditer(plain, start):
        level += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(token[0], 0)
        if level == 0:
            return token.end()
    return len(plain)
