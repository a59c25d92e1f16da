"""The section `systemone`, and the limits of one backend's models."""

from __future__ import annotations

import pytest

from autohedge.core.types import Rank
from autohedge.settings.errors import ConfigErrors
from autohedge.settings.load import load_text
from autohedge.settings.model import Settings


def loaded(text: str, **env: str) -> Settings:
    return load_text(text, "a.yaml", env, lambda path: path).settings


def test_validation_is_on_and_answers_400() -> None:
    door = loaded("").systemone
    assert door.validate is True
    assert (door.validation_status, door.max_depth, dict(door.counts)) == (400, 64, {})


@pytest.mark.parametrize("word", ["off", "false", "no"])
def test_off_is_eidex(word: str) -> None:
    assert loaded(f"systemone: {{validate: {word}}}").systemone.validate is False
    assert loaded("", AUTOHEDGE_SYSTEMONE_VALIDATE=word).systemone.validate is False


def test_the_status_is_400_or_422() -> None:
    assert loaded("systemone: {validation_status: 422}").systemone.validation_status == 422
    with pytest.raises(ConfigErrors, match="must be 400 or 422"):
        loaded("systemone: {validation_status: 500}")


def test_limits_for_every_model_say_where_they_stand() -> None:
    counts = loaded("systemone: {limits: {max_questions: 5, min_options: 2}}").systemone.counts
    assert {name: (fact.value, fact.source, fact.rank) for name, fact in counts.items()} == {
        "max_questions": (5, "systemone.limits.max_questions", Rank.CONFIG),
        "min_options": (2, "systemone.limits.min_options", Rank.CONFIG),
    }


def test_limits_of_one_backend() -> None:
    settings = loaded("upstream_registry: {jev: {host: h, model_limits: {max_options: 26, max_tokens: 9}}}")
    (spec,) = settings.backends()
    assert {name: (fact.value, fact.source) for name, fact in spec.hints.counts.items()} == {
        "max_options": (26, "model_limits.max_options in a.yaml line 1")
    }
    with pytest.raises(ConfigErrors, match=r"model_limits.max_levels"):
        loaded("upstream_registry: {jev: {host: h, model_limits: {max_levels: 0}}}")
