"""What is read as a request and what is refused, over raw sockets on a real server, on both event loops."""

from __future__ import annotations

import itertools
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.wire.serving import Server, answer, echo, is_refused, split, to_end, until

HOST = b"Host: a\r\n"
POST = b"POST / HTTP/1.1\r\n" + HOST
GET = b"GET / HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
LAST = b"Connection: close\r\n\r\n"


@pytest.fixture(scope="module", params=["asyncio", "uvloop"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    running = Server(echo, request.param)
    running.start()
    yield running
    assert running.tasks == 0
    running.stop()


def seen(raw: bytes) -> Any:
    status, _, body = split(raw)
    assert status == 200, raw
    return json.loads(body)


# --- refused --------------------------------------------------------------------------------------------------------

SMUGGLING = {
    "length beside coding": POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding beside length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "the same length twice": POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "list of lengths": POST + b"Content-Length: 3,3\r\n\r\nabc",
    "signed length": POST + b"Content-Length: +3\r\n\r\nabc",
    "negative length": POST + b"Content-Length: -3\r\n\r\nabc",
    "hex length": POST + b"Content-Length: 0x3\r\n\r\nabc",
    "empty length": POST + b"Content-Length:\r\n\r\nabc",
    "length over 64 bits": POST + b"Content-Length: 99999999999999999999999\r\n\r\nabc",
    "unknown coding": POST + b"Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n",
    "coding before chunked": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "coding after chunked": POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "chunked twice": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "empty list member": POST + b"Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n",
    "almost chunked": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "coding with tab": POST + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    "identity": POST + b"Transfer-Encoding: identity\r\n\r\nabc",
    "coding in HTTP/1.0": b"POST / HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "hex prefix in a chunk": CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n",
    "negative chunk": CHUNKED + b"-3\r\nabc\r\n0\r\n\r\n",
    "signed chunk": CHUNKED + b"+3\r\nabc\r\n0\r\n\r\n",
    "no number": CHUNKED + b"g\r\nabc\r\n0\r\n\r\n",
    "empty chunk size": CHUNKED + b"\r\nabc\r\n0\r\n\r\n",
    "space after chunk size": CHUNKED + b"3 \r\nabc\r\n0\r\n\r\n",
    "chunk over 64 bits": CHUNKED + b"FFFFFFFFFFFFFFFFF\r\n",
    "long chunk": CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n",
    "bare LF after chunk size": CHUNKED + b"3\nabc\r\n0\r\n\r\n",
    "bare LF after chunk": CHUNKED + b"3\r\nabc\n0\r\n\r\n",
    "bare LF in a chunk extension": CHUNKED + b"3;\nabc\r\n0\r\n\r\n",
    "bare LF at the end": CHUNKED + b"0\r\n\n",
    "length in a trailer": CHUNKED + b"0\r\nContent-Length: 5\r\n\r\n",
    "bare LF after a header": GET + b"A: b\n\r\n",
    "bare LF at the end of a head": GET + b"\n",
    "bare LF after the request line": b"GET / HTTP/1.1\n" + HOST + b"\r\n",
    "bare CR in a header": GET + b"A: b\rc\r\n\r\n",
    "folded header": GET + b"A: b\r\n c\r\n\r\n",
    "header folded by a tab": GET + b"A: b\r\n\tc\r\n\r\n",
    "folded first header": b"GET / HTTP/1.1\r\n " + HOST + b"\r\n",
    "space before colon": GET + b"A : b\r\n\r\n",
    "space before the colon of a length": POST + b"Content-Length : 3\r\n\r\nabc",
    "tab before colon": GET + b"A\t: b\r\n\r\n",
    "no colon": GET + b"A b\r\n\r\n",
    "empty name": GET + b": b\r\n\r\n",
    "NUL in a value": GET + b"A: b\x00c\r\n\r\n",
    "NUL in a name": GET + b"A\x00: b\r\n\r\n",
    "control byte in a value": GET + b"A: b\x01c\r\n\r\n",
    "DEL in a value": GET + b"A: b\x7fc\r\n\r\n",
    "no token as a name": GET + b"A(: b\r\n\r\n",
    "high byte in a name": GET + b"A\xff: b\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/0.9 by name": b"GET / HTTP/0.9\r\n\r\n",
    "HTTP/2.0": b"GET / HTTP/2.0\r\n" + HOST + b"\r\n",
    "HTTP/1.2": b"GET / HTTP/1.2\r\n" + HOST + b"\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS on a plain port": b"\x16\x03\x01\x02\x00\x01",
    "no Host": b"GET / HTTP/1.1\r\n\r\n",
    "two Hosts": GET + HOST + b"\r\n",
    "two Hosts in HTTP/1.0": b"GET / HTTP/1.0\r\n" + HOST + HOST + b"\r\n",
    "list in Host": b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
    "path in Host": b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "user in Host": b"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n",
    "CONNECT": b"CONNECT a:1 HTTP/1.1\r\n" + HOST + b"\r\n",
    "unknown method": b"BREW / HTTP/1.1\r\n" + HOST + b"\r\n",
    "small method": b"get / HTTP/1.1\r\n" + HOST + b"\r\n",
    "NUL in the target": b"GET /\x00 HTTP/1.1\r\n" + HOST + b"\r\n",
    "high byte in the target": b"GET /\xff HTTP/1.1\r\n" + HOST + b"\r\n",
    "fragment": b"GET /a#b HTTP/1.1\r\n" + HOST + b"\r\n",
    "no path": b"GET a HTTP/1.1\r\n" + HOST + b"\r\n",
    "space after the version": b"GET / HTTP/1.1 \r\n" + HOST + b"\r\n",
}


@pytest.mark.parametrize("raw", SMUGGLING.values(), ids=SMUGGLING)
def test_refused(server: Server, raw: bytes) -> None:
    """What two readers could read in two ways is answered by one 400, and the connection ends."""
    is_refused(server.say(raw), 400)


DECISIONS = {
    name: raw.replace(b" / ", b" /v1/systemone ", 1) for name, raw in SMUGGLING.items() if b" / HTTP/1." in raw
}


@pytest.mark.parametrize("raw", DECISIONS.values(), ids=DECISIONS)
def test_refused_in_the_envelope_of_the_path(server: Server, raw: bytes) -> None:
    """E11, E12: eidex's, however early the request fails."""
    status, headers, body = split(server.say(raw))
    assert (status, headers[b"x-smg-error-code"], headers[b"connection"]) == (400, b"BAD_REQUEST", b"close")
    error = json.loads(body)["error"]
    assert (len(error), error["type"], error["code"]) == (3, "Bad Request", "BAD_REQUEST")
    assert error["message"]


def test_each_request_of_a_connection_has_the_envelope_of_its_path(server: Server) -> None:
    """What came before on the connection decides nothing, nor does what comes behind in the same read."""
    good, bad = b"GET %b HTTP/1.1\r\n" + HOST + b"\r\n", b"GET %b HTTP/1.1\r\n\r\n"
    for path, theirs in ((b"/v1/systemone", True), (b"/v1/models", False)):
        other = b"/v1/models" if theirs else b"/v1/systemone"
        raw = server.say(good % other + bad % path + good % other)
        assert (b"x-smg-error-code" in raw) is theirs


@pytest.mark.parametrize("raw", SMUGGLING.values(), ids=SMUGGLING)
def test_refused_behind_a_good_one(server: Server, raw: bytes) -> None:
    """The first request is answered, then the 400; nothing behind the bad one is ever a request."""
    with server.open(GET + b"\r\n" + raw + GET + b"\r\n") as sock:
        data = to_end(sock)
    first, mark, second = data.partition(b"HTTP/1.1 400")
    assert seen(first)["path"] == "/"
    is_refused(mark + second, 400)


@pytest.mark.parametrize("raw", SMUGGLING.values(), ids=SMUGGLING)
def test_refused_behind_a_head_that_came_again(server: Server, raw: bytes) -> None:
    """A connection on which the same head came before several bodies, so that it is known, refuses what a fresh one does."""
    with server.open() as sock:
        for body in (b"abc", b"another", b""):
            sock.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert json.loads(answer(sock)[2])["body"] == body.decode()
        sock.sendall(raw)
        is_refused(to_end(sock), 400)


@pytest.mark.parametrize("raw", [SMUGGLING[name] for name in ("no Host", "two Hosts", "coding in HTTP/1.0")])
def test_known_target_does_not_hide(server: Server, raw: bytes) -> None:
    """What was found good on a connection excuses nothing that comes later on it."""
    before = b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + GET + b"\r\n"
    with server.open() as sock:
        for request in (before[: before.index(GET)], GET + b"\r\n"):
            sock.sendall(request)
            assert answer(sock)[0] == 200
        sock.sendall(raw)
        is_refused(to_end(sock), 400)


def test_large_header(server: Server) -> None:
    """A head over 64 KiB is a 431, whether it comes to its end or not."""
    is_refused(server.say(GET + b"A: " + b"b" * (65 << 10) + b"\r\n\r\n"), 431)
    with server.open(GET + b"A: ") as sock:
        for _ in range(40):
            try:
                sock.sendall(b"b" * 16384)
            except OSError:
                break
        is_refused(to_end(sock), 431)


def test_largest_header(server: Server) -> None:
    """Just under 64 KiB passes, also behind a large body in the same read."""
    large = b"A: " + b"b" * (63 << 10) + b"\r\n"
    assert seen(server.say(GET + large + LAST))["headers"][1][1] == "b" * (63 << 10)
    body = b"x" * 100_000
    raw = POST + b"Content-Length: %d\r\n\r\n" % len(body) + body + GET + large + LAST
    assert server.say(raw).count(b"HTTP/1.1 200") == 2


def test_large_head_behind_another_request(server: Server) -> None:
    """The size is counted from where the head begins, not from where its read began."""
    data = server.say(GET + b"\r\n" + GET + b"A: " + b"b" * (65 << 10) + b"\r\n\r\n")
    first, mark, second = data.partition(b"HTTP/1.1 431")
    assert seen(first)
    is_refused(mark + second, 431)


def test_many_headers(server: Server) -> None:
    """200 headers are read, 201 are a 431."""
    assert len(seen(server.say(GET + b"A: b\r\n" * 198 + LAST))["headers"]) == 200
    is_refused(server.say(GET + b"A: b\r\n" * 200 + b"\r\n"), 431)


def test_long_target(server: Server) -> None:
    """A target over 16 KiB is a 414, whether the line comes to its end or not."""
    fits = b"/" + b"a" * ((16 << 10) - 1)
    assert seen(server.say(b"GET " + fits + b" HTTP/1.1\r\n" + HOST + LAST))["path"] == fits.decode()
    is_refused(server.say(b"GET " + fits + b"a HTTP/1.1\r\n" + HOST + b"\r\n"), 414)
    is_refused(server.say(b"GET " + fits + b"a"), 414)
    is_refused(server.say(b"GET /" + b"a" * (80 << 10) + b" HTTP/1.1\r\n" + HOST + b"\r\n"), 414)


def test_endless_trailers(server: Server) -> None:
    """A body that goes on without any data in it is a 431: trailers and chunk extensions are bounded."""
    for start in (b"0\r\nA: ", b"3;a="):
        with server.open(CHUNKED + start) as sock:
            for _ in range(40):
                try:
                    sock.sendall(b"b" * 16384)
                except OSError:
                    break
            is_refused(to_end(sock), 431)


# --- read -----------------------------------------------------------------------------------------------------------


def test_scope(server: Server) -> None:
    """Path decoded and raw (model names hold %2F, facts 00b), query raw, names in lower case, order and repeats kept."""
    raw = (
        b"GET /v1/models/org%2Fname?v=1&w=%20 HTTP/1.1\r\nHOST: a_b:80 \r\nX-One: 1\r\nx-one:  \xe9 \t\r\nX-Two: \r\n"
        + LAST
    )
    got = seen(server.say(raw))
    assert got["path"] == "/v1/models/org/name"
    assert got["raw_path"] == "/v1/models/org%2Fname"
    assert got["query"] == "v=1&w=%20"
    assert got["version"] == "1.1"
    assert got["headers"] == [
        ["host", "a_b:80"],
        ["x-one", "1"],
        ["x-one", "é"],
        ["x-two", ""],
        ["connection", "close"],
    ]


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"*", "*", ""),
        (b"http://x:1/y?z", "/y", "z"),
        (b"http://x", "/", ""),
        (b"/?", "/", ""),
        (b"/a?b?c", "/a", "b?c"),
    ],
)
def test_targets(server: Server, target: bytes, path: str, query: str) -> None:
    """Absolute form and `*` are read (RFC 9112 3.2)."""
    got = seen(server.say(b"OPTIONS " + target + b" HTTP/1.1\r\n" + HOST + LAST))
    assert (got["path"], got["query"]) == (path, query)


def test_body_in_one_piece(server: Server) -> None:
    """A body that came with its head is handed over as one bytes object."""
    got = seen(server.say(POST + b"Content-Length: 5\r\n" + LAST + b"hello"))
    assert (got["body"], got["pieces"]) == ("hello", 1)


def test_chunked(server: Server) -> None:
    """Chunked bodies are read; extensions and trailers are dropped, and do not become headers of the next request."""
    body = b"3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nX-Trailer: y\r\nHost: z\r\n\r\n"
    with server.open(CHUNKED + body) as sock:
        got = json.loads(answer(sock)[2])
        assert got["body"] == "abcde"
        sock.sendall(GET + b"\r\n")
        assert json.loads(answer(sock)[2])["headers"] == [["host", "a"]]


def test_blank_lines(server: Server) -> None:
    """Blank lines before and between requests are allowed (RFC 9112 2.2)."""
    with server.open(b"\r\n\r\n" + GET + b"\r\n") as sock:
        assert answer(sock)[0] == 200
        sock.sendall(b"\r\n")
        time.sleep(0.05)
        sock.sendall(GET + b"\r\n")
        assert answer(sock)[0] == 200


@pytest.mark.parametrize("offer", [b"websocket", b"h2c"])
def test_upgrade_ignored(server: Server, offer: bytes) -> None:
    """An upgrade is ignored and the request answered, also with a body (Java's HttpClient); the connection stays usable."""
    ask = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: " + offer + b"\r\nHTTP2-Settings: AAMAAABk\r\n"
    with server.open() as sock:
        for _ in range(2):
            sock.sendall(GET + ask + b"\r\n")
            assert json.loads(answer(sock)[2])["method"] == "GET"
            sock.sendall(POST + ask + b"Content-Length: 5\r\n\r\nhello")
            assert json.loads(answer(sock)[2])["body"] == "hello"
            sock.sendall(POST + ask + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhe")
            time.sleep(0.02)
            sock.sendall(b"llo\r\n0\r\n\r\n")
            assert json.loads(answer(sock)[2])["body"] == "hello"
            sock.sendall(GET + ask + b"\r\n" + GET + b"\r\n")
            assert until(sock, b"200 OK", 2).count(b"200 OK") == 2


def test_upgrade_hides_nothing(server: Server) -> None:
    """The body behind an upgrade is never read as a request, and a request behind it is refused."""
    ask = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
    inner = b"GET /inner HTTP/1.1\r\n" + HOST + b"\r\n"
    raw = POST + ask + b"Content-Length: %d\r\n\r\n" % len(inner) + inner
    with server.open(raw) as sock:
        assert json.loads(answer(sock)[2])["body"] == inner.decode()
    data = server.say(raw + inner)
    assert b'"/inner"' not in data
    assert b"HTTP/1.1 400" in data


def test_expect(server: Server) -> None:
    """100 Continue is sent when the app first asks for the body, not to HTTP/1.0, and not when the body came unasked."""
    ask = b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    with server.open(POST + ask) as sock:
        assert until(sock, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"hello")
        assert json.loads(answer(sock)[2])["body"] == "hello"
        sock.sendall(POST + ask + b"hello")
        assert answer(sock)[0] == 200
    old = server.say(b"POST / HTTP/1.0\r\n" + ask + b"hello")
    assert old.startswith(b"HTTP/1.1 200")


# --- any split ------------------------------------------------------------------------------------------------------

REQUESTS = [
    (GET + b"Accept: */*\r\n" + LAST, ""),
    (POST + b"Content-Length: 11\r\n" + LAST + b"hello world", "hello world"),
    (
        POST + b"Transfer-Encoding: chunked\r\n" + LAST + b"5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nX: y\r\n\r\n",
        "hello world",
    ),
    (POST + b"Upgrade: h2c\r\nConnection: upgrade, close\r\nContent-Length: 3\r\n\r\nabc", "abc"),
]


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(which=st.sampled_from(range(len(REQUESTS))), cuts=st.lists(st.integers(0, 150), max_size=8))
def test_any_split(server: Server, which: int, cuts: list[int]) -> None:
    """However a request's bytes are cut, the app gets the same scope and the same body."""
    raw, body = REQUESTS[which]
    whole = seen(server.say(raw))
    assert whole["body"] == body
    edges = sorted({0, len(raw), *(cut % len(raw) for cut in cuts)})
    with server.connect() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start, end in itertools.pairwise(edges):
            sock.sendall(raw[start:end])
            time.sleep(0.001)
        got = seen(to_end(sock))
    assert {**got, "pieces": 0} == {**whole, "pieces": 0}


def test_byte_by_byte(server: Server) -> None:
    """One byte per read is read like any other request."""
    raw, body = REQUESTS[2]
    with server.connect() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in raw:
            sock.sendall(bytes([byte]))
            time.sleep(0.0005)
        assert seen(to_end(sock))["body"] == body
