"""Facts as text, and what two pictures of one fact become."""

from __future__ import annotations

import json
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.state.entry import Entry, Value, entry, read, resolved

NUMBERS = st.floats(0, 4, allow_nan=False) | st.integers(0, 4)
VALUES = st.none() | st.dictionaries(st.sampled_from("ab"), st.integers(0, 2), max_size=2)
ENTRIES = st.builds(entry, VALUES, NUMBERS, st.none() | NUMBERS)


def union(late: Value, early: Value) -> Value:
    """A merge that takes the larger number of each name."""
    return {key: max(late.get(key, 0), early.get(key, 0)) for key in late.keys() | early.keys()}


def test_a_fact_as_it_is_stored() -> None:
    """An operator may read it in redis-cli."""
    assert entry({"b": 1, "a": "ä"}, 5.5, 9.0).text == '{"at":5.5,"until":9.0,"value":{"a":"\\u00e4","b":1}}'
    assert entry(None, 5.5).text == '{"at":5.5,"until":null,"value":null}'


@given(ENTRIES)
def test_a_fact_is_read_as_it_was_written(held: Entry) -> None:
    assert read(held.text) == held


def test_a_fact_is_a_copy() -> None:
    """What the caller changes later is not what the store has."""
    names = ["a", "b"]
    held = entry({"names": names}, 1.0)
    names.clear()
    assert held.value == {"names": ["a", "b"]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "17",
        "holder-1",
        "[]",
        "[" * 100_000,
        '{"at":1,"value":{}}',
        '{"at":"x","until":null,"value":{}}',
        '{"at":true,"until":null,"value":{}}',
        '{"at":1,"until":"x","value":{}}',
        '{"at":1,"until":null,"value":[]}',
        '{"at":1,"until":null,"value":{"a":NaN}}',
        '{"at":Infinity,"until":null,"value":{}}',
        '{"at":1,"until":null,"value":{},"more":1}',
    ],
)
def test_what_is_no_fact_is_passed_over(text: str) -> None:
    """Counters, leases, and what others put under our prefix."""
    assert read(text) is None


@given(st.text(max_size=40))
def test_any_text_can_be_read(text: str) -> None:
    assert read(text) is None or isinstance(read(text), Entry)


@pytest.mark.parametrize("value", [{"a": object()}, {"a": float("nan")}, {"a": {1}}])
def test_what_is_no_json_is_refused(value: Value) -> None:
    with pytest.raises((TypeError, ValueError)):
        entry(value, 1.0)


def test_the_later_writing_wins() -> None:
    early, late = entry({"n": 1}, 1.0, 50.0), entry({"n": 2}, 2.0)
    gone = entry(None, 3.0)
    assert resolved(early, late, None) is late
    assert resolved(gone, late, union) is gone
    assert resolved(entry({"n": 9}, 4.0), gone, union).value == {"n": 9}


def test_a_merge_makes_one_of_two() -> None:
    """The later writing's times, both values."""
    both = resolved(entry({"a": 1, "b": 5}, 1.0), entry({"a": 3}, 2.0, 9.0), union)
    assert (both.value, both.at, both.until) == ({"a": 3, "b": 5}, 2.0, 9.0)
    late = entry({"a": 3, "b": 5}, 2.0)
    assert resolved(late, entry({"a": 1}, 1.0), union) is late


def test_times_are_over_at_their_end() -> None:
    assert not entry({}, 1.0).over(1e12)
    assert not entry({}, 1.0, 5.0).over(4.9)
    assert entry({}, 1.0, 5.0).over(5.0)


@given(ENTRIES, ENTRIES, st.sampled_from([None, union]))
def test_the_order_of_two_does_not_matter(one: Entry, other: Entry, merge: object) -> None:
    """Each worker has its own first; and what was settled stays settled."""
    chosen = union if merge is union else None
    both = resolved(one, other, chosen)
    assert both == resolved(other, one, chosen)
    assert resolved(both, one, chosen) == resolved(both, other, chosen) == both
    assert json.loads(both.text)["at"] == max(one.at, other.at)


@given(st.lists(ENTRIES, min_size=3, max_size=3))
def test_the_order_of_three_does_not_matter(three: list[Entry]) -> None:
    """Messages reach each worker in another order."""
    ends = {resolved(resolved(one, two, None), last, None).text for one, two, last in permutations(three)}
    assert len(ends) == 1
