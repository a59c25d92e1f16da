"""Connections from their start to their end: order, leaving, slowness, pressure, farewell. Real server, raw sockets, both loops."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.support.fair import Watch
from tests.wire.lab import HASTY, HOST, LAST, POST, Lab, Start, get, starting
from tests.wire.serving import (
    Server,
    answer,
    eventually,
    is_refused,
    split,
    to_end,
    until,
)


@pytest.fixture(params=["asyncio", "uvloop"])
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    yield from starting(request.param)


# --- order ----------------------------------------------------------------------------------------------------------


def test_keep_alive(start: Start) -> None:
    """Many requests on one connection; uvicorn's count goes with them, its sets are empty afterwards."""
    server = start(Lab())
    with server.open() as sock:
        for size in (0, 1, 1000, 300_000):
            sock.sendall(POST + b"Content-Length: %d\r\n\r\n" % size + b"x" * size)
            assert answer(sock) == (200, {"content-length": str(len(str(size)))}, str(size).encode())
        assert server.connections == 1
    assert eventually(lambda: server.connections == 0)
    assert server.tasks == 0
    assert server.server.server_state.total_requests == 4


def test_pipelined_in_order(start: Start) -> None:
    """Pipelined requests are answered in order, one at a time, whatever their own speed, bodies and all."""
    lab = Lab()
    server = start(lab)
    data = b"".join(get(f"slow/{turn}") + POST + b"Content-Length: 5\r\n\r\nhello" for turn in range(5))
    with server.open(data + get("slow/last", LAST)) as sock:
        raw = to_end(sock)
    bodies = [piece.partition(b"\r\n\r\n")[2] for piece in raw.split(b"HTTP/1.1 200 OK\r\n")[1:]]
    assert bodies == [
        b"/slow/0",
        b"5",
        b"/slow/1",
        b"5",
        b"/slow/2",
        b"5",
        b"/slow/3",
        b"5",
        b"/slow/4",
        b"5",
        b"/slow/last",
    ]
    assert lab.peak == 1


def test_pipelined_in_pieces(start: Start) -> None:
    """A later request that comes in pieces while an earlier one is answered is kept and read afterwards."""
    server = start(Lab())
    with server.open(get("slow/1") + POST + b"Content-Length: 10\r\n\r\n12345") as sock:
        time.sleep(0.02)
        sock.sendall(b"67890" + get("slow/2")[:7])
        time.sleep(0.3)
        sock.sendall(get("slow/2", LAST)[7:])
        raw = to_end(sock)
    assert raw.count(b"200 OK") == 3
    assert b"\r\n\r\n10HTTP" in raw


def test_pipelining_is_bounded(start: Start) -> None:
    """Behind an unanswered request the client is held; nothing is lost when it is let go."""
    lab = Lab()
    server = start(lab)
    data = get("wait", b"X: " + b"x" * 1000 + b"\r\n\r\n") * 40_000
    with server.open() as sock:
        sock.settimeout(0.3)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < len(data):
                sent += sock.send(data[sent : sent + 65536])
        assert sent < len(data) / 2  # the kernel takes some MiB
        lab.gate.set()
        rest = threading.Thread(target=_send_rest, args=(sock, data[sent:]))
        rest.start()
        sock.settimeout(30)
        assert b" 431 " not in until(sock, b"HTTP/1.1 ", 1000)
        sock.shutdown(socket.SHUT_RD)
    rest.join()
    assert lab.peak == 1


def _send_rest(sock: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        sock.sendall(data)


def test_context_of_the_next(start: Start) -> None:
    """A pipelined request does not run in the context of the one before it."""
    lab = Lab()
    server = start(lab)
    server.say(get("count") * 3 + get("count", LAST))
    assert lab.context == [0, 0, 0, 0]


def test_bytes_after_the_last(start: Start) -> None:
    """After `Connection: close` nothing is read any more; the answer is whole."""
    server = start(Lab())
    raw = server.say(get("slow", LAST) + get("slow") + b"\x00garbage")
    assert raw.count(b"HTTP/1.1") == 1
    assert split(raw)[0] == 200
    assert server.entered == 1


# --- leaving --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["hang", "stream", "stubborn"])
@pytest.mark.parametrize("how", ["close", "reset", "half"])
def test_client_leaves(start: Start, caplog: pytest.LogCaptureFixture, path: str, how: str) -> None:
    """A client that leaves cancels the app within 200 ms, once, and nothing is logged (B97, B98)."""
    server = start(Lab())
    with caplog.at_level(logging.DEBUG, "autohedge.server"):
        sock = server.connect()
        sock.sendall(get(path))
        assert eventually(lambda: server.entered == 1)
        time.sleep(0.02)
        if how == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        if how == "half":
            sock.shutdown(socket.SHUT_WR)
        else:
            sock.close()
        watch = Watch()
        assert eventually(lambda: server.ended == 1)
        assert watch.seconds < 0.2
        assert eventually(lambda: server.tasks == 0 and server.connections == 0)
        sock.close()
    assert server.cancelled == (0 if path == "stubborn" else 1)
    assert [record for record in caplog.records if record.name == "autohedge.server"] == []


def test_clients_leave_at_once(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """Clients that leave before their app has begun, or while it begins, leave nothing behind."""
    server = start(Lab())
    with caplog.at_level(logging.DEBUG):
        for turn in range(200):
            sock = server.connect()
            sock.sendall(get("hang"))
            if turn % 2:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            sock.close()
        assert eventually(lambda: server.tasks == 0 and server.connections == 0)
    assert server.ended == server.cancelled == server.entered
    assert caplog.records == []


def test_client_leaves_mid_body(start: Start) -> None:
    """A client that leaves before its body is complete cancels the app that waits for it."""
    server = start(Lab())
    with server.open(POST + b"Content-Length: 100\r\n\r\nabc"):
        assert eventually(lambda: server.entered == 1)
    assert eventually(lambda: server.cancelled == 1)


def test_client_leaves_after_its_answer(start: Start) -> None:
    """What an app does after its answer is not cancelled by the client that has it."""
    server = start(Lab())
    with server.open(get("after")) as sock:
        assert answer(sock)[2] == b"done"
    assert eventually(lambda: server.ended == 1)
    assert server.cancelled == 0


def test_pipelining_client_leaves(start: Start) -> None:
    """The requests that wait behind the one that is cancelled never start."""
    server = start(Lab())
    with server.open(get("hang") * 3):
        assert eventually(lambda: server.entered == 1)
    assert eventually(lambda: server.cancelled == 1)
    assert eventually(lambda: server.connections == 0)
    assert server.entered == 1


# --- farewell -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("expect", [b"", b"Expect: 100-continue\r\n"])
def test_early_answer_reaches_an_uploader(start: Start, expect: bytes) -> None:
    """A client that sends 40 MB before it reads still gets its 413 (RFC 9112 9.6), and then the end."""
    server = start(Lab())
    size = 40_000_000
    with server.open(b"POST /early HTTP/1.1\r\n" + HOST + expect + b"Content-Length: %d\r\n\r\n" % size) as sock:
        sock.sendall(b"x" * size)
        raw = to_end(sock)
    assert split(raw) == (413, {b"content-length": b"9", b"connection": b"close"}, b"too large")
    assert eventually(lambda: server.connections == 0)


def test_refusal_reaches_an_uploader(start: Start) -> None:
    """So does the 400 for a request that went wrong."""
    server = start(Lab())
    with server.open(POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n" + b"x" * 10_000_000) as sock:
        is_refused(to_end(sock), 400)
    assert server.entered == 0


def test_farewell_is_bounded(start: Start) -> None:
    """A client that never stops sending, or never closes, is cut after a while."""

    server = start(Lab(), replace(HASTY, drain_bytes=1 << 20))
    bad = b"GET / HTTP/1.1\r\n\r\n"
    with server.open(bad) as silent:
        assert b" 400 " in to_end(silent)
        assert eventually(lambda: server.connections == 0)
    for piece, pause in ((b"x" * 65536, 0.0), (b"x", 0.1)):
        with server.open(bad) as sock, pytest.raises(OSError):  # noqa: PT011  a reset or a broken pipe
            _go_on(sock, piece, pause)


def _go_on(sock: socket.socket, piece: bytes, pause: float) -> None:
    for _ in range(1000):
        sock.sendall(piece)
        time.sleep(pause)


def test_bad_body_of_a_running_request(start: Start) -> None:
    """A body that turns out to be malformed cancels its app and is a 400; an answer that has begun is cut."""
    server = start(Lab())
    with server.open(POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n") as sock:
        assert eventually(lambda: server.entered == 1)
        sock.sendall(b"zz\r\n")
        is_refused(to_end(sock), 400)
    assert eventually(lambda: server.cancelled == 1)
    with server.open(b"POST /stream HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n") as sock:
        until(sock, b"data: x")
        sock.sendall(b"zz\r\n")
        raw = to_end(sock)
        assert not raw.endswith(b"0\r\n\r\n")
        assert b" 400 " not in raw
    assert eventually(lambda: server.cancelled == 2)
    assert eventually(lambda: server.tasks == 0)


def test_shutdown(start: Start) -> None:
    """uvicorn's graceful stop: idle connections close at once, busy ones after their answer, without another request."""
    lab = Lab()
    server = start(lab)
    with server.open() as idle, server.open(get("wait") * 3) as busy, server.open(b"GET / HT") as partial:
        assert eventually(lambda: lab.running == 1)
        idle.sendall(get(""))
        assert answer(idle)[0] == 200
        server.server.should_exit = True
        assert to_end(idle) == b""
        assert to_end(partial) == b""
        time.sleep(0.3)
        assert lab.running == 1
        lab.gate.set()
        raw = to_end(busy)
        assert raw.count(b"HTTP/1.1 200") == 1
        assert split(raw)[1][b"connection"] == b"close"
    server.stop()


def test_shutdown_that_takes_too_long(start: Start) -> None:
    """After `timeout_graceful_shutdown` uvicorn cancels the apps; their clients see a cut or an empty answer, no end."""
    server = start(Lab(), timeout_graceful_shutdown=1)
    with server.open(get("stream")) as sock:
        until(sock, b"data: x")
        server.server.should_exit = True
        assert b"0\r\n\r\n" not in to_end(sock)
    server.stop()
    assert server.cancelled == 1


def test_configured_headers(start: Start) -> None:
    """Date and server headers are sent when uvicorn is told to, and the root path is put before the path."""
    lab = Lab()
    server = start(lab, date_header=True, server_header=True, root_path="/wait")
    lab.gate.set()
    _, headers, body = split(server.say(get("x", LAST)))
    assert {b"date", b"server"} <= set(headers)
    assert body == b"/wait/x"


def test_unix_socket(start: Start, tmp_path: Any) -> None:
    """A Unix socket has no addresses, and works."""
    path = str(tmp_path / "edge.sock")
    lab = Lab()
    server = Server(lab, "uvloop", uds=path)
    server.thread.start()
    assert eventually(lambda: server.server.started)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)
        sock.sendall(get(""))
        assert answer(sock)[2] == b"0"
    server.stop()


def test_500_says_nothing_of_the_cause(start: Start) -> None:
    """The client of a failed app learns no text of the exception."""
    server = start(Lab())
    status, _, body = split(server.say(get("no_such_behaviour")))
    assert status == 500
    assert "no_such_behaviour" not in json.loads(body)["error"]["message"]
