"""Request heads as bytes, and which headers end at this hop.

Rules (RFC 9110 section 7.6.1, RFC 9112)
- `Transfer-Encoding` ends here, in both directions: bodies go up whole with their length, and come down decoded.
- `Content-Length` is left alone. Coming down it is true when it is there, because an answer with both is refused. Going
  up it is the caller's duty: whoever changes the body replaces it.
- `Host` is the caller's duty too: it names the replica, not the door.

It must not know: which headers carry a secret, or what any of them means to an engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Header = tuple[bytes, bytes]

HOP_BY_HOP: frozenset[bytes] = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)

_NAMING = frozenset((b"connection", b"proxy-connection"))
_USUAL = frozenset((b"keep-alive", b"close", b"Keep-Alive", b"Close"))  # tokens that name no header


def end_to_end(
    headers: Sequence[Header], fields: Mapping[bytes, bytes], others: frozenset[bytes] = HOP_BY_HOP
) -> list[Header]:
    """The headers that may travel on: without the hop-by-hop ones, those that `Connection` names, and `others`.

    Names come in lower case, as both ends of the wire make them. Order and repeats are kept. `fields` is `dict(headers)`, which
    the caller has anyway; `others` includes `HOP_BY_HOP`.
    """
    repeats = len(fields) != len(headers)
    if repeats or b"proxy-connection" in fields or fields.get(b"connection", b"close") not in _USUAL:
        return _picked(headers, others)
    kept = dict(fields)
    for name in others.intersection(fields):
        del kept[name]
    return [*kept.items()]


def _picked(headers: Sequence[Header], others: frozenset[bytes]) -> list[Header]:
    """`end_to_end` for headers that repeat or name each other."""
    values = [value for name, value in headers if name in _NAMING and value not in _USUAL]
    named = {token.strip().lower() for value in values for token in value.split(b",")}
    return [header for header in headers if header[0] not in others and header[0] not in named]


def header_lines(headers: Iterable[Header]) -> bytes:
    """Headers as they stand in a head. Raises ValueError when a value would end its line early."""
    lines = [*map(b": ".join, headers), b""]
    text = b"\r\n".join(lines)
    breaks = len(lines) - 1
    if text.count(b"\n") != breaks or text.count(b"\r") != breaks:
        raise ValueError("a header with a stray line break")
    return text


def request_head(method: bytes, target: bytes, headers: Iterable[Header]) -> bytes:
    """The head of an HTTP/1.1 request, up to and with the empty line. `target` is the path with its query.

    Raises ValueError when a part would end its line early: a head that smuggles a second request is never built.
    """
    if not target or any(stray in target for stray in (b" ", b"\r", b"\n")) or not method.isalpha():
        raise ValueError("a request line with a stray line break or space")
    return b"%b %b HTTP/1.1\r\n%b\r\n" % (method, target, header_lines(headers))
