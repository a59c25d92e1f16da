"""Who would get a request and who would not: the same answer as the real way gives, without sending anything."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autohedge.call import Call
from autohedge.checking import Checked, Checker, route_of
from autohedge.core.problems import Gone, Problem
from autohedge.core.types import Attempt, Door, Failure, Judgement, Kind, Outcome, Verdict
from autohedge.explaining import Explainer
from autohedge.planning import Planner
from autohedge.rules.retirement import Redirect
from autohedge.rules.standing import Wish
from tests.support.desk import Desk, call, reading, run
from tests.support.world import backend, lesson, model

CHAIN = """\
fallback_chain:
- {provider: swarm, model: other, name: peers}
- {provider: azure, name: cloud, endpoint: 'https://x.example/openai/deployments/gpt/chat/completions?api-version=1', api_key: k}
"""


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}).encode()


def world(config: str = CHAIN, **tokens: int) -> Desk:
    """Two replicas of m, one of another model; with CHAIN an external rung as well."""
    desk = Desk(config, **tokens)
    desk.add("a", backend("pair", "one:1", "two:1"), *[lesson(model("m", context=1000))] * 2)
    desk.add("b", backend("peer", "p:1"), lesson(model("other", context=100_000)))
    for spec in desk.tools.chains.backends:
        desk.add("c", spec)
    return desk


def explained(desk: Desk, raw: bytes, **fields: Any) -> dict[str, Any]:
    shown = run(Explainer(desk.tools)(call(raw, **fields)))
    assert json.loads(json.dumps(shown)) == shown
    return dict(shown)


def order(shown: dict[str, Any]) -> list[str]:
    return [one["replica"] for one in shown["candidates"]]


def reasons(shown: dict[str, Any]) -> dict[str, str]:
    return {one["where"]: one["reason"] for one in shown["skipped"]}


def fail(desk: Desk, number: int, verdict: Verdict = Verdict.DEAD, times: int = 2) -> None:
    candidate = desk.candidates("m")[number]
    for _ in range(times):
        stamp = desk.tools.health.entry(candidate, desk.now).breaker.stamp
        outcome, judgement = Outcome(failure=Failure.REFUSED), Judgement(verdict)
        desk.tools.health.record(Attempt(candidate, desk.now, stamp, outcome=outcome, judgement=judgement), desk.now)


def checked_of(desk: Desk, raw: bytes, one: Call | None = None) -> Checked:
    one, read, checker = one or call(raw), reading(raw), Checker(desk.tools)
    asked = (one, read, desk.snapshot, route_of(one, read.ask, desk.snapshot, desk.tools))
    made: Checked = checker.plainly(*asked) or run(checker.closely(*asked))
    return made


def really(desk: Desk, raw: bytes, **fields: Any) -> list[str] | str:
    """What the steps of relay.py make of the same request: the order of trying, or the code of the refusal."""
    one = call(raw, **fields)
    try:
        checked, planner = checked_of(desk, raw, one), Planner(desk.tools)
        plan = planner.plainly(one, checked) or run(planner.closely(one, checked))
    except Problem as problem:
        return problem.code
    return [admitted.candidate.replica.id for admitted in plan]


def test_the_whole_plan_with_rungs_and_reasons() -> None:
    """Who comes first and why, what follows from which rung, and which model name each would be sent."""
    shown = explained(world(), body())
    assert shown["outcome"] == {"sent_to": {"backend": "pair", "replica": "pair@one:1", "model": "m", "rung": 0}}
    assert order(shown) == ["pair@one:1", "pair@two:1", "peer@p:1", "cloud@x.example:443"]
    told = [(one["rung"], one["rung_name"], one["model"], one["tier"]) for one in shown["candidates"]]
    assert told == [
        (0, "asked for", "m", "good"),
        (0, "asked for", "m", "good"),
        (1, "peers", "other", "good"),
        (2, "cloud", "gpt", "good"),
    ]
    assert (shown["door"], shown["model"], shown["fallback"], shown["attempts"]) == ("chat", "m", True, 3)
    assert "failover.attempts" in shown["candidates"][3]["note"]
    assert "note" not in shown["candidates"][2]
    assert shown["skipped"] == []


def sick(desk: Desk) -> None:
    fail(desk, 0)


def drained(desk: Desk) -> None:
    desk.tools.health.force("pair@two:1", Wish.DRAIN)


def gone(desk: Desk) -> None:
    desk.tools.retirements.retire("pair", "m", "jo", desk.now)


def cooling(desk: Desk) -> None:
    desk.tools.cooling.note(desk.candidates("m")[0], 60, desk.now)


def loaded(desk: Desk) -> None:
    desk.candidates("m")[0].replica.seat.in_flight = 5


def nothing(_desk: Desk) -> None:
    pass


@pytest.mark.parametrize("change", [nothing, sick, drained, gone, cooling, loaded])
@pytest.mark.parametrize("config", ["", CHAIN, "validation: {mode: off}"])
@pytest.mark.parametrize(
    "raw",
    [body(), body(max_tokens=5000), body(model="nope"), body(messages=[{"role": "user", "content": "x" * 9000}]), b"{"],
    ids=["plain", "too much", "unknown", "long", "broken"],
)
@pytest.mark.parametrize("headers", [[], [(b"x-autohedge-no-fallback", b"1")]], ids=["", "no fallback"])
def test_it_says_what_the_real_way_does(change: Any, config: str, raw: bytes, headers: Any) -> None:
    """Acceptance of explain: the same order, or the same refusal, in every combination of what can be in the way."""
    tokens = {"pair": 2000, "peer": 2000}
    desk, twin = world(config, **tokens), world(config, **tokens)
    change(desk)
    change(twin)
    shown = explained(desk, raw, headers=headers)
    real = really(twin, raw, headers=headers) if raw != b"{" else "invalid_json"
    if isinstance(real, str):
        assert shown["outcome"]["code"] == real
    elif real:
        knocked = [one["where"] for one in shown["skipped"] if "knock" in one]
        assert order(shown) + knocked == real
    else:
        assert shown["outcome"]["code"] == "no_backend"


def test_every_skipped_candidate_has_its_reason() -> None:
    """Open, drained and unfit ones, and a rung that leads nowhere."""
    desk = world("fallback_chain: [{provider: swarm, model: absent, name: nowhere}]")
    fail(desk, 0)
    drained(desk)
    shown = explained(desk, body())
    assert shown["candidates"] == []
    assert reasons(shown)["pair@one:1"] == "open: 2 connections in a row refused or reset"
    assert reasons(shown)["pair@two:1"] == "draining"
    assert reasons(shown)["nowhere"] == "no backend of this rung serves 'absent'"
    assert (shown["outcome"]["status"], shown["outcome"]["code"]) == (503, "no_backend")


def test_a_refusal_is_the_outcome_with_every_finding() -> None:
    """The 400 that the client would read, and each candidate's own reason."""
    shown = explained(world(""), body(max_tokens=5000, temperature=9))
    assert (shown["outcome"]["status"], shown["candidates"]) == (400, [])
    assert {detail["param"] for detail in shown["outcome"]["details"]} >= {"max_tokens"}
    assert set(reasons(shown)) == {"pair@one:1", "pair@two:1"}
    assert "max_tokens" in reasons(shown)["pair@one:1"]


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [(b"{", 400, "invalid_json"), (b"[]", 400, "invalid_body"), (body(model="pear"), 404, "model_not_found")],
)
def test_what_cannot_be_read_or_found_is_an_outcome_too(raw: bytes, status: int, code: str) -> None:
    shown = explained(world(""), raw)
    assert (shown["outcome"]["status"], shown["outcome"]["code"]) == (status, code)


def test_an_unfit_rung_is_skipped_and_a_count_is_shown() -> None:
    """T34, T38: the engine's count decides, and stands there."""
    desk = world(CHAIN, pair=1500, peer=1500)
    shown = explained(desk, body(messages=[{"role": "user", "content": "x" * 5000}]))
    assert shown["counted"] == {"pair": 1500}
    assert order(shown)[0] == "peer@p:1"
    assert "1000" in reasons(shown)["pair@one:1"]


def test_no_fallback_is_respected_and_told() -> None:
    shown = explained(world(), body(), headers=[(b"x-autohedge-no-fallback", b"1")])
    assert order(shown) == ["pair@one:1", "pair@two:1"]
    assert shown["fallback"] is False
    assert reasons(shown)["peers"] == "fallback is off for this request"


def test_a_retired_model_shows_its_evidence_and_its_redirect() -> None:
    desk = world("fallback_chain: [{provider: swarm, model: absent}]")
    gone(desk)
    shown = explained(desk, body())
    assert (shown["outcome"]["status"], shown["outcome"]["code"]) == (410, "model_retired")
    assert "operator jo" in shown["outcome"]["message"]
    with pytest.raises(Gone) as raised:
        run(Planner(desk.tools).closely(call(body(), asked="m"), checked_of(desk, body())))
    assert shown["outcome"]["message"] == raised.value.message
    desk.tools.retirements._redirects["m"] = (Redirect("m", "other", "pair", 3), "m")
    desk.tools.retirements._refresh()
    shown = explained(desk, body())
    assert shown["redirected_to"] == "other"
    assert order(shown) == ["peer@p:1"]


def test_full_replicas_are_marked() -> None:
    desk = world("")
    for candidate in desk.candidates("m"):
        candidate.replica.seat.cap = candidate.replica.seat.in_flight = 2
    shown = explained(desk, body())
    assert [one["full"] for one in shown["candidates"]] == [True, True]
    assert "concurrency cap" in shown["outcome"]["waits"]


def test_one_that_asked_to_be_left_alone_says_for_how_long() -> None:
    """B35."""
    desk = world("")
    cooling(desk)
    shown = explained(desk, body())
    assert order(shown) == ["pair@two:1", "pair@one:1"]
    assert shown["candidates"][1]["why"] == "asked to be left alone for 60 s more"


def test_panic_is_told() -> None:
    """Softly opened replicas at the end of everything are marked as such."""
    desk = world("")
    for number in (0, 1):
        candidate = desk.candidates("m")[number]
        entry = desk.tools.health.entry(candidate, desk.now)
        entry.breaker.adopt(desk.now + 60, "3/10 succeeded", desk.now, hard=False)
    shown = explained(desk, body())
    assert [one.get("panic") for one in shown["candidates"]] == [True, True]
    assert reasons(shown)["pair@one:1"] == "open: 3/10 succeeded"


def test_nothing_is_changed_by_it() -> None:
    """No seat, no meter, no lease, no budget."""
    desk = world(CHAIN)
    made: Call = call(body(max_tokens=500_000))
    before = (desk.tools.meters.dump(()), desk.tools.retries.left(desk.now))
    run(Explainer(desk.tools)(made))
    assert (desk.tools.meters.dump(()), desk.tools.retries.left(desk.now)) == before
    assert made.attempts == []
    assert all(replica.seat.in_flight == replica.seat.last == 0 for replica in desk.snapshot.replicas.values())


# --- the System One door ------------------------------------------------------------------------------------------------


def decision(state: Any = "x", model: str = "dex") -> bytes:
    questions = {"q": {"type": "noul", "instructions": "Is it?"}}
    return json.dumps({"model": model, "state": state, "questions": questions}).encode()


def deciding(config: str = "") -> Desk:
    desk = Desk(config)
    desk.add("a", backend("w", "one:1", "two:1", "six:1", models=("dex",), kind=Kind.SYSTEMONE))
    desk.add("b", backend("any", "x:1", takes_any=True, kind=Kind.SYSTEMONE))
    return desk


def test_a_decision_is_explained_with_its_home_and_its_tries() -> None:
    """The ring's order, the replica that the document belongs to, and who comes too late for `routing.retry`."""
    desk = deciding()
    for n in range(10):
        shown = explained(desk, decision(f"doc {n}"), door=Door.SYSTEMONE)
        assert shown["home"] == order(shown)[0] == shown["outcome"]["sent_to"]["replica"]
        assert len(order(shown)) == 3  # the wildcard is spare
        assert shown["attempts"] == 2
        assert ["note" in one for one in shown["candidates"]] == [False, False, True]


def test_a_decision_goes_to_the_wildcard_when_nobody_else_can() -> None:
    desk = deciding()
    for one in desk.candidates("dex"):
        desk.tools.health.force(one.replica.id, Wish.OPEN)
    shown = explained(desk, decision(), door=Door.SYSTEMONE)
    assert order(shown) == ["any@x:1"]
    assert len(reasons(shown)) == 3


def test_a_decision_that_nobody_takes_is_told_in_the_door_s_words() -> None:
    desk = Desk()
    shown = explained(desk, decision(), door=Door.SYSTEMONE)
    assert shown["outcome"] == {
        "status": 503,
        "code": "no_workers",
        "message": "No available workers for model 'dex'",
    }
