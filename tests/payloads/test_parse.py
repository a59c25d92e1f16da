"""Bytes to an object: what engines take is taken, what nobody takes is told with its place."""

from __future__ import annotations

import json
import sys

import pytest

from autohedge.core.problems import BadRequest
from autohedge.payloads.deep import deeper
from autohedge.payloads.parse import Quirk, parse

MOST = 200_000


def problem(raw: bytes) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        parse(raw, MOST)
    return caught.value


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        (b'{\n  "a": 1,\n  "b" 2}', "line 3, column 7 (byte 18)"),
        (b'{"a":1}x', "line 1, column 8 (byte 7)"),
        (b'{"a":1}{"a":1}', "line 1, column 8 (byte 7)"),
        (b'{"a":1,}', "line 1, column"),
        (b'{"a":[1,]}', "line 1, column"),
        (b"{'a':1}", "line 1, column 2 (byte 1)"),
        (b'{"a":1 /* c */}', "line 1, column 8 (byte 7)"),
        (b'{"a":1} // c', "line 1, column 9 (byte 8)"),
        (b'# c\n{"a":1}', "line 1, column 1 (byte 0)"),
        (b'{"a":True}', "line 1, column 6 (byte 5)"),
        (b'{"a":+1}', "line 1, column 6 (byte 5)"),
        (b'{"a":01}', "line 1, column 7 (byte 6)"),
        (b'{"a":"x\ny"}', "line 1, column 8 (byte 7)"),
        (b'{"a":"\\q"}', "line 1, column 7 (byte 6)"),
        (b'{"a"', "line 1, column 5 (byte 4)"),
        (b'{"a":"x', "line 1, column 6 (byte 5)"),
        (b"model=tiny&x=1", "line 1, column 1 (byte 0)"),
        ('{"é":"ü" 1}'.encode(), "line 1, column 10 (byte 11)"),
        (b'\xef\xbb\xbf{"a":}', "line 1, column 6 (byte 8)"),
        (b'{"a":"\xff"}', "line 1, column 7 (byte 6)"),
        (b'{"a":"\xed\xa0\x80"}', "line 1, column 7 (byte 6)"),
        (b'{"a":"\xc0\xaf"}', "line 1, column 7 (byte 6)"),
    ],
)
def test_broken_json_tells_where(raw: bytes, where: str) -> None:
    """T40 and section 00: trailing data, comments, single quotes, bytes that are not UTF-8; refused by every engine."""
    refused = problem(raw)
    assert refused.code == "invalid_json"
    assert where in refused.message


@pytest.mark.parametrize("raw", [b"", b" \r\n\t", b"\xef\xbb\xbf"])
def test_empty(raw: bytes) -> None:
    assert problem(raw).code == "invalid_json"
    assert "empty" in problem(raw).message


@pytest.mark.parametrize(
    ("raw", "what"),
    [(b"[]", "an array"), (b'"x"', "a string"), (b"1", "a number"), (b"null", "null"), (b"true", "true or false")],
)
def test_no_object(raw: bytes, what: str) -> None:
    assert problem(raw).code == "invalid_body"
    assert what in problem(raw).message


def test_plain_json_has_no_quirk() -> None:
    """00b: one byte order mark, odd white space, escapes, 1e0, -0.0, 9007199254740993, duplicate keys (the last counts)."""
    raw = b'\xef\xbb\xbf \r\n{"a" : 1e0, "b": -0.0, "c": 9007199254740993, "d": "\\u00e9\\/\\ud83d\\ude00", "a": 2}\t'
    parsed = parse(raw, MOST)
    assert parsed.quirks == frozenset()
    assert parsed.obj == {"a": 2, "b": -0.0, "c": 9007199254740993, "d": "é/😀"}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_other_encodings(encoding: str) -> None:
    """Section 00: vLLM and SGLang read UTF-16 and UTF-32."""
    parsed = parse('{"a":"é"}'.encode(encoding), MOST)
    assert parsed.obj == {"a": "é"}
    assert parsed.quirks == {Quirk.NOT_UTF8}
    assert problem('{"a":é}'.encode(encoding)).code == "invalid_json"


def test_quirks() -> None:
    parsed = parse(b'{"a":NaN,"b":-Infinity}', MOST)
    assert parsed.quirks == {Quirk.NOT_FINITE}
    assert parse(b'{"a":1}\0{"rubbish', MOST).quirks == {Quirk.NUL}
    assert parse(b'{"a":' + b"9" * 5000 + b"}", MOST).quirks == {Quirk.HUGE}
    assert problem(b'{"a":"x\0y"}').code == "invalid_json"


def test_lone_surrogates_are_noted_and_replaced() -> None:
    """Pairs and escaped backslashes are no surrogates; the copy can be written as UTF-8 again."""
    parsed = parse(b'{"a":"\\ud83d\\ude00 \\\\ud800 \\\\\\ud800 \\udc00"}', MOST)
    assert parsed.obj == {"a": "😀 \\ud800 \\� �"}
    assert parsed.quirks == {Quirk.SURROGATE}
    assert parse(b'{"a":NaN,"b":"\\\\ud800"}', MOST).quirks == {Quirk.NOT_FINITE}


@pytest.mark.parametrize("levels", [150, 199, 201, 500, 985, 1200, 5000, 100_000])
@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_depth_never_ends_in_a_recursion_error(levels: int, opening: bytes) -> None:
    closing = b"]" if opening == b"[" else b"}"
    parsed = parse(b'{"x":' + opening * levels + b"1" + closing * levels + b',"y":1}', MOST)
    assert parsed.obj["y"] == 1
    assert parsed.depth in {0, levels + 1}
    assert levels < 201 or parsed.depth
    for broken in (opening * levels, b'{"x":' + opening * levels + b"1" + closing * levels + b",}"):
        assert problem(broken).code == "invalid_json"


def test_depth_behind_a_quirk() -> None:
    """NaN first, so the standard library meets the depth."""
    raw = b'{"n":NaN,"x":' + b"[" * 5000 + b"]" * 5000 + b"}"
    parsed = parse(raw, MOST)
    assert Quirk.NOT_FINITE in parsed.quirks
    assert parsed.depth == 5001


@pytest.mark.parametrize("levels", [150, 250, 600, 900])
def test_no_parsed_copy_is_deep(levels: int) -> None:
    """Whoever counts a prompt writes the copy down again: it must fit a recursive writer, with a quirk or without."""
    for start in (b'{"n":NaN,"x":', b'{"n":1,"x":'):
        parsed = parse(start + b"[" * levels + b"]" * levels + b"}", MOST)
        assert not deeper(parsed.obj, 201)
        json.dumps(parsed.obj)


def test_depth_close_to_the_limit_of_the_stack() -> None:
    """A caller deep in the stack gets the same answer."""

    def down(frames: int) -> int:
        return down(frames - 1) if frames else parse(b'{"x":' + b"[" * 2000 + b"]" * 2000 + b"}", MOST).depth

    assert down(sys.getrecursionlimit() // 2) == 2001


def test_depth_bound() -> None:
    assert "nested deeper than 300 levels" in _refusal(b'{"x":' + b"[" * 301 + b"]" * 301 + b"}", 300)


def _refusal(raw: bytes, most: int) -> str:
    with pytest.raises(BadRequest) as caught:
        parse(raw, most)
    return caught.value.message


def test_messages_hold_no_text_of_the_body() -> None:
    assert "hunter2" not in problem(b'{"key":"hunter2" oops}').message
    assert json.dumps(problem(b"{").message)
