"""The Responses API (/v1/responses) and the Messages API (/v1/messages): whole answers and their event streams.

Every event of these streams has a name (`event:`) and repeats it in `data.type`; neither API ends with [DONE].
"""

from __future__ import annotations

from typing import Any

from autohedge.engine.chat import STREAM_TYPE
from autohedge.engine.messages import CREATED, Answer, Piece, What, plain, sse
from autohedge.engine.state import State
from autohedge.engine.text import spell
from autohedge.engine.work import Work


def response(work: Work, state: State) -> Answer:
    """An answer of /v1/responses."""
    id_, item_id = state.next_id("resp_"), state.next_id("msg_")
    text = " ".join(work.words)
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item = {"id": item_id, "type": "message", "status": "completed", "role": "assistant", "content": [part]}
    cut = work.finish == "length"
    done: dict[str, Any] = {
        **_response(work, id_, "incomplete" if cut else "completed", [item]),
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "usage": {
            "input_tokens": work.prompt,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": len(work.words),
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": work.prompt + len(work.words),
        },
    }
    if not work.stream:
        answer = plain(done)
        answer.wait = state.latency + state.gap * len(work.words)
        return answer
    begun = _response(work, id_, "in_progress", [])
    where = {"item_id": item_id, "output_index": 0, "content_index": 0}
    empty = {**item, "status": "in_progress", "content": []}
    events: list[tuple[str, What, dict[str, Any]]] = [
        ("response.created", What.ROLE, {"response": begun}),
        ("response.in_progress", What.OTHER, {"response": begun}),
        ("response.output_item.added", What.OTHER, {"output_index": 0, "item": empty}),
        ("response.content_part.added", What.OTHER, {**where, "part": {**part, "text": ""}}),
    ]
    events += [("response.output_text.delta", What.CONTENT, {**where, "delta": word}) for word in spell(work.words)]
    events += [
        ("response.output_text.done", What.OTHER, {**where, "text": text}),
        ("response.content_part.done", What.OTHER, {**where, "part": part}),
        ("response.output_item.done", What.OTHER, {"output_index": 0, "item": item}),
        (f"response.{done['status']}", What.FINISH, {"response": done}),
    ]
    return _stream(
        [
            (name, what, {"type": name, "sequence_number": place, **data})
            for place, (name, what, data) in enumerate(events)
        ],
        state,
    )


def _response(work: Work, id_: str, status: str, output: list[Any]) -> dict[str, Any]:
    return {
        "id": id_,
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": work.body.get("instructions"),
        "max_output_tokens": work.limit,
        "model": work.model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "temperature": 1.0,
        "top_p": 1.0,
        "metadata": {},
    }


def message(work: Work, state: State) -> Answer:
    """An answer of /v1/messages."""
    text = " ".join(work.words)
    stop = "max_tokens" if work.finish == "length" else "end_turn"
    usage = {"input_tokens": work.prompt, "output_tokens": len(work.words)}
    obj = {
        "id": state.next_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": work.model,
        "content": [{"type": "text", "text": text}],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }
    if not work.stream:
        answer = plain(obj)
        answer.wait = state.latency + state.gap * len(work.words)
        return answer
    begun = {**obj, "content": [], "stop_reason": None, "usage": {"input_tokens": work.prompt, "output_tokens": 0}}
    events: list[tuple[str, What, dict[str, Any]]] = [
        ("message_start", What.ROLE, {"message": begun}),
        ("content_block_start", What.OTHER, {"index": 0, "content_block": {"type": "text", "text": ""}}),
        ("ping", What.OTHER, {}),
    ]
    events += [
        ("content_block_delta", What.CONTENT, {"index": 0, "delta": {"type": "text_delta", "text": word}})
        for word in spell(work.words)
    ]
    events += [
        ("content_block_stop", What.OTHER, {"index": 0}),
        ("message_delta", What.FINISH, {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}),
        ("message_stop", What.DONE, {}),
    ]
    return _stream([(name, what, {"type": name, **data}) for name, what, data in events], state)


def _stream(events: list[tuple[str, What, dict[str, Any]]], state: State) -> Answer:
    pieces: list[Piece] = []
    for name, what, data in events:
        follows = what is What.CONTENT and any(piece.what is What.CONTENT for piece in pieces[-1:])
        pieces.append(Piece(sse(data, name), what, state.gap if follows else 0.0))
    return Answer(type=STREAM_TYPE, pieces=pieces, wait=state.latency + state.gap)
