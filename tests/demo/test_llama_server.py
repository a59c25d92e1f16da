"""A real llama.cpp server as a child process: it says where it listens, serves, and ends when told."""

from __future__ import annotations

import signal

import httpx
import pytest

from tests.support.processes import ending, llama

pytestmark = pytest.mark.real
pytest.importorskip("xllamacpp")


def test_it_serves_under_its_alias_until_it_is_told_to_end() -> None:
    """Window, slots and key are those of the command line; SIGTERM ends it at once with 0."""
    server = llama("--alias", "tiny", "--key", "sk-1", "--slots", "3", window=200)
    with ending(server):
        told = httpx.get(f"{server.url}/props", headers={"authorization": "Bearer sk-1"}).json()
        assert told["total_slots"] == 3
        assert told["default_generation_settings"]["n_ctx"] >= 200
        body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
        assert httpx.post(f"{server.url}/v1/chat/completions", json=body).status_code == 401
        answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, headers={"authorization": "Bearer sk-1"})
        assert answer.json()["model"] == "tiny"
        server.send(signal.SIGTERM)
        assert server.process.wait(60) == 0


def test_it_embeds_where_it_is_told_to() -> None:
    server = llama("--alias", "vectors", embeds=True, window=512)
    with ending(server):
        answer = httpx.post(f"{server.url}/v1/embeddings", json={"model": "vectors", "input": "hi"})
        assert len(answer.json()["data"][0]["embedding"]) == 64
