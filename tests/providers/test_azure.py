"""Azure: paths with a deployment, its own header, and nothing to ask."""

from __future__ import annotations

from autohedge.core.types import Door, Secret
from autohedge.providers import azure
from tests.providers.saying import NOW


def test_paths_have_places_for_deployment_and_version() -> None:
    assert (
        azure.DIALECT.doors[Door.CHAT] == "/openai/deployments/{deployment}/chat/completions?api-version={api_version}"
    )
    assert azure.DIALECT.doors[Door.RESPONSES] == "/openai/responses?api-version={api_version}"
    assert all("{api_version}" in path for path in azure.DIALECT.doors.values())


def test_the_credential_has_its_own_header() -> None:
    """00b: api-key instead of Authorization."""
    assert azure.DIALECT.authorize(Secret("k")) == ((b"api-key", b"k"),)


def test_there_is_nothing_to_learn() -> None:
    """Table a: deployments are not listed by the data plane."""
    assert azure.DIALECT.learn == ()
    assert azure.lessons({}, NOW) == ()


def test_a_probe_goes_to_the_deployment() -> None:
    question = azure.probe("gpt", Door.CHAT, 16)
    assert question.path == azure.DIALECT.doors[Door.CHAT]
    assert question.json is not None
    assert question.json["max_tokens"] == 16
