"""When a probe is sent, what it asks, and what is never asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.core.types import (
    Address,
    BackendSpec,
    Candidate,
    Door,
    Fact,
    Kind,
    Limits,
    Rank,
    Replica,
    Seat,
    Verdict,
)
from autohedge.providers import DIALECTS
from autohedge.providers.base import Reply
from autohedge.rules.probes import (
    Cadence,
    Pace,
    Probed,
    doors_of,
    from_text,
    patience,
    pause,
    proven,
    question,
    resident,
    to_text,
)
from autohedge.rules.standing import Via

USUAL = Cadence()


def candidate(
    kind: Kind = Kind.VLLM,
    served: str = "m",
    *,
    external: bool = False,
    abilities: Mapping[str, bool] = MappingProxyType({}),
) -> Candidate:
    spec = BackendSpec("b", kind, external=external, params={"api_version": "2024-10-21"})
    known = {name: Fact(value, "the test", Rank.ENGINE) for name, value in abilities.items()}
    replica = Replica("b@h:1", "b", Address("h", 1), Seat())
    return Candidate(replica, spec, kind, served, Limits(abilities=known))


@pytest.mark.parametrize(
    ("pace", "models", "least", "most"),
    [
        (Pace.CALM, 1, 8.0, 12.0),  # every 10 s +-20 %
        (Pace.CALM, 26, 20.0, 30.0),  # no more than one a second of a replica with many models
        (Pace.DOUBTFUL, 25, 2.4, 3.6),
        (Pace.LOOK, 1, 4.0, 6.0),
    ],
)
def test_the_pause_varies_around_its_interval(pace: Pace, models: int, least: float, most: float) -> None:
    """Design 5: 10 s +-20 %, 3 s in doubt."""
    assert pause(USUAL, pace, 0.0, models) == pytest.approx(least)
    assert pause(USUAL, pace, 1.0, models) == pytest.approx(most)


def test_no_pace_is_slower_than_calm() -> None:
    """An operator who probes every second does not get slower probes in doubt."""
    fast = Cadence(interval=1.0)
    assert all(pause(fast, pace, 0.5) <= 1.0 for pace in Pace)


@pytest.mark.parametrize(
    ("silent", "took", "expected"), [(False, 0.2, 10.0), (True, 0.2, 10 / 3), (True, 2.5, 7.5), (True, 9.0, 10.0)]
)
def test_after_a_silent_probe_the_next_ones_wait_a_third(silent: bool, took: float, expected: float) -> None:
    """A hang is found within 35 s, yet an engine that is merely slow keeps its time."""
    assert patience(USUAL, silent=silent, took=took) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("live", "now", "expected"),
    [
        ([], 5.0, False),
        ([1.0, 2.0], 5.0, False),
        ([1.0, 2.0, 3.0], 5.0, True),  # three within one interval
        ([1.0, 9.0, 10.0], 12.0, False),
        ([1.0, 7.0, 13.0, 19.0, 25.0], 30.0, True),  # five within 30 s
        ([1.0, 2.0, 3.0, 4.0, 5.0], 16.0, False),  # the latest is older than an interval
        ([1.0, 2.0, 3.0, 4.0, 25.0], 32.0, False),
    ],
)
def test_live_answers_prove_health(live: list[float], now: float, expected: bool) -> None:
    """Design 5: skipped while live traffic proves health; never later than one interval after the last answer."""
    assert proven(live, now, 10.0) is expected


@given(st.lists(st.floats(0, 100), max_size=5), st.floats(0, 200))
def test_old_traffic_never_proves_anything(times: list[float], now: float) -> None:
    """Whatever came before: without an answer within one interval there is a probe."""
    live = sorted(min(time, now) for time in times)
    if proven(live, now, 10.0):
        assert now - live[-1] <= 10.0


@pytest.mark.parametrize(
    ("kind", "abilities", "first"),
    [
        (Kind.VLLM, {}, Door.CHAT),
        (Kind.OPENAI, {}, Door.CHAT),
        (Kind.SYSTEMONE, {"systemone": True}, Door.SYSTEMONE),
        (Kind.LLAMACPP, {"systemone": True}, Door.SYSTEMONE),
        (Kind.LLAMACPP, {"systemone": False}, Door.CHAT),
        (Kind.SGLANG, {"chat": False, "embeddings": True}, Door.EMBEDDINGS),
        (Kind.SGLANG, {"embeddings": True}, Door.EMBEDDINGS),
        (Kind.OLLAMA, {"chat": True, "embeddings": True}, Door.CHAT),
        (Kind.TGI, {"chat": False}, Door.COMPLETIONS),
    ],
)
def test_the_door_is_the_one_that_the_engine_has(kind: Kind, abilities: dict[str, bool], first: Door) -> None:
    """By learned abilities; chat where nothing is known."""
    doors = doors_of(candidate(kind, abilities=abilities), DIALECTS[kind])
    assert doors[0] is first
    assert all(door in DIALECTS[kind].doors for door in doors)


def test_a_model_without_any_door_is_not_asked() -> None:
    """What the engine denies is never tried."""
    assert doors_of(candidate(Kind.TGI, abilities={"chat": False, "completions": False}), DIALECTS[Kind.TGI]) == ()


def asked(kind: Kind, door: Door, **more: Any) -> tuple[str, dict[str, Any]]:
    one = question(candidate(kind, **more), door, 16, DIALECTS[kind])
    assert one.json is not None
    return one.path, dict(one.json)


def test_a_chat_makes_the_engine_compute() -> None:
    """16 tokens (B13), temperature 0, the model that is served (fact 3), no stream."""
    path, body = asked(Kind.VLLM, Door.CHAT)
    assert path == "/v1/chat/completions"
    assert (body["model"], body["max_tokens"], body["temperature"], body["stream"]) == ("m", 16, 0, False)
    assert body["messages"][0]["content"]


def test_other_doors() -> None:
    """One word for embeddings, one noul question for System One (systemone 10), no temperature for either."""
    assert asked(Kind.VLLM, Door.EMBEDDINGS) == ("/v1/embeddings", {"model": "m", "input": "hi"})
    path, body = asked(Kind.SYSTEMONE, Door.SYSTEMONE)
    assert path == "/v1/systemone"
    (asking,) = body["questions"].values()
    assert asking["type"] == "noul"
    assert asking["instructions"]
    assert "criteria" not in asking
    assert "temperature" not in body


def test_an_external_provider_gets_no_temperature() -> None:
    """Its reasoning models refuse it."""
    assert "temperature" not in asked(Kind.OPENAI, Door.CHAT, external=True)[1]


def test_azure_has_the_deployment_in_its_path() -> None:
    """Filled from the backend's parameters, quoted."""
    path, _ = asked(Kind.AZURE, Door.CHAT, served="gpt 4", external=True)
    assert path == "/openai/deployments/gpt%204/chat/completions?api-version=2024-10-21"


def said(body: Any, status: int = 200) -> Reply:
    return Reply(status, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("kind", "reply", "expected"),
    [
        (Kind.OLLAMA, said({"models": [{"name": "m:latest", "model": "m:latest"}]}), True),
        (Kind.OLLAMA, said({"models": [{"name": "other:1b"}]}), False),
        (Kind.OLLAMA, said({"models": None}), False),
        (Kind.OLLAMA, said({"error": "not found"}, 404), False),  # untold is not asked: it might be loaded for us
        (Kind.OLLAMA, Reply(200, b"<html>"), False),
        (Kind.LLAMACPP, said({"data": [{"id": "m"}]}), None),  # one server, one model, always there
        (Kind.LLAMACPP, said({"data": [{"id": "m", "status": {"value": "loaded"}}]}), True),
        (Kind.LLAMACPP, said({"data": [{"id": "m", "status": {"value": "unloaded"}}]}), False),
        (Kind.LLAMACPP, said({"data": [{"id": "m", "status": {"value": "sleeping"}}]}), False),
        (Kind.LLAMACPP, said({"data": [{"id": "x", "status": {"value": "loaded"}}]}), False),
    ],
)
def test_what_is_loaded(kind: Kind, reply: Reply, expected: bool | None) -> None:
    """B14: a probe never makes an engine load a model."""
    assert resident(kind, reply, "m") is expected


def test_workers_tell_each_other_what_they_saw() -> None:
    """Any text may come from the store; what is no probe is nothing."""
    probe = Probed("b@h:1", "m", Via.DEEP, Verdict.SICK, "no choices", certain=True, silent=True, took=1.5)
    assert from_text(to_text(probe)) == probe
    for wrong in (
        "",
        "[]",
        "{}",
        '{"replica": 1}',
        to_text(probe).replace("sick", "ill"),
        to_text(probe).replace("1.5", "[]"),
    ):
        assert from_text(wrong) is None
