"""What a fault sees: the request, the engine, and the answer that would have been given."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from autohedge.engine.dialects.base import Dialect, Route
from autohedge.engine.messages import Answer, Piece, Refusal, Request, What, dump
from autohedge.engine.state import State


@dataclass(slots=True)
class Scene:
    """`arg` is the text after "=" (or the row's default), `turn` counts the requests this fault has met (from 1), `age` is
    the time since it was set, in seconds.
    """

    request: Request
    state: State
    dialect: Dialect
    route: Route | None
    arg: str = ""
    turn: int = 1
    age: float = 0.0
    given: Answer | None = None

    def answer(self) -> Answer:
        """The answer as it stands: the healthy one, or what an earlier fault made of it."""
        if self.given is None:
            self.given = self.dialect.answer(self.request, self.route)
        return self.given

    def number(self) -> float:
        return float(self.arg)

    def numbers(self) -> list[float]:
        return [float(part) for part in self.arg.split(",")]

    @property
    def body(self) -> dict[str, Any]:
        """The request's JSON object; {} when it is none."""
        try:
            obj = self.request.json()
        except ValueError:
            return {}
        return obj if isinstance(obj, dict) else {}

    def refuse(self, refusal: Refusal) -> Answer:
        """A refusal in the engine's own shape."""
        return self.dialect.refused(refusal, self.request)


Act = Callable[[Scene], Answer]


def parts(answer: Answer) -> Answer:
    """The answer as pieces: a stream as it is, a plain body as two halves under its true Content-Length."""
    if answer.pieces is None:
        middle = len(answer.body) // 2
        answer.claimed = len(answer.body)
        answer.pieces = [Piece(answer.body[:middle], What.CONTENT), Piece(answer.body[middle:], What.FINISH)]
        answer.body = b""
    return answer


def upto(answer: Answer, number: int) -> list[Piece]:
    """The pieces up to and with the `number`-th content piece; 0 keeps what comes before any content.

    A plain answer that was cut in `parts` has one: its first half.
    """
    number = min(number, 1) if answer.claimed is not None else number
    kept: list[Piece] = []
    for piece in answer.pieces or ():
        if piece.what is What.CONTENT:
            number -= 1
            if number < 0:
                break
        elif number <= 0 and piece.what in (What.FINISH, What.USAGE, What.DONE):
            break
        kept.append(piece)
    return kept


def edit(answer: Answer, change: Callable[[dict[str, Any]], None]) -> Answer:
    """Apply `change` to the JSON of a plain body, or of every event of a stream."""
    if answer.pieces is None:
        obj = json.loads(answer.body)
        change(obj)
        answer.body = dump(obj)
        return answer
    for piece in answer.pieces:
        name, mark, data = piece.data.partition(b"data: ")
        if mark and data.startswith(b"{"):
            obj = json.loads(data)
            change(obj)
            piece.data = name + mark + dump(obj) + b"\n\n"
    return answer
