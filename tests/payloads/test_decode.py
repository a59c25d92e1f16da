"""Content-Encoding is undone within bounds; what does not fit is told."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from contextlib import suppress

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from autohedge.core.problems import BadRequest, Problem, TooLarge, Unsupported
from autohedge.payloads.decode import decode

BODY = b'{"messages":[{"role":"user","content":"' + b"hello " * 2000 + b'"}]}'
MIB = 1 << 20


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(data) + stream.flush()


def zstd_stream(data: bytes) -> bytes:
    """Frames without a content size, as streaming clients write them."""
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(data) + stream.flush()


ENCODERS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip.compress),
    ("x-gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", raw_deflate),
    ("br", brotli.compress),
    ("zstd", zstandard.compress),
    ("zstd", zstd_stream),
    ("identity", bytes),
]


@pytest.mark.parametrize(("name", "encode"), ENCODERS)
def test_each_encoding(name: str, encode: Callable[[bytes], bytes]) -> None:
    """00b: zstd and gzip bodies come from real clients; deflate comes in both of its readings."""
    assert decode(encode(BODY), name, MIB) == BODY
    assert decode(encode(BODY), f" {name.upper()} ", MIB) == BODY


def test_a_list_is_undone_from_its_end() -> None:
    assert decode(brotli.compress(gzip.compress(BODY)), "gzip, br", MIB) == BODY
    assert decode(BODY, "", MIB) == BODY
    assert decode(BODY, " , ", MIB) == BODY


def test_members_and_frames_follow_each_other() -> None:
    assert decode(gzip.compress(BODY[:99]) + gzip.compress(BODY[99:]) + b"\0\0", "gzip", MIB) == BODY
    assert decode(zstandard.compress(BODY[:99]) + zstd_stream(BODY[99:]), "zstd", MIB) == BODY


@pytest.mark.parametrize(("name", "encode"), ENCODERS[:-1])
def test_broken_data_is_a_400(name: str, encode: Callable[[bytes], bytes]) -> None:
    """Cut short, other bytes behind the end, other bytes altogether."""
    whole = encode(BODY)
    for broken in (whole[:-1], whole[: len(whole) // 2], whole + b"xx", b"x", BODY):
        with pytest.raises(BadRequest) as caught:
            decode(broken, name, MIB)
        assert caught.value.code == "invalid_encoding"


@pytest.mark.parametrize(("name", "encode"), ENCODERS)
def test_a_bomb_stops_at_the_bound(name: str, encode: Callable[[bytes], bytes]) -> None:
    bomb = encode(b"\0" * (8 * MIB))
    with pytest.raises(TooLarge) as caught:
        decode(bomb, name, MIB)
    assert caught.value.status == 413
    assert len(decode(bomb, name, 8 * MIB)) == 8 * MIB


def test_unknown_and_endless_lists() -> None:
    with pytest.raises(Unsupported, match="compress"):
        decode(BODY, "compress", MIB)
    with pytest.raises(BadRequest, match="more than 4"):
        decode(BODY, "gzip, " * 5, MIB)


@given(st.binary(max_size=200), st.sampled_from(["gzip", "deflate", "br", "zstd", "br, gzip"]))
def test_any_bytes_end_in_bytes_or_a_problem(raw: bytes, name: str) -> None:
    with suppress(Problem):
        assert len(decode(raw, name, 1000)) <= 1000
