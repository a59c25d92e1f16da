"""Undoes Content-Encoding, so that a body can be read. What is forwarded stays as it came.

Rules
- gzip (several members), deflate (with and without the zlib head: clients send both), br, zstd (several frames), identity;
  a list is undone from its end (RFC 9110, 8.4). An empty list is identity.
- The decoded size is bounded while decoding, so a small body that unpacks to gigabytes costs no more than the bound.
- A stream that ends early, or that has other bytes behind its end, is broken: 400 `invalid_encoding`.

It must not know: JSON, doors, or which engine reads compressed bodies.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import brotli
import zstandard

from autohedge.core.problems import BadRequest, TooLarge, Unsupported

LAYERS = 4  # encodings in one list; nobody honest sends more
STEP = 1 << 18  # bytes of output asked for at once
SLICE = (
    512  # bytes of zstd input at once: 128 blocks of at most 128 KiB, so 16 MiB is the most that one step unpacks to
)


class _BrokenError(Exception):
    """The bytes are not what the header says."""


class _Output:
    """Collects decoded bytes and refuses to hold more than `most` of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._most:
            message = f"the decoded body is larger than the {self._most} bytes that are accepted"
            raise TooLarge(message, code="invalid_encoding")
        self._pieces.append(piece)

    def joined(self) -> bytes:
        return b"".join(self._pieces)


def decode(raw: bytes, encoding: str, max_decoded: int) -> bytes:
    """The body without the layers that `encoding` (the header's value) names.

    Raises Unsupported for an encoding that is not known, BadRequest when the bytes do not fit it, TooLarge when more
    than `max_decoded` bytes come out of any layer.
    """
    names = [name.strip().lower() for name in encoding.split(",") if name.strip()]
    if len(names) > LAYERS:
        raise BadRequest(f"Content-Encoding names more than {LAYERS} encodings", code="invalid_encoding")
    for name in reversed(names):
        undo = DECODERS.get(name)
        if undo is None:
            known = ", ".join(sorted(DECODERS))
            raise Unsupported(f"Content-Encoding {name[:40]!r} is not one that can be read; these are: {known}")
        output = _Output(max_decoded)
        try:
            undo(raw, output)
        except (_BrokenError, zlib.error, brotli.error, zstandard.ZstdError):
            raise BadRequest(f"the body is not valid {name} data", code="invalid_encoding") from None
        raw = output.joined()
    return raw


def _identity(raw: bytes, output: _Output) -> None:
    output.add(raw)


def _gzip(raw: bytes, output: _Output) -> None:
    """Members one after the other; zeros behind the last are padding, as in files."""
    while raw:
        raw = _inflate(raw, output, 31).lstrip(b"\0")


def _deflate(raw: bytes, output: _Output) -> None:
    """RFC 9110 means the zlib format; some clients send the bare stream. The zlib head tells them apart."""
    zlib_head = len(raw) >= 2 and raw[0] & 0x0F == 8 and (raw[0] << 8 | raw[1]) % 31 == 0
    if _inflate(raw, output, zlib.MAX_WBITS if zlib_head else -zlib.MAX_WBITS):
        raise _BrokenError


def _inflate(raw: bytes, output: _Output, window: int) -> bytes:
    """One zlib stream into `output`; gives the bytes behind its end."""
    stream = zlib.decompressobj(window)
    while not stream.eof:
        piece = stream.decompress(raw, STEP)
        raw = stream.unconsumed_tail
        output.add(piece)
        if not piece and not raw and not stream.eof:
            raise _BrokenError
    return bytes(stream.unused_data)


def _brotli(raw: bytes, output: _Output) -> None:
    """The library hands out at most `STEP` bytes at once, and nothing more when it waits for bytes that never come."""
    stream: Any = brotli.Decompressor()
    output.add(stream.process(raw, output_buffer_limit=STEP))
    while not stream.is_finished():
        piece = stream.process(b"", output_buffer_limit=STEP)
        if not piece and stream.can_accept_more_data():
            raise _BrokenError
        output.add(piece)


def _zstd(raw: bytes, output: _Output) -> None:
    """Frames one after the other; the window is bounded by what zstandard allows by default (128 MiB)."""
    rest = memoryview(raw)
    while rest:
        frame = zstandard.ZstdDecompressor().decompressobj()
        while not frame.eof:
            if not rest:
                raise _BrokenError
            output.add(frame.decompress(rest[:SLICE]))
            rest = rest[SLICE:]
        behind = len(frame.unused_data)
        rest = memoryview(raw)[len(raw) - len(rest) - behind :]


DECODERS: dict[str, Callable[[bytes, _Output], None]] = {
    "identity": _identity,
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
