"""Streams watched beside the relay: however the bytes are cut, the same is known; and what the relay itself writes into one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autohedge.core.problems import Detail
from autohedge.core.types import Door
from autohedge.payloads.sse import ModelRewriter, StreamWatch, error_event

State = tuple[bool, bool, bytes | None, bool, int]


def state(watch: StreamWatch) -> State:
    return watch.content, watch.finished, watch.error, watch.at_boundary, watch.events


def watched(door: Door, pieces: Iterable[bytes], watch: StreamWatch | None = None) -> StreamWatch:
    watch = watch or StreamWatch(door)
    for piece in pieces:
        watch.feed(piece)
    return watch


def cut(stream: bytes, places: Iterable[int]) -> list[bytes]:
    edges = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[start:end] for start, end in itertools.pairwise(edges)]


def event(obj: Any, name: str = "") -> bytes:
    text = json.dumps(obj, ensure_ascii=False, separators=(",", ":"))
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def chunk(delta: Any, reason: str | None = None) -> bytes:
    return event(
        {
            "id": "c-1",
            "object": "chat.completion.chunk",
            "model": "tiny",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }
    )


DONE = b"data: [DONE]\n\n"
ROLE = chunk({"role": "assistant", "content": ""})
USAGE = event({"choices": [], "usage": {"total_tokens": 3}})
BROKEN = event(
    {"error": {"message": "EngineCore encountered an issue", "type": "InternalServerError", "param": None, "code": 500}}
)
WORDS = chunk({"content": "你好 🌍"}) + chunk({"content": 'say "error" or [DONE]\n\ndata: {'}) + chunk({"content": "x"})

# name: door, stream, content, finished, error, events
STREAMS: dict[str, tuple[Door, bytes, bool, bool, bool, int]] = {
    "vLLM": (Door.CHAT, ROLE + WORDS + chunk({"content": "."}, "length") + USAGE + DONE, True, True, False, 7),
    "llama.cpp": (Door.CHAT, chunk({"role": "assistant", "content": None}) + WORDS + chunk({}, "stop") + USAGE + DONE, True, True, False, 7),
    "without [DONE] (B89)": (Door.CHAT, ROLE + WORDS + chunk({}, "length"), True, True, False, 5),
    "without a reason": (Door.CHAT, ROLE + WORDS + DONE, True, True, False, 5),
    "killed engine": (Door.CHAT, ROLE + WORDS + BROKEN + DONE, True, False, True, 6),
    "killed server": (Door.CHAT, ROLE + WORDS + chunk({"content": "x"})[:-40], True, False, False, 4),
    "dead runner (B71)": (Door.CHAT, ROLE + WORDS + ROLE, True, False, False, 5),
    "error at once": (Door.CHAT, ROLE + BROKEN, False, False, True, 2),
    "Azure (B73)": (Door.CHAT, event({"choices": [], "prompt_filter_results": []}) + ROLE, False, False, False, 2),
    "comments (B85)": (Door.CHAT, b": OPENROUTER PROCESSING\n\n" * 3 + ROLE + b": ping\n" + WORDS + DONE, True, True, False, 5),
    "ids": (Door.CHAT, b"id: 1\n" + ROLE + b"id: 2\n" + WORDS + b"id: 3\n" + DONE, True, True, False, 5),
    "no space": (Door.CHAT, (ROLE + WORDS + DONE).replace(b"data: ", b"data:"), True, True, False, 5),
    "completions": (Door.COMPLETIONS, event({"choices": [{"text": "x", "finish_reason": "stop"}]}) + DONE, True, True, False, 2),
    "responses": (
        Door.RESPONSES,
        event({"type": "response.created", "response": {"error": None}}, "response.created")
        + event({"type": "response.output_text.delta", "delta": "response.failed"}, "response.output_text.delta") * 3
        + event({"type": "response.completed", "response": {"error": None}}, "response.completed"),
        True, True, False, 5,
    ),
    "responses refused (B77)": (
        Door.RESPONSES,
        event({"type": "response.created"}, "response.created") + event({"type": "error", "code": "insufficient_quota"}, "error"),
        False, False, True, 2,
    ),
    "messages": (
        Door.MESSAGES,
        event({"type": "message_start"}, "message_start")
        + event({"type": "ping"}, "ping")
        + event({"type": "content_block_delta", "delta": {"text": "message_stop"}}, "content_block_delta") * 2
        + event({"type": "message_stop"}, "message_stop"),
        True, True, False, 5,
    ),
    "messages overloaded": (
        Door.MESSAGES,
        event({"type": "content_block_delta"}, "content_block_delta") + event({"type": "error", "error": {"type": "overloaded_error"}}, "error"),
        True, False, True, 2,
    ),
    "unknown door": (Door.RERANK, event({"x": 1}) + DONE, True, True, False, 2),
    "data in lines": (Door.CHAT, ROLE + b'data: {"choices": [\ndata: {"delta": {"content": "x"}}]}\n\n' + DONE, True, True, False, 3),
    "blank lines": (Door.CHAT, b"\n\n" + ROLE + b"\n\n\n" + WORDS + b"\r\n" + DONE + b"\n", True, True, False, 5),
    "byte order mark": (Door.CHAT, b"\xef\xbb\xbf" + WORDS + DONE, True, True, False, 4),
    "nothing": (Door.CHAT, b"", False, False, False, 0),
    "HTML": (Door.CHAT, b"<html>\n\n<body>it is down</body>\n\n</html>", False, False, False, 0),
}  # fmt: skip


@pytest.mark.parametrize("crlf", [False, True], ids=["LF", "CRLF"])
@pytest.mark.parametrize("name", STREAMS)
def test_streams(name: str, crlf: bool) -> None:
    """Each stream says what it is, in one piece and byte by byte."""
    door, stream, content, finished, error, events = STREAMS[name]
    if crlf:
        stream = stream.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    whole = watched(door, [stream])
    assert (whole.content, whole.finished, whole.error is not None, whole.events) == (content, finished, error, events)
    assert whole.at_boundary == stream.endswith((b"\n\n", b"\n\r\n", b"")[: 2 if stream else 3])
    assert state(watched(door, [stream[at : at + 1] for at in range(len(stream))])) == state(whole)


@settings(deadline=None, max_examples=200)
@given(
    name=st.sampled_from(list(STREAMS)),
    crlf=st.booleans(),
    end=st.integers(0, 3000),
    places=st.lists(st.integers(0, 3000), max_size=12),
)
def test_any_split(name: str, crlf: bool, end: int, places: list[int]) -> None:
    """What is known depends on the bytes so far and not on how they were cut, at any point of a stream."""
    door, stream, *_ = STREAMS[name]
    if crlf:
        stream = stream.replace(b"\n", b"\r\n")
    stream = stream[: end % (len(stream) + 1)]
    assert state(watched(door, cut(stream, places))) == state(watched(door, [stream]))


MARKS = [
    b"\n",
    b"\r\n",
    b"\n\n",
    b"\r",
    b"data",
    b"data:",
    b": c",
    b"event: error",
    b"event: x",
    b"id: 1",
    b"{}",
    b"[DONE]",
]
PARTS = [
    ROLE,
    WORDS[:50],
    chunk({"content": "x"}),
    chunk({}, "stop"),
    BROKEN,
    b'{"error":"x"}',
    b'data: {"error":null}',
    DONE,
]
NOISE = st.lists(st.sampled_from([*MARKS, *PARTS]), max_size=14)


@settings(deadline=None, max_examples=200)
@given(door=st.sampled_from(Door), parts=NOISE, places=st.lists(st.integers(0, 2000), max_size=10))
def test_any_split_of_noise(door: Door, parts: list[bytes], places: list[int]) -> None:
    """The same for bytes that no server would send."""
    stream = b"".join(parts)
    assert state(watched(door, cut(stream, places))) == state(watched(door, [stream]))


class Small(StreamWatch):
    """Keeps little, so that every event is a large one."""

    carry = 48


@pytest.mark.sources
@settings(deadline=None, max_examples=200)
@given(door=st.sampled_from(Door), parts=NOISE, places=st.lists(st.integers(0, 2000), max_size=10))
def test_any_split_of_large_events(door: Door, parts: list[bytes], places: list[int]) -> None:
    """The same for events too large to keep."""
    stream = b"".join(parts)
    assert state(watched(door, cut(stream, places), Small(door))) == state(watched(door, [stream], Small(door)))


def test_first_content() -> None:
    """The moment of the commit: a preamble is none, the first text is, also before its blank line has come."""
    watch = watched(Door.CHAT, [ROLE, USAGE, b": ping\n\n"])
    assert not watch.content
    first = chunk({"content": "x"})
    watch.feed(first[:-4])
    assert not watch.content
    watch.feed(first[-4:-2])
    assert state(watch) == (True, False, None, False, 2)
    watch.feed(first[-2:])
    assert state(watch) == (True, False, None, True, 3)


def test_partial_error_is_none_yet() -> None:
    """Half an error event is not taken for the error: the judge must see all of it."""
    for stream, door in (
        (BROKEN, Door.CHAT),
        (event({"type": "error", "error": {"message": "m"}}, "error"), Door.MESSAGES),
    ):
        watch = StreamWatch(door)
        for at in range(len(stream) - 3):
            watch.feed(stream[at : at + 1])
            assert watch.error is None
        watch.feed(stream[len(stream) - 3 :])
        assert watch.error == stream.rstrip().rpartition(b"data: ")[2]


@pytest.mark.parametrize("end", [b"data: [DONE]", b"data: [DONE]\n", b"data:[DONE]\r\n"])
def test_end_without_a_blank_line(end: bytes) -> None:
    """Some servers end a stream without a blank line."""
    watch = watched(Door.CHAT, [ROLE, WORDS, end])
    assert (watch.finished, watch.at_boundary, watch.events) == (True, False, 4)


def test_bare_error_line() -> None:
    """A line of JSON that is no event, then the end (B68)."""
    watch = watched(Door.CHAT, [ROLE, WORDS, b'{"error":"unexpected EOF"}\n'])
    assert watch.error == b'{"error":"unexpected EOF"}'
    assert not watch.finished


def large(delta: str, rest: str = "") -> bytes:
    return f'data: {{"choices":[{{"delta":{{"content":"{delta}"}}{rest}}}]}}\n\n'.encode()


@pytest.mark.parametrize("size", [1 << 12, 1 << 16, 4 << 20])
def test_large_event(size: int) -> None:
    """An event over 1 MiB is content; its end is found; what follows is watched as before."""
    big = "x" * (3 << 20)
    for rest, finished in (
        ("", False),
        (',"finish_reason":"stop"', True),
        (',"finish_reason":null', False),
        (',"finish_reason":"error"', False),
    ):
        stream = ROLE + large(big, rest) + USAGE
        watch = watched(Door.CHAT, [stream[at : at + size] for at in range(0, len(stream), size)])
        assert state(watch) == (True, finished, None, True, 3)
        watch.feed(DONE)
        assert watch.finished
    fake = large(big + '\\"finish_reason\\":\\"stop\\"')
    assert not watched(Door.CHAT, [fake[at : at + size] for at in range(0, len(fake), size)]).finished


def test_large_events_of_responses() -> None:
    """response.completed repeats the whole answer and may be large."""
    text = "x" * (2 << 20)
    for kind, expected in (
        ("response.completed", (True, True)),
        ("response.output_text.delta", (True, False)),
        ("response.failed", (False, False)),
    ):
        watch = watched(Door.RESPONSES, [event({"type": kind, "response": {"output": text}}, kind)])
        assert (watch.content, watch.finished) == expected
        assert (watch.error is not None) == (kind == "response.failed")


def test_large_error() -> None:
    """The beginning of a large error is kept."""
    watch = watched(Door.CHAT, [event({"error": {"message": "x" * (2 << 20)}}), DONE])
    assert watch.error is not None
    assert watch.error.startswith(b'{"error":{"message":"xxx')
    assert len(watch.error) <= 4096
    assert not watch.finished


def test_memory_is_bounded() -> None:
    """A stream without any blank line is not kept."""
    watch = watched(Door.CHAT, [b"data: " + b"x" * 65536] * 200)
    assert len(watch._pending) <= (1 << 20) + 65536


# --- what we write --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", Door)
def test_error_event(door: Door) -> None:
    """Our own error is read as one by our own watch, at every door, and has the door's form."""
    written = error_event(door, 'it said "no"\n', "upstream_failed", [Detail(None, "sick", "vllm-1: reset")])
    watch = watched(door, [written])
    assert (watch.error is not None, watch.finished, watch.at_boundary, watch.events) == (True, False, True, 1)
    body = json.loads(written.rpartition(b"data: ")[2])
    assert body["error"]["message"] == 'it said "no"\n'
    assert body["error"]["code"] == "upstream_failed"
    assert body["error"]["details"] == [{"param": None, "code": "sick", "message": "vllm-1: reset"}]
    assert (
        (body.get("type") == "error")
        == (door in {Door.MESSAGES, Door.RESPONSES})
        == written.startswith(b"event: error\n")
    )


def test_error_event_without_details() -> None:
    assert error_event(Door.CHAT, "m", "c") == (
        b'data: {"error":{"message":"m","type":"server_error","param":null,"code":"c"}}\n\n'
    )


# --- renaming -------------------------------------------------------------------------------------------------------


def renamed(pieces: Iterable[bytes], rewriter: ModelRewriter | None = None) -> bytes:
    rewriter = rewriter or ModelRewriter('our "name"')
    return b"".join([*(rewriter.feed(piece) for piece in pieces), rewriter.flush()])


OURS = b'"our \\"name\\""'


@settings(deadline=None, max_examples=200)
@given(name=st.sampled_from(list(STREAMS)), crlf=st.booleans(), places=st.lists(st.integers(0, 3000), max_size=12))
def test_only_the_name_changes(name: str, crlf: bool, places: list[int]) -> None:
    """Every event's model is replaced, however the stream is cut, and nothing else."""
    stream = STREAMS[name][1]
    if crlf:
        stream = stream.replace(b"\n", b"\r\n")
    if name == "killed server":
        return
    assert renamed(cut(stream, places)) == stream.replace(b'"model":"tiny"', b'"model":' + OURS)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            b'data: {"choices":[{"model":"a"}],"model" : "tiny"}\n\n',
            b'data: {"choices":[{"model":"a"}],"model" : @}\n\n',
        ),
        (b'id: 1\r\nevent: x\r\ndata:{"model":"tiny"}\r\n\r\n', b'id: 1\r\nevent: x\r\ndata:{"model":@}\r\n\r\n'),
        (
            b'data: {"text":"\\"model\\":\\"tiny\\"","model":"tiny"}\n\n',
            b'data: {"text":"\\"model\\":\\"tiny\\"","model":@}\n\n',
        ),
        (b'data: {"response":{"model":"tiny"}}\n\n', None),
        (b'data: {"model":null}\n\n', None),
        (b'data: {"model":1}\n\n', None),
        (b'data: ["model","tiny"]\n\n', None),
        (b'data: {"text":"model"}\n\n', None),
        (b': {"model":"tiny"}\n\n', None),
        (b'data: {\ndata: "model":"tiny"}\n\n', None),
        (b'data: "model":\n\n', None),
        (b'data: {"model":\n\n', None),
        (b'{"model":"tiny"}\n\n', None),
    ],
)
def test_what_is_renamed(before: bytes, after: bytes | None) -> None:
    """The top-level string of an event with one line of data, and nothing that only looks like it."""
    expected = before if after is None else after.replace(b"@", OURS)
    assert renamed([before]) == expected
    assert renamed([before[at : at + 1] for at in range(len(before))]) == expected


def test_complete_events_are_not_held() -> None:
    """An event goes on as soon as it is complete, and not before."""
    rewriter = ModelRewriter("x")
    assert rewriter.feed(ROLE + WORDS[:30]).endswith(b"}\n\n")
    assert rewriter.feed(WORDS[30:60]) == b""
    assert rewriter.feed(WORDS[60:]).startswith(b'data: {"id":"c-1"')
    assert rewriter.flush() == b""


def test_end_without_a_blank_line_is_renamed() -> None:
    """What is held at the end of a stream is given out, renamed when it is whole."""
    assert renamed([b'data: {"model":"tiny"}']) == b'data: {"model":' + OURS + b"}"
    assert renamed([b'data: {"model":"ti']) == b'data: {"model":"ti'


class SmallRewriter(ModelRewriter):
    carry = 40


@pytest.mark.sources
@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_large_events_pass(size: int) -> None:
    """An event too large to hold passes as it is, without waiting for its end; the next is renamed again."""
    large_one = b'data: {"text":"' + b"x" * 300 + b'","model":"tiny"}\r\n\r\n'
    small_one = b'data: {"model":"tiny"}\n\n'
    stream = small_one + large_one + small_one
    result = renamed([stream[at : at + size] for at in range(0, len(stream), size)], SmallRewriter("y"))
    assert result.startswith(b'data: {"model":"y"}\n\n')
    assert result.endswith(b'data: {"model":"y"}\n\n')
    assert b"x" * 300 in result
    if size < 100:
        assert large_one in result


END = chunk({}, "stop")
SAME = chunk({"content": "/"})


@pytest.mark.parametrize(
    ("pieces", "why"),
    [
        ([ROLE, END, DONE], "an empty answer"),
        ([ROLE + END + USAGE + DONE], "an empty answer"),
        ([ROLE, *[SAME] * 7, END, USAGE, DONE], ""),
        ([ROLE, *[SAME] * 8, END, USAGE, DONE], "one piece of text again and again"),
        ([ROLE, *[SAME] * 40, chunk({"content": "!"}), *[SAME] * 40, END, DONE], "one piece of text again and again"),
        ([ROLE, SAME, SAME * 6, SAME * 3, END, DONE], "one piece of text again and again"),
        ([ROLE, *[chunk({"content": text}) for text in "a fine answer of words"], END, DONE], ""),
        ([ROLE, *[SAME] * 20, *[chunk({"content": text}) for text in "and then words, many"], END, DONE], ""),
        ([ROLE, chunk({}, "length"), DONE], ""),
        ([ROLE, chunk({}, "tool_calls"), DONE], ""),
        ([ROLE, chunk({"reasoning_content": "x"}), END, DONE], ""),
        ([ROLE, chunk({"tool_calls": [{"index": 0}]}), END, DONE], ""),
        ([ROLE, *[SAME] * 20], ""),  # without an end it is judged for that
        ([ROLE, END, BROKEN, DONE], ""),
    ],
)
def test_a_stream_may_say_nothing(pieces: list[bytes], why: str) -> None:
    """T88: no text before a plain end, or one and the same piece of it again and again."""
    assert watched(Door.CHAT, pieces).hollow(8) == why
    whole = b"".join(pieces)
    for size in (1, 7, len(whole)):  # in other pieces it says the same
        cuts = [whole[at : at + size] for at in range(0, len(whole), size)]
        assert watched(Door.CHAT, cuts).hollow(8) == why


def test_only_what_speaks_is_looked_at_for_speech() -> None:
    """0 never looks for repetitions; other doors have their own ways to say nothing."""
    again = [ROLE, *[SAME] * 20, END, DONE]
    assert watched(Door.CHAT, again).hollow(0) == ""
    assert watched(Door.CHAT, [ROLE, END, DONE]).hollow(0) == "an empty answer"
    ended = event({"type": "message_stop"}, "message_stop")
    assert watched(Door.MESSAGES, [ended]).hollow(8) == ""
