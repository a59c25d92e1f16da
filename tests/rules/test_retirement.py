"""Retired facts and adaptive fallback."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.core.types import Verdict
from autohedge.rules.retirement import (
    ALL,
    Failures,
    Redirect,
    Retired,
    Sighting,
    by_operator,
    confirm,
    from_record,
    merged,
    rechecked,
    redirects,
    resolved,
    shortened,
)

GONE = Sighting("walkai", ALL, 410, "", b'{"error":"walkai.top api access has been retired"}')
MINUTE, HOUR = 60.0, 3600.0


def retired(at: float = 0.0) -> Retired:
    fact, new = confirm(None, GONE, at)
    assert new
    return fact


def test_the_first_sighting_retires_with_evidence() -> None:
    """d3: status, code, excerpt, times; first re-check after 15 min."""
    fact = retired(100.0)
    assert (fact.first_seen, fact.last_seen, fact.count, fact.status) == (100.0, 100.0, 1, 410)
    assert fact.excerpt == '{"error":"walkai.top api access has been retired"}'
    assert fact.recheck_at == 100.0 + 15 * MINUTE
    assert fact.told(100.0) == "provider of walkai is retired (410, seen 1 times), next look in 15 min"


def test_many_requests_are_one_alert_and_no_confirmation() -> None:
    """A hundred requests meet the same 410 at once."""
    fact = retired()
    for tick in range(100):
        fact, new = confirm(fact, GONE, tick * 0.01)
        assert not new
    assert (fact.count, fact.recheck_at, fact.last_seen) == (101, 15 * MINUTE, 0.99)


def test_each_confirmed_recheck_doubles_the_pause_up_to_a_day() -> None:
    """B107: retired for ever stays out and is asked ever more rarely."""
    fact, now, pauses = retired(), 0.0, []
    for _ in range(10):
        assert fact.recheck_at is not None
        assert not fact.due(fact.recheck_at - 1)
        pauses.append(fact.recheck_at - now)
        now = fact.recheck_at
        assert fact.due(now)
        fact, _ = confirm(fact, GONE, now)
    assert [pause / MINUTE for pause in pauses] == [15, 30, 60, 120, 240, 480, 960, 1440, 1440, 1440]


def test_a_good_recheck_undoes_it() -> None:
    """B106: GitHub's brownout was a rehearsal."""
    assert rechecked(retired(), Verdict.ANSWER, HOUR) is None


@pytest.mark.parametrize("verdict", [v for v in Verdict if v is not Verdict.ANSWER])
def test_anything_else_proves_nothing(verdict: Verdict) -> None:
    """A busy, sick or unsuitable re-check neither undoes nor doubles."""
    fact = rechecked(retired(), verdict, HOUR)
    assert fact is not None
    assert (fact.pause, fact.recheck_at, fact.count) == (15 * MINUTE, HOUR + 15 * MINUTE, 1)


def test_an_operators_word_is_never_rechecked() -> None:
    fact = by_operator("azure", "gpt-35", "ann", 5.0)
    assert not fact.due(1e12)
    assert rechecked(fact, Verdict.BUSY, 10.0) == fact
    assert fact.told(6.0) == (
        "model gpt-35 of azure is retired (operator ann, seen 1 times), until an operator brings it back"
    )


def test_what_a_fact_covers() -> None:
    """A provider's end covers all its models, a model's end only itself."""
    provider, model = retired(), replace(retired(), model="deepseek-v2")
    assert provider.covers("walkai", "anything")
    assert not provider.covers("azure", "anything")
    assert model.covers("walkai", "deepseek-v2")
    assert not model.covers("walkai", "deepseek-v3")


def test_a_fact_survives_its_storage() -> None:
    """Fields of a newer version are ignored, missing ones are an error."""
    fact = retired()
    assert from_record({**fact.record(), "colour": "blue"}) == fact
    with pytest.raises(TypeError):
        from_record({"provider": "walkai"})


def test_two_pictures_become_one() -> None:
    """Redis was away: earliest first sighting, latest evidence, no count lost; an operator's word stands."""
    early, _ = confirm(retired(0.0), GONE, 10.0)
    late = replace(retired(50.0), excerpt="later")
    both = merged(early, late)
    assert both == merged(late, early)
    assert (both.first_seen, both.last_seen, both.count, both.excerpt) == (0.0, 50.0, 2, "later")
    person = by_operator("walkai", ALL, "ann", 20.0)
    assert merged(person, late).recheck_at is None
    assert merged(late, person).by == "operator ann"


@given(st.binary(max_size=2000) | st.text(max_size=2000))
def test_excerpts_are_short_clean_and_one_line(text: bytes | str) -> None:
    """At most 300 bytes, printable, whatever the engine sent."""
    excerpt = shortened(text)
    assert len(excerpt.encode()) <= 300
    assert excerpt.isprintable()


def test_failures_are_grouped_by_model_over_a_day() -> None:
    """Article 3.4: what failed in the last 24 h, the most first; yesterday is forgotten."""
    failures = Failures()
    failures.note("walkai", "old", 0.0)
    for count in range(5):
        failures.note("walkai", "deepseek-v2", 30 * HOUR + count)
    failures.note("walkai", "qwen", 40 * HOUR)
    failures.note("other", "qwen", 40 * HOUR)
    assert failures.grouped("walkai", 40 * HOUR) == [("deepseek-v2", 5), ("qwen", 1)]
    assert failures.grouped("walkai", 100 * HOUR) == []
    assert failures.grouped("nobody", 0.0) == []


def test_invented_model_names_do_not_fill_the_memory() -> None:
    failures = Failures()
    for hour in range(30):
        for n in range(700):
            failures.note("walkai", f"m{hour}-{n}", hour * HOUR)
    assert len(failures.grouped("walkai", 29 * HOUR)) == 24 * 500


def test_each_failed_model_goes_to_the_first_usable_rung() -> None:
    """Models with nowhere to go get no redirect (they answer 410), and none points at itself."""
    targets = {"deepseek-v2": "vllm-13b", "loop": "loop"}
    made = redirects("walkai", [("deepseek-v2", 5), ("nowhere", 2), ("loop", 1)], targets.get)
    assert made == (Redirect("deepseek-v2", "vllm-13b", "walkai", 5),)


def test_redirects_are_followed_and_circles_are_not() -> None:
    known = {name: Redirect(name, to, "p", 1) for name, to in (("a", "b"), ("b", "c"), ("x", "y"), ("y", "x"))}
    assert resolved("a", known) == "c"
    assert resolved("c", known) == "c"
    assert resolved("x", known) == "x"
