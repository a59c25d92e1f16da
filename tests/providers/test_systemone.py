"""System One servers: both shapes of /v1/models, and the smallest body that every server read so far takes."""

from __future__ import annotations

import pytest

from autohedge.core.ask import Ask
from autohedge.core.types import Door, Kind
from autohedge.providers import systemone
from tests.providers.saying import NOW, place, reply


@pytest.mark.parametrize(
    "listed",
    [
        {"object": "list", "data": [{"id": "dex"}]},
        {"models": [{"name": "dex", "description": "", "release_date": "2026-01-01"}]},
        {"models": [{"name": "x"}], "object": "list", "data": [{"id": "dex"}]},  # colibri and llama.cpp send both
    ],
)
def test_both_shapes(listed: object) -> None:
    """systemone 0.7: typesafe-sdk wants `models`, everybody else `data`."""
    models = systemone.lessons({"/v1/models": reply(listed)}, NOW)
    assert models is not None
    assert [model.names for model in models] == [("dex",)]
    assert models[0].limits.abilities["systemone"].value


def test_no_length_is_checked() -> None:
    assert systemone.DIALECT.fits(Ask(Door.SYSTEMONE, "dex"), 10**6, place(Kind.SYSTEMONE), NOW) == []


def test_the_probe_is_one_noul_question_without_criteria() -> None:
    """systemone 10: Ollama refuses criteria null, so there are none."""
    question = systemone.DIALECT.probe("dex", Door.SYSTEMONE, 16)
    assert question.json == {
        "model": "dex",
        "state": "ok",
        "questions": {"p": {"type": "noul", "instructions": "Is this text ok?"}},
    }
