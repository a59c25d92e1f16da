"""One answer on its way: bytes in, the head and the decoded body out.

Rules
- Strict framing: what llhttp doubts is MALFORMED (both Content-Length and Transfer-Encoding, bad chunk sizes, folded
  lines), and so are an upgrade (101), any Transfer-Encoding but `chunked`, and a status over 599.
- Interim answers (1xx) are skipped. HEAD, 204 and 304 end with their head.
- A body without a length ends, properly, when the peer closes. Any other body that the peer closes on is CUT.
- Bytes that carry no body (heads, chunk extensions, trailers) are bounded in a row by `max_head`. Trailers are dropped.
- What arrived is handed out before a failure is told.
- Bytes after the end are not read, and the connection is never used again.

It must not know: sockets, the pool, timers, or any engine.
"""

from __future__ import annotations

from typing import Protocol

from httptools import HttpParserError, HttpResponseParser

from autohedge.core.types import Failure
from autohedge.wire.errors import WireError
from autohedge.wire.heads import Header

_VERSIONS = frozenset(("1.1", "1.0"))
_BODILESS = frozenset((204, 304))


class Link(Protocol):
    """What an answer needs of the connection that carries it."""

    async def wait(self, seconds: float) -> None:
        """Until there is news for the answer. When `seconds` pass without, the answer is failed."""

    def drained(self) -> None:
        """The buffer is empty again: reading may go on."""

    def part(self) -> None:
        """The answer lets go of the connection."""


class _Enough(Exception):  # noqa: N818 - not an error: it only stops the parser
    """Raised out of a parser's callback when nothing more on this connection is wanted."""


class Answer:
    """The answer of one exchange. One task reads at a time; whoever holds it calls `release`.

    status, headers, http_version   of the final head; names in lower case, order and repeats kept, values as sent
    fields    `headers` by name; the last one of repeated ones
    ended     the whole message has arrived (a rest may still be buffered)
    failure   why the rest will never come
    held      bytes of body that wait to be taken
    heard     at least one byte came back
    reusable  the message is complete and the peer keeps the connection
    """

    __slots__ = (
        "_arriving",
        "_bodiless",
        "_dry",
        "_link",
        "_max_head",
        "_news",
        "_parser",
        "_pieces",
        "_until_close",
        "ended",
        "failure",
        "fields",
        "headers",
        "heard",
        "held",
        "http_version",
        "reusable",
        "stall",
        "status",
    )

    def __init__(self, link: Link, *, bodiless: bool, stall: float, max_head: int) -> None:
        """`bodiless`: the request was a HEAD. `stall`: seconds that `read` waits for the next byte."""
        self.status = 0
        self.headers: list[Header] = []
        self.fields: dict[bytes, bytes] = {}
        self.http_version = ""
        self.ended = False
        self.failure: Failure | None = None
        self.held = 0
        self.heard = False
        self.reusable = False
        self.stall = stall
        self._link: Link | None = link
        self._bodiless = bodiless
        self._max_head = max_head
        self._dry = 0  # bytes since the last piece of body
        self._arriving: list[Header] = []
        self._news = False
        self._pieces: list[bytes] = []
        self._until_close = False
        self._parser: HttpResponseParser | None = HttpResponseParser(self)

    # --- for whoever asked ---

    async def begin(self, seconds: float) -> Answer:
        """Wait for the final head; releases itself when it does not come. Raises WireError."""
        assert self._link is not None
        try:
            await self._link.wait(seconds)
        except BaseException:
            self.release()
            raise
        if not self.status:
            self.release()
            raise WireError(self.failure or Failure.SILENT, sent=True)
        return self

    def take(self) -> bytes:
        """Everything that is buffered now, without waiting; b"" when nothing is."""
        pieces = self._pieces
        if not pieces:
            return b""
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self.held = 0
        if self._link is not None:
            self._link.drained()
        return data

    async def read(self) -> bytes:
        """The next piece of the body: all that is buffered, or the next to arrive. b"" only at the proper end.

        Raises WireError: STALLED, CUT, RESET or MALFORMED.
        """
        while not self._pieces:
            if self.ended:
                return b""
            if self.failure is not None or self._link is None:
                raise WireError(self.failure or Failure.CUT, sent=True)
            await self._link.wait(self.stall)
        return self.take()

    def release(self) -> None:
        """Give the connection back, or close it when the message is not complete. At any moment, any number of times.

        What has arrived can still be taken; the rest of an incomplete body is CUT.
        """
        link = self._link
        if link is not None:
            self._link = None
            if not self.ended:
                self.fail(Failure.CUT)
            link.part()

    # --- for the connection ---

    def feed(self, data: bytes) -> bool:
        """Parse what arrived; True when a waiting reader has something to look at."""
        parser = self._parser
        if parser is None:
            self.reusable = False
            return False
        self.heard = True
        self._news = False
        self._dry += len(data)
        try:
            parser.feed_data(data)
        except HttpParserError as error:
            self.reusable = False
            self.fail(_reason(error))
        if self._dry > self._max_head:
            self.fail(Failure.MALFORMED if self.status else Failure.TOO_BIG)
        if self.ended:
            self._parser = None  # parser and answer hold each other
        return self._news

    def close(self, failure: Failure | None) -> None:
        """The peer is gone: for the reason given, or after a proper end of its stream."""
        if failure is not None:
            self.fail(failure)
        elif self._until_close and self.failure is None:
            self.ended = True
            self._parser = None
        else:
            self.fail(Failure.CUT if self.heard else Failure.SILENT)

    def fail(self, failure: Failure) -> None:
        """The rest will not come; the first reason stands, and a complete message cannot fail."""
        if not self.ended and self.failure is None:
            self.failure = failure
            self._parser = None
            self._news = True

    # --- what the parser calls ---

    def on_message_begin(self) -> None:
        if self.ended:
            raise _Enough
        self._arriving = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self._arriving.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        parser, headers = self._parser, self._arriving
        assert parser is not None
        status = parser.get_status_code()
        version = parser.get_http_version()
        if not 200 <= status < 600 or version not in _VERSIONS:
            if 100 <= status < 200 and status != 101:
                return
            raise WireError(Failure.MALFORMED, sent=True)
        if self._dry > self._max_head < sum(len(name) + len(value) + 4 for name, value in headers):
            raise WireError(Failure.TOO_BIG, sent=True)  # counted only when the reads that held it add up to that
        self.fields = fields = dict(headers)
        if b"transfer-encoding" in fields:
            _check_codings(headers)
        elif b"content-length" not in fields and status not in _BODILESS:
            self._until_close = True
        self._arriving = []  # trailers land here and are dropped
        self.status, self.headers, self.http_version = status, headers, version
        self._news = True
        if self._bodiless:  # the parser cannot know that no body follows
            self.ended = True
            raise _Enough

    def on_body(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self.held += len(piece)
        self._dry = 0
        self._news = True

    def on_message_complete(self) -> None:
        if self.status and self._parser is not None:
            self.ended = True
            self.reusable = self._parser.should_keep_alive()
            self._news = True


def _reason(error: HttpParserError) -> Failure:
    """Why the parser stopped: our own word out of a callback, or its doubt."""
    cause = error.__context__
    return cause.failure if isinstance(cause, WireError) else Failure.MALFORMED


def _check_codings(headers: list[Header]) -> None:
    """Raises WireError for a transfer coding that nobody here decodes."""
    for name, value in headers:
        if name == b"transfer-encoding" and value.strip().lower() != b"chunked":
            raise WireError(Failure.MALFORMED, sent=True)
