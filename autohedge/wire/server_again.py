"""A request head that comes again: clients repeat themselves, and what was read once need not be read a second time.

Rules
- What a head means follows from its bytes alone. Nothing is judged here: bytes that the parser and server_rules.py found good
  at the start of a message mean the same at the start of the next one.
- The digits of Content-Length may differ, since bodies do. A number of digits, whatever it is, changes nothing else.
- Only plain requests are remembered: HTTP/1.1, kept alive, a Content-Length and nothing about it (`plain`). They are recognised
  only as a whole, head and body in one read with nothing behind it. All else is the parser's.
- `kept` belongs to whoever serves: what it worked out of the head it finds there when the head comes again.

It must not know: sockets, exchanges, what the app keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autohedge.wire.server_rules import Header

KEPT = "autohedge.kept"  # the key of `kept` in the scope of a request
LENGTH = b"content-length"
SPELLED = b"\r\ncontent-length:"
DIGITS = 16  # more than any length that is served
BLANK = b"\r\n\r\n"
CHANGING = ("headers", "state")


class Head:
    """The latest plain head of a connection. `scope` is the part of the scope that does not change with the body."""

    __slots__ = ("_after", "_at", "_before", "_headers", "scope")

    def __init__(self, before: bytes, after: bytes, headers: list[Header], scope: dict[str, Any]) -> None:
        self._before = before  # up to the digits of Content-Length
        self._after = after  # from behind them to the end
        self._headers = headers
        self._at = next(at for at, (name, _) in enumerate(headers) if name == LENGTH)
        self.scope = scope

    def message(self, data: bytes) -> tuple[list[Header], bytes] | None:
        """Headers and body, when `data` is this head with its whole body and nothing more."""
        before, after = self._before, self._after
        if not data.startswith(before):
            return None
        start = len(before)
        end = data.find(b"\r", start, start + DIGITS)
        digits = data[start:end]
        if not (digits.isdigit() and data.startswith(after, end)):
            return None
        body = data[end + len(after) :]
        if len(body) != int(digits):
            return None
        headers = self._headers.copy()
        headers[self._at] = (LENGTH, digits)
        return headers, body


def plain(fields: Mapping[bytes, bytes]) -> bool:
    """Whether a good HTTP/1.1 head on a connection that stays says nothing about its body but the length."""
    return LENGTH in fields and fields.keys().isdisjoint((b"transfer-encoding", b"expect", b"upgrade"))


def remembered(data: bytes, scope: dict[str, Any]) -> Head | None:
    """The plain head that `data` begins with, as the parser has just read it into `scope`; None where it cannot be told apart."""
    size = data.find(BLANK) + len(BLANK)
    name = data[:size].lower().find(SPELLED)
    if name < 0 or data[:1] in (b"\r", b"\n"):  # blank lines before the request
        return None
    start = name + len(SPELLED)
    while data[start] in b" \t":
        start += 1
    end = start
    while data[end : end + 1].isdigit():
        end += 1
    same = {key: value for key, value in scope.items() if key not in CHANGING}
    return Head(data[:start], data[end:size], scope["headers"], same)
