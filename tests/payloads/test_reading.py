"""Reading as a whole: what it raises, what it keeps, how long it takes, what crosses to another process."""

from __future__ import annotations

import gzip
import json
import pickle
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.core.problems import BadRequest, Problem, TooLarge, Unsupported
from autohedge.core.types import Door, Kind
from autohedge.payloads.reading import Bounds, cost, examine, examine_all
from tests.payloads.bodies import BOUNDS, KINDS, PLAIN, USER, chat, read, recorded
from tests.support.fair import slowness

PLAIN_CHAT = json.dumps(chat()).encode()


def test_ask_and_findings_come_together() -> None:
    reading = read(chat(temperature="hot"))
    assert reading.ask.model == "m"
    assert reading.ask.obj["temperature"] == "hot"
    assert reading.findings(Kind.VLLM) is reading.findings(Kind.VLLM)
    assert [detail.param for detail in reading.findings(Kind.VLLM)] == ["temperature"]


def test_encoded_bodies() -> None:
    assert examine(Door.CHAT, gzip.compress(PLAIN_CHAT), "gzip", BOUNDS).findings(Kind.VLLM) == ()
    with pytest.raises(BadRequest, match="not valid gzip"):
        examine(Door.CHAT, PLAIN_CHAT, "gzip", BOUNDS)
    with pytest.raises(Unsupported):
        examine(Door.CHAT, PLAIN_CHAT, "lzma", BOUNDS)
    with pytest.raises(TooLarge):
        examine(Door.CHAT, gzip.compress(b" " * 5000), "gzip", Bounds(max_decoded=1000))


def test_bounds_are_settings() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"a": {"b": {"c": {}}}}}}
    raw = json.dumps(chat(response_format=schema)).encode()
    assert examine(Door.CHAT, raw, "", Bounds(schema_depth=3)).findings(Kind.LLAMACPP) != ()
    assert examine(Door.CHAT, raw, "", Bounds(schema_depth=4)).findings(Kind.LLAMACPP) == ()
    with pytest.raises(BadRequest, match="nested deeper than 300"):
        examine(Door.CHAT, b'{"x":' + b"[" * 400 + b"]" * 400 + b"}", "", Bounds(max_depth=300))


def test_another_process_gives_the_same_answers() -> None:
    """Everything that crosses can be pickled; the parsed body stays behind."""
    for row in recorded()[::7]:
        if row.because == "json" or row.vllm_because == "json" or not row.body.strip().startswith((b"{", b"\xef")):
            continue
        here = examine(row.door, row.body, "", BOUNDS)
        there = pickle.loads(
            pickle.dumps(examine_all(row.door, row.body, ("", ""), BOUNDS, {Kind.VLLM, Kind.LLAMACPP}))
        )
        assert there.ask.obj is None
        assert there.ask.text_bytes == here.ask.text_bytes
        for kind in (Kind.VLLM, Kind.LLAMACPP, Kind.OPENAI):
            assert there.findings(kind) == here.findings(kind)
        assert there.findings(Kind.SGLANG) == here.findings(Kind.OPENAI)


def test_problems_cross_to_another_process() -> None:
    with pytest.raises(BadRequest) as caught:
        examine_all(Door.CHAT, b"{", ("", ""), BOUNDS, KINDS)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.message, copy.code, copy.status) == (caught.value.message, "invalid_json", 400)


def test_many_mistakes_in_another_process() -> None:
    examined = examine_all(Door.CHAT, b'{"messages":[1,2]}', ("", ""), BOUNDS, [])
    assert [detail.param for detail in examined.findings(Kind.AUTO)] == ["messages[0]", "messages[1]"]


@given(st.binary(max_size=80), st.sampled_from(Door), st.sampled_from(["", "", "gzip", "deflate", "br", "zstd", "x"]))
def test_any_bytes(raw: bytes, door: Door, encoding: str) -> None:
    """Only a Problem is ever raised."""
    with suppress(Problem):
        reading = examine(door, raw, encoding, BOUNDS)
        for kind in KINDS:
            reading.findings(kind)


@given(st.data())
def test_bodies_that_somebody_broke(data: st.DataObject) -> None:
    """Bytes changed, cut out and put in at random places of real bodies."""
    row = data.draw(st.sampled_from(recorded()))
    raw = bytearray(row.body)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw)))
        raw[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.sampled_from(
                [b"", b"{", b"]", b'"', b"\\", b"\\ud8", b"\xff", b"\0", b"NaN", b"1e999", b",", b":null", b"[[[["]
            )
        )
    with suppress(Problem):
        reading = examine(row.door, bytes(raw), "", BOUNDS)
        for kind in KINDS:
            reading.findings(kind)


NAMES = st.sampled_from(
    [
        "role",
        "content",
        "type",
        "text",
        "name",
        "tool_calls",
        "id",
        "function",
        "arguments",
        "parameters",
        "json_schema",
        "schema",
        "strict",
        "include_usage",
        "url",
        "image_url",
        "input_audio",
        "data",
        "format",
        "description",
        "uuid",
        "effort",
        "enable_thinking",
        "prompt_string",
        "tools",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=25,
)
FIELDS = st.sampled_from(
    [
        "messages",
        "model",
        "temperature",
        "top_p",
        "top_k",
        "n",
        "seed",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "stream",
        "stream_options",
        "tools",
        "tool_choice",
        "response_format",
        "logit_bias",
        "logprobs",
        "top_logprobs",
        "prompt",
        "input",
        "encoding_format",
        "dimensions",
        "user",
        "questions",
        "state",
        "query",
        "documents",
        "reasoning_effort",
        "continue_final_message",
        "grammar",
        "json_schema",
        "chat_template_kwargs",
        "min_tokens",
        "prompt_logprobs",
        "guided_json",
        "structured_outputs",
        "text",
        "truncate",
        "functions",
        "content",
    ]
)


@given(st.dictionaries(FIELDS, JSON, max_size=5), st.sampled_from(Door))
def test_bodies_of_anything(body: dict[str, Any], door: Door) -> None:
    """Any JSON in any field: findings, and every one of them can be written down."""
    reading = examine(door, json.dumps({**PLAIN.get(door, {}), **body}).encode(), "", BOUNDS)
    for kind in KINDS:
        for detail in reading.findings(kind):
            json.dumps(detail.shown(), allow_nan=False)
            assert len(detail.message) < 600


def best(work: Any, times: int) -> float:
    """Seconds of processor time, as on the usual machine."""
    spent = []
    for _ in range(times):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return min(spent) / slowness()


@pytest.mark.parametrize("kind", [Kind.VLLM, Kind.LLAMACPP, Kind.SGLANG])
def test_speed_of_a_plain_body(kind: Kind) -> None:
    """1 KB in about 10 us; the bound leaves room for a busy machine."""
    raw = json.dumps(chat(messages=[{"role": "user", "content": "x" * 250}] * 4, temperature=0.7, stream=True)).encode()
    assert best(lambda: examine(Door.CHAT, raw, "", BOUNDS).findings(kind), 500) < 60e-6


def test_speed_of_large_bodies() -> None:
    """1 MiB of talk in about 4 ms, 32 MiB of image in about 25."""
    talk = json.dumps(chat(messages=[{"role": "user", "content": 'some "text"\n, é. ' * 30}] * 2000)).encode()
    assert len(talk) > 1 << 20
    assert best(lambda: examine(Door.CHAT, talk, "", BOUNDS).findings(Kind.VLLM), 3) < 0.04
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "QUJD" * (8 << 20)}}
    image = json.dumps(chat(messages=[{**USER, "content": [part]}])).encode()
    assert best(lambda: examine(Door.CHAT, image, "", BOUNDS).findings(Kind.VLLM), 3) < 0.2


def test_cost_tells_heavy_from_light() -> None:
    """Seconds, within a factor of five of what was measured; small bodies are never worth a process."""
    assert cost(PLAIN_CHAT) < 1e-4
    image = json.dumps({"image": "QUJD" * (8 << 20)}).encode()
    assert 0.01 < cost(image) < 0.06
    assert cost(b'{"x":[' + b"1," * (2 << 20) + b"1]}") > 0.04
    assert cost(b'{"x":[' + b"[]," * (2 << 20) + b"1]}") > 0.06
    assert cost(json.dumps({str(i): i for i in range(300_000)}).encode()) > 0.03
    assert best(lambda: cost(image), 3) < 0.02
