"""Random and mutated bodies from a seed: valid ones with bytes or values changed, and their frames on the wire."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Iterator
from typing import Any

import zstandard

from tests.e2e.habits.exchange import post
from tests.e2e.habits.made import DIALECTS
from tests.e2e.habits.odd import table

DOORS = (
    "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages", "/v1/rerank",
    "/v1/sparse-embeddings", "/v1/embeddings:both", "/openai/deployments/tiny/chat/completions", "/openai/v1/chat/completions",
)  # fmt: skip
ODD = tuple((row.path, row.body) for row in table() if len(row.body) < 3000)
GOOD = tuple(
    (made.split(b" ")[1].decode(), made.partition(b"\r\n\r\n")[2].replace(b'"vectors"', b'"tiny"'))
    for made in DIALECTS.values()
)
PIECES: tuple[bytes, ...] = (
    b"\x00", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r\n\r\n", b"\r\nX-Evil: 1\r\n", b'"', b"\\", b"\\u0000", b"\\ud800",
    b"{", b"}", b"[", b"]", b",", b":", b"null", b"NaN", b"-Infinity", b"1e999", b"-0", b"9" * 30, b"9" * 5000, b"true", b"[" * 300,
    b'{"a":' * 200, b'"model":"tiny"', b'"model":', b'"messages":[', b'"stream":true,', b"data: [DONE]\n\n", b"/*", b"\xe4\xbd\xa0",
    b"${ENV}", b"../../etc/passwd", b"%s%n", b"<script>", b"POST / HTTP/1.1\r\n\r\n",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**64), 1.5, 1e308, "", "a", "tiny", "1", "\x00", "\ud800", "你" * 50, "a\r\nX: 1",
    [], {}, [[]], [None], [{}], {"": ""}, {"type": "text"}, {"role": "user"}, ["a"] * 50, {"a": {"a": {"a": {}}}}, "x" * 2000,
)  # fmt: skip
MIMES: tuple[str | None, ...] = (
    "application/json",
    "text/plain",
    None,
    "application/x-www-form-urlencoded",
    "x",
    "a/b;c=\xe9",
)


def requests(seed: int, many: int) -> Iterator[bytes]:
    """`many` whole requests with honest frames; the same ones for the same seed."""
    draw = random.Random(seed)
    for _ in range(many):
        path, body = draw.choice(GOOD if draw.random() < 0.7 else ODD)
        body, headers = _mutated(draw, body), []
        if draw.random() < 0.2:
            path = draw.choice(DOORS)
        if draw.random() < 0.1:
            name, body = _packed(draw, body)
            headers.append(f"Content-Encoding: {name}")
        yield post(path, body, *headers, mime=draw.choice(MIMES) if draw.random() < 0.2 else MIMES[0])


def _mutated(draw: random.Random, body: bytes) -> bytes:
    if draw.random() < 0.6:
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            pass
        else:
            for _ in range(draw.choice((1, 1, 2, 5))):
                value = _changed(draw, value, 0 if isinstance(value, dict) else 1)
            return json.dumps(value, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass")
    raw = bytearray(body)
    for _ in range(draw.choice((1, 1, 1, 2, 4, 16))):
        at, much = draw.randrange(len(raw) + 1), draw.randrange(1, 20)
        match draw.randrange(6):
            case 0 if raw:
                raw[min(at, len(raw) - 1)] ^= 1 << draw.randrange(8)
            case 1:
                del raw[at : at + much]
            case 2:
                raw[at:at] = draw.choice(PIECES)
            case 3:
                raw[at:at] = raw[at : at + much]
            case 4:
                raw[at:] = draw.choice(GOOD)[1][at:]
            case _:
                raw[at : at + much] = draw.randbytes(much)
    return bytes(raw)


def _changed(draw: random.Random, value: Any, level: int) -> Any:
    """A copy with one value in it replaced, removed, doubled or wrapped; the outermost object stays one."""
    deeper = level == 0 or draw.random() < 0.85
    if isinstance(value, dict) and value and deeper:
        copy, key = dict(value), draw.choice(list(value))
        match draw.randrange(8):
            case 0:
                del copy[key]
            case 1:
                copy[draw.choice(("model", "messages", "stream", "n", "x", ""))] = draw.choice(VALUES)
            case _:
                copy[key] = _changed(draw, value[key], level + 1)
        return copy
    if isinstance(value, list) and value and deeper:
        items, at = list(value), draw.randrange(len(value))
        match draw.randrange(8):
            case 0:
                del items[at]
            case 1:
                items *= draw.choice((2, 50))
            case _:
                items[at] = _changed(draw, value[at], level + 1)
        return items
    if draw.random() < 0.1:
        for _ in range(draw.choice((3, 160, 300))):
            value = [value] if draw.random() < 0.5 else {"a": value}
        return value
    return draw.choice(VALUES)


def _packed(draw: random.Random, body: bytes) -> tuple[str, bytes]:
    """A Content-Encoding, mostly an honest one."""
    match draw.randrange(6):
        case 0:
            return "gzip", gzip.compress(body, mtime=0)
        case 1:
            return "zstd", zstandard.compress(body)
        case 2:
            return "deflate", zlib.compress(body)
        case 3:
            return "gzip", gzip.compress(body, mtime=0)[: draw.randrange(30)]
        case 4:
            return draw.choice(("gzip", "br", "zstd", "deflate", "gzip, br", "identity, gzip")), body
        case _:
            return draw.choice(("rot13", "", ",", "gzip" * 100, "\xe9", "gzip,gzip,gzip,gzip,gzip")), body
