"""A head that comes again means what it meant, and nothing else passes for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.server import ServerState

from autohedge.wire import server_reader
from autohedge.wire.server_again import KEPT, plain, remembered
from autohedge.wire.server_exchange import Exchange
from autohedge.wire.server_reader import RequestReader
from tests.wire.test_server_reader import CHUNKED, GET, HOST, POST, SMUGGLING

pytestmark = pytest.mark.sources

pytestmark = pytest.mark.skipif(
    not str(server_reader.__file__).endswith(".py"), reason="a compiled reader takes no class of a test for its heir"
)

LINES = b"User-Agent: OpenAI/Python\r\ncontent-type: application/json\r\nContent-Length: "
FIRST = POST + LINES + b"5\r\nAccept: */*\r\n\r\nhello"


class Reader(RequestReader):
    """The reading half alone. `heard` is what came of the bytes; `parsed` counts heads that a parser read."""

    congested = False
    server_state = ServerState()

    def __init__(self) -> None:
        super().__init__("")
        self.heard: list[Any] = []
        self.parsed = 0
        self.write = self.heard.append

    def say(self, data: bytes) -> Any:
        """What one read came to, after an answer to what came before."""
        self.heard.clear()
        self._exchange = None
        if not self._mode:
            self._feed(data)
        heard: Exchange | None = self._exchange
        if heard is not None:
            scope = heard.scope
            self.heard.append((scope["method"], scope["headers"], heard._chunks, heard.more, heard.keep))
        return list(self.heard)

    def on_headers_complete(self) -> None:
        self.parsed += 1
        super().on_headers_complete()

    def _begun(self, exchange: Exchange) -> None:
        if self._exchange is None:
            self._exchange = exchange
        else:
            self.heard.append("more than one")

    def _refuse(self, status: int, message: str) -> None:
        self.heard.append((status, message))

    def _unfinished(self, *, fresh: bool) -> None:
        self.heard.append(("unfinished", fresh))

    def _fault(self, error: Exception) -> None:
        raise error

    async def drained(self) -> None:
        """Nothing is written here."""

    def _nothing(self, *_: Any, **__: Any) -> None:
        """Nothing is held or answered here."""

    hold = taken = proceed = finished = failed = cut = _nothing


@pytest.mark.parametrize("body", [b"", b"hello", b"another", b"\r\n\r\n" * 100, b"x" * 100_000])
def test_the_same_head_before_another_body(body: bytes) -> None:
    """What comes again is read like the first time, without a parser, whatever the length of its body."""
    again = FIRST.replace(b"5\r\n", b"%d\r\n" % len(body)).replace(b"hello", body)
    reader, other = Reader(), Reader()
    reader.say(FIRST)
    [(method, headers, chunks, more, keep)] = reader.say(again)
    assert reader.parsed == 1
    [expected] = other.say(again)
    assert (method, headers, b"".join(chunks), more, keep) == (*expected[:2], b"".join(expected[2]), *expected[3:])
    assert reader.say(FIRST) == other.say(FIRST)


def test_what_the_app_kept_comes_again_with_the_head() -> None:
    """One place for notes per head: with another head there is another, and each request has headers and state of its own."""
    reader = Reader()
    scopes = []
    for data in (FIRST, FIRST, FIRST.replace(b"*/*", b"a/b"), FIRST.replace(b"*/*", b"a/b")):
        reader.say(data)
        assert reader._exchange is not None
        scopes.append(reader._exchange.scope)
    assert scopes[0][KEPT] is scopes[1][KEPT]
    assert scopes[1][KEPT] is not scopes[2][KEPT]
    assert scopes[2][KEPT] is scopes[3][KEPT]
    assert scopes[0]["headers"] is not scopes[1]["headers"]
    assert scopes[0]["state"] is not scopes[1]["state"]


@settings(deadline=None, max_examples=1500)
@given(
    at=st.integers(0, len(FIRST) - 1), byte=st.integers(0, 255), how=st.sampled_from(["put", "insert", "cut", "end"])
)
def test_one_byte_of_difference(at: int, byte: int, how: str) -> None:
    """Whatever differs from the head that was read before is read as on a fresh connection."""
    changed = {
        "put": FIRST[:at] + bytes([byte]) + FIRST[at + 1 :],
        "insert": FIRST[:at] + bytes([byte]) + FIRST[at:],
        "cut": FIRST[:at] + FIRST[at + 1 :],
        "end": FIRST[:at],
    }[how]
    reader = Reader()
    reader.say(FIRST)
    assert reader.say(changed) == Reader().say(changed)


@pytest.mark.parametrize("raw", SMUGGLING.values(), ids=SMUGGLING)
def test_refused_after_a_good_one(raw: bytes) -> None:
    """What two readers could read in two ways is refused on a connection with a past as on a fresh one."""
    for good in (FIRST, POST + b"Content-Length: 3\r\n\r\nabc", GET + b"\r\n"):
        reader = Reader()
        reader.say(good)
        assert reader.say(raw) == Reader().say(raw)


@pytest.mark.parametrize(
    "raw",
    [
        GET + b"\r\n",
        b"\r\n" + FIRST,
        CHUNKED + b"0\r\n\r\n",
        POST + b"Connection: close\r\nContent-Length: 3\r\n\r\nabc",
        POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
        POST + b"Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nabc",
        b"POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc",
    ],
)
def test_not_remembered(raw: bytes) -> None:
    """A head that says more of its body than the length, or of the connection, is the parser's every time."""
    reader = Reader()
    reader.say(raw)
    assert reader._latest is None


def test_a_body_is_never_taken_for_a_head() -> None:
    """A client writes bodies: one that came in pieces and looks like a request teaches nothing."""
    posing = POST + b"Content-Length: 2\r\n\r\n"
    reader = Reader()
    reader.say(POST + b"Content-Length: %d\r\n\r\n" % len(posing))
    reader._feed(posing)
    assert reader._latest is None
    reader = Reader()
    reader.say(POST + b"Content-Length: %d\r\n\r\n" % len(posing))
    reader._feed(posing + FIRST)
    assert reader._latest is None


def test_two_requests_in_one_read() -> None:
    """What stands behind a request is never lost in it: such a read is the parser's, and teaches nothing."""
    reader = Reader()
    assert "more than one" in reader.say(FIRST + FIRST)
    assert reader._latest is None
    reader = Reader()
    reader.say(FIRST)
    assert "more than one" in reader.say(FIRST + FIRST)


@pytest.mark.parametrize(
    ("fields", "is_plain"),
    [
        ({b"content-length": b"3"}, True),
        ({}, False),
        ({b"content-length": b"3", b"transfer-encoding": b"chunked"}, False),
        ({b"content-length": b"3", b"expect": b"100-continue"}, False),
        ({b"content-length": b"3", b"upgrade": b"h2c"}, False),
    ],
)
def test_plain(fields: dict[bytes, bytes], is_plain: bool) -> None:
    assert plain(fields) is is_plain


def test_blanks_around_the_length() -> None:
    """Blanks before the digits belong to the head; blanks behind them leave it to the parser, which takes them off."""
    scope = SimpleNamespace(headers=[(b"host", b"a"), (b"content-length", b"3")])
    head = remembered(POST + b"CONTENT-length: \t 3\r\n\r\nabc", vars(scope))
    assert head is not None
    assert head.message(POST + b"CONTENT-length: \t 12\r\n\r\n" + b"x" * 12) is not None
    assert head.message(POST + b"CONTENT-length: 12\r\n\r\n" + b"x" * 12) is None
    late = remembered(POST + b"Content-Length: 3 \r\n\r\nabc", vars(scope))
    assert late is not None
    assert late.message(POST + b"Content-Length: 3 \r\n\r\nabc") is None
    assert remembered(GET + b"\r\n", {"headers": [(b"host", HOST)]}) is None
