"""System One: probabilities, confidence, and what a body may hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.engine.decisions import Rules, closeness, first_bad, peak, shares
from tests.engine.calls import ASKED, Serve, ask


@pytest.mark.parametrize(("found", "confidence"), [([0.8, 0.1, 0.1], 0.7), ([0.5, 0.5], 0.0), ([1.0], 1.0)])
def test_confidence_of_a_choice(found: list[float], confidence: float) -> None:
    """The vectors of facts systemone 2."""
    assert peak(found) == pytest.approx(confidence)


@pytest.mark.parametrize(
    ("found", "confidence"), [([0.1, 0.1, 0.8], 0.55), ([0.25] * 4, 0.0), ([0.0, 1.0, 0.0], 1.0), ([1.0], 1.0)]
)
def test_confidence_of_a_score(found: list[float], confidence: float) -> None:
    assert closeness(found) == pytest.approx(confidence)


@given(st.lists(st.text(max_size=4), min_size=1, max_size=255), st.integers(0, 2**32))
def test_shares_add_up(options: list[str], about: int) -> None:
    found = shares(options, about, 7)
    assert sum(found) == pytest.approx(1.0, abs=1e-3)
    assert min(found) >= 0


@pytest.mark.parametrize("kind", ["sglang", "systemone", "llamacpp", "vllm", "ollama", "openai-compatible"])
def test_every_answer_is_complete(serve: Serve, kind: str) -> None:
    """Fact 8: model, usage, confidence and legend are there, and the argmax is the choice."""
    told = ask(serve(kind), "/v1/systemone", ASKED).json()
    answers = told["answers"]
    assert told["model"] == "m"
    assert told["usage"]["input_tokens"] > 0
    assert list(answers) == ["b", "t", "s"]
    assert 0 <= answers["b"]["noul"] <= 1
    assert answers["t"]["choice"] == max(answers["t"]["probabilities"], key=answers["t"]["probabilities"].get)
    assert answers["s"]["legend"] == {"0": "low", "1": "high"}
    assert 0 <= answers["s"]["score"] <= 1
    assert 0 <= answers["s"]["confidence"] <= 1


def test_the_same_document_has_the_same_answer(serve: Serve) -> None:
    """Racing and hedging are safe: an answer depends on the body alone."""
    one, two = serve("sglang"), serve("sglang")
    assert ask(one, "/v1/systemone", ASKED).json()["answers"] == ask(two, "/v1/systemone", ASKED).json()["answers"]
    renamed = {"other": ASKED["questions"]["t"]}
    answer = ask(one, "/v1/systemone", {**ASKED, "questions": renamed}).json()["answers"]["other"]
    assert answer == ask(two, "/v1/systemone", ASKED).json()["answers"]["t"]


@pytest.mark.parametrize(
    ("rules", "change", "kind"),
    [
        (Rules(), {"state": None}, "string_type"),
        (Rules(any_state=True), {"state": None}, None),
        (Rules(model_needed=True), {"model": 7}, "string_type"),
        (Rules(), {"questions": []}, "dict_type"),
        (Rules(questions=2), {}, "too_long"),
        (Rules(), {"questions": {"q": "x"}}, "model_attributes_type"),
        (Rules(noul_needs=""), {"questions": {"q": {"type": "noul"}}}, None),
        (Rules(), {"questions": {"q": {"type": "choice", "criteria": ["a"]}}}, "dict_type"),
        (Rules(), {"questions": {"q": {"type": "choice"}}}, "missing"),
        (Rules(), {"questions": {"q": {"type": "score", "criteria": {"0": "a"}}}}, "list_type"),
        (Rules(), {"questions": {"q": {"type": "choice", "criteria": {"a": None}, "odd": 1}}}, None),
    ],
)
def test_rules(rules: Rules, change: dict[str, Any], kind: str | None) -> None:
    found = first_bad(ASKED | change, rules)
    assert (found.type if found else None) == kind
