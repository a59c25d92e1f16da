"""How answers leave: framing, order of messages, cuts, and what the app is told. Real server, raw sockets, both loops."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

from autohedge.wire.server import AbortResponse
from autohedge.wire.server_exchange import Exchange
from tests.wire.serving import Receive, Send, Server, answer, eventually, read_body, reply, split, to_end, until

HOST = b"Host: a\r\n"
LAST = b"Connection: close\r\n\r\n"
MIB = b"x" * (1 << 20)


async def app(scope: Any, receive: Receive, send: Send) -> None:
    """One behaviour per path."""
    await BEHAVIOURS[scope["path"]](scope, receive, send)


async def start(send: Send, *headers: tuple[bytes, bytes], status: int = 200) -> None:
    await send({"type": "http.response.start", "status": status, "headers": iter(headers)})


async def body(send: Send, data: bytes, *, more: bool = False) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": more})


async def plain(_scope: Any, _receive: Receive, send: Send) -> None:
    await reply(send, b"hello", headers=[(b"content-type", b"text/plain"), (b"x-two", b"1"), (b"x-two", b"2")])


async def at_once(_scope: Any, _receive: Receive, send: Any) -> None:
    """The call that stands for two messages, where `send` is the exchange's own."""
    exchange: Exchange = send.__self__
    await exchange.whole(200, [(b"content-type", b"text/plain"), (b"x-two", b"1"), (b"x-two", b"2")], b"hello")
    with pytest.raises(RuntimeError, match="out of order"):
        await exchange.whole(200, [], b"again")


async def at_once_clean(_scope: Any, _receive: Receive, send: Any) -> None:
    """The same where the headers are known to say nothing of connection and length."""
    exchange: Exchange = send.__self__
    headers = [(b"content-type", b"text/plain"), (b"x-two", b"1"), (b"x-two", b"2")]
    await exchange.whole(200, iter(headers), b"hello", clean=True)
    with pytest.raises(RuntimeError, match="out of order"):
        await send({"type": "http.response.start", "status": 200, "headers": []})


async def splits_clean(_scope: Any, _receive: Receive, send: Any) -> None:
    await send.__self__.whole(200, [(b"a", b"1\r\nb: 2")], b"hello", clean=True)


async def misfit(_scope: Any, _receive: Receive, send: Any) -> None:
    await send.__self__.whole(200, [(b"content-length", b"4")], b"hello")


async def sized(_scope: Any, _receive: Receive, send: Send) -> None:
    await start(send, (b"content-length", b"10"))
    await body(send, b"hello", more=True)
    await body(send, b"world")


async def stream(_scope: Any, _receive: Receive, send: Send) -> None:
    await start(send)
    for piece in (b"one", b"", b"two"):
        await body(send, piece, more=True)
    await body(send, b"")


async def early_head(_scope: Any, receive: Receive, send: Send) -> None:
    await start(send)
    await body(send, b"", more=True)
    await receive()
    assert (await receive())["type"] == "http.disconnect"


async def no_content(_scope: Any, _receive: Receive, send: Send) -> None:
    await start(send, (b"content-length", b"0"), status=204)
    await body(send, b"never seen")


async def not_modified(_scope: Any, _receive: Receive, send: Send) -> None:
    await start(send, (b"content-length", b"9"), (b"etag", b"x"), status=304)
    await body(send, b"never seen")


async def hop_by_hop(_scope: Any, _receive: Receive, send: Send) -> None:
    names = (b"transfer-encoding", b"keep-alive", b"upgrade", b"proxy-connection", b"connection")
    await start(send, *((name, b"chunked") for name in names), (b"content-length", b"2"), (b"content-length", b"2"))
    await body(send, b"ok")


async def closing(_scope: Any, _receive: Receive, send: Send) -> None:
    await reply(send, b"bye", headers=[(b"connection", b"Close")])


async def empty(_scope: Any, _receive: Receive, send: Send) -> None:
    await reply(send, b"")


async def raises(_scope: Any, _receive: Receive, _send: Send) -> None:
    raise LookupError("the app's own fault")


async def raises_after_start(_scope: Any, _receive: Receive, send: Send) -> None:
    await start(send)
    raise LookupError("the app's own fault")


async def raises_late(_scope: Any, _receive: Receive, send: Send) -> None:
    await start(send)
    await body(send, b"part", more=True)
    raise LookupError("the app's own fault")


async def raises_after_all(_scope: Any, _receive: Receive, send: Send) -> None:
    await reply(send, b"fine")
    raise LookupError("the app's own fault")


async def returns_early(_scope: Any, _receive: Receive, send: Send) -> None:
    await start(send)
    await body(send, b"part", more=True)


async def returns_at_once(_scope: Any, _receive: Receive, _send: Send) -> None:
    return


async def aborts(_scope: Any, _receive: Receive, send: Send) -> None:
    await start(send)
    await body(send, b"part", more=True)
    raise AbortResponse


async def aborts_in_a_group(_scope: Any, _receive: Receive, send: Send) -> None:
    await start(send, (b"content-length", b"100"))
    await body(send, b"part", more=True)
    async with asyncio.TaskGroup() as group:
        group.create_task(aborts_at_once())


async def aborts_at_once() -> None:
    raise AbortResponse


async def cancels_itself(_scope: Any, _receive: Receive, send: Send) -> None:
    await start(send)
    await body(send, b"part", more=True)
    raise asyncio.CancelledError


async def too_long(_scope: Any, _receive: Receive, send: Send) -> None:
    await start(send, (b"content-length", b"3"))
    await body(send, b"four")


async def too_short(_scope: Any, _receive: Receive, send: Send) -> None:
    await start(send, (b"content-length", b"10"))
    await body(send, b"part", more=True)
    await body(send, b"")


async def splits_header(_scope: Any, _receive: Receive, send: Send) -> None:
    await reply(send, b"", headers=[(b"x", b"a\r\nx-evil: 1")])


async def lists_lengths(_scope: Any, _receive: Receive, send: Send) -> None:
    await reply(send, b"", headers=[(b"content-length", b"0"), (b"content-length", b"5")])


async def body_first(_scope: Any, _receive: Receive, send: Send) -> None:
    await body(send, b"x")


async def twice(_scope: Any, _receive: Receive, send: Send) -> None:
    await reply(send, b"fine")
    await reply(send, b"again")


async def waits(_scope: Any, receive: Receive, send: Send) -> None:
    """Two readers of the same disconnect; one is cancelled before it comes."""
    await read_body(receive)
    first, second = asyncio.create_task(_kind(receive)), asyncio.create_task(_kind(receive))
    await asyncio.sleep(0.01)
    first.cancel()
    await reply(send, b"fine")
    assert await second == "http.disconnect"


async def _kind(receive: Receive) -> str:
    kind: str = (await receive())["type"]
    return kind


async def large(_scope: Any, _receive: Receive, send: Send) -> None:
    await start(send)
    for _ in range(64):
        await body(send, MIB, more=True)
    await body(send, b"")


BEHAVIOURS = {f"/{each.__name__}": each for each in (
    plain, at_once, at_once_clean, splits_clean, misfit, sized, stream, early_head, no_content, not_modified, hop_by_hop, closing, empty, raises, raises_after_start, raises_late,
    raises_after_all, returns_early, returns_at_once, aborts, aborts_in_a_group, cancels_itself, too_long, too_short, splits_header,
    lists_lengths, body_first, twice, waits, large,
)}  # fmt: skip


@pytest.fixture(scope="module", params=["asyncio", "uvloop"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    running = Server(app, request.param)
    running.start()
    yield running
    running.stop()


def ask(path: str, method: str = "GET", version: str = "1.1", more: bytes = b"\r\n") -> bytes:
    return f"{method} /{path} HTTP/{version}\r\n".encode() + HOST + more


def test_whole_answer(server: Server) -> None:
    """A whole answer gets its length; names, order and repeats stay; no date and no server header."""
    raw = server.say(ask("plain", more=LAST))
    assert raw == (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nx-two: 1\r\nx-two: 2\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello"
    )


@pytest.mark.parametrize("path", ["at_once", "at_once_clean"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_an_answer_at_once_is_the_same_as_two_messages(server: Server, path: str, method: str, version: str) -> None:
    one, two = (server.say(ask(each, method, version, LAST)) for each in (path, "plain"))
    assert one == two


def test_an_answer_at_once_leaves_the_connection_open(server: Server) -> None:
    """The short way to the same bytes is taken on connections that stay."""
    two = [server.say(ask(path) + ask("plain", more=LAST)) for path in ("plain", "at_once_clean")]
    assert two[0] == two[1]
    assert two[0].count(b"HTTP/1.1 200 OK") == 2


def test_a_misfit_at_once_is_a_failure_of_the_app(server: Server) -> None:
    """Its head has not left, so the client gets a 500."""
    assert split(server.say(ask("misfit")))[0] == 500


def test_one_write(server: Server) -> None:
    """Head and first piece leave in one write: the first read of a client has both."""
    for path in ("plain", "sized"):
        with server.open(ask(path)) as sock:
            assert b"\r\n\r\nhello" in sock.recv(65536)


def test_own_length(server: Server) -> None:
    """The app's content-length is kept, and the connection stays."""
    with server.open() as sock:
        for _ in range(3):
            sock.sendall(ask("sized"))
            status, headers, data = answer(sock)
            assert (status, headers, data) == (200, {"content-length": "10"}, b"helloworld")


def test_chunks(server: Server) -> None:
    """A streamed answer is chunked; an empty piece sends nothing, least of all the end."""
    raw = server.say(ask("stream", more=LAST))
    assert split(raw)[1] == {b"transfer-encoding": b"chunked", b"connection": b"close"}
    assert split(raw)[2] == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"


def test_head_alone(server: Server) -> None:
    """An empty first piece sends the head without a body; the client that leaves then is seen by `receive` or a cancel."""
    before = server.ended
    with server.open(ask("early_head")) as sock:
        assert until(sock, b"\r\n\r\n").endswith(b"transfer-encoding: chunked\r\n\r\n")
    assert eventually(lambda: server.ended == before + 1)


def test_old_client_plain(server: Server) -> None:
    """HTTP/1.0: a whole answer has its length; the connection ends, unless keep-alive was asked for."""
    assert split(server.say(ask("plain", version="1.0")))[1][b"connection"] == b"close"
    with server.open() as sock:
        for _ in range(2):
            sock.sendall(ask("plain", version="1.0", more=b"Connection: keep-alive\r\n\r\n"))
            _, headers, data = answer(sock)
            assert (headers["connection"], data) == ("keep-alive", b"hello")


def test_old_client_stream(server: Server) -> None:
    """HTTP/1.0: a streamed answer is never chunked and ends with the connection, also when keep-alive was asked for."""
    raw = server.say(ask("stream", version="1.0", more=b"Connection: keep-alive\r\n\r\n"))
    assert split(raw) == (200, {b"connection": b"close"}, b"onetwo")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("sized", {"content-length": "10"}),
        ("stream", {"transfer-encoding": "chunked"}),
        ("empty", {}),
        ("not_modified", None),
    ],
)
def test_head_request(server: Server, path: str, expected: dict[str, str] | None) -> None:
    """HEAD: the headers as for GET where they are known, never a body, and the connection stays in step."""
    with server.open() as sock:
        for _ in range(2):
            sock.sendall(ask(path, "HEAD"))
            _, headers, data = answer(sock, "HEAD")
            assert data == b""
            assert expected is None or headers == expected
        sock.sendall(ask("plain"))
        assert answer(sock)[2] == b"hello"


def test_bodiless(server: Server) -> None:
    """204 and 304 have no body; a 204 has no content-length, a 304 keeps it (RFC 9110 8.6)."""
    with server.open() as sock:
        for _ in range(2):
            sock.sendall(ask("no_content"))
            assert answer(sock) == (204, {}, b"")
            sock.sendall(ask("not_modified"))
            assert answer(sock) == (304, {"content-length": "9", "etag": "x"}, b"")


def test_hop_by_hop(server: Server) -> None:
    """What belongs to the connection is the server's to say."""
    with server.open(ask("hop_by_hop")) as sock:
        assert answer(sock) == (200, {"content-length": "2"}, b"ok")


def test_app_closes(server: Server) -> None:
    """The app may end the connection."""
    assert split(server.say(ask("closing")))[1:] == ({b"content-length": b"3", b"connection": b"close"}, b"bye")


# --- failures -------------------------------------------------------------------------------------------------------


def is_cut(server: Server, path: str) -> None:
    """What was sent arrives, and a client sees that it is not all."""
    with server.open(ask(path)) as sock, pytest.raises(http.client.IncompleteRead) as cut:
        answer(sock)
    assert cut.value.partial == b"part"


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "autohedge.server"]


@pytest.mark.parametrize(
    "path",
    [
        "raises",
        "raises_after_start",
        "returns_at_once",
        "too_long",
        "splits_header",
        "splits_clean",
        "lists_lengths",
        "body_first",
    ],
)
def test_failure_before_the_first_byte(server: Server, caplog: pytest.LogCaptureFixture, path: str) -> None:
    """Nothing was sent: a 500 in JSON, logged once, connection closed."""
    with caplog.at_level(logging.DEBUG):
        status, headers, data = split(server.say(ask(path)))
        assert eventually(lambda: server.tasks == 0)
    assert (status, headers[b"connection"]) == (500, b"close")
    error = json.loads(data)["error"]
    assert (error["type"], error["param"], error["code"]) == ("server_error", None, "internal_error")
    assert b"own fault" not in data
    assert len(logged(caplog)) == 1


@pytest.mark.parametrize("path", ["raises_late", "returns_early", "too_short"])
def test_failure_after_the_first_byte(server: Server, caplog: pytest.LogCaptureFixture, path: str) -> None:
    """Something was sent: it arrives, its end does not; logged once."""
    with caplog.at_level(logging.DEBUG):
        is_cut(server, path)
        assert eventually(lambda: server.tasks == 0)
    assert len(logged(caplog)) == 1


@pytest.mark.parametrize("path", ["aborts", "aborts_in_a_group", "cancels_itself"])
def test_abort(server: Server, caplog: pytest.LogCaptureFixture, path: str) -> None:
    """AbortResponse, alone or out of a task group, and a cancel cut the answer visibly and are not logged."""
    with caplog.at_level(logging.DEBUG):
        is_cut(server, path)
        assert eventually(lambda: server.tasks == 0)
    assert logged(caplog) == []


@pytest.mark.parametrize("path", ["aborts", "raises_late", "returns_early"])
def test_cut_of_an_answer_without_a_length(server: Server, path: str) -> None:
    """In HTTP/1.0 an orderly close would look like the end, so a cut is a reset."""
    with server.open(ask(path, version="1.0")) as sock, pytest.raises(ConnectionResetError):
        to_end(sock)


@pytest.mark.parametrize("path", ["raises_after_all", "twice"])
def test_failure_after_the_end(server: Server, caplog: pytest.LogCaptureFixture, path: str) -> None:
    """What an app does after its answer is logged and does not touch the connection."""
    with caplog.at_level(logging.DEBUG), server.open() as sock:
        for _ in range(2):
            sock.sendall(ask(path))
            assert answer(sock)[2] == b"fine"
        assert eventually(lambda: len(logged(caplog)) == 2)


def test_two_readers(server: Server) -> None:
    """`receive` after the end of the body waits for the end of the answer; a cancelled reader does not take the other's news."""
    before = server.ended
    with server.open(ask("waits")) as sock:
        assert answer(sock)[2] == b"fine"
        assert eventually(lambda: server.ended == before + 1)


# --- pressure -------------------------------------------------------------------------------------------------------


def test_slow_reader(server: Server) -> None:
    """A client that reads slowly gets everything, and the app is held meanwhile."""
    before = server.ended
    with server.open(ask("large", more=LAST)) as sock:
        time.sleep(0.3)
        assert server.ended == before
        assert len(to_end(sock)) > 64 << 20


def test_slow_reader_leaves(server: Server) -> None:
    """A client that leaves while `send` waits for it cancels the app."""
    cancelled = server.cancelled
    with server.open(ask("large")):
        time.sleep(0.1)
    assert eventually(lambda: server.cancelled == cancelled + 1)
