"""Which path leads to which door."""

from __future__ import annotations

import pytest

from autohedge.core.types import Door
from autohedge.doors.openai import find


@pytest.mark.parametrize(
    ("path", "door"),
    [
        ("/v1/chat/completions", Door.CHAT),
        ("/v1/completions", Door.COMPLETIONS),
        ("/v1/embeddings", Door.EMBEDDINGS),
        ("/v1/responses", Door.RESPONSES),
        ("/v1/messages", Door.MESSAGES),
        ("/v1/rerank", Door.RERANK),
        ("/v1/sparse-embeddings", Door.SPARSE),
        ("/v1/embeddings:both", Door.BOTH),
        ("/v1/systemone", Door.SYSTEMONE),
        ("/v1/systemone/", Door.SYSTEMONE),
        ("/v1/system%6Fne", Door.SYSTEMONE),
        ("/%761/chat/complet%69ons/", Door.CHAT),
        ("/v1/embeddings%3aboth", Door.BOTH),
        ("/v1/chat/completions/", Door.CHAT),
        ("/openai/v1/chat/completions", Door.CHAT),
    ],
)
def test_each_path_has_its_door(path: str, door: Door) -> None:
    entry = find(path)
    assert entry is not None
    assert entry.door is door
    assert entry.target.startswith("/v1/")
    assert entry.model is None


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/openai/deployments/gpt-4o/chat/completions", "gpt-4o"),
        ("/openai/deployments/org%2Fname/chat/completions", "org/name"),
        ("/openai/deployments/gpt%204o/embeddings", "gpt 4o"),
        ("/openai/deployments/m/embeddings%3Aboth", "m"),
    ],
)
def test_azure_names_the_model_in_the_path(path: str, model: str) -> None:
    """Facts 00b: Azure clients send no model in the body; an encoded slash belongs to the name."""
    entry = find(path)
    assert entry is not None
    assert entry.model == model
    assert entry.azure


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/models",
        "/v1/chat",
        "/v2/chat/completions",
        "/openai/deployments/x",
        "/openai/deployments//chat/completions",
        "//v1/chat/completions",
    ],
)
def test_other_paths_are_not_the_data_path(path: str) -> None:
    assert find(path) is None


@pytest.mark.parametrize("path", ["/openai/v1/systemone", "/openai/deployments/dex/systemone", "/v1/systemone/x"])
def test_the_system_one_door_has_no_alias(path: str) -> None:
    """It is eidex's, and no OpenAI client knows it."""
    assert find(path) is None
