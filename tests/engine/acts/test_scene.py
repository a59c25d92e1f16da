"""Tools of the faults: cutting an answer into parts and editing its JSON."""

from __future__ import annotations

import json

from autohedge.core.types import Kind
from autohedge.engine.acts.scene import Scene, edit, parts, upto
from autohedge.engine.dialects import DIALECTS
from autohedge.engine.messages import Answer, Piece, Request, What, plain, sse
from autohedge.engine.state import State


def stream() -> Answer:
    order = [What.ROLE, What.CONTENT, What.CONTENT, What.FINISH, What.DONE]
    return Answer(pieces=[Piece(sse({"n": number}), what) for number, what in enumerate(order)])


def test_upto_counts_content_only() -> None:
    assert [piece.what for piece in upto(stream(), 0)] == [What.ROLE]
    assert [piece.what for piece in upto(stream(), 1)] == [What.ROLE, What.CONTENT]
    assert [piece.what for piece in upto(stream(), 2)] == [What.ROLE, What.CONTENT, What.CONTENT]
    assert [piece.what for piece in upto(stream(), 9)] == [piece.what for piece in stream().pieces or ()]


def test_a_plain_answer_has_two_halves() -> None:
    answer = parts(plain({"a": "b"}))
    assert answer.claimed == 9
    assert b"".join(piece.data for piece in answer.pieces or ()) == b'{"a":"b"}'
    assert upto(answer, 5) == (answer.pieces or [])[:1]


def test_edit_changes_bodies_and_events() -> None:
    assert json.loads(edit(plain({"a": 1}), lambda obj: obj.update(a=2)).body) == {"a": 2}
    edited = edit(stream(), lambda obj: obj.update(n=7))
    assert {piece.data for piece in edited.pieces or ()} == {sse({"n": 7})}


def test_a_body_that_is_no_object_is_empty() -> None:
    request = Request(1)
    request.body = b"[1"
    state = State(Kind.VLLM)
    scene = Scene(request, state, DIALECTS[Kind.VLLM](state), None)
    assert scene.body == {}
    assert scene.answer().status == 404
