"""Faults inside a stream that has begun with 200: errors, cuts, missing ends, and unusual but legal bytes."""

from __future__ import annotations

import json
from typing import Any

from autohedge.engine.acts.scene import Act, Scene, edit, parts, upto
from autohedge.engine.acts.times import DEAD
from autohedge.engine.chat import DONE, STREAM_TYPE
from autohedge.engine.messages import FOREVER, Answer, Ending, Piece, Refusal, What, dump, sse

SETTLE = 0.02  # seconds for the bytes to arrive before an RST overtakes them
VALIDATION = "Input validation error: `inputs` must have less than 4095 tokens. Given: 9000"
QUOTA = "You exceeded your current quota, please check your plan and billing details."


def cut_after(scene: Scene) -> Answer:
    """`arg` content chunks (of a plain answer: half the body), then FIN without the end of the body."""
    answer = parts(scene.answer())
    answer.pieces, answer.ending = upto(answer, int(scene.number())), Ending.CUT
    return answer


def reset_after(scene: Scene) -> Answer:
    """As cut_after, with an RST."""
    answer = parts(scene.answer())
    answer.pieces = [*upto(answer, int(scene.number())), Piece(b"", pause=SETTLE)]
    answer.ending = Ending.RESET
    return answer


def error_event(*, done: bool) -> Act:
    """`arg` content chunks, then the engine's own error event; then [DONE] (vLLM, measured) or a clean end without it."""

    def act(scene: Scene) -> Answer:
        answer = scene.answer()
        refusal = Refusal(500, DEAD)
        if answer.pieces is None:
            return scene.refuse(refusal)
        answer.pieces = [*upto(answer, int(scene.number())), Piece(scene.dialect.error_event(refusal, scene.request))]
        if done:
            answer.pieces.append(Piece(DONE, What.DONE))
        return answer

    return act


def string_error(scene: Scene) -> Answer:
    """TGI: HTTP 200, `arg` content chunks, then an error that is a string (B44)."""
    answer = scene.answer()
    if answer.pieces is None:
        return scene.refuse(Refusal(422, VALIDATION, type="validation"))
    event = Piece(sse({"error": VALIDATION, "error_type": "validation"}))
    kept = upto(answer, int(scene.number())) if scene.number() else []
    return Answer(type=STREAM_TYPE, pieces=[*kept, event])


def flat_error(scene: Scene) -> Answer:
    """Old vLLM and SGLang: an error event without the key "error"; openai-python takes it for a chunk."""
    answer = scene.answer()
    flat = {"object": "error", "message": DEAD, "type": "InternalServerError", "param": None, "code": 500}
    if answer.pieces is None:
        return Answer(500, dump(flat))
    answer.pieces = [*upto(answer, int(scene.number())), Piece(sse(flat)), Piece(DONE, What.DONE)]
    return answer


def preamble_then_error(scene: Scene) -> Answer:
    """The stream opens (response.created, message_start, role chunk), then an error event instead of content (B77)."""
    answer = scene.answer()
    refusal = Refusal(429, QUOTA, type="insufficient_quota", code="insufficient_quota")
    if answer.pieces is None:
        return scene.refuse(refusal)
    answer.pieces = [*_preamble(answer), Piece(scene.dialect.error_event(refusal, scene.request))]
    return answer


def response_failed(scene: Scene) -> Answer:
    """/v1/responses: the stream opens, then response.failed."""
    answer = scene.answer()
    opened = _preamble(answer)
    if not opened or b"response.created" not in opened[0].data:
        return answer
    begun = json.loads(opened[0].data.partition(b"data: ")[2])
    begun["response"] |= {"status": "failed", "error": {"code": "server_error", "message": DEAD}}
    answer.pieces = [*opened, Piece(sse({**begun, "type": "response.failed"}, "response.failed"), What.FINISH)]
    return answer


def preamble_then_stall(scene: Scene) -> Answer:
    """The stream opens, then silence (B79)."""
    answer = parts(scene.answer())
    answer.pieces = [*_preamble(answer), Piece(b"", pause=FOREVER)]
    return answer


def _preamble(answer: Answer) -> list[Piece]:
    """What opens the stream: everything up to the role piece."""
    opened: list[Piece] = []
    for piece in answer.pieces or ():
        if piece.what is What.CONTENT:
            break
        opened.append(piece)
        if piece.what is What.ROLE:
            break
    return opened


def swallowed_crash(scene: Scene) -> Answer:
    """Ollama /v1: the runner's error becomes an empty delta, then the stream just ends (B71)."""
    answer = scene.answer()
    kept = upto(answer, int(scene.number()))
    if answer.pieces is None or not kept:
        return answer
    obj = json.loads(kept[-1].data.partition(b"data: ")[2])
    obj["choices"] = [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]
    answer.pieces = [*kept, Piece(sse(obj))]
    return answer


def no_done(scene: Scene) -> Answer:
    """finish_reason comes, [DONE] does not (B89)."""
    answer = scene.answer()
    if answer.pieces is not None:
        answer.pieces = [piece for piece in answer.pieces if piece.what is not What.DONE]
    return answer


def no_finish(scene: Scene) -> Answer:
    """Neither finish_reason nor [DONE]: a clean end in the middle."""
    answer = scene.answer()
    if answer.pieces is not None:
        words = sum(piece.what is What.CONTENT for piece in answer.pieces)
        answer.pieces = upto(answer, max(0, words - 1))
    return answer


def done_alone(scene: Scene) -> Answer:
    """200 and [DONE], nothing between."""
    answer = scene.answer()
    if answer.pieces is not None:
        answer.pieces = [Piece(DONE, What.DONE)]
    return answer


def azure_preamble(scene: Scene) -> Answer:
    """Azure's first chunk: no choices, prompt_filter_results (B73)."""
    answer = scene.answer()
    first = {
        "id": "",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "",
        "choices": [],
        "prompt_filter_results": [],
    }
    _insert(answer, Piece(sse(first)))
    return answer


def no_delta(scene: Scene) -> Answer:
    """Azure: a chunk whose only choice has no delta, ahead of the content (B74)."""
    answer = scene.answer()
    choice: dict[str, Any] = {
        "index": 0,
        "finish_reason": None,
        "content_filter_results": {},
        "content_filter_offsets": {},
    }
    _insert(answer, Piece(sse({"id": "", "object": "", "created": 0, "model": "", "choices": [choice]})))
    return answer


def _insert(answer: Answer, piece: Piece) -> None:
    if answer.pieces is not None:
        answer.pieces.insert(0, piece)


def comments(scene: Scene) -> Answer:
    """An SSE comment before every content chunk (B85)."""
    answer = scene.answer()
    if answer.pieces is not None:
        answer.pieces = [
            one
            for piece in answer.pieces
            for one in ([Piece(b": OPENROUTER PROCESSING\n\n"), piece] if piece.what is What.CONTENT else [piece])
        ]
    return answer


def comments_first(scene: Scene) -> Answer:
    """A comment every `arg[0]` seconds, the first chunk after `arg[1]` (B88)."""
    every, until = scene.numbers()
    answer = scene.answer()
    if answer.pieces is not None:
        beats = [Piece(b": ping\n\n", pause=every) for _ in range(int(until / every))]
        answer.pieces = [*beats, *answer.pieces]
    return answer


def ping_after_id(scene: Scene) -> Answer:
    """An `id:` field, and later a comment with a blank line: openai-python fails on it (B86)."""
    answer = scene.answer()
    if answer.pieces:
        answer.pieces[0].data = b"id: 1\n" + answer.pieces[0].data
        answer.pieces.insert(1, Piece(b": ping\n\n"))
    return answer


def respell(old: bytes, new: bytes) -> Act:
    """The same events in another legal spelling: CRLF, or no blank after the colon."""

    def act(scene: Scene) -> Answer:
        answer = scene.answer()
        for piece in answer.pieces or ():
            piece.data = piece.data.replace(old, new)
        return answer

    return act


def keepalive_data(scene: Scene) -> Answer:
    """A keep-alive that was wrongly made data."""
    answer = scene.answer()
    _insert(answer, Piece(b"data: : keepalive\n\n"))
    return answer


def lump(scene: Scene) -> Answer:
    """All events in one chunk."""
    answer = scene.answer()
    if answer.pieces is not None:
        answer.pieces = [Piece(b"".join(piece.data for piece in answer.pieces), What.CONTENT)]
    return answer


def split_bytes(scene: Scene) -> Answer:
    """Every byte of a non-ASCII character is a chunk of its own; ASCII runs stay whole (B83)."""
    answer = parts(scene.answer())
    pieces: list[Piece] = []
    for piece in answer.pieces or ():
        start, pause = 0, piece.pause
        for place, byte in enumerate(piece.data):
            if byte >= 0x80:
                pieces += [Piece(run, piece.what, pause) for run in (piece.data[start:place],) if run]
                pieces.append(Piece(piece.data[place : place + 1], piece.what, 0.001))
                start, pause = place + 1, 0.001
        if start < len(piece.data):
            pieces.append(Piece(piece.data[start:], piece.what, pause))
    answer.pieces = pieces
    return answer


def long_event(scene: Scene) -> Answer:
    """One content event of `arg` bytes."""

    def change(obj: dict[str, Any]) -> None:
        for choice in obj.get("choices") or ():
            if (choice.get("delta") or {}).get("content"):
                choice["delta"]["content"] += "x" * int(scene.number())

    answer = scene.answer()
    if answer.pieces is not None:
        first = next((piece for piece in answer.pieces if piece.what is What.CONTENT), None)
        if first is not None:
            edit(Answer(pieces=[first]), change)
    return answer
