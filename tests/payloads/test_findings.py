"""From errors to findings: all at once, one per field, folded, bounded."""

from __future__ import annotations

import pytest

from autohedge.core.types import Door, Kind
from autohedge.payloads.findings import MODELS, MOST, QUIRKS, SCHEMAS, rules_of
from autohedge.payloads.parse import Quirk
from tests.payloads.bodies import KINDS, USER, chat, fields, found, refusing

VLLM, SGLANG, CPP, OLLAMA, TGI = Kind.VLLM, Kind.SGLANG, Kind.LLAMACPP, Kind.OLLAMA, Kind.TGI


def test_all_problems_at_once() -> None:
    body = chat(
        messages=[USER, {"role": 1, "content": [{"type": "banana"}, {"type": "text", "text": 5}]}],
        temperature="hot",
        n=[],
    )
    assert fields(Kind.OPENAI, body) == [
        "messages[1].role",
        "messages[1].content[0].type",
        "messages[1].content[1].text",
        "temperature",
        "n",
    ]


def test_messages_of_a_union_are_one_sentence() -> None:
    detail = found(Kind.OPENAI, chat(messages=[{"role": "user", "content": 5}]))[0]
    assert detail.message == "messages[0].content: expected a string or an array, got the number 5"
    assert detail.value == 5
    part = found(CPP, chat(messages=[{"role": "user", "content": [{"type": "banana"}]}]))
    assert [d.param for d in part] == ["messages[0].content[0].type"]
    assert '"text", "image_url"' in part[0].message
    assert part[0].message.endswith('got the string "banana"')


def test_messages_name_no_engine() -> None:
    for kind in KINDS:
        for body in (chat(temperature="hot", top_logprobs=3, tools=[]), chat(messages=5), chat(stop=[1], n=0)):
            for detail in found(kind, body):
                assert not any(
                    name in detail.message.lower() for name in ("vllm", "sglang", "llama", "ollama", "tgi", "pydantic")
                )


def test_how_many_findings() -> None:
    """A body of mistakes costs no more than a body of answers; the first `MOST` are told."""
    assert len(found(VLLM, chat(messages=[1] * 100_000))) == MOST
    assert len(found(VLLM, chat(messages=[{"role": "user", "content": [1] * 100_000}]))) == MOST
    assert len(found(VLLM, chat(tools=[1] * 100_000))) == MOST
    assert len(found(VLLM, chat(messages=[{"role": "assistant", "tool_calls": [1] * 100_000}]))) == MOST
    assert len(found(CPP, chat(messages=[{"role": "user"}] * 100_000))) == MOST
    assert found(VLLM, chat(messages=[USER] * 10_000)) == ()


def nested(levels: int) -> str:
    return (
        '{"type":"object","properties":{"a":' * ((levels - 1) // 2) + '{"type":"integer"}' + "}}" * ((levels - 1) // 2)
    )


@pytest.mark.parametrize(
    "text",
    [
        '"response_format":{{"type":"json_schema","json_schema":{{"name":"x","schema":{}}}}}',
        '"response_format":{{"type":"json_object","schema":{}}}',
        '"json_schema":{}',
        '"guided_json":{}',
        '"structured_outputs":{{"json":{}}}',
    ],
)
def test_schemas_that_go_too_deep(text: str) -> None:
    """Section 00: 5,000 levels cost llama.cpp seconds, vLLM takes 64: bounded for every kind, also where engines differ."""
    start = '{"model":"m","messages":[{"role":"user","content":"x"}],'
    shallow, deep, abyss = (start + text.format(nested(n)) + "}" for n in (63, 65, 5001))
    assert refusing(shallow) <= {VLLM, SGLANG}
    for body in (deep, abyss):
        assert refusing(body) == set(KINDS)
        assert "nest deeper than the 64 levels" in " ".join(d.message for d in found(CPP, body))


def test_schema_of_a_response() -> None:
    body = '{"input":"x","text":{"format":{"type":"json_schema","schema":' + nested(67) + "}}}"
    assert fields(Kind.OPENAI, body, Door.RESPONSES) == ["text.format.schema"]


@pytest.mark.parametrize("levels", [800, 1200, 10_500, 100_000])
def test_depth(levels: int) -> None:
    """Section 00: vLLM and SGLang end between 900 and 990 levels, Go at 10,000, llama.cpp takes 100,000."""
    body = '{"model":"m","messages":[{"role":"user","content":"x"}],"metadata":' + "[" * levels + "]" * levels + "}"
    expected = {VLLM, SGLANG} if levels > 990 else set()
    assert refusing(body) == expected | ({OLLAMA} if levels > 10_000 else set())


QUIRKY = [
    (Quirk.NOT_FINITE, b'"x":NaN', {CPP, OLLAMA, TGI}),
    (Quirk.SURROGATE, b'"x":"\\ud800"', {CPP}),
    (Quirk.HUGE, b'"x":' + b"9" * 5000, {CPP, VLLM, SGLANG}),
]


@pytest.mark.parametrize(("quirk", "field", "by"), QUIRKY)
def test_quirks(quirk: Quirk, field: bytes, by: set[Kind]) -> None:
    """Section 00: what only some parsers take, in a field that nobody reads."""
    assert QUIRKS[quirk][0] == by
    assert refusing(b'{"model":"m","messages":[{"role":"user","content":"x"}],' + field + b"}") == by


def test_quirks_of_the_whole_body() -> None:
    plain = b'{"model":"m","messages":[{"role":"user","content":"x"}]}'
    assert refusing(plain.decode().encode("utf-16")) == {CPP, OLLAMA, TGI}
    assert refusing(plain + b"\0\0") == {VLLM, SGLANG, OLLAMA, TGI}
    assert refusing(b"\xef\xbb\xbf" + plain) == set()


def test_a_surrogate_in_stop() -> None:
    """Section 00: vLLM answers 500 to it; elsewhere it passes there."""
    start = '{"model":"m","messages":[{"role":"user","content":"x"}],'
    assert fields(VLLM, start + '"stop":["\\ud800"]}') == ["stop"]
    assert found(VLLM, start + '"stop":["\ufffd"]}') == ()
    assert found(VLLM, start + '"user":"\\ud800","stop":["x"]}') == ()


def test_every_door_has_rules_for_every_kind() -> None:
    """The System One door has rules of another make (systemone_tastes.py)."""
    for door in set(Door) - {Door.SYSTEMONE}:
        assert door in MODELS
        for kind in Kind:
            assert rules_of(door, kind).kind is kind
    assert all(SCHEMAS)
