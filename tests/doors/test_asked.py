"""Bodies of management requests."""

from __future__ import annotations

from typing import Any

import pytest

from autohedge.core.problems import BadRequest
from autohedge.doors.asked import object_in, text_in
from tests.doors.office import Office


@pytest.mark.parametrize("raw", [b"", b" \n", b"{}"])
def test_nothing_is_an_empty_object(raw: bytes) -> None:
    assert object_in(raw) == {}


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"{", "invalid_json"),
        (b"\xff", "invalid_json"),
        (b"[" * 100_000, "invalid_json"),
        (b"[]", "invalid_body"),
        (b"1", "invalid_body"),
    ],
    ids=["cut", "bytes", "deep", "list", "number"],
)
def test_what_is_no_object(raw: bytes, code: str) -> None:
    with pytest.raises(BadRequest) as error:
        object_in(raw)
    assert error.value.code == code


def test_a_text() -> None:
    assert text_in({"a": "x"}, "a") == "x"
    assert text_in({"a": None}, "a") == text_in({}, "a") == ""


@pytest.mark.parametrize("value", [1, True, ["x"], {}, "x" * 513, "a\nb", "\ud800"])
def test_what_is_no_text(value: Any) -> None:
    with pytest.raises(BadRequest, match="a: a printable text"):
        text_in({"a": value}, "a")


def test_a_body_is_bounded() -> None:
    """The same limit as at the data doors."""
    office = Office("server: {max_body_bytes: 100}")
    answer = office.ask("POST", "/admin/retired", {"provider": "x" * 200})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")
