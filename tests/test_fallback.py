"""Chains as the configuration writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from autohedge.core.types import UNKNOWN_LIMITS, Address, BackendSpec, Candidate, Kind, Replica, Route, Seat
from autohedge.fallback import Chains, chains, redirected
from autohedge.rules.chain import RungKind
from autohedge.settings.load import load_text


def read(tree: dict[str, Any], **env: str) -> Chains:
    return chains(load_text(yaml.safe_dump(tree), "c.yaml", env, lambda path: path).settings)


ARTICLE = {
    "fallback_chain": [
        {"provider": "swarm", "models": ["vllm-13b", "vllm-70b"]},
        {"provider": "ollama", "model": "llama3:8b"},
        {
            "provider": "azure",
            "endpoint": "https://your-resource.openai.azure.com/openai/deployments/gpt-35-turbo/chat/completions?api-version=2023-05-15",
            "api_key": "${AZURE_API_KEY}",
        },
    ]
}


def test_the_article_s_chain() -> None:
    """Seed 003, 3.4: peers, a local Ollama, then Azure by its full URL."""
    read_chains = read(ARTICLE, AZURE_API_KEY="k")
    peers, ollama, azure = read_chains.common
    assert (peers.kind, peers.models) == (RungKind.SWARM, ("vllm-13b", "vllm-70b"))
    assert (ollama.kind, ollama.models) == (RungKind.OLLAMA, ("llama3:8b",))
    assert azure.kind is RungKind.EXTERNAL
    (backend,) = read_chains.backends
    assert backend.name == azure.backend
    assert backend.kind is Kind.AZURE
    assert backend.addresses == (Address("your-resource.openai.azure.com", 443, tls=True),)
    assert backend.params == {"deployment": "gpt-35-turbo", "api_version": "2023-05-15"}
    assert backend.models == ("gpt-35-turbo",)
    assert backend.external
    assert not backend.listed
    assert backend.key is not None
    assert "k" not in repr(backend.key)


@pytest.mark.parametrize(
    ("endpoint", "prefix"),
    [
        ("https://api.example.com/v1", ""),
        ("https://api.example.com", ""),
        ("https://api.example.com/v1/chat/completions", ""),
        ("https://api.example.com/gpu1/v1/", "/gpu1"),
        ("https://api.example.com/gpu1", "/gpu1"),
    ],
)
def test_what_belongs_to_the_api_is_cut_off_an_endpoint(endpoint: str, prefix: str) -> None:
    (backend,) = read(
        {"fallback_chain": [{"provider": "openai-compatible", "endpoint": endpoint, "model": "m"}]}
    ).backends
    assert backend.addresses[0].prefix == prefix


def test_a_model_may_have_its_own_chain_or_none() -> None:
    """`fallback: off` is an empty chain; other models keep the common one."""
    tree = ARTICLE | {"models": {"a": {"fallback": "off"}, "b": {"fallback": [{"provider": "swarm", "model": "c"}]}}}
    read_chains = read(tree, AZURE_API_KEY="k")
    assert read_chains.of("a") == ()
    assert [rung.models for rung in read_chains.of("b")] == [("c",)]
    assert len(read_chains.of("x")) == 3


def test_other_names_of_a_model() -> None:
    assert read({"models": {"qwen": {"aliases": ["gpt-4o", "default"]}}}).aliases == {
        "gpt-4o": "qwen",
        "default": "qwen",
    }


def place(served: str = "m", kind: Kind = Kind.VLLM) -> Candidate:
    spec = BackendSpec("own", kind=kind, aliases={"alias": "m"})
    replica = Replica("own@h:1", "own", Address("h", 1), Seat())
    return Candidate(replica, spec, kind, served, UNKNOWN_LIMITS)


COMMON = {"fallback_chain": [{"provider": "swarm", "models": ["m", "own", "peer"]}]}
ITSELF = {"fallback_chain": [{"provider": "swarm", "models": ["m", "own", "alias"]}]}
OUTSIDE = {"fallback_chain": [{"provider": "openai-compatible", "endpoint": "https://x.example/v1", "model": "m"}]}


@pytest.mark.parametrize(
    ("tree", "spared"),
    [
        ({}, False),
        (COMMON, True),
        (COMMON | {"models": {"m": {"fallback": "off"}, "alias": {"fallback": "off"}}}, False),
        ({"models": {"m": {"fallback": [{"provider": "swarm", "models": ["peer"]}]}}}, True),
        ({"models": {"alias": {"fallback": [{"provider": "swarm", "models": ["peer"]}]}}}, True),
        ({"models": {"other": {"fallback": [{"provider": "swarm", "models": ["peer"]}]}}}, False),
        (ITSELF, False),
        (OUTSIDE, True),
        ({"fallback_chain": [{"provider": "ollama", "model": "llama3:8b"}]}, True),
    ],
)
def test_who_can_take_over_from_the_last_replica(tree: dict[str, Any], spared: bool) -> None:
    """The last replica may go only where the chain of its own model leads somewhere else (facts resilience 4.3.7)."""
    assert read(tree).spares(place()) is spared


def test_a_redirect_ends_where_another_backend_has_the_model() -> None:
    """Who still serves what was asked for stands before the chain."""

    class Gone:
        def redirect_of(self, _model: str) -> str:
            return "peer"

        def fact_of(self, candidate: Candidate) -> object | None:
            return candidate.served == "m" or None

    @dataclass
    class Known:
        chains: Chains
        retirements: Gone

    known = Known(read(COMMON), Gone())
    kinds = frozenset({Kind.VLLM})
    gone, well = Route("a", (place(),), kinds), Route("a", (place(), place("other")), kinds)
    peer = Route("peer", (place("peer"),), kinds)
    assert redirected("a", known, {"a": gone, "peer": peer}) == "peer"
    assert redirected("a", known, {"peer": peer}) == "peer"
    assert redirected("a", known, {"a": well, "peer": peer}) == "a"
