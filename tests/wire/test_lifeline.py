"""Whether the machine at the other end is still there (T67)."""

from __future__ import annotations

import asyncio
import socket
import struct
from pathlib import Path

import pytest

from autohedge.core.types import Failure
from autohedge.wire import lifeline
from autohedge.wire.answer import Answer
from autohedge.wire.connection import Options
from autohedge.wire.errors import WireError
from autohedge.wire.heads import request_head
from autohedge.wire.pool import Pool
from tests.support.fair import Watch
from tests.wire.raw import (
    CHUNKED,
    OK,
    Peer,
    Play,
    answering,
    ask,
    both_loops,
    once,
    run,
    serve,
    tls_contexts,
    until,
    whole,
)

NAMES = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
LIMIT = 1.0  # the least that a kernel takes; the end comes a second later
WELL_OVER = LIMIT + 2.0
SOON = 10.0  # of thirty: on a machine that has other work
LARGE = 8_000_000  # bytes, more than two sockets hold


def named(options: tuple[lifeline.Option, ...]) -> dict[int, int]:
    return {name: value for level, name, value in options if level == socket.IPPROTO_TCP}


# --- the times ---


@pytest.mark.parametrize(
    ("seconds", "times"),
    [
        (0.5, (1, 1, 1)),
        (2, (1, 1, 1)),
        (3, (1, 1, 2)),
        (6, (2, 1, 4)),
        (10, (6, 1, 4)),
        (60, (20, 10, 4)),
        (10**6, (32767, 32767, 4)),
    ],
)
def test_the_last_probe_is_lost_when_the_time_is_over(seconds: float, times: tuple[int, int, int]) -> None:
    assert named(lifeline.to_engine(seconds)) == dict(
        zip((getattr(socket, name) for name in NAMES), times, strict=True)
    )
    idle, interval, count = times
    assert seconds > lifeline.LONGEST or idle + interval * count == max(2, round(seconds))


def test_nothing_is_asked_of_the_kernel_when_it_is_off() -> None:
    assert lifeline.to_engine(0) == ()


def test_what_a_system_does_not_have_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS: no TCP_USER_TIMEOUT, no TCP_INFO of this shape."""
    for name in (*NAMES, "TCP_USER_TIMEOUT"):
        monkeypatch.delattr(socket, name)
    monkeypatch.setattr(lifeline, "_ASKED", None)
    assert lifeline.to_caller() == ((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),)
    with socket.socket() as sock:
        assert lifeline.left(sock, 7.0) == 7.0


def test_a_socket_without_tcp_is_never_silent() -> None:
    ends = socket.socketpair()
    assert lifeline.left(ends[0], 7.0) == 7.0
    for end in ends:
        end.close()


# --- what the kernel tells ---


def told(*, retransmits: int = 0, probes: int = 0, sent: int = 0, heard: int = 0) -> bytes:
    """A `struct tcp_info` as Linux fills it."""
    return struct.pack("=8B13I", 1, 0, retransmits, probes, 0, 0, 0, 0, *[0] * 9, sent, 0, 0, heard)


@pytest.mark.parametrize(
    ("info", "left"),
    [
        (told(sent=9000, heard=9000), 6.0),  # a long prefill: all is acknowledged, and nothing is sent
        (told(retransmits=1, sent=100, heard=9000), 6.0),  # one packet lost after a quiet time
        (told(retransmits=2, sent=100, heard=2000), 4.0),
        (told(retransmits=4, sent=100, heard=9000), -3.0),
        (told(retransmits=6, sent=6400, heard=6400), 6.0),  # no room: sent again, and acknowledged again
        (told(probes=1, sent=9000, heard=6100), 6.0),  # no room: asked now and then, with an answer each time
        (told(probes=3, sent=9000, heard=7000), -1.0),
        (told(retransmits=4, heard=9000)[:40], 6.0),  # a system that tells less
    ],
)
def test_what_the_kernel_tells(monkeypatch: pytest.MonkeyPatch, info: bytes, left: float) -> None:
    class Told(socket.socket):
        def getsockopt(self, *_: object) -> bytes:  # type: ignore[override]
            return info

    monkeypatch.setattr(lifeline, "_ASKED", 11)
    with Told() as sock:
        assert lifeline.left(sock, 6.0) == pytest.approx(left)


# --- engines ---


async def gone(waiting: asyncio.Future[Answer] | asyncio.Task[bytes]) -> tuple[Failure, bool]:
    """How a wait ended that had half a minute of its own."""
    watch = Watch()
    with pytest.raises(WireError) as caught:
        await waiting
    assert watch.seconds < SOON
    return caught.value.failure, caught.value.sent


def vanishing(*, after: bytes = b"", heard: bool) -> Play:
    """Answer once; of the second request nothing (`heard`: but its acknowledgement) is seen, after `after` was sent."""

    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        if heard:
            await peer.request()
            if after:
                await peer.send(after)
        await peer.vanish()

    return play


@both_loops
@pytest.mark.parametrize(
    ("heard", "tls"), [(True, False), (True, True), (False, False)], ids=["sent before", "over TLS", "sent after"]
)
def test_a_request_to_a_machine_that_vanished_ends_soon(loop: str, tmp_path: Path, heard: bool, tls: bool) -> None:
    """The first byte may take half a minute. It is not sent again on a new connection, though this one was reused: the
    machine may have had it.
    """

    async def main() -> None:
        contexts = tls_contexts(tmp_path) if tls else (None, None)
        async with serve(vanishing(heard=heard), tls=contexts[0]) as server:
            pool = Pool(server.address, Options(acknowledge=LIMIT, ssl=contexts[1]))
            assert await once(pool) == 200
            assert await gone(asyncio.ensure_future(ask(pool, 30.0))) == (Failure.VANISHED, True)
            assert (server.accepted, pool.open) == (1, 0)

    run(loop, main())


def test_a_stream_from_a_machine_that_vanished_ends_soon() -> None:
    """What it said before is handed out."""

    async def main() -> None:
        async with serve(vanishing(after=CHUNKED + b"2\r\nhi\r\n", heard=True)) as server:
            pool = Pool(server.address, Options(acknowledge=LIMIT))
            await once(pool)
            answer = await ask(pool, stall=30.0)
            assert await answer.read() == b"hi"
            assert await gone(asyncio.ensure_future(answer.read())) == (Failure.VANISHED, True)
            answer.release()

    run("uvloop", main())


def test_a_connection_at_rest_goes_with_its_machine() -> None:
    async def main() -> None:
        async def play(peer: Peer) -> None:
            await peer.request()
            await peer.send(OK)
            await peer.vanish()

        async with serve(play) as server:
            pool = Pool(server.address, Options(acknowledge=LIMIT, keep_alive=60.0))
            await once(pool)
            assert pool.idle == 1
            watch = Watch()
            await until(lambda: not pool.open)
            assert watch.seconds < SOON

    run("uvloop", main())


def test_a_machine_whose_engine_thinks_or_hangs_is_not_given_up() -> None:
    """A long prefill, a stopped process: no byte for longer than the limit, but its kernel acknowledges."""

    async def main() -> None:
        async def play(peer: Peer) -> None:
            await peer.request()
            await asyncio.sleep(WELL_OVER)
            await peer.send(OK)

        async with serve(play) as server:
            pool = Pool(server.address, Options(acknowledge=LIMIT))
            answer = await ask(pool, 30.0, stall=30.0)
            assert await whole(answer) == b"hi"
            answer.release()

    run("uvloop", main())


def test_a_machine_that_has_no_room_for_more_is_not_given_up() -> None:
    """A busy engine leaves the body of a long prompt where it is. TCP_USER_TIMEOUT would end this connection."""

    async def main() -> None:
        async def play(peer: Peer) -> None:
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await asyncio.sleep(WELL_OVER)
            peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
            await peer.request()
            await peer.send(OK)

        async with serve(play) as server:
            pool = Pool(server.address, Options(acknowledge=LIMIT))
            head = request_head(b"POST", b"/", [(b"content-length", str(LARGE).encode())])
            answer = await pool.exchange(head, bytes(LARGE), first_byte=30.0, stall=30.0)
            assert await whole(answer) == b"hi"
            answer.release()

    run("uvloop", main())


@both_loops
@pytest.mark.parametrize("seconds", [0.0, 6.0])
def test_the_options_of_a_connection_to_an_engine(loop: str, seconds: float) -> None:
    async def main() -> None:
        async with serve(answering(OK)) as server:
            pool = Pool(server.address, Options(acknowledge=seconds))
            await once(pool)
            transport = pool._idle[0]._transport
            assert transport is not None
            sock = transport.get_extra_info("socket")
            assert bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)) is (seconds > 0)
            for name, value in named(lifeline.to_engine(seconds)).items():
                assert sock.getsockopt(socket.IPPROTO_TCP, name) == value
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 0
            pool.close()

    run(loop, main())
