"""The model's place in a body: against a slow reader that goes through it byte by byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.payloads.span import model_span, with_model

SPACE = b" \t\r\n"


class Slow:
    """Reads JSON by the grammar and keeps the span of the last top-level "model"."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.at = 3 if body.startswith(b"\xef\xbb\xbf") else 0
        self.span: tuple[int, int] | None = None
        self.value(top=True)

    def skip(self) -> None:
        while self.at < len(self.body) and self.body[self.at] in SPACE:
            self.at += 1

    def string(self) -> str:
        start = self.at
        self.at += 1
        while self.body[self.at] != 0x22:
            self.at += 2 if self.body[self.at] == 0x5C else 1
        self.at += 1
        return str(json.loads(self.body[start : self.at]))

    def value(self, *, top: bool = False) -> None:
        self.skip()
        first = self.body[self.at : self.at + 1]
        if first == b'"':
            self.string()
        elif first in {b"{", b"["}:
            self.container(first == b"{", top)
        else:
            while self.at < len(self.body) and self.body[self.at] not in b",]} \t\r\n":
                self.at += 1

    def container(self, is_object: bool, top: bool) -> None:
        self.at += 1
        self.skip()
        while self.body[self.at] not in b"]}":
            name = None
            if is_object:
                name = self.string()
                self.skip()
                self.at += 1
                self.skip()
            start = self.at
            self.value()
            if top and name == "model":
                self.span = (start, self.at)
            self.skip()
            if self.body[self.at] == 0x2C:
                self.at += 1
                self.skip()
        self.at += 1


class Pairs(list[tuple[str, Any]]):
    """Members of an object, duplicates kept."""


KEYS = st.sampled_from(["model", "model", "models", "Model", "", 'mo"del', "m", "a\\", "\\", "é", '"model"', "model:"])
STRINGS = st.sampled_from(
    ["", "x", '"model":', '{"model":1}', "\\", '\\"', '\\\\"', "]}", "[{", ",", "é😀", "\n", "model"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | STRINGS,
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(KEYS, inner), max_size=3).map(Pairs),
    max_leaves=12,
)


@st.composite
def written(draw: st.DrawFn) -> bytes:
    """A JSON object as somebody might write it: white space anywhere, escapes anywhere, duplicates, nested models."""
    members = draw(st.lists(st.tuples(KEYS, VALUES), max_size=6).map(Pairs))
    return draw(st.sampled_from(["", " ", "\ufeff"])).encode() + write(draw, members).encode()


def write(draw: st.DrawFn, value: Any) -> str:
    def gap() -> str:
        return draw(st.sampled_from(["", "", "", " ", "\n\t", "\r\n"]))

    if isinstance(value, Pairs):
        inside = ",".join(f"{gap()}{text(draw, k)}{gap()}:{gap()}{write(draw, v)}{gap()}" for k, v in value)
        return "{" + (inside or gap()) + "}"
    if isinstance(value, list):
        return "[" + (",".join(f"{gap()}{write(draw, v)}{gap()}" for v in value) or gap()) + "]"
    return text(draw, value) if isinstance(value, str) else json.dumps(value)


def text(draw: st.DrawFn, value: str) -> str:
    plain = json.dumps(value, ensure_ascii=draw(st.booleans()))
    if value and draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(value) - 1))
        if ord(value[at]) < 0x10000:
            return "".join((json.dumps(value[:at])[:-1], f"\\u{ord(value[at]):04x}", json.dumps(value[at + 1 :])[1:]))
    return plain


@given(written())
def test_span_is_what_a_slow_reader_finds(body: bytes) -> None:
    assert model_span(body) == Slow(body).span


@given(written(), st.text(max_size=8))
def test_with_model_changes_nothing_else(body: bytes, name: str) -> None:
    changed = with_model(body, name)
    before, after = members(body), members(changed)
    assert after.pop("model") == name
    before.pop("model", None)
    assert after == before
    span = model_span(body)
    opening = body.index(b"{") + 1
    start, end = span or (opening, opening)
    assert changed.startswith(body[:start])
    assert changed.endswith(body[end:])
    put_in = changed[start : len(changed) - len(body) + end]
    assert put_in.removeprefix(b'"model":').removesuffix(b",") == json.dumps(name).encode()


def members(body: bytes) -> dict[str, Any]:
    parsed = json.loads(body.decode("utf-8-sig"))
    assert isinstance(parsed, dict)
    return parsed


@given(st.binary(max_size=60), st.text(max_size=4))
def test_any_bytes(body: bytes, name: str) -> None:
    """Bytes that are no JSON get some answer; nothing is raised."""
    model_span(body)
    with_model(body, name)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"model":"x"}', b'"x"'),
        (b'{"model" : null }', b"null"),
        (b'{"model":"a","model":"b"}', b'"b"'),
        (b'{"a":{"model":"no"},"messages":[{"model":1}]}', None),
        (b'{"mod\\u0065l":"e\\"s"}', b'"e\\"s"'),
        (b'{"a":"\\\\","model":[1,{"x":"]"}]}', b'[1,{"x":"]"}]'),
        (b'{"model":1}\0"model":2}', b"1"),
        (b"{}", None),
    ],
)
def test_examples(body: bytes, value: bytes | None) -> None:
    span = model_span(body)
    assert (body[span[0] : span[1]] if span else None) == value


def test_azure_clients_send_none() -> None:
    """00b: no model, or null; the deployment is in the path."""
    assert with_model(b'{"model": null, "n": 1}', "gpt") == b'{"model": "gpt", "n": 1}'
    assert with_model(b' { "n": 1}', "gpt") == b' {"model":"gpt", "n": 1}'
    assert with_model(b"{}", 'a"b') == b'{"model":"a\\"b"}'
    assert with_model(b"{ \n}", "m") == b'{"model":"m" \n}'
    assert with_model(b"[1]", "m") == b"[1]"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32-le", "utf-32"])
def test_other_encodings_keep_theirs(encoding: str) -> None:
    body = '{"x":"é","model":"old"}'.encode(encoding)
    assert model_span(body) is None
    assert with_model(body, "new").decode(encoding) == '{"x":"é","model":"new"}'


def test_big_body_is_quick() -> None:
    """A 4 MiB image in front of the name."""
    body = json.dumps({"messages": [{"content": "QUJD" * (1 << 20)}], "model": "m"}).encode()
    span = model_span(body)
    assert span is not None
    assert body[span[0] : span[1]] == b'"m"'
