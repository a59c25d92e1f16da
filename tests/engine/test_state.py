"""The engine's settings and counters."""

from __future__ import annotations

from autohedge.core.types import Kind
from autohedge.engine.messages import Request
from autohedge.engine.state import KEPT_BYTES, State


def test_gap_is_the_pace() -> None:
    assert State(Kind.VLLM, pace=50.0).gap == 0.02
    assert State(Kind.VLLM).gap == 0.0


def test_a_model_is_loaded_until() -> None:
    """B14: a keep-alive clock."""
    state = State(Kind.OLLAMA, now=lambda: 100.0)
    assert state.loaded
    state.loaded_until = 101.0
    assert state.loaded
    state.loaded_until = 100.0
    assert not state.loaded


def test_ids_differ_and_repeat_on_the_next_run() -> None:
    first, second = State(Kind.VLLM), State(Kind.VLLM)
    assert first.next_id("a-") == second.next_id("a-") == "a-0000000000000001"
    assert first.next_id("a-") == "a-0000000000000002"


def test_requests_are_kept_within_bounds() -> None:
    """Not more than 256, and not more bytes than a test machine has; the last one always."""
    assert State(Kind.VLLM).last_request is None
    state = State(Kind.VLLM)
    for turn in range(300):
        state.keep(Request(turn))
    assert len(state.requests) == 256
    big = Request(301)
    big.body = b"x" * (KEPT_BYTES + 1)
    state.keep(big)
    assert list(state.requests) == [big]
    assert state.last_request is big
    state.keep(Request(302))
    assert state.held == 0
    assert state.received == {"": 302}
