"""The recorded answers are still those of the real llama.cpp that is installed."""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest

from autohedge.core.types import Door, Kind
from tests.payloads.bodies import found, recorded
from tests.support.processes import Child, ending, llama

pytestmark = pytest.mark.real
PATHS = {Door.CHAT: "/v1/chat/completions", Door.COMPLETIONS: "/v1/completions", Door.EMBEDDINGS: "/v1/embeddings"}


@pytest.fixture(scope="module")
def engines() -> Iterator[dict[Door, Child]]:
    chat = llama("--alias", "tiny", window=1024)
    vectors = llama("--alias", "emb", embeds=True, window=512)
    with ending(chat, vectors):
        yield {Door.CHAT: chat, Door.COMPLETIONS: chat, Door.EMBEDDINGS: vectors}


def status(engine: Child, door: Door, body: bytes) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=30)
    try:
        connection.request("POST", PATHS[door], body, {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def test_recorded_answers_hold(engines: dict[Door, Child]) -> None:
    """Every recorded body gets the recorded status; 5 s for 964 bodies."""
    changed = [
        (row.case, row.llamacpp, now)
        for row in recorded()
        if (now := status(engines[row.door], row.door, row.body)) != row.llamacpp
    ]
    assert changed == []


@pytest.mark.parametrize("levels", [300, 1200, 10_000, 100_000])
def test_deep_bodies_are_served(engines: dict[Door, Child], levels: int) -> None:
    """Section 00, nesting: llama.cpp takes 100,000 levels in a field that it does not know, and so it gets them."""
    body = b'{"messages":[{"role":"user","content":"hi"}],"max_tokens":1,"foo":' + b"[" * levels + b"]" * levels + b"}"
    assert status(engines[Door.CHAT], Door.CHAT, body) == 200
    assert found(Kind.LLAMACPP, body) == ()
