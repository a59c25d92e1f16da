"""The local picture: bounded, coalescing, and the same for all in the end."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.state.entry import Entry, Value, entry
from autohedge.state.local import GRAVE, TICK, Picture


def picture(most: int = 100) -> Picture:
    return Picture({}, most)


def larger(late: Value, early: Value) -> Value:
    return {"n": max(late["n"], early["n"])}


def test_what_is_put_can_be_read_at_once() -> None:
    """With its time to live; a deletion is a fact of its own for the store."""
    it = picture()
    it.put("a:1", {"n": 1}, None, 100.0)
    it.put("a:2", {"n": 2}, 10.0, 100.0)
    assert it.get("a:1", 1e9) == {"n": 1}
    assert it.get("a:2", 109.9) == {"n": 2}
    assert it.get("a:2", 110.0) is None
    assert it.under("a:", 105.0) == {"a:1": {"n": 1}, "a:2": {"n": 2}}
    it.put("a:1", None, None, 105.0)
    assert it.under("a:", 105.0) == {"a:2": {"n": 2}}
    assert it.unsent["a:1"] == entry(None, 105.0, 105.0 + GRAVE)
    assert it.get("b", 0.0) is None


def test_a_deletion_is_remembered_as_long_as_the_fact_would_have_lived() -> None:
    it = picture()
    it.put("k", {}, 60.0, 100.0)
    it.put("k", None, None, 120.0)
    assert it.entries["k"].until == 160.0


def test_only_the_last_writing_of_a_key_waits() -> None:
    """50 writes a second to one key are one write to the store."""
    it = picture()
    for number in range(50):
        it.put("k", {"n": number}, None, 100.0 + number)
    assert list(it.unsent) == ["k"]
    assert it.unsent["k"].value == {"n": 49}


def test_a_writing_that_came_while_one_was_sent_still_waits() -> None:
    it = picture()
    it.put("k", {"n": 1}, None, 100.0)
    being_sent = it.unsent["k"]
    it.put("k", {"n": 2}, None, 101.0)
    it.sent("k", being_sent)
    assert it.unsent["k"].value == {"n": 2}
    it.sent("k", it.unsent["k"])
    assert not it.unsent


def test_a_slow_clock_can_undo_what_a_fast_one_wrote() -> None:
    """An operator's host is an hour behind."""
    it = picture()
    it.take("k", entry({"n": 1}, 4600.0))
    it.put("k", None, None, 1000.0)
    assert it.unsent["k"].at == 4600.0 + TICK
    assert it.get("k", 1000.0) is None


def test_what_others_wrote_is_taken_in_when_it_is_later() -> None:
    """And ours goes back to the store when theirs is older."""
    it = picture()
    assert it.take("k", entry({"n": 1}, 10.0))
    assert not it.take("k", entry({"n": 1}, 11.0))
    assert not it.unsent
    it.put("k", {"n": 2}, None, 20.0)
    assert not it.take("k", entry({"n": 3}, 15.0))
    assert it.unsent["k"].value == {"n": 2}
    assert it.take("k", entry({"n": 4}, 30.0))
    assert not it.unsent
    assert it.get("k", 30.0) == {"n": 4}
    assert it.take("k", entry(None, 31.0))
    assert not it.take("other", entry(None, 31.0))


def test_a_merge_is_chosen_by_the_longest_prefix() -> None:
    it = Picture({"k": lambda late, _early: late, "k:": larger})
    for key in ("k:1", "kx"):
        it.put(key, {"n": 5}, None, 10.0)
        it.take(key, entry({"n": 3}, 20.0))
    assert it.get("k:1", 20.0) == {"n": 5}
    assert it.unsent["k:1"].at == 20.0
    assert it.get("kx", 20.0) == {"n": 3}


def test_an_emptied_store_gets_everything_back() -> None:
    it = picture()
    for key in "abc":
        it.take(key, entry({}, 1.0))
    it.lacking(["b", "z"])
    assert sorted(it.unsent) == ["a", "c"]


def test_what_is_over_is_forgotten() -> None:
    """The keys that a reader misses are told; deletions go silently."""
    it = picture()
    it.put("a", {}, 10.0, 100.0)
    it.put("b", {}, 20.0, 100.0)
    it.put("c", {}, 5.0, 100.0)
    it.put("c", None, None, 101.0)
    assert it.over(110.0) == ["a"]
    assert list(it.entries) == list(it.unsent) == ["b"]


def test_the_picture_is_bounded() -> None:
    """The key that came first goes; memory stays where it is however many come."""
    it = picture(most=3)
    for number in range(5):
        it.put(f"k{number}", {}, None, 100.0)
        it.add(f"c{number}", 1, None)
    assert list(it.entries) == list(it.unsent) == ["k2", "k3", "k4"]
    assert list(it.sums) == ["c0", "c1", "c2"]
    assert it.dropped == 4
    it.put("k3", {"n": 1}, None, 101.0)
    assert list(it.entries) == ["k2", "k3", "k4"]


def test_memory_is_flat_under_new_keys() -> None:
    it = picture(most=200)
    size = []
    tracemalloc.start()
    for number in range(6000):
        it.put(f"key {number}", {"n": number}, 60.0, 100.0 + number / 50)
        if number % 1000 == 999:
            size.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert size[-1] < size[0] * 1.2


def test_counters_add_up() -> None:
    """What comes while a sum is being sent waits for the next time."""
    it = picture()
    it.add("c", 2, 60.0)
    it.add("c", 3, 60.0)
    assert (it.sums["c"].by, it.sums["c"].ttl) == (5, 60.0)
    it.add("c", 1, 60.0)
    it.counted("c", 5)
    assert it.sums["c"].by == 1
    it.counted("c", 1)
    assert not it.sums


@pytest.mark.parametrize(("key", "value"), [("\ud800", {}), ("k", {"a": object()}), ("k", {"a": float("inf")})])
def test_what_no_store_can_hold_is_refused_here(key: str, value: Value) -> None:
    it = picture()
    with pytest.raises((TypeError, ValueError)):
        it.put(key, value, None, 1.0)
    assert not it.entries


FACTS = st.builds(entry, st.none() | st.fixed_dictionaries({"n": st.integers(0, 3)}), st.integers(0, 3).map(float))


@given(st.lists(FACTS, max_size=6), st.randoms(use_true_random=False), st.booleans())
def test_every_order_of_messages_ends_in_the_same_picture(facts: list[Entry], random: object, merged: bool) -> None:
    """Whoever hears what first; what one corrects, the others take in, and nobody corrects for ever."""
    assert hasattr(random, "sample")
    workers = [Picture({"k": larger} if merged else {}) for _ in range(3)]
    for worker in workers:
        for held in random.sample(facts, len(facts)):
            worker.take("k", held)
    for _ in range(10):
        sent = [held for worker in workers for held in worker.unsent.values()]
        for worker in workers:
            worker.unsent.clear()
            for held in sent:
                worker.take("k", held)
    assert not any(worker.unsent for worker in workers)
    ends = {worker.entries["k"].text if "k" in worker.entries else "" for worker in workers}
    assert len(ends) == 1
