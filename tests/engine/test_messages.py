"""Requests and answers as data."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.engine.messages import Request, dump, plain, sse, text

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def request() -> Request:
    found = Request(3)
    found.method, found.target, found.path = "POST", b"/v1/models/org%2Fm?a=1&b=", "/v1/models/org%2Fm"
    found.headers = [(b"X-Two", b"first"), (b"x-two", b"second")]
    found.body = b'{"a":1}'
    return found


def test_head_is_what_was_sent() -> None:
    assert request().head == b"POST /v1/models/org%2Fm?a=1&b= HTTP/1.1\r\nX-Two: first\r\nx-two: second\r\n\r\n"


def test_headers_query_and_tail() -> None:
    """The first of two headers counts; an encoded slash in a name is decoded."""
    found = request()
    assert (found.header("x-two"), found.header("x-none")) == ("first", None)
    assert found.query == {"a": "1", "b": ""}
    assert found.tail("/v1/models/") == "org/m"


def test_json_is_parsed_once() -> None:
    found = request()
    assert not found.parsed
    assert found.json() is found.json()
    assert found.parsed


def test_bad_json_is_a_value_error() -> None:
    found = request()
    found.body = b"\xff"
    with pytest.raises(ValueError, match="codec"):
        found.json()


@given(_JSON)
def test_dump_is_json(value: object) -> None:
    assert json.loads(dump(value)) == value


def test_events() -> None:
    assert sse({"a": "你"}) == 'data: {"a":"你"}\n\n'.encode()
    assert sse({}, "ping") == b"event: ping\ndata: {}\n\n"


def test_short_answers() -> None:
    assert plain({"a": 1}, 404, [(b"x", b"y")]).headers == [(b"x", b"y")]
    assert text("hi").type.startswith(b"text/plain")
