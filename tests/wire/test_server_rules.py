"""The pure half of the server: what a head must obey, and how the heads of answers are spelled."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.wire import server_rules as rules
from autohedge.wire.server_rules import (
    TEXTS,
    Refusal,
    answer_head,
    asked_for,
    checked,
    framing,
    plain_head,
    refusal,
    small,
    status_line,
    target,
)

HOST = {b"host": b"a"}


def test_status_lines() -> None:
    """Known statuses have their phrase, unknown ones an empty one (RFC 9112 4)."""
    assert status_line(200) == b"HTTP/1.1 200 OK"
    assert status_line(529) == b"HTTP/1.1 529 "
    assert answer_head(799, [], [])[0] == b"HTTP/1.1 799 "


@pytest.mark.parametrize("host", [b"", b"a", b"a_b.c:80", b"[::1]:80", b"10.0.0.1"])
def test_hosts(host: bytes) -> None:
    """Service names of Swarm hold underscores; an empty Host is one (RFC 9112 3.2)."""
    checked(b"/", [], {b"host": host}, "1.1")


@pytest.mark.parametrize("host", [b"a b", b"a/b", b"a@b", b"a\\b", b"a?b", b"a#b", b'"a"', b"\xc3\xa9"])
def test_no_hosts(host: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        checked(b"/", [], {b"host": host}, "1.1")
    assert caught.value.status == 400


def test_versions() -> None:
    """Only 1.0 and 1.1 are spoken; 1.0 needs no Host."""
    checked(b"/", [], {}, "1.0")
    for version in ("0.9", "2.0", "1.2"):
        with pytest.raises(Refusal):
            checked(b"/", [], HOST, version)


def test_codings() -> None:
    """Chunked alone, in any case, in 1.1."""
    checked(b"/", [], {**HOST, b"transfer-encoding": b"Chunked"}, "1.1")
    for coding in (b"gzip, chunked", b"chunked, chunked", b"", b"chunked;a=b", b"\x0bchunked"):
        with pytest.raises(Refusal):
            checked(b"/", [], {**HOST, b"transfer-encoding": coding}, "1.1")
    with pytest.raises(Refusal):
        checked(b"/", [], {b"transfer-encoding": b"chunked"}, "1.0")


def test_sizes() -> None:
    """Each bound to the byte."""
    small(b"/", [(b"a", b"b" * (rules.MAX_HEAD - 6))])
    with pytest.raises(Refusal):
        small(b"/", [(b"a", b"b" * (rules.MAX_HEAD - 5))])
    checked(b"/" * rules.MAX_TARGET, [(b"a", b"b")] * rules.MAX_HEADERS, HOST, "1.1")
    for url, count, status in ((b"/" * (rules.MAX_TARGET + 1), 1, 414), (b"/", rules.MAX_HEADERS + 1, 431)):
        with pytest.raises(Refusal) as caught:
            checked(url, [(b"a", b"b")] * count, HOST, "1.1")
        assert caught.value.status == status


def test_targets() -> None:
    assert target(b"/a%20b/%C3%A9?x=%20") == ("/a b/é", b"/a%20b/%C3%A9", b"x=%20")
    assert target(b"*") == ("*", b"*", b"")
    assert target(b"http://u@h:1/p?q") == ("/p", b"/p", b"q")
    assert target(b"http://h?q") == ("/", b"/", b"q")
    for bad in (b"/a#b", b"http://", b"a:b:c"):
        with pytest.raises(Refusal):
            target(bad)


def test_framing() -> None:
    """A length of zero is no body."""
    assert framing({}) == framing({b"content-length": b"0"}) == framing({b"content-length": b"00"}) == b""
    assert framing({b"content-length": b"12"}) == b"content-length: 12\r\n"
    assert framing({b"transfer-encoding": b"chunked"}) == b"transfer-encoding: chunked\r\n"


def test_answer_head() -> None:
    """Any iterable, once; what always goes along comes first."""
    head, length, closing = answer_head(200, iter([(b"a", b"1"), (b"content-length", b"7")]), [(b"server", b"x")])
    assert (head, length, closing) == (b"HTTP/1.1 200 OK\r\nserver: x\r\na: 1\r\ncontent-length: 7", 7, False)
    assert answer_head(200, [(b"connection", b"Close, x")], []) == (b"HTTP/1.1 200 OK", None, True)
    assert answer_head(204, [(b"content-length", b"0")], [])[:2] == (b"HTTP/1.1 204 No Content", None)


@pytest.mark.parametrize("value", [b"-1", b"+1", b"1.0", b"", b"a", b"1 ", b"0x1"])
def test_bad_lengths(value: bytes) -> None:
    with pytest.raises(ValueError, match="content-length"):
        answer_head(200, [(b"content-length", value)], [])


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=8), st.binary(max_size=12)), max_size=4))
def test_no_header_can_split_an_answer(headers: list[tuple[bytes, bytes]]) -> None:
    """Either the head has exactly a line per header, or it does not leave."""
    headers = [(b"x" + name, value) for name, value in headers]
    dirty = any(byte in name + value for name, value in headers for byte in b"\r\n\0")
    if dirty:
        with pytest.raises(ValueError, match="CR, LF or NUL"):
            answer_head(200, headers, [])
        with pytest.raises(ValueError, match="CR, LF or NUL"):
            plain_head(200, headers, 0)
    else:
        assert answer_head(200, headers, [])[0].split(b"\r\n")[1:] == [name + b": " + value for name, value in headers]
        assert plain_head(200, headers, 7) == answer_head(200, headers, [])[0] + b"\r\ncontent-length: 7\r\n\r\n"


@pytest.mark.parametrize(
    ("url", "theirs"),
    [
        (b"/v1/systemone", True),
        (b"/v1/systemone/", True),
        (b"/v1/systemone?a=b", True),
        (b"http://edge:8080/v1/systemone", True),
        (b"/workers", True),
        (b"/workers/4#x", True),
        (b"/v1/systemones", False),
        (b"/v1/chat/completions?/v1/systemone", False),
        (b"/v1/models", False),
        (b"", False),
    ],
)
@pytest.mark.parametrize("status", sorted(TEXTS))
def test_a_refusal_at_eidex_s_paths(url: bytes, theirs: bool, status: int) -> None:
    """E11, E12, E83: its envelope, written as in its document, and the code in a header too."""
    head, _, body = refusal(status, "why", url).partition(b"\r\n\r\n")
    code = "internal_error" if status == 500 else "BAD_REQUEST"
    expected = {"error": {"type": TEXTS[status], "code": code, "message": "why"}}
    assert (body == json.dumps(expected, separators=(",", ":")).encode()) is theirs
    assert (f"x-smg-error-code: {code}".encode() in head.split(b"\r\n")) is theirs


@pytest.mark.parametrize(
    ("data", "url"),
    [
        (b"BREW /v1/systemone HTTP/1.1\r\n\r\n", b"/v1/systemone"),
        (b"\r\nBREW / HTTP/1.1\r\n\r\n", b"/"),
        (b"BREW /", b""),
        (b"\x16\x03\x01", b""),
    ],
)
def test_what_an_unknown_method_was_for(data: bytes, url: bytes) -> None:
    assert asked_for(data) == url


def test_refusal() -> None:
    """JSON in OpenAI's envelope; 500 is ours, the rest the client's."""
    assert b'"type":"server_error","param":null,"code":"internal_error"' in refusal(500, "m")
    head, _, body = refusal(400, 'it said "no"').partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: ")
    assert head.endswith(b"\r\nconnection: close")
    assert json.loads(body) == {
        "error": {"message": 'it said "no"', "type": "invalid_request_error", "param": None, "code": "bad_request"}
    }
