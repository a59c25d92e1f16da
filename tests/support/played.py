"""A pool and an answer that play a script, for tests of what stands above the wire: no socket, virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from autohedge.attempt import Attempter, Opened
from autohedge.call import Call
from autohedge.core.types import NOTHING, Address, BackendSpec, Candidate, Door, Failure, Kind, Limits, Replica, Seat
from autohedge.settings.model import Timeouts
from autohedge.wire.errors import WireError
from autohedge.wire.pool import Pool
from tests.support.vtime import run

EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'
ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
GOOD = b'{"choices":[{"message":{"content":"hi"}}]}'
SSE = {"content-type": "text/event-stream"}


class Played:
    """An answer that plays `script`: pieces, seconds of silence, or a failure at the end."""

    def __init__(
        self, *script: bytes | float | Failure, status: int = 200, headers: Mapping[str, str] = NOTHING
    ) -> None:
        self.script = list(script)
        self.status = status
        self.headers = [(name.encode(), value.encode()) for name, value in headers.items()]
        self.fields = dict(self.headers)
        self.stall = 20.0
        self.released = 0
        self.reads = 0

    @property
    def ended(self) -> bool:
        return not self.script

    async def read(self) -> bytes:
        self.reads += 1
        while self.script:
            step = self.script.pop(0)
            if isinstance(step, bytes):
                return step
            if isinstance(step, Failure):
                raise WireError(step, sent=True)
            await asyncio.sleep(min(step, self.stall))
            if step > self.stall:
                raise WireError(Failure.STALLED, sent=True)
        return b""

    def take(self) -> bytes:
        return b""

    def release(self) -> None:
        self.released += 1


class Line:
    """A pool that gives `answer`, or fails, or waits; it keeps what was sent."""

    def __init__(self, answer: Played | Failure | float | Exception) -> None:
        self.answer = answer
        self.sent: list[tuple[bytes, bytes]] = []
        self.first_byte = 0.0

    async def exchange(self, head: bytes, body: bytes, *, first_byte: float, stall: float) -> Played:
        self.sent.append((head, body))
        self.first_byte = first_byte
        if isinstance(self.answer, float):
            await asyncio.sleep(min(self.answer, first_byte))
            raise WireError(Failure.FIRST_BYTE_TIMEOUT, sent=True)
        if isinstance(self.answer, Failure):
            raise WireError(self.answer, sent=False)
        if isinstance(self.answer, Exception):
            raise self.answer
        self.answer.stall = stall
        return self.answer


def candidate(kind: Kind = Kind.VLLM, served: str = "m", prefix: str = "", **spec: Any) -> Candidate:
    address = Address("h", 1, prefix=prefix)
    return Candidate(Replica("b@h:1", "b", address, Seat()), BackendSpec("b", kind, **spec), kind, served, Limits())


def call(body: bytes = b'{"model":"m"}', total: float = 300.0, **fields: Any) -> Call:
    made = Call(Door.CHAT, "/v1/chat/completions", b"", [], [], body, "", b"id", 0.0, total, named="m")
    for name, value in fields.items():
        setattr(made, name, value)
    return made


class Desk:
    """An attempter over one line; `freed` notes the seats that were given back."""

    def __init__(self, answer: Played | Failure | float | Exception, **timeouts: float) -> None:
        self.line = Line(answer)
        self.freed: list[str] = []
        self.attempter = Attempter(
            lambda _candidate: cast("Pool", self.line),
            lambda: asyncio.get_running_loop().time(),
            Timeouts().model_copy(update=timeouts),
            lambda replica: self.freed.append(replica.id),
        )

    async def tried(self, where: Candidate, asked: Call | None = None) -> Opened:
        return await self.attempter(asked or call(), where, 7)

    @property
    def head(self) -> bytes:
        return self.line.sent[0][0]


def tried(
    answer: Played | Failure | float, where: Candidate | None = None, asked: Call | None = None, **more: float
) -> Opened:
    return run(Desk(answer, **more).tried(where or candidate(), asked))
