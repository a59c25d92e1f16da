"""What passes between the parts of the sample engine: a request as it came, an answer as a script of bytes and pauses.

Rules
- An answer is complete before its first byte is sent: every fault is a change of a finished script.
- A pause of `FOREVER` is a silence that only the client ends.

It must not know: sockets, dialects, or which faults exist.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from urllib.parse import parse_qsl, unquote

FOREVER = math.inf
CREATED = 1_796_000_000  # epoch seconds in every answer: the engine reads no clock, so answers can be compared

_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


def dump(obj: Any) -> bytes:
    """Compact JSON with raw UTF-8, as all the engines send it. Lone surrogates become "?"."""
    return _encode(obj).encode("utf-8", "replace")


class Request:
    """One request. `path` is as sent, without the query; `turn` counts the requests of its connection from 1."""

    __slots__ = (
        "_fields",
        "_json",
        "body",
        "headers",
        "keep_alive",
        "method",
        "on",
        "path",
        "target",
        "turn",
        "version",
    )

    def __init__(self, turn: int) -> None:
        self.method = ""
        self.target = b""
        self.path = ""
        self.version = "1.1"
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.keep_alive = True
        self.turn = turn
        self.on = "other"  # what its path is for, see Route
        self._json: Any = None
        self._fields: dict[bytes, bytes] | None = None

    @property
    def head(self) -> bytes:
        """Request line and headers as they came; only blanks around a header's value are lost."""
        lines = [b"%s %s HTTP/%s" % (self.method.encode(), self.target, self.version.encode())]
        lines += [b"%s: %s" % pair for pair in self.headers]
        return b"\r\n".join(lines) + b"\r\n\r\n"

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self.target.partition(b"?")[2].decode("latin-1"), keep_blank_values=True))

    def header(self, name: str) -> str | None:
        """The first value of a header, or None. `name` in lower case."""
        if self._fields is None:
            self._fields = {key.lower(): value for key, value in reversed(self.headers)}
        value = self._fields.get(name.encode())
        return None if value is None else value.decode("latin-1")

    @property
    def parsed(self) -> bool:
        """Whether somebody has looked into the body already (a fault may have changed what it found)."""
        return self._json is not None

    def json(self, decoded: bytes | None = None) -> Any:
        """The body (or its decompressed form), parsed once. Raises ValueError (bad JSON, bad UTF-8)."""
        if self._json is None:
            self._json = json.loads(self.body if decoded is None else decoded)
        return self._json

    def tail(self, prefix: str) -> str:
        """What follows `prefix` in the path, percent-decoded ("/v1/models/org%2Fname" is a real client's spelling)."""
        return unquote(self.path[len(prefix) :])


class What(Enum):
    """The part that one piece plays in a stream."""

    ROLE = "role"
    CONTENT = "content"
    FINISH = "finish"
    USAGE = "usage"
    DONE = "done"
    OTHER = "other"


@dataclass(slots=True)
class Piece:
    """One chunk of a stream and the pause before it, in seconds."""

    data: bytes
    what: What = What.OTHER
    pause: float = 0.0


class Ending(Enum):
    """How an answer ends. KEEP is the proper end; CUT closes at once, RESET sends an RST, both without the rest."""

    KEEP = "keep"
    CUT = "cut"
    RESET = "reset"


@dataclass(slots=True)
class Answer:
    """What to send and when.

    `wait` is the time before the first byte, in seconds. `pieces` makes it a stream (chunked); else `body` is sent whole.
    `begun` is called when the first byte is sent. The rest is for faults: `before` is sent ahead of the head, `raw`
    replaces head and body, `claimed` is a Content-Length whatever the body has (a stream is then not chunked), `dribble`
    sends one byte at a time with so many seconds between, `unframed` ends the body by closing.
    """

    status: int = 200
    body: bytes = b""
    type: bytes = b"application/json"
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    pieces: list[Piece] | None = None
    wait: float = 0.0
    begun: Callable[[], None] | None = None
    ending: Ending = Ending.KEEP
    close: bool = False
    before: bytes = b""
    raw: list[Piece] | None = None
    claimed: int | None = None
    dribble: float | None = None
    unframed: bool = False
    trailers: bytes = b""


def plain(obj: Any, status: int = 200, headers: Sequence[tuple[bytes, bytes]] = ()) -> Answer:
    """A JSON answer."""
    return Answer(status, dump(obj), headers=list(headers))


def text(body: str, status: int = 200, kind: bytes = b"text/plain; charset=utf-8") -> Answer:
    return Answer(status, body.encode(), kind)


def sse(obj: Any, name: str = "") -> bytes:
    """One server-sent event."""
    return (b"event: %s\ndata: %s\n\n" % (name.encode(), dump(obj))) if name else b"data: %s\n\n" % dump(obj)


@dataclass(eq=False)
class Refusal(Exception):  # noqa: N818 - the engine's "no", not a fault of this program
    """The engine's "no". The dialect gives it its shape; empty fields are filled in by the dialect."""

    status: int
    message: str
    type: str = ""
    param: str | None = None
    code: str | int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
