"""Chat and text completions: one builder, and a style per engine for what is spelt differently.

Sources: raw answers of vLLM 0.32.0 and llama.cpp b11549; reading of Ollama, TGI and SGLang (facts d, real_backends 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autohedge.core.types import Door
from autohedge.engine.messages import CREATED, Answer, Piece, What, plain, sse
from autohedge.engine.state import State
from autohedge.engine.text import spell
from autohedge.engine.work import Work

STREAM_TYPE = b"text/event-stream"
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class ChatStyle:
    """How one engine spells a completion.

    `opening` is the content of the first, role-only chunk. `role_each`: no such chunk, the role stands in every delta.
    `finish_with_text`: the last text chunk carries finish_reason. `usage_null`: every chunk has a usage field.
    `usage_extra`, `timings`: llama.cpp's. The mappings are extra fields of message, choice and envelope.
    """

    prefix: str = "chatcmpl-"
    fingerprint: str | None = None
    opening: str | None = ""
    choices_first: bool = False
    role_each: bool = False
    finish_with_text: bool = False
    usage_null: bool = False
    timings: bool = False
    one_choice: bool = False
    stream_type: bytes = STREAM_TYPE
    preamble: Mapping[str, Any] | None = None
    message: Mapping[str, Any] = field(default_factory=dict)
    choice: Mapping[str, Any] = field(default_factory=dict)
    chunk_choice: Mapping[str, Any] = field(default_factory=dict)
    whole: Mapping[str, Any] = field(default_factory=dict)
    usage: Mapping[str, Any] = field(default_factory=dict)


def completion(work: Work, style: ChatStyle, state: State) -> Answer:
    """The answer to a chat or completions request, whole or streamed."""
    return _streamed(work, style, state) if work.stream else _whole(work, style, state)


def _envelope(work: Work, style: ChatStyle, choices: list[dict[str, Any]], id_: str) -> dict[str, Any]:
    kind = "text_completion" if work.door is Door.COMPLETIONS else "chat.completion"
    if work.stream and work.door is Door.CHAT:
        kind += ".chunk"
    head: dict[str, Any] = {"id": id_, "object": kind, "created": CREATED, "model": work.model}
    envelope = {"choices": choices, **head} if style.choices_first else {**head, "choices": choices}
    if style.fingerprint is not None:
        envelope["system_fingerprint"] = style.fingerprint
    if style.usage_null and work.stream:
        envelope["usage"] = None
    return envelope


def _usage(work: Work, style: ChatStyle) -> dict[str, Any]:
    return {**work.usage(), **style.usage}


def _timings(work: Work, state: State) -> dict[str, Any]:
    each = state.gap * 1000
    return {
        "cache_n": 0,
        "prompt_n": work.prompt,
        "predicted_n": len(work.words),
        "predicted_ms": each * len(work.words),
        "predicted_per_token_ms": each,
    }


def _id_of(work: Work, style: ChatStyle, state: State) -> str:
    text_prefix = "cmpl-" if style.prefix == "chatcmpl-" else style.prefix
    return state.next_id(text_prefix if work.door is Door.COMPLETIONS else style.prefix)


def _copies(work: Work, style: ChatStyle) -> int:
    return 1 if style.one_choice else work.copies


def _whole(work: Work, style: ChatStyle, state: State) -> Answer:
    content = " ".join(work.words)
    choices: list[dict[str, Any]] = []
    for index in range(_copies(work, style)):
        if work.door is Door.COMPLETIONS:
            body: dict[str, Any] = {"text": content}
        elif work.tool is not None:
            body = {
                "message": {"role": "assistant", "content": None, **style.message, "tool_calls": [_call(work, state)]}
            }
        else:
            body = {"message": {"role": "assistant", "content": content, **style.message}}
        choices.append({"index": index, **body, "logprobs": None, "finish_reason": work.finish, **style.choice})
    obj = _envelope(work, style, choices, _id_of(work, style, state))
    obj["usage"] = _usage(work, style)
    if style.timings:
        obj["timings"] = _timings(work, state)
    obj.update(style.whole)
    answer = plain(obj)
    answer.wait = state.latency + state.gap * len(work.words)
    return answer


def _call(work: Work, state: State) -> dict[str, Any]:
    return {"id": state.next_id("call_"), "type": "function", "function": {"name": work.tool, "arguments": "{}"}}


def _streamed(work: Work, style: ChatStyle, state: State) -> Answer:
    id_ = _id_of(work, style, state)
    pieces: list[Piece] = []
    if style.preamble is not None:
        pieces.append(Piece(sse({**_envelope(work, style, [], ""), **style.preamble})))
    for index in range(_copies(work, style)):
        pieces += _choice_pieces(work, style, state, index, id_)
    if work.wants_usage:
        last = _envelope(work, style, [], id_)
        last["usage"] = _usage(work, style)
        if style.timings:
            last["timings"] = _timings(work, state)
        pieces.append(Piece(sse(last), What.USAGE))
    pieces.append(Piece(DONE, What.DONE))
    return Answer(type=style.stream_type, pieces=pieces, wait=state.latency + state.gap)


def _choice_pieces(work: Work, style: ChatStyle, state: State, index: int, id_: str) -> list[Piece]:
    def chunk(body: dict[str, Any], finish: str | None, what: What) -> Piece:
        choice = {"index": index, **body, "logprobs": None, "finish_reason": finish, **style.chunk_choice}
        return Piece(sse(_envelope(work, style, [choice], id_)), what)

    role = {"role": "assistant"} if style.role_each else {}
    pieces: list[Piece] = []
    if work.door is Door.CHAT and not style.role_each:
        pieces.append(chunk({"delta": {"role": "assistant", "content": style.opening}}, None, What.ROLE))
    if work.tool is not None:
        call = {"index": 0, **_call(work, state)}
        pieces.append(chunk({"delta": {**role, "tool_calls": [call]}}, None, What.CONTENT))
    else:
        for number, text in enumerate(spell(work.words)):
            last = style.finish_with_text and number == len(work.words) - 1
            body = {"text": text} if work.door is Door.COMPLETIONS else {"delta": {**role, "content": text}}
            piece = chunk(body, work.finish if last else None, What.CONTENT)
            piece.pause = state.gap if number else 0.0
            pieces.append(piece)
    if not style.finish_with_text or work.tool is not None:
        end = {**role, "content": ""} if style.role_each else {}
        body = {"text": ""} if work.door is Door.COMPLETIONS else {"delta": end}
        pieces.append(chunk(body, work.finish, What.FINISH))
    return pieces
