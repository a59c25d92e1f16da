"""What the checks learn of a body: sizes, bounds, features, traps T1 to T5."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.core.ask import Ask, Sizes
from autohedge.core.types import Door
from autohedge.payloads.asking import Notes, asked, weighed, whole
from tests.payloads.bodies import CALL, TOOL, USER, chat


def ask(door: Door = Door.CHAT, **body: Any) -> Ask:
    return asked(door, body)[0]


def notes(**body: Any) -> Notes:
    return asked(Door.CHAT, body)[1]


def test_plain_chat() -> None:
    body = chat(max_tokens=7, stream=True)
    seen = ask(**body)
    assert (seen.model, seen.stream, seen.max_tokens, seen.max_tokens_param) == ("m", True, 7, "max_tokens")
    assert (seen.text_bytes, seen.parts, seen.media, seen.tools, seen.truncates) == (2, 1, False, False, False)
    assert seen.obj == body


@pytest.mark.parametrize("model", [None, 5, [], {}, True])
def test_a_model_that_is_no_string(model: Any) -> None:
    """Section 00: llama.cpp serves any type; 00b: Azure clients send null."""
    assert ask(model=model).model is None


@pytest.mark.parametrize(
    ("truth", "values"),
    [(True, [True, "true", "YES", 1, 1.0, "on"]), (False, [False, None, 0, "false", "hot", [1], 2, "", {}])],
)
def test_stream_as_engines_read_it(truth: bool, values: list[Any]) -> None:
    assert [value for value in values if ask(stream=value).stream is not truth] == []


def test_bounds() -> None:
    """max_completion_tokens stands before max_tokens; other doors have their own names."""
    assert ask(max_tokens=5, max_completion_tokens=9).max_tokens == 9
    assert ask(max_tokens=5, max_completion_tokens=None).max_tokens_param == "max_tokens"
    assert ask(max_tokens="7").max_tokens == 7
    assert ask(max_tokens="hot").max_tokens is None
    assert ask(Door.RESPONSES, max_output_tokens=3, max_tokens=1).max_tokens_param == "max_output_tokens"
    assert ask(Door.MESSAGES, max_tokens=3).max_tokens == 3
    assert ask(Door.COMPLETIONS, max_tokens=3, max_completion_tokens=9).max_tokens == 3


@pytest.mark.parametrize(
    ("value", "number"),
    [(5, 5), ("5", 5), (5.0, 5), (1.9, 1), (True, None), ("x", None), ([], None), (float("inf"), None)],
)
def test_whole_numbers(value: Any, number: int | None) -> None:
    assert whole(value) == number
    assert whole(float("nan")) is None


def test_t1_media_is_not_text() -> None:
    """4 MB of base64 are not four million bytes of prompt."""
    data = "QUJD" * 1000
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}},
        {"type": "file", "file": {"file_data": data}},
        {"type": "video_url", "video_url": {"url": data}},
        {"image_url": data},
    ]
    seen = ask(messages=[{"role": "user", "content": parts}])
    assert seen.media
    assert seen.text_bytes == 4


def test_t2_everything_a_template_may_print_counts() -> None:
    """Templates may drop old thoughts; an upper bound keeps them."""
    plain = ask(messages=[USER]).text_bytes
    told = ask(messages=[{**USER, "role": "assistant", "reasoning_content": "hmm", "name": "bob"}])
    assert told.text_bytes >= plain + 6
    called = ask(messages=[{"role": "assistant", "content": None, "tool_calls": [CALL]}])
    assert called.text_bytes >= len('{"name":"f","arguments":"{}"}')
    assert ask(messages=[{"role": "assistant", "tool_calls": [CALL]}]).text_bytes == called.text_bytes


def test_t3_bytes_are_of_the_text_not_of_the_body() -> None:
    assert ask(messages=[{"role": "user", "content": "你好"}]).text_bytes == 6
    assert ask(messages=[{"role": "user", "content": " " * 500}]).text_bytes == 500
    assert ask(Door.COMPLETIONS, prompt="\n\n").text_bytes == 2


def test_t4_token_ids_count_as_one_each() -> None:
    seen = ask(Door.EMBEDDINGS, input=[1, 99999, 7])
    assert (seen.text_bytes, seen.parts) == (3, 1)
    rows = ask(Door.COMPLETIONS, prompt=[[1, 2], [3]])
    assert (rows.text_bytes, rows.parts) == (3, 2)


@pytest.mark.parametrize(
    "body",
    [
        {"truncate_prompt_tokens": -1},
        {"truncate_prompt_tokens": 100},
        {"truncation_side": "left"},
        {"truncate": True},
        {"truncate": 500},
        {"truncate": "END"},
        {"truncation": "auto"},
        {"truncation_direction": "right"},
        {"transforms": ["middle-out"]},
    ],
)
def test_t5_truncation_is_seen(body: dict[str, Any]) -> None:
    assert ask(**body).truncates


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"truncate": False},
        {"truncate": None},
        {"truncate": "NONE"},
        {"truncation": "disabled"},
        {"truncation": None},
    ],
)
def test_t5_not_asked_for(body: dict[str, Any]) -> None:
    assert not ask(**body).truncates


def test_tools_and_formats() -> None:
    seen = ask(messages=[USER], tools=[TOOL])
    assert seen.tools
    assert seen.text_bytes > 2 + len('{"type":"function","function":{"name":"f"}}')
    assert not ask(tools=[]).tools
    assert ask(functions=[{"name": "f"}]).tools
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}
    assert ask(response_format=schema).response_format
    assert ask(response_format={"type": "json_object"}).response_format
    assert not ask(response_format={"type": "text"}).response_format
    assert not ask(response_format={"type": []}).response_format
    assert ask(Door.RESPONSES, text={"format": {"type": "json_schema", "schema": {}}}).response_format


def test_other_doors() -> None:
    many = ask(Door.EMBEDDINGS, input=["ab", "cd"])
    assert (many.text_bytes, many.parts) == (4, 2)
    assert ask(Door.EMBEDDINGS, messages=[USER]).text_bytes == 2
    assert ask(Door.EMBEDDINGS, input=[{"text": "ab", "image": "QUJD"}]).media
    image = {"type": "input_image", "image_url": "data:" + "A" * 9000}
    spoken = ask(Door.RESPONSES, input=[{"role": "user", "content": [{"type": "input_text", "text": "x" * 50}, image]}])
    assert spoken.media
    assert 50 < spoken.text_bytes < 300
    block = {"type": "image", "source": {"type": "base64", "data": "A" * 9000}}
    shown = ask(Door.MESSAGES, system="be kind", messages=[{"role": "user", "content": [block]}])
    assert shown.media
    assert shown.text_bytes < 300
    ranked = ask(Door.RERANK, query="q", documents=["a" * 30, "b"])
    assert ranked.parts == 2
    assert ranked.text_bytes > 30


def test_the_sizes_of_a_decision() -> None:
    """What limits of a model bound: questions, options, levels, images, bytes."""
    body = {
        "state": "d\u00e4",
        "questions": {
            "n": {"type": "noul", "criteria": {"true": "x"}},
            "c": {"type": "choice", "criteria": {"a": None, "b": None}},
            "s": {"type": "score", "criteria": ["a", "b", "c"]},
            "odd": {"type": "choice", "criteria": ["a"]},
            "none": 5,
        },
        "images": ["data:", "data:"],
        "files": "no list",
    }
    judged = ask(Door.SYSTEMONE, **body)
    weighed(judged, 500)
    assert judged.media
    assert judged.sizes == Sizes(5, (("c", 2),), (("s", 3),), 2, state_bytes=3, body_bytes=500)
    assert judged.text_bytes >= 500
    loose = ask(Door.SYSTEMONE, state={"doc": "x"})
    weighed(loose, 500)
    assert loose.sizes == Sizes(state_bytes=500, body_bytes=500)
    assert not loose.media


def test_notes_point_to_what_is_odd() -> None:
    seen = notes(
        messages=[
            USER,
            {"role": "assistant"},
            {"role": "user", "content": ["a", "b"]},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"image_url": "x"}, {}]},
            7,
        ]
    )
    assert (seen.hollow, seen.wordy) == ([1], [2])
    assert [(i, j) for i, j, _ in seen.parts] == [(3, 1), (3, 2)]
    assert notes(messages=[USER]) == Notes()
    assert notes(messages=[1] * 5000).crowded
    assert notes(messages=[{"role": "user", "content": [1] * 5000}]).crowded
    assert notes(messages=[{"role": "assistant", "tool_calls": [1] * 5000}]).crowded
    assert asked(Door.MESSAGES, {"messages": [1] * 5000})[1].crowded
    assert asked(Door.SYSTEMONE, {"questions": {str(i): 1 for i in range(5000)}})[1].crowded


NAMES = st.sampled_from(
    [
        "model",
        "messages",
        "role",
        "content",
        "type",
        "text",
        "tools",
        "function",
        "name",
        "prompt",
        "input",
        "stream",
        "max_tokens",
        "response_format",
        "json_schema",
        "schema",
        "tool_calls",
        "truncate",
        "questions",
        "state",
        "system",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(max_size=3), inner, max_size=4),
    max_leaves=25,
)


@given(st.dictionaries(NAMES, JSON, max_size=6), st.sampled_from(Door))
def test_nothing_a_body_holds_stops_the_reading(body: dict[str, Any], door: Door) -> None:
    seen, _ = asked(door, body)
    assert seen.text_bytes >= 0
    assert seen.parts >= 0
