"""Hop-by-hop headers and request heads."""

from __future__ import annotations

import pytest

from autohedge.wire.heads import HOP_BY_HOP, Header, end_to_end, header_lines, request_head


def travelling(headers: list[Header]) -> list[Header]:
    return end_to_end(headers, dict(headers))


def test_a_head_is_built_as_given_with_repeats_in_order() -> None:
    head = request_head(b"POST", b"/v1/x?y=1", [(b"Host", b"a:1"), (b"x", b"1"), (b"x", b""), (b"X", b"\xe9")])
    assert head == b"POST /v1/x?y=1 HTTP/1.1\r\nHost: a:1\r\nx: 1\r\nx: \r\nX: \xe9\r\n\r\n"


def test_a_head_without_headers() -> None:
    assert request_head(b"GET", b"/", []) == b"GET / HTTP/1.1\r\n\r\n"


@pytest.mark.parametrize("bad", [b"a\r\nx: y", b"a\n", b"a\r", b"\r\n\r\nGET / HTTP/1.1"])
def test_a_line_break_in_any_part_is_refused(bad: bytes) -> None:
    for method, target, header in (
        (bad, b"/", (b"a", b"b")),
        (b"GET", bad, (b"a", b"b")),
        (b"GET", b"/", (bad, b"b")),
        (b"GET", b"/", (b"a", bad)),
    ):
        with pytest.raises(ValueError, match="stray"):
            request_head(method, target, [header])


def test_header_lines_alone_are_held_to_the_same() -> None:
    assert header_lines([(b"a", b"1"), (b"b", b"2")]) == b"a: 1\r\nb: 2\r\n"
    assert header_lines([]) == b""
    with pytest.raises(ValueError, match="stray"):
        header_lines([(b"a", b"1\r\nb: 2")])


@pytest.mark.parametrize("target", [b"", b"/a b", b"/ HTTP/1.1"])
def test_a_target_is_one_word(target: bytes) -> None:
    with pytest.raises(ValueError, match="stray"):
        request_head(b"GET", target, [])


@pytest.mark.parametrize("name", sorted(HOP_BY_HOP))
def test_every_hop_by_hop_header_ends_here(name: bytes) -> None:
    assert travelling([(name, b"x"), (b"a", b"1"), (name, b"y")]) == [(b"a", b"1")]


def test_headers_named_in_connection_end_here_too() -> None:
    headers = [
        (b"connection", b"X-One, close"),
        (b"connection", b"x-two"),
        (b"proxy-connection", b"keep-alive, x-three"),
        (b"connection", b"close"),
        (b"x-one", b"1"),
        (b"x-two", b"2"),
        (b"x-three", b"3"),
        (b"x-four", b"4"),
        (b"close", b"5"),
    ]
    assert travelling(headers) == [(b"x-four", b"4")]


def test_repeats_order_and_content_length_are_kept() -> None:
    headers = [(b"set-cookie", b"a"), (b"content-length", b"2"), (b"set-cookie", b"b")]
    assert travelling(headers) == headers


def test_an_empty_connection_header_names_nothing() -> None:
    assert travelling([(b"connection", b""), (b"connection", b" , "), (b"a", b"b")]) == [(b"a", b"b")]
