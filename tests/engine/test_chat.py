"""The builder of chat and completions, apart from any engine's style."""

from __future__ import annotations

from typing import Any

from autohedge.core.types import Door, Kind
from autohedge.engine.chat import ChatStyle, completion
from autohedge.engine.messages import Answer, What
from autohedge.engine.state import State
from autohedge.engine.work import Work


def answer(style: ChatStyle, door: Door = Door.CHAT, pace: float = 0.0, **more: Any) -> Answer:
    work = Work(door, {"stream_options": {"include_usage": True}}, "m", prompt=3, words=["a", "b"], **more)
    return completion(work, style, State(Kind.VLLM, pace=pace, latency=0.5))


def whats(found: Answer) -> list[What]:
    return [piece.what for piece in found.pieces or ()]


def test_parts_of_a_stream() -> None:
    found = answer(ChatStyle(), stream=True)
    assert whats(found) == [What.ROLE, What.CONTENT, What.CONTENT, What.FINISH, What.USAGE, What.DONE]


def test_finish_may_ride_on_the_last_text() -> None:
    assert What.FINISH not in whats(answer(ChatStyle(finish_with_text=True), stream=True))


def test_completions_have_no_role() -> None:
    found = answer(ChatStyle(), Door.COMPLETIONS, stream=True)
    assert whats(found)[0] is What.CONTENT
    assert found.pieces is not None
    assert b'"text":"a"' in found.pieces[0].data


def test_pace_and_latency() -> None:
    """A stream waits for its first token, a plain answer for all of them."""
    streamed = answer(ChatStyle(), pace=10.0, stream=True)
    assert streamed.wait == 0.6
    assert [piece.pause for piece in streamed.pieces or ()] == [0, 0, 0.1, 0, 0, 0]
    assert answer(ChatStyle(), pace=10.0).wait == 0.7


def test_a_forced_tool_replaces_the_text() -> None:
    found = answer(ChatStyle(), tool="f")
    assert b'"tool_calls":[{"id":"call_' in found.body
    assert b'"content":null' in found.body
