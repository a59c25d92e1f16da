"""The bytes of a System One request: encodings, multipart, keys that stand twice, the words of a refusal."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from typesafe_sdk._core.multipart import Part, encode_multipart

from autohedge.core.problems import BadRequest, TooLarge, Unsupported
from autohedge.core.types import Kind
from autohedge.payloads.parse import parse
from autohedge.payloads.systemone_body import opened, reworded
from tests.payloads.decisions import MEDIA, NOUL, against, asking, codes, read

BODY = json.dumps(asking(NOUL)).encode()
MOST = 1 << 20


def form(*parts: Part) -> tuple[str, bytes]:
    """A multipart body as the typesafe-sdk writes it."""
    return encode_multipart(parts)


@pytest.mark.parametrize(
    ("encoding", "raw"),
    [
        ("gzip", gzip.compress(BODY)),
        ("GZIP", gzip.compress(BODY)),
        ("x-gzip", gzip.compress(BODY)),
        ("zstd", zstandard.compress(BODY)),
        ("identity", BODY),
        ("gzip, zstd", zstandard.compress(gzip.compress(BODY))),
    ],
    ids=["gzip", "upper case", "x-gzip", "zstd", "identity", "both"],
)
def test_compressed_bodies_are_understood(encoding: str, raw: bytes) -> None:
    """Fact 0.6: the typesafe-sdk compresses from 1 KB on."""
    assert read(raw, encoding).findings(Kind.TYPESAFE) == ()


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, br", "lzma"])
def test_other_encodings_are_a_415(encoding: str) -> None:
    """Systemone facts 11, 44."""
    with pytest.raises(Unsupported, match="accepted are identity, gzip, zstd") as refused:
        read(BODY, encoding)
    assert refused.value.code == "unsupported_encoding"


def test_bytes_that_are_not_what_the_header_says() -> None:
    with pytest.raises(BadRequest, match="not valid zstd"):
        read(BODY, "zstd")
    with pytest.raises(TooLarge):
        opened(gzip.compress(b" " * (MOST + 1)), "gzip", MEDIA, MOST)


def test_a_multipart_body_is_its_part_request() -> None:
    """Fact 0.6: image assets come as parts beside it; the rest is not copied or read."""
    body = asking(NOUL, assets={"<image:1>": {"type": "image", "part": "asset-0"}})
    media, raw = form(
        Part("request", MEDIA, json.dumps(body).encode()), Part("asset-0", "image/png", b"\x89PNG\r\n--\n", "asset-0")
    )
    assert read(raw, media=media).ask.obj == body
    assert read(zstandard.compress(raw), "zstd", media).findings(Kind.TYPESAFE) == ()
    assert codes(Kind.SYSTEMONE, raw, media) == []


def test_an_asset_that_points_nowhere() -> None:
    body = asking(NOUL, assets={"<i>": {"part": "asset-1"}})
    media, raw = form(Part("asset-0", "image/png", b"x"), Part("request", MEDIA, json.dumps(body).encode()))
    (found,) = against(Kind.TYPESAFE, raw, media)
    assert (found.code, found.param) == ("missing_field", "assets.<i>.part")


def test_who_reads_no_multipart() -> None:
    """Seen on llama.cpp b11549 (400); SGLang wants application/json."""
    media, raw = form(Part("request", MEDIA, BODY))
    for kind in (Kind.SGLANG, Kind.LLAMACPP, Kind.OLLAMA):
        assert codes(kind, raw, media) == ["unsupported_media_type"]


@pytest.mark.parametrize(
    ("media", "raw"),
    [
        ("multipart/form-data; boundary=x", b"--x\nContent-Disposition: form-data; name=request\n\n%s\n--x--" % BODY),
        ('Multipart/Form-Data; a=b; BOUNDARY="x y"',
         b'preamble\r\n--x y\r\ncontent-disposition: form-data; filename="name=a"; name="request"\r\n\r\n%s\r\n--x y--\r\n' % BODY),
    ],
)  # fmt: skip
def test_other_spellings_of_multipart(media: str, raw: bytes) -> None:
    assert read(raw, media=media).ask.model == "m"


@pytest.mark.parametrize("file", ["; name=request", "; name=request;", r"\"; name=\"request"])
def test_what_a_file_is_called_is_no_name_of_a_part(file: str) -> None:
    """Another part than the worker's would be read, and its model and state routed by."""
    head = f'Content-Disposition: form-data; filename="{file}"; name="asset"'.encode()
    raw = (
        b'--x\r\n%b\r\n\r\n{"model":"other"}\r\n--x\r\nContent-Disposition: form-data; name=request\r\n\r\n%b\r\n--x--'
    )
    assert read(raw % (head, BODY), media="multipart/form-data; boundary=x").ask.model == "m"


@pytest.mark.parametrize(
    ("media", "raw", "why"),
    [
        ("multipart/form-data", BODY, "names no boundary"),
        ("multipart/form-data; boundary=x", BODY, "no part named 'request'"),
        ("multipart/form-data; boundary=x", b"--x\r\nA: b\r\n\r\n1\r\n--x--", "no part named 'request'"),
        ("multipart/form-data; boundary=x", b"--x\r\nA: b\r\n\r\n1", "ends inside a part"),
        ("multipart/form-data; boundary=x", b"--x\r\nA: b\r\n--x--", "has no headers"),
        ("multipart/form-data; boundary=x", b"--x--", "no part named 'request'"),
    ],
)
def test_broken_multipart(media: str, raw: bytes, why: str) -> None:
    with pytest.raises(BadRequest, match=why) as refused:
        read(raw, media=media)
    assert refused.value.code == "invalid_body"


@given(raw=st.binary(max_size=80), boundary=st.sampled_from(["x", "-", "--", "\n"]))
def test_any_bytes_of_multipart_end_well(raw: bytes, boundary: str) -> None:
    for body in (raw, b"--" + boundary.encode() + b"\r\n" + raw + b"\n--" + boundary.encode() + b"--"):
        with suppress(BadRequest):
            opened(body, "", f"multipart/form-data; boundary={boundary}", MOST)


@pytest.mark.parametrize(
    ("raw", "twice"),
    [
        (b'{"model":"a","model":"b"}', ("model",)),
        (b'{"state":1,"questions":{},"state":2,"questions":[]}', ("state", "questions")),
        (b'{"model":"a","state":{"model":"b","state":[{"state":1}]},"questions":{"model":{}}}', ()),
        (b'{"state":"model","model":"model","x":["model","model"]}', ()),
        (b'{"state":"\\\\","model":"a\\"model\\":","model" : "b"}', ("model",)),
        (b'{"state":"\\"model\\":","model":"a"}', ()),
        (b'{"model":"a"}{"model":"b"}', ("model",)),
        (b"", ()),
    ],
)
def test_keys_that_stand_twice(raw: bytes, twice: tuple[str, ...]) -> None:
    """Systemone facts 11, 37: at the top only; inside a state anything may stand."""
    assert opened(raw, "", MEDIA, MOST).twice == twice


@given(
    st.recursive(
        st.sampled_from(["model", "state", '"model":', "\\", "{", "]", 1]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["model", "state", "x"]), inner),
    )
)
def test_what_stands_once_is_never_found_twice(value: Any) -> None:
    for text in (json.dumps({"model": value, "state": value}), json.dumps({"questions": value}, indent=1)):
        assert opened(text.encode(), "", MEDIA, MOST).twice == ()


def test_the_words_of_a_refusal() -> None:
    for raw, code in (
        (b"", "empty_body"),
        (b"\n ", "empty_body"),
        (b"\xff", "invalid_encoding"),
        (b"{,", "invalid_json"),
    ):
        with pytest.raises(BadRequest) as refused:
            parse(raw, 100)
        said = reworded(refused.value, raw)
        assert said.code == code
        assert said.message.startswith("request body")
