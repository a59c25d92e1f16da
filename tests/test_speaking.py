"""One log line and one alert per change that matters."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from autohedge.core.types import Appeared, Blind, Changed, Seen, Snapshot, Vanished
from autohedge.memory.retired import News
from autohedge.rules.retirement import by_operator
from autohedge.rules.standing import State, Transition
from autohedge.speaking import Speaker, told
from autohedge.watchers.alerting import Alerting
from tests.support.desk import Desk
from tests.support.world import backend, lesson, model


class Ear:
    """Alerting that only listens."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def tell(self, *events: Any) -> None:
        self.heard += events

    def keep_only(self, living: frozenset[str]) -> None:
        """Nothing is forgotten here."""


def speaker() -> tuple[Speaker, Ear]:
    ear = Ear()
    return Speaker(cast("Alerting", ear), lambda: 1000.0), ear


def test_an_opening_is_a_line_with_its_figures_and_an_alert(caplog: pytest.LogCaptureFixture) -> None:
    """Article 4.4: the log says 6/10."""
    desk = Desk()
    desk.add("a", backend("b", "h:1"), lesson(model("m")))
    one, ear = speaker()
    with caplog.at_level(logging.WARNING):
        one.health(desk.candidates("m")[0], Transition(State.CLOSED, State.OPEN, "6/10 succeeded", 5.0))
    assert "worker health changed" in caplog.text
    assert "6/10 succeeded" in caplog.text
    assert len(ear.heard) == 1


def test_a_replica_that_never_told_its_models_is_named_as_such(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    desk.add("a", backend("b", "h:1"))
    with caplog.at_level(logging.WARNING):
        speaker()[0].health(desk.candidates("b")[0], Transition(State.CLOSED, State.OPEN, "refused", 5.0))
    assert "model not told yet: closed -> open" in caplog.text


@pytest.mark.parametrize(("news", "alerts"), [(News.SEEN, 1), (News.HEARD, 0), (News.UNDONE, 1)])
def test_a_retirement_is_told_by_who_saw_it(news: News, alerts: int) -> None:
    """One mail per fact, not one per worker."""
    one, ear = speaker()
    one.retirement(by_operator("b", "m", "me", 1.0), news)
    assert len(ear.heard) == alerts


def test_discovery_is_told_without_addresses(caplog: pytest.LogCaptureFixture) -> None:
    spec = backend("b", "10.0.0.9:1", origins=("swarm",))
    one, ear = speaker()
    with caplog.at_level(logging.INFO):
        one.discovery("swarm", Seen((spec,)), [Appeared(spec)], Snapshot())
    assert "backend b appeared, 1 replicas, from swarm" in caplog.text
    assert "10.0.0.9" not in caplog.text
    assert told(Changed(spec, spec)) == "backend b changed, 1 replicas"
    assert told(Vanished(spec)) == "backend b vanished, 1 replicas, from swarm"
    one.discovery("swarm", Blind("no manager"), [], Snapshot())
    assert len(ear.heard) == 2


def test_an_exhausted_chain_and_a_lost_state_are_alerts() -> None:
    one, ear = speaker()
    one.exhausted("m", "every backend failed")
    one.state("connection refused")
    one.state("")
    assert len(ear.heard) == 3
