"""Each element of a list that comes again is decoded and read once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.rules.guarding import Subject
from autohedge.rules.stripping import stripper
from autohedge.sources.docker_errors import ApiError
from autohedge.sources.recalling import HEAD, Recall
from tests.support.swarm import task

TEXT = st.text(max_size=6) | st.sampled_from(['},{"ID":"', '"}', "}]", "[{"])
VALUE = st.recursive(
    st.none() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT | st.just("ID"), inner, max_size=3),
    max_leaves=8,
)
ELEMENT = st.dictionaries(TEXT, VALUE, max_size=3).map(lambda more: {"ID": "x", **more})


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def nothing() -> None:
    return None


@given(st.lists(ELEMENT, max_size=5), st.lists(ELEMENT, max_size=5))
def test_what_is_taken_is_what_the_list_holds(first: list[Any], second: list[Any]) -> None:
    """Also with the border between elements inside of texts and inner lists; also when elements come, go and move."""
    recall: Recall[Any] = Recall(lambda raw: raw)
    for values in (first, [*second, *first[:2]], list(reversed(first))):
        assert recall.take(compact(values), "x", nothing) == values
        assert recall.take(json.dumps(values, indent=1).encode(), "x", nothing) == values


def test_only_what_is_new_is_read() -> None:
    read: list[str] = []

    def note(raw: Any) -> str:
        read.append(raw["ID"])
        return str(raw["ID"])

    recall = Recall(note)
    assert recall.take(compact([{"ID": "a"}, {"ID": "b", "n": 1}]), "x", nothing) == ["a", "b"]
    assert recall.take(compact([{"ID": "b", "n": 2}, {"ID": "a"}]), "x", nothing) == ["b", "a"]
    assert read == ["a", "b", "b"]
    recall.take(b"[]", "x", nothing)
    recall.take(compact([{"ID": "c"}]), "x", nothing)
    recall.take(compact([{"ID": "a"}]), "x", nothing)
    assert read[3:] == ["c", "a"]  # what was gone is forgotten


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'[{"ID":"a"', b'[{"ID":"a"},{"ID":"b"', b'[{"ID":"a},{"ID":"b"}]', b"<html>"]
)
def test_what_is_no_list(body: bytes) -> None:
    recall: Recall[Any] = Recall(lambda raw: raw)
    with pytest.raises(ApiError, match=r"^x with "):
        recall.take(body, "x", nothing)


def test_null_is_an_empty_list() -> None:
    assert Recall(lambda raw: raw).take(b"null", "x", nothing) == []


def test_a_guard_s_list_is_cut_as_the_engine_s_is() -> None:
    """docker-guard writes what it lets through anew: compact, and the ID first."""
    strip = stripper(Subject.TASKS, frozenset())
    written = compact(strip([task("a", "10.0.1.3"), task("a", "10.0.1.4")]))
    assert written.startswith(b"[" + HEAD)
    recall: Recall[Any] = Recall(lambda raw: raw)
    first, second = (recall.take(written, "x", nothing) for _ in range(2))
    assert first == second == json.loads(written)
    assert all(one is two for one, two in zip(first, second, strict=True))
