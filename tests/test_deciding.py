"""Who may be asked at the System One door, and the one name that changes in an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.call import Call
from autohedge.core.ask import Ask
from autohedge.core.types import Attempt, Door, Failure, Kind, LearnedModel, Lesson, Outcome, Route
from autohedge.deciding import LONGEST, Deciders, new_name, no_decision, overridden
from autohedge.rules.standing import Wish
from autohedge.settings.routing import ModelOverride
from tests.support.desk import Desk, call
from tests.support.world import backend, lesson, model


def ids(route: Route) -> list[str]:
    return [one.backend.name for one in route.candidates]


def spare(route: Route) -> list[str]:
    return [one.backend.name for one in route.spare]


def route(desk: Desk, name: str | None, made: Call | None = None) -> Route:
    asked = made or call(door=Door.SYSTEMONE)
    return Deciders(desk.tools).route(asked, Ask(Door.SYSTEMONE, name), desk.snapshot)


def workers() -> Desk:
    """Two of dex, one of nimble, two that take any."""
    desk = Desk()
    for number, name in enumerate(("dex", "dex", "nimble")):
        desk.add(f"s{number}", backend(f"w{number}", f"h{number}:1", models=(name,)))
    desk.add("s3", backend("any1", "h3:1", takes_any=True))
    desk.add("s4", backend("any2", "h4:1", takes_any=True), lesson(model("served"), kind=Kind.SGLANG))
    return desk


# --- who may be asked ---------------------------------------------------------------------------------------------------


def test_exactly_the_model_first_and_wildcards_as_spare() -> None:
    """E28, E29."""
    found = route(workers(), "dex")
    assert ids(found) == ["w0", "w1"]
    assert spare(found) == ["any1", "any2"]


def test_wildcards_where_nobody_has_the_model() -> None:
    """E29: an unknown name is no 404 here."""
    found = route(workers(), "unheard-of")
    assert ids(found) == ["any1", "any2"]
    assert spare(found) == []
    assert found.model == "unheard-of"


def test_a_name_of_any_length_is_taken_and_only_its_beginning_told() -> None:
    """A wildcard takes any name. It stands in a header, the log and memory, so that a megabyte would break the client that reads
    it and stay here; the answer names it whole.
    """
    made, name = call(door=Door.SYSTEMONE), "n" * 1_000_000
    assert ids(route(workers(), name, made)) == ["any1", "any2"]
    assert (made.asked, made.named) == (name[:LONGEST], name)
    assert new_name(made, ModelOverride(), {}) == name


def test_a_wildcard_is_no_exact_one_although_its_engine_lists_the_name() -> None:
    """eidex goes by the model_id of the registration; what any2's engine is called is no model_id."""
    desk = workers()
    desk.add("s5", backend("w5", "h5:1", models=("served",)))
    found = route(desk, "served")
    assert ids(found) == ["w5"]
    assert spare(found) == ["any1", "any2"]


@pytest.mark.parametrize("name", [None, ""])
def test_without_a_model_everybody_who_decides(name: str | None) -> None:
    """E30, E31: each worker once."""
    desk = Desk()
    desk.add("a", backend("one", "h1:1", models=("dex", "nimble"), kind=Kind.SYSTEMONE))
    desk.add("b", backend("two", "h2:1", takes_any=True))
    desk.add("c", backend("chats", "h3:1"), lesson(model("m"), kind=Kind.TGI))
    asked = call(door=Door.SYSTEMONE)
    assert ids(route(desk, name, asked)) == ["one", "two"]
    assert asked.asked == ""


def test_who_is_not_known_to_decide_is_asked_only_where_nobody_is() -> None:
    """A chat engine would answer 404, and a 404 is committed."""
    desk = Desk()
    desk.add("a", backend("perhaps", "h1:1"), lesson(model("m"), kind=Kind.VLLM))
    assert ids(route(desk, None)) == ["perhaps"]
    desk.add("b", backend("surely", "h2:1", models=("dex",), kind=Kind.SYSTEMONE))
    assert ids(route(desk, None)) == ["surely"]


def test_paid_providers_get_no_request_without_a_model() -> None:
    desk = Desk()
    desk.add("a", backend("paid", "h1:1", models=("jev",), kind=Kind.SYSTEMONE, external=True))
    assert ids(route(desk, None)) == []
    assert ids(route(desk, "jev")) == ["paid"]


def test_nobody_at_all_is_a_route_without_candidates() -> None:
    assert ids(route(Desk(), "dex")) == []


def test_the_candidates_of_a_snapshot_stay_the_same_objects() -> None:
    """The ring is found by them; a client that makes names up makes no rings."""
    desk = workers()
    deciders = Deciders(desk.tools)

    def found(name: str | None) -> Route:
        return deciders.route(call(door=Door.SYSTEMONE), Ask(Door.SYSTEMONE, name), desk.snapshot)

    assert found("dex") is found("dex")
    assert found("x1").candidates is found("x2").candidates
    before = found("dex").candidates
    desk.add("s9", backend("w9", "h9:1", models=("dex",)))
    assert found("dex").candidates is not before


def test_an_alias_of_the_configuration_leads_to_its_model() -> None:
    desk = Desk("models: {dex: {aliases: [dexter]}}")
    desk.add("a", backend("w", "h:1", models=("dex",)))
    assert ids(route(desk, "dexter")) == ["w"]


# --- when nobody answered -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "message"), [("dex", "No available workers for model 'dex'"), ("", "No available workers")]
)
def test_no_worker(asked: str, message: str) -> None:
    """E37, E38: eidex's two messages, and when to come back."""
    problem = no_decision(call(asked=asked))
    assert (problem.status, problem.code, problem.message) == (503, "no_workers", message)
    assert problem.retry_after


@pytest.mark.parametrize(
    ("outcome", "what"),
    [
        (Outcome(status=503), "503"),
        (Outcome(failure=Failure.REFUSED), "connection refused"),
        (Outcome(failure=Failure.FIRST_BYTE_TIMEOUT), "no first byte in time"),
        (Outcome(failure=Failure.CUT, status=200), "body cut short"),
    ],
)
def test_all_attempts_failed(outcome: Outcome, what: str) -> None:
    """E39: the last status or error, that worker's URL, and when to come back."""
    desk = Desk()
    desk.add("a", backend("w", "worker1:8000", models=("dex",)))
    attempt = Attempt(desk.candidates("dex")[0], 0.0, outcome=outcome)
    problem = no_decision(call(asked="dex", attempts=[attempt]))
    assert (problem.status, problem.code) == (502, "workers_unreachable")
    assert problem.message == f"all worker attempts failed (last: {what} from http://worker1:8000)"
    assert problem.retry_after  # SDKs of System One try again after a 502


def test_a_provider_s_address_is_not_told() -> None:
    desk = Desk()
    desk.add("a", backend("paid", "worker1:8000", models=("dex",), external=True))
    attempt = Attempt(desk.candidates("dex")[0], 0.0, outcome=Outcome(status=502))
    assert "worker1" not in no_decision(call(asked="dex", attempts=[attempt])).message


# --- the name in the answer ---------------------------------------------------------------------------------------------

PLAIN: dict[bytes, bytes] = {b"content-type": b"application/json"}


@pytest.mark.parametrize(
    ("override", "named", "fields", "name"),
    [
        (ModelOverride(), "dex", PLAIN, "dex"),  # E21: the model of the request
        (ModelOverride(model="fixed"), "dex", PLAIN, "fixed"),  # E21: a fixed name for all
        (ModelOverride(model="fixed"), None, PLAIN, "fixed"),
        (ModelOverride(), None, PLAIN, ""),  # nothing to put in
        (ModelOverride(enabled=False, model="fixed"), "dex", PLAIN, ""),  # E98
        (ModelOverride(), "dex", {b"content-encoding": b"gzip"}, ""),  # E25: compressed
        (ModelOverride(), "dex", {b"content-encoding": b"identity"}, "dex"),
    ],
)
def test_which_name_is_put_in(
    override: ModelOverride, named: str | None, fields: dict[bytes, bytes], name: str
) -> None:
    assert new_name(call(named=named), override, fields) == name


@pytest.mark.parametrize(
    ("body", "after"),
    [
        (b'{"model":"served","answers":{}}', b'{"model":"dex","answers":{}}'),
        (b' \r\n{ "answers" : {} , "model" : "served" }\n', b' \r\n{ "answers" : {} , "model" : "dex" }\n'),
        (
            b'{"a":1.0,"a":1e0,"model":"x","z":"\xc3\xbc\\u00fc"}',
            b'{"a":1.0,"a":1e0,"model":"dex","z":"\xc3\xbc\\u00fc"}',
        ),
        (b'{"error":{"model":"x"},"model":"y"}', b'{"error":{"model":"x"},"model":"dex"}'),
        (b'{"model":"x","model":"y"}', b'{"model":"x","model":"dex"}'),  # readers take the last one
        (b'{"model":"dex","model":"y"}', b'{"model":"dex","model":"dex"}'),
        (b'{"model":""}', b'{"model":"dex"}'),
        (rb'{"mod\u0065l":"y"}', rb'{"mod\u0065l":"dex"}'),
    ],
)
def test_one_value_changes_and_not_a_byte_more(body: bytes, after: bytes) -> None:
    """E20, E25."""
    assert overridden(body, "dex") == after


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"busy",
        b'<html>"model":"x"</html>',
        b'["model","x"]',
        b'[{"model":"x"}]',
        b'"model"',
        b"null",
        b"{}",
        b'{"answers":{"model":"x"}}',
        b'{"model":null}',
        b'{"model":5}',
        b'{"model":{"model":"x"}}',
        b'{"model":"x","model":null}',  # the last one counts
        b'{"model":"dex"}',  # E23
        rb'{"model":"d\u0065x"}',  # the same name, spelled otherwise
        b'{"model":"x"',  # E22: broken off, so no JSON
        b'{"model":"x",}',
        b'{"model":"x"}{"model":"y"}',
        b'{"model":"\xff"}',
        b'{"model":"x","n":NaN}',
        '{"model":"x"}'.encode("utf-16"),
    ],
)
def test_everything_else_stays_as_it_came(body: bytes) -> None:
    """E22, E23."""
    assert overridden(body, "dex") == body


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.just("model"), inner, max_size=4),
)


@given(JSON, st.text(min_size=1), st.booleans())
def test_whatever_the_answer_only_its_own_model_changes(value: Any, name: str, ascii_only: bool) -> None:
    """Read again, the answer differs in nothing but a top-level model string."""
    try:
        body = json.dumps(value, ensure_ascii=ascii_only).encode()
    except UnicodeEncodeError:
        return
    after = overridden(body, name)
    if isinstance(value, dict) and isinstance(value.get("model"), str) and after != body:
        assert json.loads(after) == value | {"model": name}
    else:
        assert after == body


# --- how the breaker is taken -------------------------------------------------------------------------------------------


def test_lessons_and_wishes_are_those_of_every_door() -> None:
    """A worker forced out by the operator is out here too (planning.py asks the same breaker)."""
    desk = workers()
    candidate = route(desk, "dex").candidates[0]
    desk.tools.health.entry(candidate, desk.now)
    assert desk.tools.health.force(candidate.replica.id, Wish.OPEN) == 1
    assert not desk.tools.health.look(candidate, desk.now).allowed


def test_a_wildcard_shares_the_health_of_its_engine_s_only_model() -> None:
    """Probes ask the engine under its own name; what they find holds for the wildcard."""
    desk = workers()
    wild = {one.backend.name: one.served for one in desk.snapshot.wild}
    assert wild == {"any1": "", "any2": "served"}
    desk.add("s6", backend("many", "h6:1", takes_any=True), Lesson(Kind.OLLAMA, (LearnedModel("a"), LearnedModel("b"))))
    assert {one.backend.name: one.served for one in desk.snapshot.wild}["many"] == ""


def test_a_worker_without_this_door_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """E158: its 404, 405 or 501 is passed on; the operator hears of it, not once per request."""
    desk = workers()
    deciders = Deciders(desk.tools)
    candidate = deciders.route(call(door=Door.SYSTEMONE), Ask(Door.SYSTEMONE, "dex"), desk.snapshot).candidates[0]
    for status in (404, 404, 200, 422, 501):
        deciders.note(candidate, status)
    said = [record.getMessage() for record in caplog.records]
    assert [line.split(";")[0] for line in said] == [
        f"{candidate.replica.id} answers {status} at /v1/systemone" for status in (404, 501)
    ]
