"""How the bytes of a System One request become its JSON: Content-Encoding, multipart/form-data, what stands twice.

Rules
- gzip and zstd are undone; the typesafe-sdk sends zstd from 1 KB on. Any other encoding is a 415: no server here is known to
  read it. What is forwarded stays as it came.
- A multipart body is its part `request`, which holds the JSON; the other parts are files that assets point to. Only the part
  that is read is copied.
- Of a key that stands twice every server that was asked takes the last, but what stands between may not, and a router must
  not route by another value than the server answers for: model, state and questions may stand once.

It must not know: fields, kinds.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from autohedge.core.problems import BadRequest, Unsupported
from autohedge.payloads.decode import decode
from autohedge.payloads.span import COLON, key_ends, rise

ENCODINGS = frozenset({"identity", "gzip", "x-gzip", "zstd"})
MULTIPART = "multipart/"
BOUNDARY = re.compile(r';\s*boundary=(?:"([^"]{1,200})"|([^\s";,]{1,200}))', re.IGNORECASE)
PARAMETER = re.compile(rb';\s*([^\s=;"]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s";]+))')
HEAD = 4096  # bytes of a part's own headers
PARTS = 100
ONCE = re.compile(rb'"(?:model|state|questions)"')


@dataclass(frozen=True, slots=True)
class Sent:
    """How a body came, beside the JSON in it. `media` is the Content-Type, "" when there is none; `twice` names the top-level
    keys that stand more than once; `files` are the parts beside `request`, None where the body is no multipart.
    """

    media: str = ""
    twice: tuple[str, ...] = ()
    files: frozenset[str] | None = None
    text: bytes = b""  # the JSON


def opened(raw: bytes, encoding: str, media: str, max_decoded: int) -> Sent:
    """The JSON text of a body, and how it came. Raises Unsupported, BadRequest and TooLarge."""
    if encoding:
        for name in encoding.split(","):
            if name.strip().lower() not in ENCODINGS:
                message = f"Content-Encoding {name.strip()[:40]!r} is not read here; accepted are identity, gzip, zstd"
                raise Unsupported(message, code="unsupported_encoding")
        raw = decode(raw, encoding, max_decoded)
    files = None
    if media[: len(MULTIPART)].lower() == MULTIPART:
        raw, files = _request(raw, media)
    return Sent(media, _twice(raw), files, raw)


def json_part(raw: bytes, media: str) -> bytes:
    """What of a body would be parsed; all of it where it is no multipart, or a broken one."""
    if media[: len(MULTIPART)].lower() == MULTIPART:
        with suppress(BadRequest):
            return _request(raw, media)[0]
    return raw


def reworded(problem: BadRequest, raw: bytes) -> BadRequest:
    """The refusal of a body that is no JSON, in the words of this door."""
    if not raw.strip():
        message = "request body is empty; expected a JSON object with model, state and questions"
        return BadRequest(message, code="empty_body")
    code = "invalid_encoding" if "this is not UTF" in problem.message else problem.code
    return BadRequest(f"request {problem.message}", code=code)


def _request(raw: bytes, media: str) -> tuple[bytes, frozenset[str]]:
    """The part `request` of a multipart body, and the names of the other parts."""
    found = BOUNDARY.search(media)
    if found is None:
        _refuse("Content-Type is multipart but names no boundary")
    mark = b"--" + (found[1] or found[2]).encode("latin-1", "replace")
    at = 0 if raw.startswith(mark) else raw.find(b"\n" + mark) + 1
    request: bytes | None = None
    names: set[str] = set()
    for _ in range(PARTS):
        begin = at + len(mark)
        if not raw.startswith(mark, at) or raw.startswith(b"--", begin):
            break
        after = raw.find(b"\n" + mark, begin)
        if after < 0:
            _refuse("the multipart body ends inside a part")
        name, text = _part(raw, begin, after)
        if name == "request" and request is None:
            request = raw[text : after - (raw[after - 1 : after] == b"\r")]
        else:
            names.add(name)
        at = after + 1
    if request is None:
        _refuse("the multipart body has no part named 'request' that holds the JSON")
    return request, frozenset(names)


def _part(raw: bytes, begin: int, end: int) -> tuple[str, int]:
    """The name of a part and where its content begins."""
    stop = min(end, begin + HEAD)
    places = [(at + len(gap), at) for gap in (b"\r\n\r\n", b"\n\n") if (at := raw.find(gap, begin, stop)) >= 0]
    if not places:
        _refuse("a part of the multipart body has no headers")
    text, head = min(places)
    for line in raw[begin:head].splitlines():
        if line[:20].lower() == b"content-disposition:":
            named = (quoted or bare for key, quoted, bare in PARAMETER.findall(line) if key.lower() == b"name")
            return next(named, b"").decode("utf-8", "replace"), text
    return "", text


def _refuse(message: str) -> NoReturn:
    raise BadRequest(message, code="invalid_body")


def _twice(raw: bytes) -> tuple[str, ...]:
    """The keys that stand in the outermost object more than once. Nearly every body is passed by one search."""
    found = ONCE.findall(raw)
    if len(found) == len(set(found)):
        return ()
    plain = raw.replace(b"\\\\", b"__").replace(b'\\"', b"__") if b"\\" in raw else raw
    twice = (key for key in dict.fromkeys(found) if found.count(key) > 1)
    return tuple(key[1:-1].decode() for key in twice if _at_top(plain, key) > 1)


def _at_top(plain: bytes, key: bytes) -> int:
    """How often a key stands in the outermost object; `plain` has no escapes."""
    level = behind = times = 0
    for end in key_ends(plain, key, len(plain)):
        level -= rise(plain, behind, end)
        behind = end
        if level == 1 and COLON.match(plain, end):
            times += 1
    return times
