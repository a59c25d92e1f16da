"""Clients that are slow, clients that are many, clients that send much. Real server, raw sockets, both loops."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.wire.lab import HASTY, LAST, POST, Lab, Start, get, starting
from tests.wire.serving import (
    answer,
    eventually,
    is_refused,
    split,
    to_end,
)


@pytest.fixture(params=["asyncio", "uvloop"])
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    yield from starting(request.param)


# --- slowness -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"G", b"GET / HTTP/1.1\r\nHos", POST[:-2]])
def test_slow_head(start: Start, sent: bytes) -> None:
    """A head that does not come to its end is a 408, also when bytes still trickle."""
    server = start(Lab(), HASTY)
    began = time.monotonic()
    with server.open(sent) as sock:
        while not select.select([sock], [], [], 0.1)[0]:
            assert time.monotonic() - began < 30
            sock.sendall(b"A"[: len(sent) - 1])
        is_refused(to_end(sock), 408)
    assert time.monotonic() - began > 0.45


def test_slow_body(start: Start) -> None:
    """A body that stalls is a 408 and the app is cancelled; one that trickles is not."""
    server = start(Lab(), HASTY)
    with server.open(POST + b"Content-Length: 100\r\n\r\nabc") as sock:
        for _ in range(4):
            time.sleep(0.25)
            sock.sendall(b"x")
        assert server.cancelled == 0
        is_refused(to_end(sock), 408)
    assert eventually(lambda: server.cancelled == 1)
    assert eventually(lambda: server.tasks == 0)


def test_slow_app_is_not_a_slow_client(start: Start) -> None:
    """The client's time does not run while the app does not read, or has not asked for the body."""
    lab = Lab()
    server = start(lab, HASTY)
    size = 4 << 20
    head = f"POST /deaf HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n".encode()
    with server.open(head) as sock:
        sender = threading.Thread(target=sock.sendall, args=(b"x" * size,))
        sender.start()
        time.sleep(1.0)
        lab.gate.set()
        assert answer(sock)[2] == str(size).encode()
        sender.join()
    lab.gate.clear()
    with server.open(b"POST /wait HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n") as sock:
        time.sleep(1.0)
        lab.gate.set()
        assert split(to_end(sock))[2] == b"/wait"


def test_a_server_that_was_held_up_reads_before_it_judges(start: Start) -> None:
    """A process that had no processor for longer than the client's time: the rest of the head was there, only we were not."""
    lab = Lab()
    server = start(lab, HASTY)
    whole = get("", LAST)
    with server.open(whole[:9]) as sock:

        def meanwhile() -> None:
            sock.sendall(whole[9:])
            time.sleep(2 * HASTY.head)

        lab.meanwhile = meanwhile
        assert split(server.say(get("held", LAST)))[0] == 200
        assert split(to_end(sock))[0] == 200


def test_idle(start: Start) -> None:
    """An idle connection is closed without a word, a new one as well as a used one; a used one gets its whole time."""
    server = start(Lab(), HASTY)
    with server.open() as fresh, server.open() as used:
        for _ in range(4):
            time.sleep(0.4)
            used.sendall(get(""))
            assert answer(used)[0] == 200
        assert to_end(fresh) == b""
        began = time.monotonic()
        assert to_end(used) == b""
        assert time.monotonic() - began > 1.0
    assert eventually(lambda: server.connections == 0)


def test_slow_answer_is_not_idle(start: Start) -> None:
    """No time runs while the app works."""
    lab = Lab()
    server = start(lab, HASTY)
    with server.open(get("wait")) as sock:
        time.sleep(1.5)
        lab.gate.set()
        assert answer(sock)[2] == b"/wait"


def test_client_that_does_not_read(start: Start) -> None:
    """A client that takes nothing of its answer is gone after `write_seconds`; its app is cancelled."""
    server = start(Lab(), HASTY)
    with server.open(get("flood")):
        assert eventually(lambda: server.entered == 1)
        assert eventually(lambda: server.cancelled == 1)
        assert eventually(lambda: server.connections == 0)


def test_client_that_reads_slowly(start: Start) -> None:
    """A client that takes a little at a time gets its whole answer, though it takes longer than `write_seconds`."""
    server = start(Lab(), HASTY)
    with server.connect() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
        sock.sendall(get("burst", LAST))
        data = 0
        began = time.monotonic()
        while piece := sock.recv(1 << 18):
            data += len(piece)
            time.sleep(0.05)
        assert data > 8 << 20
        assert time.monotonic() - began > HASTY.write


# --- pressure -------------------------------------------------------------------------------------------------------


def test_unread_body_holds_the_client(start: Start) -> None:
    """While the app does not read, at most a little over 256 KiB of body are taken from the socket; then all of it."""
    lab = Lab()
    server = start(lab)
    size = 32 << 20
    with server.open(f"POST /deaf HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n".encode()) as sock:
        sender = threading.Thread(target=sock.sendall, args=(b"x" * size,))
        sender.start()
        time.sleep(0.3)
        assert sender.is_alive()  # the kernel's buffers are far below 32 MiB
        lab.gate.set()
        assert answer(sock)[2] == str(size).encode()
        sender.join()


def test_large_body(start: Start) -> None:
    """40 MB pass, in pieces that stay small."""
    lab = Lab()
    server = start(lab)
    size = 40_000_000
    with server.open(POST + b"Content-Length: %d\r\n\r\n" % size + b"x" * size) as sock:
        assert answer(sock)[2] == str(size).encode()
    assert lab.largest < 1 << 20


def test_thousand_connections(start: Start) -> None:
    """1,000 clients at once, each served; nothing stays behind."""
    lab = Lab()
    server = start(lab, backlog=2048)
    socks = [server.connect() for _ in range(1000)]
    try:
        for sock in socks:
            sock.sendall(get("wait"))
        assert eventually(lambda: lab.running == 1000)
        lab.gate.set()
        assert all(answer(sock)[2] == b"/wait" for sock in socks)
    finally:
        for sock in socks:
            sock.close()
    assert eventually(lambda: server.connections == 0)
    assert server.tasks == 0
