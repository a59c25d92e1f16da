"""One request as the edge admitted it, and the way back to its client.

This file holds what the steps of `relay.py` hand to each other. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from autohedge.core.types import Attempt, Door
from autohedge.wire.server_exchange import Exchange

SYSTEMONE = Door.SYSTEMONE  # looked up in its enum it costs every request
INSIDE = bytes(range(0x80, 0xC0))  # bytes inside of a UTF-8 character: all others begin one, also where a piece was cut
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]


@dataclass(slots=True)
class Call:
    """What the client sent. Header names are lower case, order and repeats as they came; times are loop seconds.

    `model` is the name from the path (Azure deployments), which the body need not repeat. `id` is the client's
    X-Request-ID or one that the edge made. `asked` and `attempts` are filled on the way, for the log.
    """

    door: Door
    target: str  # path of the door as the engines know it, e.g. "/v1/chat/completions"
    query: bytes
    headers: list[Header]
    forwarded: list[Header]  # what an engine of our own may see: end-to-end, without Host and Content-Length
    body: bytes
    encoding: str
    id: bytes
    started: float
    deadline: float
    media: str = ""  # Content-Type, at the System One door
    lines: bytes = b""  # `forwarded` as it stands in a head, once made
    model: str | None = None
    named: str | None = None  # the model that the body names
    asked: str = ""  # the model that was asked for, by path, by body, or the only one there is
    attempts: list[Attempt] = field(default_factory=list)
    rungs: int = 0  # of its fallback chain; where there are none, nothing is kept back for them
    tries: int = 0  # attempts that it may make, if it has rungs
    poured: bool = False  # the committed answer was sent to its end
    warning: bytes = b""  # what the client should know beside the answer
    patience: float | None = None  # seconds of one attempt, where they are not those of `timeouts`

    @property
    def decides(self) -> bool:
        """Whether it came through the System One door, where eidex's contract holds."""
        return self.door is SYSTEMONE


class Out:
    """The way back to the client: ASGI's two messages as three verbs, or one call for both where nothing stands before our server.

    `started` is the commit: from then on no other candidate may answer. `sent` counts body bytes.
    """

    __slots__ = ("_exchange", "_send", "chars", "count", "ended", "keep", "kept", "sent", "started", "status")

    def __init__(self, send: Send, keep: int = 0, *, count: bool = False) -> None:
        self._send = send
        exchange = getattr(send, "__self__", None)  # a middleware (CORS) would have put its own `send` around ours
        self._exchange = exchange if isinstance(exchange, Exchange) else None
        self.count = count  # characters are counted only for a log that wants them
        self.chars = 0
        self.status = 0
        self.started = False
        self.ended = False
        self.sent = 0
        self.keep = keep  # bytes of body to remember for the debug log
        self.kept = bytearray()

    async def start(self, status: int, headers: Iterable[Header]) -> None:
        self.started = True
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes, *, more: bool = True) -> None:
        """Send a piece; waits while the client reads slower than the engine writes."""
        self.sent += len(data)
        if self.count or self.keep:
            self._note(data)
        self.ended = not more
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def whole(self, status: int, headers: Iterable[Header], body: bytes, *, clean: bool = False) -> None:
        """Head and body of a plain answer. `clean`: the headers say nothing of the connection or the length."""
        self.started = self.ended = True
        self.status = status
        self.sent += len(body)
        if self.count or self.keep:
            self._note(body)
        if self._exchange is not None:
            await self._exchange.whole(status, headers, body, clean=clean)
            return
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    def passed(self, data: bytes) -> None:
        """Count a piece that somebody else sends."""
        self.sent += len(data)
        self._note(data)

    def _note(self, data: bytes) -> None:
        """What only a log wants to know."""
        if self.count:
            self.chars += len(data) if data.isascii() else len(data.translate(None, INSIDE))
        if self.keep > len(self.kept):
            self.kept += data[: self.keep - len(self.kept)]
