"""Retired facts in memory: asked by plans, shared through a book, undone by re-checks and people."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.core.types import (
    UNKNOWN_LIMITS,
    Address,
    BackendSpec,
    Candidate,
    Judgement,
    Kind,
    Outcome,
    Replica,
    Seat,
    Verdict,
)
from autohedge.memory.retired import FACTS, LIFE, REDIRECTS, News, Retirements, fact_in, merge_facts
from autohedge.providers import DIALECTS
from autohedge.rules.retirement import ALL, Redirect, Retired, by_operator, confirm, rechecked
from autohedge.rules.retirement import Sighting as Seen
from autohedge.rules.verdicts import judge
from autohedge.state.entry import entry, resolved

Value = Mapping[str, Any]
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
RETIRED, ANSWER, BUSY = (Judgement(verdict) for verdict in (Verdict.RETIRED, Verdict.ANSWER, Verdict.BUSY))


class Book:
    """The shared state of several workers, without a store: what one writes, the others hear at once."""

    def __init__(self, others: list[Book] | None = None) -> None:
        self.kept: dict[str, tuple[Value, float | None]] = {}
        self.writes = 0
        self._others = others if others is not None else []
        self._others.append(self)
        self._callbacks: list[tuple[str, Callable[[str, Value | None], object]]] = []

    def put_soon(self, key: str, value: Value, ttl: float | None = None) -> None:
        self.writes += 1
        self._set(key, json.loads(json.dumps(value)), ttl)

    def delete_soon(self, key: str) -> None:
        self.writes += 1
        self._set(key, None, None)

    def on_change(self, prefix: str, callback: Callable[[str, Value | None], object]) -> None:
        self._callbacks.append((prefix, callback))
        for key, (value, _) in self.kept.items():
            if key.startswith(prefix):
                callback(key, value)

    def _set(self, key: str, value: Value | None, ttl: float | None) -> None:
        for book in self._others:
            known = book.kept.pop(key, None)
            if value is not None:
                book.kept[key] = (value, ttl)
            if book is not self and (known is None or known[0] != value) and (known or value):
                book.hear(key, value)

    def hear(self, key: str, value: Value | None) -> None:
        for prefix, callback in self._callbacks:
            if key.startswith(prefix):
                callback(key, value)


class Worker:
    """One process: its book, its memory, its clock and the news it was told."""

    def __init__(self, others: list[Book] | None = None) -> None:
        self.now = 0.0
        self.news: list[tuple[str, str, News]] = []
        self.book = Book(others)
        self.memory = Retirements(
            self.book, lambda: self.now, lambda fact, news: self.news.append((fact.provider, fact.model, news))
        )


def candidate(backend: str = "walkai", served: str = "deepseek-v2") -> Candidate:
    replica = Replica(f"{backend}@h:1", backend, Address("h", 1), Seat())
    return Candidate(replica, BackendSpec(backend, external=True), Kind.OPENAI, served, UNKNOWN_LIMITS)


def gone(body: Any = None, status: int = 410) -> Outcome:
    text = {"error": "walkai.top api access has been retired"} if body is None else body
    return Outcome(status=status, excerpt=text if isinstance(text, bytes) else json.dumps(text).encode())


def said(message: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": code}}


def test_nothing_is_retired_at_first() -> None:
    memory = Worker().memory
    assert (memory.reason_against(candidate()), memory.fact_of(candidate()), memory.redirect_of("m")) == ("", None, "m")
    assert (memory.facts, memory.redirects, memory.due(1e12)) == ((), (), ())


def test_the_article_s_410_retires_the_provider() -> None:
    """Article 3.4: every model of it, with the evidence, in the book."""
    worker = Worker()
    fact = worker.memory.note(candidate(), RETIRED, gone(), 100.0)
    assert fact is not None
    assert (fact.model, fact.status, fact.excerpt) == (ALL, 410, "walkai.top api access has been retired")
    worker.now = 100.0
    for served in ("deepseek-v2", "other", ""):
        assert worker.memory.reason_against(candidate(served=served)) == (
            "provider of walkai is retired (410, seen 1 times), next look in 15 min"
        )
    assert worker.memory.reason_against(candidate("azure")) == ""
    assert worker.memory.fact_of(candidate()) == fact
    assert worker.book.kept == {"retired:walkai:*": (fact.record(), LIFE)}
    assert worker.news == [("walkai", ALL, News.SEEN)]


@pytest.mark.parametrize(
    ("status", "body", "model"),
    [
        # d3, row by row
        (410, {"error": "https://api-inference.huggingface.co is no longer supported. Please use another."}, ALL),
        (410, said("temporarily unavailable as part of a scheduled retirement brownout", "github_models_retirement_brownout"), ALL),
        (400, said("The model `x` has been decommissioned and is no longer supported.", "model_decommissioned"), "x"),
        (404, said("The model `x` has been deprecated, learn more here", "model_not_found"), "x"),
        (410, said("The model x was retired", None), "x"),
        (410, said("gone", "model_retired"), "x"),
        (410, said("This deployment is gone"), "x"),
        (410, b"", ALL),
        (410, b"<html>410 Gone</html>", ALL),
    ],
)  # fmt: skip
def test_what_an_answer_is_about(status: int, body: Any, model: str) -> None:
    """All models of a provider, or the one asked for; judged by the real verdicts."""
    outcome = gone(body, status)
    judgement = judge(outcome, DIALECTS[Kind.OPENAI])
    assert judgement.verdict is Verdict.RETIRED
    fact = Worker().memory.note(candidate(served="x"), judgement, outcome, 0.0)
    assert fact is not None
    assert fact.model == model


MISSING = {"error": {"code": "DeploymentNotFound", "message": "The API deployment for this resource does not exist."}}
UNKNOWN_THERE = Judgement(Verdict.CAPABILITY, absent=True)


def test_a_model_that_its_provider_does_not_know_is_left_alone_for_a_minute() -> None:
    """d3, B112, B113, B115: MODEL404 has a short time, since it may be a typo or a deployment that was made a moment ago; where
    it stays so, the pauses grow as those of all facts.
    """
    worker = Worker()
    outcome = gone(MISSING, 404)
    judgement = judge(outcome, DIALECTS[Kind.AZURE])
    fact = worker.memory.note(candidate(served="d"), judgement, outcome, 0.0, "embeddings")
    assert fact is not None
    assert (fact.model, fact.code, fact.pause, fact.recheck_at) == ("d", "deploymentnotfound", MINUTE, MINUTE)
    assert fact.door == "embeddings"
    assert worker.memory.reason_against(candidate(served="other")) == ""
    again = worker.memory.recheck(fact, judgement, outcome, MINUTE)
    assert again is not None
    assert (again.pause, again.recheck_at, again.count, again.door) == (2 * MINUTE, 3 * MINUTE, 2, "embeddings")
    said_so = worker.memory.recheck(again, RETIRED, gone(said("the model is gone")), 3 * MINUTE)
    assert said_so is not None
    assert said_so.pause == 15 * MINUTE
    assert worker.memory.recheck(said_so, ANSWER, Outcome(status=200), HOUR) is None


def test_our_own_engines_lack_a_model_one_by_one() -> None:
    """One replica without an adapter says nothing of its peers; nor does a provider of a model that nobody named."""
    memory = Worker().memory
    inside = replace(candidate(), backend=BackendSpec("own", external=False))
    for one in (inside, candidate(served="")):
        assert memory.note(one, UNKNOWN_THERE, gone(MISSING, 404), 0.0) is None
    assert memory.facts == ()


def test_a_model_without_a_name_is_all() -> None:
    """An engine that takes any name has only one model."""
    fact = Worker().memory.note(candidate(served=""), RETIRED, gone(said("this model is gone", "model_retired")), 0.0)
    assert fact is not None
    assert fact.model == ALL


@pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict is not Verdict.RETIRED])
def test_other_verdicts_change_nothing(verdict: Verdict) -> None:
    """An answer that was on its way when the fact came does not undo it."""
    worker = Worker()
    assert worker.memory.note(candidate(), Judgement(verdict), gone(), 0.0) is None
    worker.memory.note(candidate(), RETIRED, gone(), 1.0)
    assert worker.memory.note(candidate(), Judgement(verdict), gone(), 2.0) is None
    assert worker.memory.facts[0].count == 1


def test_a_hundred_requests_are_one_alert() -> None:
    """They met the same 410 at once; a model's end under a provider's is no second fact."""
    worker = Worker()
    told = [worker.memory.note(candidate(), RETIRED, gone(), n * 0.01) for n in range(100)]
    assert [fact is not None for fact in told] == [True] + [False] * 99
    assert worker.memory.note(candidate(), RETIRED, gone(said("the model is gone")), 2.0) is None
    assert [fact.count for fact in worker.memory.facts] == [101]
    assert len(worker.news) == 1


def test_others_obey_at_once() -> None:
    """Four workers; only the one that saw it is to tell people."""
    books: list[Book] = []
    workers = [Worker(books) for _ in range(4)]
    workers[2].memory.note(candidate(), RETIRED, gone(), 0.0)
    for worker in workers:
        assert worker.memory.reason_against(candidate()) != ""
        assert worker.news == [("walkai", ALL, News.SEEN if worker is workers[2] else News.HEARD)]
    workers[0].memory.note(candidate(), RETIRED, gone(), 1.0)
    assert [worker.memory.facts[0].count for worker in workers] == [2, 2, 2, 2]
    assert all(len(worker.news) == 1 for worker in workers)


def test_a_restart_knows_it_before_the_first_request() -> None:
    """Facts and redirects come from the book."""
    books: list[Book] = []
    old = Worker(books)
    fact = old.memory.note(candidate(), RETIRED, gone(), 0.0)
    assert fact is not None
    old.memory.failed(candidate(), "deepseek-v2", 0.0)
    old.memory.adapt(fact, {"deepseek-v2": "vllm-13b"}.get, 1.0)
    fresh = Book(books)
    fresh.kept = dict(old.book.kept)
    memory = Retirements(fresh, lambda: 0.0)
    assert memory.facts == (fact,)
    assert memory.redirect_of("deepseek-v2") == "vllm-13b"
    assert fresh.writes == 0


def test_re_checks_are_due_after_a_while() -> None:
    """The longest overdue first; after a confirmed one the pause doubles, after one without proof it starts again."""
    worker = Worker()
    memory = worker.memory
    memory.note(candidate("b"), RETIRED, gone(), MINUTE)
    memory.note(candidate("a"), RETIRED, gone(), 0.0)
    assert memory.due(15 * MINUTE - 1) == ()
    assert [fact.provider for fact in memory.due(16 * MINUTE)] == ["a", "b"]
    first, second = memory.due(16 * MINUTE)
    again = memory.recheck(first, RETIRED, gone(), 16 * MINUTE)
    assert again is not None
    assert (again.pause, again.recheck_at, again.count) == (30 * MINUTE, 46 * MINUTE, 2)
    busy = memory.recheck(second, BUSY, Outcome(status=429), 16 * MINUTE)
    assert busy is not None
    assert (busy.pause, busy.recheck_at, busy.count) == (15 * MINUTE, 31 * MINUTE, 1)
    assert memory.due(30 * MINUTE) == ()
    assert worker.book.kept["retired:a:*"][0]["recheck_at"] == 46 * MINUTE


def test_a_confirmed_re_check_stays_one_fact() -> None:
    """The probe named a model, and the answer speaks of that one: still the provider's fact."""
    memory = Worker().memory
    memory.note(candidate(), RETIRED, gone(), 0.0)
    memory.recheck(memory.facts[0], RETIRED, gone(said("the model is gone", "model_retired")), HOUR)
    assert [(fact.model, fact.code) for fact in memory.facts] == [(ALL, "model_retired")]


def test_a_good_re_check_brings_it_back_everywhere() -> None:
    """B106: GitHub's brownout was a rehearsal; its redirects go with it."""
    books: list[Book] = []
    one, other = Worker(books), Worker(books)
    fact = one.memory.note(candidate(), RETIRED, gone(), 0.0)
    assert fact is not None
    one.memory.failed(candidate(), "m", 0.0)
    one.memory.adapt(fact, {"m": "n"}.get, 0.0)
    assert other.memory.redirect_of("m") == "n"
    assert other.memory.recheck(fact, ANSWER, Outcome(status=200), HOUR) is None
    for worker in (one, other):
        assert (worker.memory.facts, worker.memory.redirects) == ((), ())
        assert worker.book.kept == {}
        assert worker.memory.reason_against(candidate()) == ""
    assert [news for *_, news in other.news] == [News.HEARD, News.UNDONE]
    assert [news for *_, news in one.news] == [News.SEEN]


def test_a_re_check_of_what_was_undone_meanwhile_proves_nothing() -> None:
    worker = Worker()
    fact = worker.memory.note(candidate(), RETIRED, gone(), 0.0)
    assert fact is not None
    assert worker.memory.undo("walkai", ALL)
    assert worker.memory.recheck(fact, RETIRED, gone(), HOUR) is None
    assert worker.memory.facts == ()
    assert not worker.memory.undo("walkai", ALL)


def test_an_operator_s_word_stands() -> None:
    """No re-check, no end of its own, until an operator undoes it."""
    books: list[Book] = []
    one, other = Worker(books), Worker(books)
    one.memory.retire("azure", "gpt-35", "ann", 0.0)
    assert other.memory.due(1e12) == ()
    assert other.book.kept["retired:azure:gpt-35"][1] is None
    assert "operator ann" in other.memory.reason_against(candidate("azure", "gpt-35"))
    assert other.memory.reason_against(candidate("azure", "gpt-4")) == ""
    assert other.memory.undo("azure", "gpt-35")
    assert one.memory.facts == ()


def test_failed_models_are_redirected() -> None:
    """Article 3.4: all that failed there within 24 h, to the first usable rung; what has nowhere to go has no redirect."""
    worker = Worker()
    memory = worker.memory
    memory.failed(candidate(), "yesterday", 0.0)
    for _ in range(3):
        memory.failed(candidate(), "deepseek-v2", 2 * DAY)
    memory.failed(candidate(), "nowhere", 2 * DAY)
    memory.failed(candidate("azure"), "gpt", 2 * DAY)
    fact = memory.note(candidate(), RETIRED, gone(), 2 * DAY)
    assert fact is not None
    made = memory.adapt(fact, {"deepseek-v2": "vllm-13b", "yesterday": "x", "gpt": "x"}.get, 2 * DAY)
    assert made == memory.redirects == (Redirect("deepseek-v2", "vllm-13b", "walkai", 3),)
    assert (memory.redirect_of("deepseek-v2"), memory.redirect_of("nowhere")) == ("vllm-13b", "nowhere")
    assert worker.book.kept["redirect:deepseek-v2"][0] == {
        "model": "deepseek-v2", "target": "vllm-13b", "provider": "walkai", "failed": 3, "cause": ALL,
    }  # fmt: skip


def test_a_model_that_was_redirected_already_stays_where_it_goes() -> None:
    """Each worker redirects what failed in its own hands when it hears of the fact; the first one's word stands."""
    books: list[Book] = []
    one, other = Worker(books), Worker(books)
    for worker, names in ((one, ("m",)), (other, ("m", "n"))):
        for name in names:
            worker.memory.failed(candidate(), name, 0.0)
    fact = one.memory.note(candidate(), RETIRED, gone(), 0.0)
    assert fact is not None
    one.memory.adapt(fact, lambda _model: "first", 0.0)
    other.memory.adapt(fact, lambda _model: "second", 0.0)
    for worker in (one, other):
        assert [(each.model, each.target) for each in worker.memory.redirects] == [("m", "first"), ("n", "second")]


def test_the_end_of_one_model_redirects_only_its_own_names() -> None:
    """Two names of one model failed, and a name of another one."""
    memory = Worker().memory
    for served, asked in (("x", "big"), ("x", "x"), ("y", "small")):
        memory.failed(candidate(served=served), asked, 0.0)
    fact = memory.note(candidate(served="x"), RETIRED, gone(said("the model is gone")), 0.0)
    assert fact is not None
    memory.adapt(fact, lambda _model: "else", 0.0)
    assert [redirect.model for redirect in memory.redirects] == ["big", "x"]


def test_a_redirect_counts_only_while_its_fact_stands() -> None:
    """They reach another worker in any order, and a fact that ran out takes its redirects along."""
    worker = Worker()
    redirect = {"model": "m", "target": "n", "provider": "walkai", "failed": 1, "cause": ALL}
    worker.book.kept["redirect:m"] = (redirect, None)
    worker.book.hear("redirect:m", redirect)
    assert worker.memory.redirect_of("m") == "m"
    worker.book.hear("retired:walkai:*", by_operator("walkai", ALL, "", 0.0).record())
    assert worker.memory.redirect_of("m") == "n"
    worker.book.hear("retired:walkai:*", None)
    assert worker.memory.redirect_of("m") == "m"
    assert "redirect:m" not in worker.book.kept


def test_a_re_check_keeps_the_redirects_alive() -> None:
    """They end 30 days after the last word of their fact, not after the first."""
    worker = Worker()
    fact = worker.memory.note(candidate(), RETIRED, gone(), 0.0)
    assert fact is not None
    worker.memory.failed(candidate(), "m", 0.0)
    worker.memory.adapt(fact, {"m": "n"}.get, 0.0)
    worker.book.kept.clear()
    worker.memory.recheck(fact, BUSY, Outcome(status=429), HOUR)
    assert set(worker.book.kept) == {"retired:walkai:*", "redirect:m"}
    assert {ttl for _, ttl in worker.book.kept.values()} == {LIFE}


def test_redirects_are_followed_and_circles_are_not() -> None:
    memory = Worker().memory
    for provider, model, to in (("p", "a", "b"), ("q", "b", "c"), ("r", "x", "y"), ("s", "y", "x")):
        fact = memory.note(candidate(provider), RETIRED, gone(), 0.0)
        assert fact is not None
        memory.failed(candidate(provider), model, 0.0)
        memory.adapt(fact, {model: to}.get, 0.0)
    assert [memory.redirect_of(model) for model in "abcxy"] == ["c", "c", "c", "x", "y"]


@pytest.mark.parametrize("name", ["org/name:latest", "a:b", "*x", "\ud800", "ä b", "a%3Ab"])
def test_names_with_odd_signs_keep_apart(name: str) -> None:
    """Keys never run into each other, and hold nothing that a store cannot."""
    books: list[Book] = []
    worker, other = Worker(books), Worker(books)
    worker.memory.retire(name, name, "", 0.0)
    (key,) = worker.book.kept
    key.encode()
    assert key.count(":") == 2
    assert other.memory.fact_of(candidate(name, name)) is not None
    assert other.memory.undo(name, name)


@pytest.mark.parametrize(
    "value",
    [{}, {"provider": "walkai"}, {**by_operator("other", ALL, "", 0.0).record()}, {**by_operator("walkai", ALL, "", 0.0).record(), "count": "x"}],
)  # fmt: skip
def test_what_is_no_fact_of_its_key_is_passed_over(value: Value) -> None:
    """Somebody wrote into our Redis by hand."""
    worker = Worker()
    worker.book.hear("retired:walkai:*", value)
    worker.book.hear("redirect:m", value)
    worker.book.hear("redirect:m", {"model": "other", "target": "n", "provider": "p", "failed": 1, "cause": ALL})
    assert worker.memory.facts == ()
    assert worker.memory._redirects == {}


def test_prefixes_are_those_of_the_plan() -> None:
    assert (FACTS, REDIRECTS) == ("retired:", "redirect:")


# --- two pictures of one fact -----------------------------------------------------------------------------------------


def test_what_a_newer_version_wrote_survives_a_merge() -> None:
    late, early = by_operator("p", "m", "ann", 5.0).record(), by_operator("p", "m", "", 1.0).record()
    merged = merge_facts({**late, "colour": "blue"}, early)
    assert merged == {**late, "first_seen": 1.0, "colour": "blue"}


def test_what_cannot_be_read_is_not_merged() -> None:
    """The merge is total: the later writing stands."""
    assert merge_facts({"a": 1}, {"b": 2}) == {"a": 1}


def lives() -> st.SearchStrategy[Retired]:
    """Facts of one provider after some sightings and re-checks."""

    def live(steps: list[tuple[str, int]]) -> Retired:
        now = 1.0
        fact, _ = confirm(None, Seen("p", ALL, 410, "", b"x"), now)
        for step, wait in steps:
            now += wait
            if step == "seen":
                fact, _ = confirm(fact, Seen("p", ALL, 410, "", f"at {now}"), now)
            elif step == "busy":
                fact = rechecked(fact, Verdict.BUSY, now) or fact
            else:
                fact = by_operator("p", ALL, "ann", now)
        return fact

    steps = st.tuples(st.sampled_from(["seen", "busy", "operator"]), st.integers(0, 2000))
    return st.lists(steps, max_size=4).map(live)


@given(st.lists(st.tuples(lives(), st.integers(0, 3)), min_size=3, max_size=3))
def test_merging_settles(facts: list[tuple[Retired, int]]) -> None:
    """What was merged once stays, whatever is merged into it again; an operator's word is never lost."""
    entries = [entry(fact.record(), float(at)) for fact, at in facts]
    for one, two, three in permutations(entries):
        both = resolved(one, two, merge_facts)
        assert resolved(both, one, merge_facts) == resolved(both, two, merge_facts) == both
        last = resolved(both, three, merge_facts)
        assert last.value is not None
        found = fact_in(last.value)
        assert found is not None
        assert (found.recheck_at is None) == any(fact.recheck_at is None for fact, _ in facts)
