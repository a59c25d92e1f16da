"""Azure OpenAI: the deployment stands in the path, the credential in `api-key`, and nothing can be learned by asking.

Source: openai-python's Azure client and openai-python#460: the data plane lists no deployments since 2023-05-15, so the declared models stand.
"{deployment}" and "{api_version}" are parameters of the backend.

It must not know: how the parameters are filled in.
"""

from __future__ import annotations

from collections.abc import Sequence

from autohedge.core.types import Door, Kind, LearnedModel, Secret
from autohedge.providers import common, openai
from autohedge.providers.base import Dialect, Question, Replies

_DEPLOYMENT = "/openai/deployments/{deployment}"
_VERSION = "?api-version={api_version}"
DOORS = {
    Door.CHAT: f"{_DEPLOYMENT}/chat/completions{_VERSION}",
    Door.COMPLETIONS: f"{_DEPLOYMENT}/completions{_VERSION}",
    Door.EMBEDDINGS: f"{_DEPLOYMENT}/embeddings{_VERSION}",
    Door.RESPONSES: f"/openai/responses{_VERSION}",
}


def authorize(key: Secret) -> Sequence[tuple[bytes, bytes]]:
    """Azure's own header; a Bearer header would be read as an Entra token."""
    return ((b"api-key", key.reveal().encode()),)


def lessons(_replies: Replies, _now: float) -> tuple[LearnedModel, ...] | None:
    """Nothing is told; an empty answer leaves what was declared."""
    return ()


def probe(model: str, door: Door, tokens: int) -> Question:
    """The usual body at the deployment's path; the path is a template like those of the doors."""
    usual = common.probe(model, door, tokens)
    return Question(DOORS.get(door, usual.path), usual.json)


DIALECT: Dialect = Dialect(
    kind=Kind.AZURE,
    doors=DOORS,
    default_port=443,
    authorize=authorize,
    learn=(),
    lessons=lessons,
    fits=common.declared_window,
    probe=probe,
    light="",
    client_faults=openai.CLIENT_FAULTS,
    capability=openai.CAPABILITY,
    busy=openai.BUSY,
    loading=openai.LOADING,
)
