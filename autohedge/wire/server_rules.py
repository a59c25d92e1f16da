"""What a request's head must obey before an app sees it, and how the heads of answers are spelled. Pure: bytes in, bytes out.

Rules
- llhttp 9 (httptools 0.9), in its strict mode, refuses bad chunk sizes, bare LF and CR, folded lines, control bytes, repeated
  Content-Length and Content-Length beside Transfer-Encoding. `SINGLE` and `checked` add what it lets through: a list of
  transfer codings that ends in chunked, any coding in HTTP/1.0, HTTP/0.9 and 2.0, a missing or repeated Host, CONNECT, '#' in
  the target. The reason is one: no two readers of the same bytes may find different requests in them (RFC 9112 11.2).
- An answer's head is checked as one piece: it holds as many line ends as it has lines, and no NUL.

It must not know: sockets, timers, ASGI messages.
"""

from __future__ import annotations

import http
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

import httptools

Header = tuple[bytes, bytes]

MAX_HEAD = 64 << 10  # bytes of request line and headers
MAX_HEADERS = 200
MAX_TARGET = 16 << 10  # bytes of the request target

# Fields whose meaning decides where a message ends or for whom it is stand once.
SINGLE = frozenset({b"host", b"content-length", b"transfer-encoding"})
# What may stand in Host (RFC 3986 3.2, and "_", which names of Swarm services hold).
HOST_BYTES = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=:[]%"

# Targets whose errors have eidex's envelope, and its words for the statuses of `refusal`: as Go spells them.
EIDEX = re.compile(rb"(?:[A-Za-z]+://[^/?#]*)?(?:/v1/systemone/?|/workers(?:/[^?#]*)?)(?:[?#]|$)")
TEXTS = {
    400: "Bad Request",
    408: "Request Timeout",
    414: "Request URI Too Long",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
}

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
# What an app may say of its connection; the server writes it. Content-Length is the app's to say, and is held to.
OURS = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"proxy-connection"})
BODILESS = frozenset({204, 304})


class Refusal(Exception):  # noqa: N818  it is raised inside the parser's callbacks and becomes an answer, no failure
    """A request that is answered by the server itself and ends its connection."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def status_line(status: int) -> bytes:
    """`HTTP/1.1 200 OK`. An unknown status gets an empty phrase, which RFC 9112 4 allows."""
    try:
        phrase = http.HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP/1.1 {status} {phrase}".encode("ascii")


STATUS_LINES = {status: status_line(status) for status in range(200, 600)}


def checked(url: bytes, headers: list[Header], fields: Mapping[bytes, bytes], version: str) -> None:
    """Raises Refusal when a complete head breaks a rule that the parser does not hold."""
    if len(url) > MAX_TARGET:
        raise Refusal(414, f"the request target is over {MAX_TARGET} bytes")
    if len(headers) > MAX_HEADERS:
        raise Refusal(431, f"the request has over {MAX_HEADERS} headers")
    if version == "1.1":
        host = fields.get(b"host")
        if host is None:
            raise Refusal(400, "an HTTP/1.1 request needs a Host header")
        if host.translate(None, HOST_BYTES):
            raise Refusal(400, "the Host header is not a host")
    elif version != "1.0":
        raise Refusal(400, f"HTTP/{version} is not spoken here; HTTP/1.1 is")
    coding = fields.get(b"transfer-encoding")
    if coding is not None and (version == "1.0" or coding.lower() != b"chunked"):
        raise Refusal(400, "the only transfer coding is chunked, in HTTP/1.1")


def small(url: bytes, headers: list[Header]) -> None:
    """Raises Refusal when a head is over `MAX_HEAD` bytes, counted as it stood on the wire."""
    if len(url) <= MAX_TARGET and len(url) + sum(len(name) + len(value) + 4 for name, value in headers) > MAX_HEAD:
        raise Refusal(431, f"the request head is over {MAX_HEAD} bytes")


def target(url: bytes) -> tuple[str, bytes, bytes]:
    """A request target as (decoded path, raw path, query). Origin form costs nothing; absolute form and `*` are read too."""
    if b"#" in url:
        raise Refusal(400, "a request target has no fragment")
    if url.startswith(b"/"):
        raw, _, query = url.partition(b"?")
    elif url == b"*":
        raw, query = url, b""
    else:
        try:
            parsed: Any = httptools.parse_url(url)  # its stubs say that there is always a path
        except httptools.HttpParserInvalidURLError:
            raise Refusal(400, "the request target is not a path or an absolute URL") from None
        raw, query = parsed.path or b"/", parsed.query or b""
    path = raw.decode("ascii")
    return (unquote(path) if "%" in path else path), raw, query


def framing(fields: Mapping[bytes, bytes]) -> bytes:
    """The header line that says where a request's body ends, or nothing when there is no body."""
    if b"transfer-encoding" in fields:
        return b"transfer-encoding: chunked\r\n"
    length = fields.get(b"content-length", b"0")
    return b"content-length: " + length + b"\r\n" if length.strip(b"0") else b""


def answer_head(status: int, headers: Iterable[Header], always: Iterable[Header]) -> tuple[bytes, int | None, bool]:
    """Status line and header lines, without the last line end; the app's content-length; whether the app asks to close.

    Names are ASGI's: lower case. What belongs to the connection (connection, keep-alive, transfer-encoding, upgrade) is the
    server's to write and is left out. Raises ValueError for CR, LF or NUL in a name or value, or for a bad content-length.
    """
    kept = [*always, *headers]
    fields = dict(kept)
    said = fields.get(b"content-length", b"0")
    if OURS.isdisjoint(fields) and said.isdigit() and len(fields) == len(kept) and status != 204:  # as usual
        length, closing = (int(said) if b"content-length" in fields else None), False
    else:
        kept, length, closing = _sorted_out(status, kept)
    head = b"\r\n".join([STATUS_LINES.get(status) or status_line(status), *map(b": ".join, kept)])
    _one_head(head, len(kept))
    return head, length, closing


def plain_head(status: int, headers: Iterable[Header], length: int) -> bytes:
    """The whole head of an answer of `length` bytes whose headers say nothing of length or connection, so that none of them has
    to be looked at. Raises ValueError for CR, LF or NUL in a name or value.
    """
    lines = [STATUS_LINES[status], *map(b": ".join, headers), b"content-length: %d\r\n\r\n" % length]
    head = b"\r\n".join(lines)
    _one_head(head, len(lines) + 1)
    return head


def _one_head(head: bytes, ends: int) -> None:
    """Raises ValueError when there is a line end, or half of one, beyond the `ends` that belong there, or a NUL."""
    if head.count(b"\n") != ends or head.count(b"\r") != ends or b"\0" in head:  # counted: a fifth of one `translate`
        raise ValueError("a header of an answer holds CR, LF or NUL")


def _sorted_out(status: int, headers: Iterable[Header]) -> tuple[list[Header], int | None, bool]:
    """Those headers that may leave, with at most one content-length; what that says; whether the app asks to close."""
    kept: list[Header] = []
    length: int | None = None
    closing = False
    for header in headers:
        name, value = header
        if name in OURS:
            closing = closing or (name == b"connection" and b"close" in value.lower())
            continue
        if name == b"content-length":
            if not value.isdigit() or (length is not None and length != int(value)):
                raise ValueError("a content-length of an answer is no number, or there are two")
            if status == 204 or length is not None:
                continue  # RFC 9110 8.6: a 204 has none
            length = int(value)
        kept.append(header)
    return kept, length, closing


def refusal(status: int, message: str, url: bytes = b"") -> bytes:
    """A whole answer that the server gives itself, and the end of the connection: JSON in OpenAI's envelope, or in eidex's where
    `url`, as much of it as was read, is one of its paths.
    """
    ours = status >= 500
    kind, code, more = (
        ("server_error", "internal_error", b"") if ours else ("invalid_request_error", "bad_request", b"")
    )
    error = {"message": message, "type": kind, "param": None, "code": code}
    if EIDEX.match(url):
        code = code if ours else "BAD_REQUEST"
        error = {"type": TEXTS[status], "code": code, "message": message}
        more = b"\r\nx-smg-error-code: " + code.encode("ascii")
    body = json.dumps({"error": error}, separators=(",", ":")).encode()
    lines = b"\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close" % len(body)
    return status_line(status) + lines + more + b"\r\n\r\n" + body


def asked_for(data: bytes) -> bytes:
    """The target in what begins with a request line whose method nobody knows."""
    words = data.lstrip(b"\r\n").split(b" ", 2)
    return words[1] if len(words) == 3 else b""
