"""Reading requests off a connection: from bytes to exchanges, with the bounds on what one client may send.

Rules
- httptools (llhttp) finds the structure, in its strict mode; server_rules.py refuses what it lets through.
- A head is looked at as a whole once it is complete. What was found good for a target and a host is not looked at again on
  the same connection: clients repeat themselves.
- The size of a head is counted in whole reads while it comes, and exactly when it is complete; so at most one read
  (256 KiB with uvloop) more than `MAX_HEAD` is ever kept.
- A plain head that comes again, but for the length of its body, is not parsed a second time (server_again.py).
- An upgrade (websocket, h2c) is ignored and the request read as a plain one; RFC 9110 7.8 allows it, and Java's HttpClient
  sends `Upgrade: h2c` with a first POST. The parser stops at such a head, so a second one reads the body.
- Trailers are dropped. Blank lines before a request are allowed (RFC 9112 2.2).

It must not know: how answers are written, what the app is, when a client is too slow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import httptools

from autohedge.wire.server_again import KEPT, Head, plain, remembered
from autohedge.wire.server_exchange import Exchange, Line
from autohedge.wire.server_rules import (
    MAX_HEAD,
    MAX_HEADERS,
    MAX_TARGET,
    SINGLE,
    Header,
    Refusal,
    asked_for,
    checked,
    framing,
    small,
    target,
)

READY, HEAD, BODY = 0, 1, 2  # what is being read: nothing yet, a head, a body
FEED, STASHING, DRAINING = 0, 1, 2  # what happens to bytes that come: read, kept for later, thrown away
BARREN = 64 << 10  # bytes of a chunked body that may come without any data in them (endless trailers, extensions)


class RequestReader(Line, ABC):
    """The reading half of a connection. `base` is the part of the ASGI scope that all its requests share."""

    def __init__(self, root_path: str) -> None:
        self._mode = FEED
        self._phase = READY
        self._exchange: Exchange | None = None  # the one that is being answered
        self._reading: Exchange | None = None  # the one whose body is being read, or was read last
        self._root = root_path
        self._base: dict[str, Any] = {}
        self._state: dict[str, Any] = {}
        self._parser = httptools.HttpRequestParser(self)

        self._url = b""
        self._headers: list[Header] = []
        self._fed = 0  # bytes since the start of the read in which this head began
        self._first = 0  # bytes of that read
        self._barren = 0  # -1: the last read held body data
        self._upgraded = False
        self._framing = b""  # of a body that the parser skipped
        self._known_url = b""  # the last target and Host that were found good, and what they mean
        self._known_host: bytes | None = None
        self._target: dict[str, Any] = {}  # `_base` with that target
        self._latest: Head | None = None  # the plain head that came last
        self._plain = False  # the head that was parsed last is one
        self._refusal: Refusal | None = None

    # --- what the other half does with it ---------------------------------------------------------------------------

    @abstractmethod
    def _begun(self, exchange: Exchange) -> None:
        """The head of a request is complete and good."""

    @abstractmethod
    def _refuse(self, status: int, message: str) -> None:
        """What came is no request: answer that and end the connection."""

    @abstractmethod
    def _unfinished(self, *, fresh: bool) -> None:
        """A read ended inside a head or a body; `fresh`: it is the read in which the head began."""

    @abstractmethod
    def _fault(self, error: Exception) -> None:
        """The server itself failed while it read."""

    # --- bytes ------------------------------------------------------------------------------------------------------

    def _feed(self, data: bytes) -> None:
        size = len(data)
        fresh = self._phase == READY and self._exchange is None
        if fresh and self._latest is not None and self._again(self._latest, data):
            return
        if self._phase == HEAD:
            self._fed += size
        else:
            self._fed = self._first = size
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            if fresh and self._exchange is None:  # `data` begins with the request line
                self._url = self._url or asked_for(data)
            self._malformed(error)
            return
        else:
            if self._phase or self._exchange is None:
                self._incomplete(data)
            elif fresh and self._plain and self._reading is self._exchange:  # one request, from its first byte on
                self._latest = remembered(data, self._exchange.scope)
            return
        self._ignored(rest)

    def _again(self, latest: Head, data: bytes) -> bool:
        """Take a whole request that begins with the latest head; False when it is anything else."""
        message = latest.message(data)
        if message is None:
            return False
        headers, body = message
        scope = {**latest.scope, "headers": headers, "state": self._state.copy()}
        exchange = self._reading = Exchange(self, scope, keep=True, old=False, expects=False)
        exchange.add(body)
        exchange.end()
        self._begun(exchange)
        return True

    def _incomplete(self, data: bytes) -> None:
        if self._phase == BODY:
            self._barren = 0 if self._barren < 0 else self._barren + len(data)
            if self._barren > BARREN:
                self._refuse(431, f"over {BARREN} bytes of chunk extensions or trailers")
                return
        elif self._phase == READY and not data.strip(b"\r\n"):
            return
        else:
            self._phase = HEAD  # perhaps not even the method is complete
            if not self._fed:  # another head came to its end in this read
                self._fed = self._first = len(data)
            if len(self._url) > MAX_TARGET:
                self._refuse(414, f"the request target is over {MAX_TARGET} bytes")
                return
            if self._fed - self._first > MAX_HEAD:
                self._refuse(431, f"the request head is over {MAX_HEAD} bytes")
                return
        self._unfinished(fresh=self._fed == self._first)

    def _malformed(self, error: httptools.HttpParserError) -> None:
        if self._mode == DRAINING:
            return  # bytes after the client's last request
        if self._refusal is not None:
            self._refuse(self._refusal.status, self._refusal.message)
        elif isinstance(error, httptools.HttpParserCallbackError):
            self._fault(error)
        else:
            self._refuse(400, f"not valid HTTP/1.1: {error}")

    def _place(self) -> bytes:
        """The target of the request that is being read, as far as it is known."""
        if self._phase == BODY and self._reading is not None:
            raw: bytes = self._reading.scope["raw_path"]
            return raw
        return self._url

    def _ignored(self, rest: bytes) -> None:
        """Go on after a request that asked for another protocol: its body, if it has one, begins at `rest`."""
        self._upgraded = False
        if not self._framing:
            self.body_read()
        else:
            self._parser = httptools.HttpRequestParser(_BodyOnly(self))
            self._parser.feed_data(b"POST / HTTP/1.1\r\nhost: a\r\n" + self._framing + b"\r\n")
        if rest:
            self._feed(rest)
        elif self._phase == BODY:
            self._unfinished(fresh=False)

    def body_read(self) -> None:
        """The request that asked for an upgrade is complete; the next one is read as any other."""
        self._parser = httptools.HttpRequestParser(self)
        self.on_message_complete()

    # --- the parser's callbacks -------------------------------------------------------------------------------------

    def on_url(self, url: bytes) -> None:
        if self._phase == HEAD and self._url:
            self._url += url
        else:
            self._phase = HEAD
            self._url = url

    def on_header(self, name: bytes, value: bytes) -> None:
        # llhttp leaves spaces at the end of a value (RFC 9112 5.1)
        self._headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        parser, headers = self._parser, self._headers
        fields = dict(headers)
        if len(fields) != len(headers):
            self._unrepeated(headers)
        version: str = parser.get_http_version()
        if (
            self._url != self._known_url
            or fields.get(b"host") != self._known_host
            or version != "1.1"
            or b"transfer-encoding" in fields
            or len(headers) > MAX_HEADERS
            or self._fed > MAX_HEAD
            or self._exchange is not None
        ):
            self._examine(version, fields)
        method: str = parser.get_method().decode("ascii")
        scope = {
            **self._target,
            "http_version": version,
            "method": method,
            "headers": headers,
            "state": self._state.copy(),
            KEPT: {},
        }
        old = version == "1.0"
        expects = b"expect" in fields and not old and fields[b"expect"].lower() == b"100-continue"
        keep: bool = parser.should_keep_alive()
        exchange = self._reading = Exchange(self, scope, keep, old, expects)
        self._plain = keep and not old and plain(fields)
        self._phase = BODY
        self._fed = 0
        self._url = b""
        self._headers = []
        if b"upgrade" in fields or method == "CONNECT":
            self._upgrade(method, fields)
        self._begun(exchange)

    def on_body(self, body: bytes) -> None:
        self._barren = -1
        assert self._reading is not None
        self._reading.add(body)

    def on_message_complete(self) -> None:
        if self._upgraded:
            return  # only the head is complete
        exchange = self._reading
        assert exchange is not None
        if self._headers:  # trailers: they must not become headers of the next request
            self._unrepeated(self._headers)
            self._headers = []
        self._phase = READY
        exchange.end()
        if not exchange.keep:
            self._mode = DRAINING  # the client said that this is its last one

    def _unrepeated(self, headers: list[Header]) -> None:
        """Raises Refusal when a field that may stand once is repeated."""
        names = [name for name, _ in headers if name in SINGLE]
        for name in SINGLE:
            if names.count(name) > 1:
                raise self.refused(400, f"the header {name.decode('ascii')} is repeated")

    def _examine(self, version: str, fields: dict[bytes, bytes]) -> None:
        """The whole check of a head."""
        self._known_url = b""
        try:
            if self._fed > MAX_HEAD or self._exchange is not None:
                small(self._url, self._headers)
            checked(self._url, self._headers, fields, version)
            path, raw, query = target(self._url)
        except Refusal as refusal:
            self._refusal = refusal
            raise
        if self._root:
            path, raw = self._root + path, self._root.encode("ascii") + raw
        self._target = {**self._base, "path": path, "raw_path": raw, "query_string": query}
        if version == "1.1":
            self._known_url, self._known_host = self._url, fields[b"host"]

    def refused(self, status: int, message: str) -> Refusal:
        """To be raised in a callback. It is kept here, since the parser may lose it on the way out."""
        self._refusal = Refusal(status, message)
        return self._refusal

    def _upgrade(self, method: str, fields: dict[bytes, bytes]) -> None:
        if method == "CONNECT":
            raise self.refused(400, "CONNECT is for tunnels; this server answers itself")
        self._upgraded = self._parser.should_upgrade()
        self._framing = framing(fields)


class _BodyOnly:
    """Hears what a parser says of a body whose head was read already."""

    def __init__(self, reader: RequestReader) -> None:
        self.on_body = reader.on_body
        self.on_message_complete = reader.body_read
        self._refused = reader.refused
        self._begun = False

    def on_url(self, _url: bytes) -> None:
        if self._begun:
            raise self._refused(400, "a client that asks for an upgrade waits for the answer")
        self._begun = True
