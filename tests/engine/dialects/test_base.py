"""What all dialects share: composing an answer, finding a route, reading a body."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autohedge.core.types import Kind
from autohedge.engine.dialects import DIALECTS
from autohedge.engine.messages import Request
from autohedge.engine.state import State
from tests.engine.calls import ASKED, CHAT, HELLO, Serve, ask, stream


def test_stop_sequences_cut_the_answer(serve: Serve) -> None:
    answer = ask(serve("vllm"), CHAT, {**HELLO, "stop": ["engine", "sample engine"]}).json()["choices"][0]
    assert answer["message"]["content"] == "sample answers: 你好 🌍 — a "
    assert answer["finish_reason"] == "stop"


def test_ignore_eos_and_min_tokens_make_it_longer(serve: Serve) -> None:
    engine = serve("vllm")
    assert ask(engine, CHAT, {**HELLO, "ignore_eos": True, "max_tokens": 50}).json()["usage"]["completion_tokens"] == 50
    assert ask(engine, CHAT, {**HELLO, "min_tokens": 30}).json()["usage"]["completion_tokens"] == 30


def test_json_is_answered_with_json(serve: Serve) -> None:
    answer = ask(serve("vllm"), CHAT, {**HELLO, "response_format": {"type": "json_object"}}).json()
    assert json.loads(answer["choices"][0]["message"]["content"]) == {"engine": "sample"}


def test_n_makes_several_choices(serve: Serve) -> None:
    engine = serve("vllm")
    answer = ask(engine, CHAT, {**HELLO, "n": 3}).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert answer["usage"]["completion_tokens"] == 42
    heard = stream(engine, {**HELLO, "n": 2})
    assert {event["choices"][0]["index"] for event in heard.events[:-1]} == {0, 1}


@pytest.mark.parametrize("kind", ["vllm", "llamacpp", "sglang", "openai-compatible", "ollama"])
@pytest.mark.parametrize(
    "content", [b"", b"null", b"[1]", b'{"model":"m","messages":[]} x', b"\xff\xfe{", b'{"a":' * 3000]
)
def test_what_is_no_object_is_a_400(serve: Serve, kind: str, content: bytes) -> None:
    """Facts 00: all engines refuse trailing data, bad UTF-8 and what is no object."""
    answer = ask(serve(kind), CHAT, method="POST", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)


def test_a_bom_and_duplicate_keys_are_served(serve: Serve) -> None:
    """Facts 00: all three serve a BOM; of duplicate keys the last counts."""
    body = b'\xef\xbb\xbf{"model":"x","messages":[{"role":"user","content":"a"}],"model":"m"}'
    assert ask(serve("vllm"), CHAT, method="POST", content=body).status_code == 200


def test_a_body_seen_before_gets_a_new_answer(serve: Serve) -> None:
    """The memory keeps what was read, not what was answered: ids differ, a fault that edits does not stick."""
    engine = serve("vllm", faults=["no-choices:times=1"])
    first, second, third = (ask(engine, CHAT, HELLO).json() for _ in range(3))
    assert first["choices"] is None
    assert second["choices"] == third["choices"] != None  # noqa: E711
    assert len({answer["id"] for answer in (first, second, third)}) == 3


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
_KEYS = st.sampled_from(
    re.findall(
        r"\w+",
        "messages prompt input model max_tokens max_output_tokens stream tools tool_choice stop n dimensions documents query"
        " top_n state questions options min_tokens response_format stream_options system instructions parameters inputs"
        " truncate encoding_format top_p",
    )
)
_HEALTHY = {**HELLO, **ASKED, "prompt": "a", "input": "a", "query": "a", "documents": ["a"], "inputs": "a"}


@pytest.mark.parametrize("kind", list(DIALECTS))
@given(changes=st.dictionaries(_KEYS, _VALUES, max_size=4))
@settings(max_examples=60, deadline=None)
def test_no_body_is_too_odd(kind: Kind, changes: dict[str, Any]) -> None:
    """Whatever a client sends, every work path answers with a status; a sample engine never breaks by itself."""
    dialect = DIALECTS[kind](State(kind, model="m", name="sample"))
    for path, route in list(dialect.routes.items()):
        if "POST" not in route.handlers:
            continue
        found = Request(1)
        found.method, found.path, found.target = "POST", path, path.encode()
        found.headers = [(b"content-type", b"application/json")]
        found.body = json.dumps(_HEALTHY | changes).encode("utf-8", "surrogatepass")
        assert 200 <= dialect.answer(found, route).status < 600
