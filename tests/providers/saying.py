"""Short ways to say what an engine answered and where an ask would go."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from autohedge.core.ask import Ask
from autohedge.core.types import (
    UNKNOWN_LIMITS,
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
)
from autohedge.providers.base import Reply

NOW = 1_800_000_012.0
READ = 1_800_000_000.0

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def keyed(*names: str) -> st.SearchStrategy[Any]:
    """JSON that is likely to hold the keys that a reader looks for."""
    keys = st.sampled_from(names)
    return st.recursive(
        JSON,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=6),
        max_leaves=20,
    )


def reply(body: Any = None, status: int = 200) -> Reply:
    return Reply(status, body if isinstance(body, bytes) else json.dumps(body).encode())


def engine(value: int, source: str = "max_model_len, read from /v1/models") -> Fact[int]:
    return Fact(value, source, Rank.ENGINE, READ)


def config(value: int, source: str = "model_limits.max_tokens in config.yaml") -> Fact[int]:
    return Fact(value, source, Rank.CONFIG)


def place(
    kind: Kind,
    limits: Limits = UNKNOWN_LIMITS,
    *,
    backend: str = "vllm-qwen2-7b",
    served: str = "qwen2-7b",
    port: int = 8000,
) -> Candidate:
    replica = Replica(f"{backend}@10.0.0.1:{port}", backend, Address("10.0.0.1", port), Seat())
    return Candidate(replica, BackendSpec(backend, kind), kind, served, limits)


def chat(max_tokens: int | None = None, **more: Any) -> Ask:
    return Ask(Door.CHAT, "qwen2-7b", max_tokens=max_tokens, **more)
