"""The admin API: what it shows, and what it changes."""

from __future__ import annotations

import logging

import pytest

from autohedge.core.types import Attempt, Blind, Failure, Judgement, Outcome, Verdict
from autohedge.rules.retirement import Redirect
from autohedge.rules.standing import Wish
from tests.doors.office import Office
from tests.support.world import backend


def refuse_connections(office: Office, number: int = 0) -> None:
    desk = office.desk
    candidate = desk.candidates("m")[number]
    for _ in range(2):
        stamp = desk.tools.health.entry(candidate, desk.now).breaker.stamp
        outcome = Outcome(failure=Failure.REFUSED)
        attempt = Attempt(candidate, desk.now, stamp, outcome=outcome, judgement=Judgement(Verdict.DEAD))
        desk.tools.health.record(attempt, desk.now)


# --- replicas ---------------------------------------------------------------------------------------------------------


def test_every_replica_with_reasons_and_ages() -> None:
    """Also those that no request has touched; the on-call engineer's first question."""
    office = Office()
    refuse_connections(office)
    office.desk.candidates("m")[1].replica.seat.in_flight = 3
    office.desk.now += 5
    office.learner.silent["cloud@c:1/base"] = "connection refused"
    shown = office.get("/admin/replicas")
    by = {(one["replica"], one["model"]): one for one in shown["replicas"]}
    assert set(by) == {("pair@one:1", "m"), ("pair@two:1", "m"), ("cloud@c:1/base", "org/big")}
    sick = by["pair@one:1", "m"]
    assert (sick["state"], sick["reason"]) == ("open", "2 connections in a row refused or reset")
    assert sick["failed_s_ago"] == 5.0
    assert [piece["age_s"] for piece in sick["evidence"]] == [5.0, 5.0]
    assert by["pair@two:1", "m"]["in_flight"] == 3
    assert shown["unheard"] == []


def test_a_replica_that_never_answered_is_shown_with_its_reason() -> None:
    office = Office()
    office.desk.add("three", backend("dumb", "d:1"))
    office.learner.silent["dumb@d:1"] = "connection refused"
    assert office.get("/admin/replicas")["unheard"] == [
        {"replica": "dumb@d:1", "backend": "dumb", "reason": "connection refused"}
    ]


@pytest.mark.parametrize(
    ("action", "wish", "tier"),
    [("force-open", Wish.OPEN, "out"), ("force-closed", Wish.CLOSED, "good"), ("drain", Wish.DRAIN, "out")],
)
def test_people_may_overrule_the_evidence(action: str, wish: Wish, tier: str) -> None:
    """And take it back; the app is asked, so that other workers hear of it."""
    office = Office()
    answer = office.post(f"/admin/replicas/pair@one:1/{action}")
    assert answer == {"replica": "pair@one:1", "model": None, "wish": wish.value}
    shown = office.get("/admin/replicas")
    one = next(each for each in shown["replicas"] if each["replica"] == "pair@one:1")
    assert (one["wish"], one["tier"]) == (wish.value, tier)
    assert shown["wishes"] == [{"replica": "pair@one:1", "model": None, "wish": wish.value}]
    assert office.post("/admin/replicas/pair@one:1/undrain")["wish"] == "none"
    assert office.get("/admin/replicas")["wishes"] == []
    assert office.forced == [("pair@one:1", wish, None), ("pair@one:1", Wish.NONE, None)]


@pytest.mark.parametrize("name", ["org/big", "big"])
def test_one_model_on_a_replica_by_either_of_its_names(name: str) -> None:
    """The wish is kept by the name that the engine knows; ids may hold a base path."""
    office = Office()
    answer = office.post("/admin/replicas/cloud@c:1/base/drain", {"model": name})
    assert answer == {"replica": "cloud@c:1/base", "model": "org/big", "wish": "drain"}


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/admin/replicas/pair@on:1/drain", None, "no replica 'pair@on:1' is known; did you mean pair@one:1"),
        ("/admin/replicas/pair@one:1/drain", {"model": "n"}, "model 'n' is not served there; it serves m"),
        ("/admin/replicas/pair@one:1/explode", None, "no such action; known: force-open"),
    ],
)
def test_what_is_not_there(path: str, body: object, words: str) -> None:
    """404 in the envelope, and nothing is wished."""
    office = Office()
    status, code, message = office.refused("POST", path, body)
    assert (status, code) == (404, "not_found")
    assert words in message
    assert office.forced == []


def test_a_wish_for_a_replica_that_is_gone_can_be_taken_back() -> None:
    office = Office()
    office.desk.tools.health.force("old@x:1", Wish.DRAIN)
    office.post("/admin/replicas/old@x:1/undrain")
    assert office.get("/admin/replicas")["wishes"] == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/admin/replicas/pair@one:1/drain", None),
        ("/admin/replicas/pair@one:1/undrain", None),
        ("/admin/retired", {"provider": "pair"}),
        ("/admin/retired/cloud/undo", None),
    ],
)
def test_what_people_said_is_written_before_they_are_answered(path: str, body: object) -> None:
    """Who is killed right after the answer still knows it."""
    office = Office()
    office.post("/admin/retired", {"provider": "cloud"})
    before = office.shared.flushes
    office.post(path, body)
    assert office.shared.flushes == before + 1


def test_changes_are_logged_with_their_caller(caplog: pytest.LogCaptureFixture) -> None:
    office = Office()
    with caplog.at_level(logging.WARNING, "autohedge.admin"):
        office.post("/admin/replicas/pair@one:1/drain")
        office.post("/admin/retired", {"provider": "pair", "model": "m"})
        office.post("/admin/retired/pair/m/undo")
        office.post("/admin/reload")
    assert caplog.messages == [
        "drain pair@one:1, model all (by 127.0.0.1)",
        "retired pair, model m (by 127.0.0.1)",
        "undid the retirement of pair, model m (by 127.0.0.1)",
        "reload: taken over (by 127.0.0.1)",
    ]


# --- retired ----------------------------------------------------------------------------------------------------------


def test_retire_show_and_bring_back() -> None:
    office = Office()
    assert office.get("/admin/retired") == {"retired": []}
    made = office.post("/admin/retired", {"provider": "pair", "model": "m", "by": "jo"})
    assert (made["by"], made["recheck_at"]) == ("operator jo", None)
    (listed,) = office.get("/admin/retired")["retired"]
    assert listed == made
    assert listed["told"].startswith("model m of pair is retired (operator jo")
    assert office.post("/admin/retired/pair/m/undo") == {"provider": "pair", "model": "m", "undone": True}
    assert office.get("/admin/retired") == {"retired": []}


@pytest.mark.parametrize(
    ("provider", "model", "path"),
    [
        ("cloud", "org/big", "/admin/retired/cloud/org/big/undo"),
        ("cloud", "org/big", "/admin/retired/cloud/org%2Fbig/undo"),
        ("cloud", None, "/admin/retired/cloud/undo"),
        ("cloud", None, "/admin/retired/cloud/*/undo"),
    ],
)
def test_names_with_a_slash_and_whole_backends(provider: str, model: str | None, path: str) -> None:
    office = Office()
    office.post("/admin/retired", {"provider": provider, "model": model})
    assert office.post(path)["undone"] is True


def test_what_is_not_retired_or_not_known() -> None:
    office = Office()
    assert office.refused("POST", "/admin/retired/pair/m/undo")[::2] == (404, "'pair/m' is not retired")
    status, _, message = office.refused("POST", "/admin/retired", {"provider": "pear"})
    assert (status, message) == (404, "no backend 'pear' is known; did you mean pair?")
    assert office.refused("POST", "/admin/retired", {"provider": 5})[:2] == (400, "invalid_value")
    assert office.refused("POST", "/admin/retired", b"{")[:2] == (400, "invalid_json")


def test_redirects_are_shown() -> None:
    """Article 3.4: where requests for a retired provider's models go."""
    office = Office()
    retirements = office.desk.tools.retirements
    retirements.retire("pair", "m", "", 1.0)
    retirements._redirects["m"] = (Redirect("m", "org/big", "pair", 7), "m")
    retirements._refresh()
    assert office.get("/admin/redirects") == {
        "redirects": [{"model": "m", "target": "org/big", "provider": "pair", "failed": 7}]
    }


# --- the world --------------------------------------------------------------------------------------------------------


def test_sources_with_ages_and_reasons() -> None:
    office = Office()
    office.desk.now += 12
    office.desk.tools.registry.apply("two", Blind("no answer from the socket"), office.desk.now)
    shown = office.get("/admin/sources")
    assert shown["snapshot"] == office.desk.snapshot.version
    one, two = shown["sources"]
    assert one == {"source": "one", "seen_s_ago": 12.0, "blind": "", "notes": [], "backends": ["pair"]}
    assert (two["source"], two["blind"], two["backends"]) == ("two", "no answer from the socket", ["cloud"])


def test_a_source_that_never_saw_has_no_age() -> None:
    office = Office()
    office.desk.tools.registry.apply("new", Blind("starting"), office.desk.now)
    assert office.get("/admin/sources")["sources"][2]["seen_s_ago"] is None


def test_the_configuration_comes_as_the_app_renders_it() -> None:
    answer = Office().ask("GET", "/admin/config")
    assert answer.headers["content-type"].startswith("application/yaml")
    assert answer.text == "server:\n  listen: x\n"


def test_state_and_alerts() -> None:
    """Why they are lost, if they are."""
    office = Office()
    office.shared.lost = "no answer in time"
    office.shared.lost_since = 5.0
    assert office.get("/admin/state") == {
        "state": {"lost": "no answer in time", "lost_since": 5.0},
        "alerts": {"lost": "mail: nobody listens", "dropped": 2},
    }


def test_a_reload_tells_every_mistake() -> None:
    office = Office()
    assert office.post("/admin/reload") == {"reloaded": True}
    office.wrong = ("c.yaml:1: x: unknown key", "c.yaml:2: y: is required")
    answer = office.ask("POST", "/admin/reload")
    error = answer.json()["error"]
    assert (answer.status_code, error["message"]) == (400, "the old configuration goes on: c.yaml:1: x: unknown key")
    assert [detail["message"] for detail in error["details"]] == list(office.wrong)


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/admin/reload", 405), ("GET", "/admin/nope", 404)])
def test_other_paths_and_methods_are_the_usual_refusals(method: str, path: str, status: int) -> None:
    assert Office().ask(method, path).status_code == status


def test_a_405_names_all_methods_of_its_path() -> None:
    """Two routes share /admin/retired."""
    assert Office().ask("DELETE", "/admin/retired").headers["allow"] == "GET, POST"
