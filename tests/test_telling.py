"""Every attempt is told once, to all who learn from it."""

from __future__ import annotations

from typing import Any

import pytest

from autohedge.core.types import Attempt, Failure, Judgement, Outcome, Verdict
from autohedge.fallback import redirected
from autohedge.memory.meters import ATTEMPTS, FAILOVERS
from autohedge.telling import Teller
from tests.support.desk import Desk, call, run
from tests.support.world import backend, lesson, model


def desk_of(config: str = "") -> Desk:
    desk = Desk(config)
    desk.add("a", backend("b", "h:1"), lesson(model("m", context=100)))
    return desk


def attempt(desk: Desk, outcome: Outcome, judgement: Judgement | None = None, name: str = "m") -> Attempt:
    candidate = desk.candidates(name)[0]
    stamp = desk.tools.health.entry(candidate, desk.now).breaker.stamp
    return Attempt(candidate, desk.now, stamp, outcome=outcome, judgement=judgement)


def test_verdicts_are_counted_and_failovers_too() -> None:
    desk = desk_of()
    sick = attempt(desk, Outcome(failure=Failure.CUT), Judgement(Verdict.SICK))
    good = attempt(desk, Outcome(status=200, finished=True), Judgement(Verdict.ANSWER))
    Teller(desk.tools)(call(attempts=[sick, good], poured=True))
    assert desk.tools.meters.counters[ATTEMPTS] == {("b", "m", "sick"): 1, ("b", "m", "answer"): 1}
    assert desk.tools.meters.counters[FAILOVERS] == {(): 1}


@pytest.mark.parametrize(
    ("outcome", "poured", "verdict"),
    [
        ({"status": 200, "streamed": True, "finished": True}, True, Verdict.ANSWER),
        ({"status": 200, "streamed": True, "finished": False}, True, Verdict.SICK),  # B71: ended without a finish
        ({"status": 200, "streamed": True, "finished": False}, False, Verdict.ABANDONED),  # the client left (B37)
        ({"status": 200, "streamed": True, "failure": Failure.CUT}, True, Verdict.SICK),  # B67, B82
    ],
)
def test_a_committed_stream_is_judged_by_its_end(outcome: dict[str, Any], poured: bool, verdict: Verdict) -> None:
    """What was provisional at the commit gets its judgement here, once."""
    desk = desk_of()
    one = attempt(desk, Outcome(committed=True, **outcome))
    Teller(desk.tools)(call(attempts=[one], poured=poured))
    assert one.judgement is not None
    assert one.judgement.verdict is verdict


def test_what_an_error_text_teaches_reaches_the_registry() -> None:
    """B41: "longer than the model's context length (40 tokens)" is learned, and the engine is asked again."""
    desk = desk_of()
    one = attempt(desk, Outcome(status=400), Judgement(Verdict.CLIENT_FAULT, teaches={"context": 40}))
    Teller(desk.tools)(call(attempts=[one]))
    limit = desk.candidates("m")[0].limits.context
    assert limit is not None
    assert limit.value == 40
    assert desk.counter.poked == [one.candidate.replica.id]


def test_a_busy_replica_is_left_alone() -> None:
    desk = desk_of()
    one = attempt(desk, Outcome(status=429), Judgement(Verdict.BUSY, retry_after=30))
    Teller(desk.tools)(call(attempts=[one]))
    assert desk.tools.cooling.left(one.candidate, desk.now) == 30


def test_a_retirement_is_written_down_before_the_caller_reads_the_answer() -> None:
    """Acceptance 2: kill -9 right after the answer, and it is still known."""
    desk = desk_of()
    outcome = Outcome(status=410, excerpt=b'{"error": {"message": "gone"}}')
    one = attempt(desk, outcome, Judgement(Verdict.RETIRED, "the provider retired it"))
    run(Teller(desk.tools).retired(call(asked="m"), one))
    assert desk.tools.retirements.fact_of(one.candidate) is not None
    assert desk.shelf.flushes == 1
    assert any(key.startswith("retired:") for key in desk.shelf.kept)


def test_a_retired_model_is_redirected_to_the_first_usable_rung() -> None:
    """Article 3.4, adaptive: models that failed there go to the chain's first model that somebody serves."""
    desk = desk_of("fallback_chain: [{provider: swarm, models: [absent, other]}]")
    desk.add("b", backend("peer", "p:1"), lesson(model("other")))
    one = attempt(desk, Outcome(status=410, excerpt=b"{}"), Judgement(Verdict.RETIRED))
    run(Teller(desk.tools).retired(call(asked="m"), one))
    assert desk.tools.retirements.redirect_of("m") == "other"


def test_a_model_that_another_backend_still_has_is_not_redirected() -> None:
    """Article 3.4: requests for a retired model go elsewhere; this one is not gone, only one of its places is."""
    desk = desk_of("fallback_chain: [{provider: swarm, models: [other]}]")
    desk.add("b", backend("peer", "p:1"), lesson(model("other")))
    desk.add("c", backend("twin", "t:1"), lesson(model("m")))
    one = attempt(desk, Outcome(status=410, excerpt=b"{}"), Judgement(Verdict.RETIRED))
    run(Teller(desk.tools).retired(call(asked="m"), one))
    assert desk.tools.retirements.fact_of(one.candidate) is not None
    assert desk.tools.retirements.redirects == ()


def test_what_its_provider_does_not_know_is_told_once() -> None:
    """B115: kept at once like a retirement, and one failure of the model, not two; a missing path is kept nowhere."""
    desk = Desk("fallback_chain: [{provider: swarm, models: [other]}]")
    desk.add("a", backend("b", "h:1", external=True, models=("m",)), lesson(model("m")))
    desk.add("b", backend("peer", "p:1"), lesson(model("other")))
    teller = Teller(desk.tools)
    path = attempt(desk, Outcome(status=404), Judgement(Verdict.CAPABILITY))
    run(teller.retired(call(asked="m"), path))
    assert not desk.tools.retirements.facts
    one = attempt(desk, Outcome(status=404, excerpt=b"{}"), Judgement(Verdict.CAPABILITY, absent=True))
    this = call(asked="m", attempts=[one])
    run(teller.retired(this, one))
    teller(this)
    assert [(fact.provider, fact.model, fact.door) for fact in desk.tools.retirements.facts] == [("b", "m", "chat")]
    assert [(each.model, each.target, each.failed) for each in desk.tools.retirements.redirects] == [("m", "other", 1)]
    assert desk.shelf.flushes == 1


OUTSIDE = "{provider: openai-compatible, name: paid, endpoint: 'https://x.example/v1', model: x}"


@pytest.mark.parametrize(
    ("chain", "target"),
    [
        ("[{provider: swarm, models: [absent, other]}, %s]", "other"),
        ("[%s, {provider: swarm, models: [other]}]", "paid"),
        ("[{provider: swarm, models: [absent]}, %s, {provider: swarm, models: [other]}]", "paid"),
    ],
)
def test_the_order_of_the_chain_stands_also_where_it_leads_outside(chain: str, target: str) -> None:
    """Article 3.4: the first usable rung. One that leads outside is told by its name and found by the way through the chain."""
    desk = desk_of("fallback_chain: " + chain % OUTSIDE)
    desk.add("b", backend("peer", "p:1"), lesson(model("other")))
    for spec in desk.tools.chains.backends:
        desk.add("chain", spec)
    one = attempt(desk, Outcome(status=410, excerpt=b"{}"), Judgement(Verdict.RETIRED))
    run(Teller(desk.tools).retired(call(asked="m"), one))
    assert [(each.model, each.target) for each in desk.tools.retirements.redirects] == [("m", target)]
    routes = desk.snapshot.routes
    assert redirected("m", desk.tools, routes) == (target if target in routes else "m")


def test_a_rung_outside_that_is_gone_as_well_is_passed_over() -> None:
    desk = desk_of(f"fallback_chain: [{OUTSIDE}, {{provider: swarm, models: [other]}}]")
    desk.add("b", backend("peer", "p:1"), lesson(model("other")))
    for spec in desk.tools.chains.backends:
        desk.add("chain", spec)
    desk.tools.retirements.retire("paid", "x", "ann", desk.now)
    one = attempt(desk, Outcome(status=410, excerpt=b"{}"), Judgement(Verdict.RETIRED))
    run(Teller(desk.tools).retired(call(asked="m"), one))
    assert [each.target for each in desk.tools.retirements.redirects] == ["other"]
