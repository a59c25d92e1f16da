"""What is counted, how labels stay bounded, how processes are summed."""

from __future__ import annotations

import json
import sys
import timeit
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.core.types import Attempt, Candidate, Door, Kind, Limits, Replica, Seat, Verdict
from autohedge.memory import meters as names
from autohedge.memory.meters import LONG, OTHER, SETS, Meters, rule
from tests.support.world import backend


@dataclass
class Call:
    asked: str = ""
    attempts: list[Attempt] = field(default_factory=list)


def attempt(name: str, started: float, ended: float | None) -> Attempt:
    spec = backend(name, "t1")
    replica = Replica(f"{name}@t1:8000", name, spec.addresses[0], Seat())
    return Attempt(Candidate(replica, spec, Kind.VLLM, "m", Limits()), started, ended=ended)


def test_a_request_from_its_begin_to_its_end() -> None:
    """The gauge goes up and down; the backend is the last attempt's; our own time is what the attempts did not take."""
    meters = Meters(lambda: {"m"})
    meters.began()
    assert meters.in_flight == 1
    call = Call("m", [attempt("a", 10.0, 10.5), attempt("b", 10.5, 13.0)])
    meters.ended(Door.CHAT, call, 200, "", 3.25)
    assert meters.in_flight == 0
    assert meters.counters[names.REQUESTS] == {(Door.CHAT, "m", 200, "b"): 1}
    assert meters.counters[names.PROBLEMS] == {}
    assert meters.histograms[names.OVERHEAD][(Door.CHAT,)][-1] == pytest.approx(0.25)
    assert meters.histograms[names.DURATION][(Door.CHAT,)][-1] == pytest.approx(3.25)


def test_a_request_that_was_refused_before_it_was_read() -> None:
    """No call, no model, no backend; the code is counted."""
    meters = Meters()
    meters.began()
    meters.ended("chat", None, 413, "body_too_large", 0.001)
    assert meters.counters[names.REQUESTS] == {("chat", "", 413, ""): 1}
    assert meters.counters[names.PROBLEMS] == {("body_too_large",): 1}


def test_a_request_that_was_cut() -> None:
    """An attempt without an end takes no time that we know of; nothing goes below zero."""
    meters = Meters()
    meters.ended("chat", Call("m", [attempt("a", 10.0, None)]), 499, "", 0.0)
    meters.ended("chat", Call("m", [attempt("a", 10.0, 11.0)]), 200, "", 0.5)
    assert meters.histograms[names.OVERHEAD][("chat",)][-1] == 0.0


def test_invented_models_are_other() -> None:
    """Labels are bounded: a name that the snapshot does not have never becomes a label."""
    meters = Meters(lambda: {"m": 1})
    for number in range(1000):
        meters.request("chat", f"invented-{number}", 404, "")
        meters.reject("model_not_found", "model", f"invented-{number}")
    meters.request("chat", "m", 200, "b")
    assert meters.counters[names.REQUESTS] == {("chat", OTHER, 404, ""): 1000, ("chat", "m", 200, "b"): 1}
    assert meters.counters[names.REJECTS] == {("model_not_found", "model", OTHER): 1000}


def test_a_metric_takes_a_bounded_number_of_label_sets() -> None:
    """After 200 sets everything new is "other"; what was there goes on counting."""
    meters = Meters()
    for number in range(SETS + 50):
        meters.request("chat", f"m{number}", 200, "b")
        meters.first_byte(f"b{number}", 0.1)
        meters.attempt(f"b{number}", "m", Verdict.ANSWER)
    meters.request("chat", "m0", 200, "b")
    table = meters.counters[names.REQUESTS]
    assert len(table) == SETS + 1
    assert table["chat", "m0", 200, "b"] == 2
    assert table[OTHER, OTHER, OTHER, OTHER] == 50
    assert len(meters.histograms[names.FIRST_BYTE]) == SETS + 1
    assert meters.histograms[names.FIRST_BYTE][(OTHER,)][LONG.index(0.1)] == 50


def test_buckets_hold_their_upper_edge() -> None:
    """Prometheus: a bucket counts what is less or equal; the last is everything above."""
    meters = Meters()
    for seconds in (0.0, 0.005, 0.0051, 300.0, 301.0):
        meters.first_byte("b", seconds)
    row = meters.histograms[names.FIRST_BYTE][("b",)]
    assert row[:2] == [2, 1]
    assert row[len(LONG) - 1 :] == [1, 1, pytest.approx(601.0101)]
    assert sum(row[:-1]) == 5


def test_everything_else_that_is_counted() -> None:
    """Failovers, hedges, probes and pieces of streams."""
    meters = Meters()
    meters.failover()
    meters.failover(2)
    meters.hedge("fired")
    meters.probe("b", "m", Verdict.LOADING)
    meters.chunks(7)
    assert meters.counters[names.FAILOVERS] == {(): 3}
    assert meters.counters[names.HEDGES] == {("fired",): 1}
    assert meters.counters[names.PROBES] == {("b", "m", "loading"): 1}
    assert meters.counters[names.CHUNKS] == {(): 7}


@pytest.mark.parametrize(
    ("param", "expected"),
    [
        (None, ""),
        ("max_tokens", "max_tokens"),
        ("messages[17].content[0].text", "messages[].content[].text"),
        ("questions.who is it?.type", "questions.*.type"),
        ("questions.a.criteria.my option", "questions.*.criteria"),
        ("questions.a.b.c", "questions.*"),
        ("questions.line\nbreak.instructions", "questions.*.instructions"),
        ("metadata.secret", "metadata.*"),
        ("content-type", "content-type"),
        ("my own field", OTHER),
        ("x" * 61, OTHER),
    ],
)
def test_the_rule_of_a_field(param: str | None, expected: str) -> None:
    """What a client put into a path (indexes, ids, keys) is no label."""
    assert rule(param) == expected


def test_what_a_client_put_into_a_path_is_not_kept() -> None:
    """An option's name may have megabytes, and there may be a thousand of them."""
    param = f"questions.a.criteria.{'x' * 10_000}"
    held = sys.getrefcount(param)
    assert rule(param) == "questions.*.criteria"
    assert sys.getrefcount(param) == held


def busy(meters: Meters) -> Meters:
    meters.began()
    meters.queued = 2
    meters.request("chat", "m", 200, "b")
    meters.first_byte("b", 0.1)
    meters.reject("limit_exceeded", "max_tokens", "m")
    return meters


def test_processes_are_summed() -> None:
    """A dump travels as JSON; counters, histograms and gauges of all workers add up, their own meters stay."""
    first, second = busy(Meters()), busy(Meters())
    second.request("chat", "other-model", 200, "b")
    seat = Seat()
    seat.in_flight = 3
    dumps = [json.loads(json.dumps(one.dump([("b@t1:8000", seat)]))) for one in (first, second)]
    total = Meters()
    for dump in dumps:
        total.merge(dump)
    assert total.counters[names.REQUESTS] == {("chat", "m", 200, "b"): 2, ("chat", "other-model", 200, "b"): 1}
    assert total.histograms[names.FIRST_BYTE][("b",)][LONG.index(0.1)] == 2
    assert total.histograms[names.FIRST_BYTE][("b",)][-1] == pytest.approx(0.2)
    assert (total.in_flight, total.queued, total.seats) == (2, 4, {"b@t1:8000": 6})
    assert first.histograms[names.FIRST_BYTE][("b",)][LONG.index(0.1)] == 1


def test_sums_are_not_cut() -> None:
    """Merging never moves counts into "other": which ones would depend on the order of workers, and counters would fall."""
    first, second = Meters(), Meters()
    for number in range(SETS):
        first.attempt(f"a{number}", "m", "answer")
        second.attempt(f"b{number}", "m", "answer")
    total = Meters().merge(first.dump()).merge(second.dump())
    assert len(total.counters[names.ATTEMPTS]) == 2 * SETS


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1000)), max_size=50), st.integers(0, 50))
def test_a_split_history_sums_to_the_whole(observed: list[tuple[str, float]], at: int) -> None:
    """Two workers together count what one would have counted."""
    one, left, right = Meters(), Meters(), Meters()
    for index, (name, seconds) in enumerate(observed):
        for meters in (one, left if index < at else right):
            meters.first_byte(name, seconds)
            meters.attempt(name, "m", "answer")
    total = Meters().merge(left.dump()).merge(right.dump())
    assert total.counters == one.counters
    whole, summed = one.histograms[names.FIRST_BYTE], total.histograms[names.FIRST_BYTE]
    assert whole.keys() == summed.keys()
    for labels, row in whole.items():
        assert summed[labels] == pytest.approx(row)


def test_counting_is_cheap() -> None:
    """One increment and one observation cost about 0.2 us; the bound leaves room for a busy machine."""
    meters = Meters()
    for once in (lambda: meters.request(Door.CHAT, "m", 200, "b"), lambda: meters.first_byte("b", 0.1)):
        assert min(timeit.repeat(once, number=2000, repeat=5)) / 2000 < 5e-6
