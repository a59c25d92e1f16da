"""Chat bodies: the article's table, the facts of section 00, the habits of real clients."""

from __future__ import annotations

from typing import Any

import pytest

from autohedge.core.types import Kind
from tests.payloads.bodies import CALL, KINDS, TOOL, USER, chat, fields, found, refusing

VLLM, SGLANG, CPP, OLLAMA, TGI, OPENAI = Kind.VLLM, Kind.SGLANG, Kind.LLAMACPP, Kind.OLLAMA, Kind.TGI, Kind.OPENAI
ALL = set(KINDS)
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}

# e5: what the article's schema refused, and which kinds really refuse it
E5_REFUSED: list[tuple[str, dict[str, Any], set[Kind]]] = [
    ("role developer", chat(messages=[{"role": "developer", "content": "be kind"}, USER]), set()),
    ("role function", chat(messages=[USER, {"role": "function", "name": "f", "content": "1"}]), set()),
    (
        "content null with tool_calls",
        chat(messages=[USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}]),
        set(),
    ),
    ("content absent with tool_calls", chat(messages=[USER, {"role": "assistant", "tool_calls": [CALL]}]), set()),
    ("temperature null", chat(temperature=None), set()),
    ("temperature 2.5", chat(temperature=2.5), {VLLM}),
    ("stream null", chat(stream=None), {SGLANG, TGI}),
    ("max_tokens -1", chat(max_tokens=-1), {VLLM, SGLANG, TGI}),
    ("max_tokens 65536", chat(max_tokens=65536), set()),
    ("json_schema", chat(response_format=SCHEMA), set()),
    ("named tool_choice", chat(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "f"}}), set()),
    (
        "allowed_tools",
        chat(tools=[TOOL], tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [TOOL]}}),
        {VLLM, SGLANG},
    ),
    ("user content null", chat(messages=[{"role": "user", "content": None}]), {VLLM, SGLANG, OLLAMA, TGI}),
]
# e5: what it took, and which kinds refuse it
E5_TAKEN: list[tuple[str, dict[str, Any], set[Kind]]] = [
    ("tool_choice banana", chat(tools=[TOOL], tool_choice="banana"), ALL - {OLLAMA, TGI}),
    ("tool_choice autoXYZ", chat(tools=[TOOL], tool_choice={"type": "autoXYZ"}), {VLLM, SGLANG}),
    ("max_tokens in quotes", chat(max_tokens="5"), {CPP, OLLAMA, TGI}),
    ("stream yes", chat(stream="yes"), {CPP, OLLAMA, TGI}),
]


@pytest.mark.parametrize(("case", "body", "by"), E5_REFUSED + E5_TAKEN, ids=[row[0] for row in E5_REFUSED + E5_TAKEN])
def test_e5(case: str, body: dict[str, Any], by: set[Kind]) -> None:
    """e5: 13 of 17 cases were judged wrongly by the article; here each is refused by the kinds that refuse it, no other."""
    assert refusing(body) == by


# section 00: served by all three measured engines
SERVED: list[dict[str, Any]] = [
    chat(temperature=True),
    chat(logit_bias={"5": 101}),
    chat(metadata=5, store="x", service_tier=[], modalities={}, prediction=1, verbosity=None, functions="x"),
    chat(unknown={"deep": [1]}, reasoningEffort="low"),
    chat(messages=[{"role": "assistant", "content": "a"}, {"role": "system", "content": "b"}, USER]),
    chat(messages=[USER, {"role": "tool", "content": "no call before", "tool_call_id": "zz"}]),
    chat(messages=[{"role": "user", "content": ""}]),
    chat(messages=[{"role": "user", "content": []}]),
]


@pytest.mark.parametrize("body", SERVED)
def test_00_served_by_all(body: dict[str, Any]) -> None:
    for kind in (OPENAI, VLLM, SGLANG, CPP):
        assert found(kind, body) == ()


# section 00: refused by all three
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model": "m"}, "messages"),
    (chat(messages="hi"), "messages"),
    (chat(messages=["hi"]), "messages[0]"),
    (chat(messages=[{"role": 1, "content": "x"}]), "messages[0].role"),
    (chat(messages=[{"content": "x"}]), "messages[0].role"),
    (chat(messages=[{"role": "user", "content": [{"type": "text", "text": 1}]}]), "messages[0].content[0].text"),
    (chat(messages=[{"role": "user", "content": [{"type": "banana"}]}]), "messages[0].content[0].type"),
    (chat(messages=[{"role": "user", "content": ["a"]}]), "messages[0].content[0]"),
    (chat(messages=[{"role": "user", "content": 5}]), "messages[0].content"),
    (chat(tools="x"), "tools"),
    (chat(tools=["x"]), "tools[0]"),
    (chat(tools=[{"type": "function"}]), "tools[0].function"),
    (chat(tools=[{"type": "function", "function": {"name": 1}}]), "tools[0].function.name"),
    (chat(tools=[TOOL], tool_choice="banana"), "tool_choice"),
    (chat(tools=[TOOL], tool_choice=""), "tool_choice"),
    (chat(tools=[TOOL], tool_choice="AUTO"), "tool_choice"),
    (chat(response_format={"type": "banana"}), "response_format.type"),
    (chat(temperature="hot"), "temperature"),
    (chat(top_p=[]), "top_p"),
    (chat(n={}), "n"),
    (chat(stop=["a", 1]), "stop"),
]


@pytest.mark.parametrize(("body", "field"), REFUSED, ids=[str(row[1]) for row in REFUSED])
def test_00_refused_by_all(body: dict[str, Any], field: str) -> None:
    for kind in (OPENAI, Kind.AZURE, VLLM, SGLANG, CPP):
        assert field in fields(kind, body)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_00_nan_in_a_sampling_field(text: str) -> None:
    body = f'{{"model":"m","messages":[{{"role":"user","content":"x"}}],"temperature":{text}}}'
    for kind in KINDS:
        assert found(kind, body), kind


def test_00_tool_choice_any() -> None:
    """All three refuse it; Mistral and OpenRouter, which may stand behind an unknown engine, take it."""
    assert refusing(chat(tools=[TOOL], tool_choice="any")) == {VLLM, SGLANG, CPP}


# section 00: llama.cpp alone serves
CPP_SERVES: list[dict[str, Any]] = [
    chat(temperature=-1),
    chat(top_p=2),
    chat(max_tokens=1.5),
    chat(max_tokens=-1),
    chat(max_tokens=100_000),
    chat(stop=5),
    chat(stop={}),
    chat(messages=[]),
    chat(messages=[{"role": "user", "content": None}]),
    chat(model=5),
    chat(model=[]),
    chat(tools=[TOOL], tool_choice=5),
    chat(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "missing"}}),
]


@pytest.mark.parametrize("body", CPP_SERVES)
def test_00_llamacpp_alone_serves(body: dict[str, Any]) -> None:
    assert found(CPP, body) == ()
    if body.get("max_tokens") != 100_000:
        assert found(VLLM, body) != ()


# section 00: llama.cpp alone refuses
CPP_REFUSES: list[tuple[dict[str, Any], str]] = [
    (chat(temperature="0.7"), "temperature"),
    (chat(stream="true"), "stream"),
    (chat(stream=1), "stream"),
    (chat(top_logprobs=0), "top_logprobs"),
    (chat(messages=[USER, {"role": "assistant"}]), "messages[1]"),
]


@pytest.mark.parametrize(("body", "field"), CPP_REFUSES)
def test_00_llamacpp_alone_refuses(body: dict[str, Any], field: str) -> None:
    assert fields(CPP, body) == [field]
    for kind in (OPENAI, VLLM, SGLANG):
        assert found(kind, body) == ()


def test_00_slots_are_not_known() -> None:
    """n above the slots of a llama.cpp is refused there; how many it has is a limit, not a schema."""
    assert refusing(chat(n=50)) == set()


VLLM_REFUSES: list[tuple[dict[str, Any], str]] = [
    (chat(temperature=2.1), "temperature"),
    (chat(logprobs=True, top_logprobs=-2), "top_logprobs"),
    (chat(messages=[{"role": "system", "content": None}, USER]), "messages[0].content"),
    (chat(messages=[USER, {"role": "assistant", "content": None, "tool_calls": None}]), "messages[1]"),
    (chat(min_tokens=None), "min_tokens"),
    (chat(priority=None), "priority"),
    (chat(tools=[]), "tools"),
    (chat(stream_options={"include_usage": True}), "stream_options"),
    (chat(continue_final_message=True, add_generation_prompt=True), "continue_final_message"),
    (chat(tool_choice="auto"), "tool_choice"),
    (chat(top_logprobs=3), "top_logprobs"),
    (chat(response_format={"type": "json_schema"}), "response_format.json_schema"),
]


@pytest.mark.parametrize(("body", "field"), VLLM_REFUSES, ids=[row[1] for row in VLLM_REFUSES])
def test_00_vllm_refuses(body: dict[str, Any], field: str) -> None:
    assert fields(VLLM, body) == [field]
    assert found(OPENAI, body) == ()


@pytest.mark.parametrize(
    "field", ["stream", "n", "frequency_penalty", "presence_penalty", "logprobs", "parallel_tool_calls"]
)
def test_00_sglang_refuses_null(field: str) -> None:
    body = chat(**{field: None})
    assert fields(SGLANG, body) == [field]
    assert found(VLLM, body) == found(CPP, body) == found(OPENAI, body) == ()


def test_00_sglang_roles() -> None:
    """ "SYSTEM" passes, "USER" does not."""
    assert found(SGLANG, chat(messages=[{"role": "SYSTEM", "content": "x"}, USER])) == ()
    assert fields(SGLANG, chat(messages=[{"role": "USER", "content": "x"}])) == ["messages[0].role"]
    assert refusing(chat(messages=[{"role": "banana", "content": "x"}])) == {SGLANG}


def test_tool_choice_that_names_no_tool() -> None:
    """All but llama.cpp refuse it; an unknown engine may be one."""
    body = chat(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "g"}})
    assert refusing(body) == {VLLM, SGLANG}
    inside = chat(
        messages=[{"role": "system", "content": "x", "tools": [TOOL]}, USER], tool_choice={"function": {"name": "f"}}
    )
    assert found(SGLANG, inside) == ()


# 00b: what 80 client versions send
HABITS: list[dict[str, Any]] = [
    chat(model=None),
    {"messages": [USER]},
    chat(seed=None, top_p=None, stop=None, max_tokens=None, logit_bias=None, user=None, tools=None, tool_choice=None),
    chat(
        messages=[
            USER,
            {
                "role": "assistant",
                "content": "a",
                "refusal": None,
                "annotations": None,
                "audio": None,
                "function_call": None,
            },
            USER,
        ]
    ),
    chat(messages=[USER, {"role": "assistant", "content": "a", "tool_calls": None}, USER]),
    chat(stop=[str(i) for i in range(14)]),
    chat(reasoningEffort="low", maxTokens=5),
    chat(messages=[USER, {"role": "assistant", "content": "a", "reasoning_content": "b"}, USER]),
    chat(messages=[{**USER, "prefix": True, "id": "x"}]),
    chat(messages=[USER, {"role": "assistant", "content": None, "tool_calls": [{**CALL, "index": 0}]}]),
    chat(
        messages=[
            {"role": "system", "content": [{"type": "text", "text": "a"}]},
            USER,
            {"role": "assistant", "content": [{"type": "text", "text": "a"}], "tool_calls": [CALL]},
            {"role": "tool", "content": [{"type": "text", "text": "a"}], "tool_call_id": "c1"},
        ]
    ),
    chat(
        messages=[{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]}]
    ),
    chat(max_completion_tokens=100, reasoning_effort="low", parallel_tool_calls=True, tools=[TOOL], tool_choice="auto"),
    chat(stream=True, stream_options={"include_usage": True}),
    chat(logprobs=True, top_logprobs=5),
]


@pytest.mark.parametrize("body", HABITS, ids=range(len(HABITS)))
def test_00b_habits_pass_everywhere(body: dict[str, Any]) -> None:
    assert refusing(body) <= {TGI} if "stop" in body or "stream" in body else refusing(body) == set()


# 00b: dialects that some engines do refuse; the others get them
DIALECTS: list[tuple[dict[str, Any], set[Kind]]] = [
    (chat(tools=[]), {VLLM}),
    (chat(logprobs=5), {VLLM, SGLANG, TGI}),
    (chat(user={"id": 1}), {VLLM, SGLANG}),
    (
        chat(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": "https://x/y.png"}]}]),
        {VLLM, SGLANG},
    ),
    (chat(tools=[TOOL], tool_choice={"function": {"name": "f"}}), set()),
]


@pytest.mark.parametrize(("body", "by"), DIALECTS)
def test_00b_dialects(body: dict[str, Any], by: set[Kind]) -> None:
    assert refusing(body) == by


@pytest.mark.parametrize(
    "text",
    [
        '{"model":"m","messages":[{"role":"user","content":"\\u4f60 \\/"}],"temperature":1e0,"seed":9007199254740993}',
        '{"model":"m","messages":[{"role":"user","content":"x"}],"top_p":0.70000000000000001,"presence_penalty":-0.0}',
        '\ufeff{\r\n  "model" : "m",\n  "messages" : [ { "role" : "user", "content" : "x" } ]\n}\n',
        '{"model":"a","messages":[{"role":"user","content":"x"}],"model":"m","temperature":"x","temperature":1}',
    ],
)
def test_00b_ways_to_write_json(text: str) -> None:
    assert refusing(text) == set()


def test_b58_developer() -> None:
    assert refusing(chat(messages=[{"role": "developer", "content": "x"}, USER])) == set()


@pytest.mark.parametrize("content", ["", None])
def test_b59_empty_assistant_in_the_history(content: str | None) -> None:
    body = chat(messages=[USER, {"role": "assistant", "content": content, "tool_calls": [CALL]}, USER])
    assert refusing(body) == set()
    assert refusing(chat(messages=[USER, {"role": "assistant", "content": ""}, USER])) == set()


def test_b61_b62_nothing_is_lost() -> None:
    """The parsed body is looked at and never written again: all fields are there, with their types."""
    body = chat(n=2, stop=["x"], seed=1, logprobs=True, tools=[TOOL], tool_choice={"function": {"name": "f"}})
    assert refusing(body) == set()


def test_azure_and_hosted_extras_pass_for_an_unknown_engine() -> None:
    custom = {"type": "custom", "custom": {"name": "sql"}}
    parts = [{"type": "file", "file": {"file_id": "x"}}, {"type": "document", "text": "x"}]
    body = chat(messages=[{"role": "user", "content": parts}], tools=[custom, {"type": "web_search"}], data_sources=[])
    assert found(Kind.AZURE, body) == found(OPENAI, body) == ()


def test_ollama_reads_its_own_fields_only() -> None:
    """Fact 16: no max_completion_tokens, n, tool_choice, logit_bias there."""
    assert found(OLLAMA, chat(max_completion_tokens="x", n="hot", tool_choice="banana", logit_bias=5)) == ()
    assert fields(OLLAMA, chat(max_tokens=1.5, seed="1")) == ["max_tokens", "seed"]
    assert fields(OLLAMA, chat(messages=[])) == ["messages"]
    assert fields(OLLAMA, chat(stream_options="x")) == ["stream_options"]


def test_tgi() -> None:
    """e2: stop is a list, one bound, top_p inside of 0 and 1."""
    assert fields(TGI, chat(stop="x")) == ["stop"]
    assert fields(TGI, chat(max_tokens=1, max_completion_tokens=1)) == ["max_completion_tokens"]
    assert fields(TGI, chat(top_p=1.0)) == ["top_p"]
    assert found(TGI, chat(temperature=0, stop=["x"], n=3, response_format={"type": "regex", "value": "a"})) == ()
