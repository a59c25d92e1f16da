"""The connection on a transport of the test: what no real socket shows on demand."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from autohedge.core.types import Address
from autohedge.wire.connection import Connection, Options
from autohedge.wire.errors import WireError
from autohedge.wire.pool import Pool
from tests.wire.raw import BODY, HEAD, OK, both_loops, run

pytestmark = both_loops


class _Wire(asyncio.Transport):
    """A transport that keeps what is written and takes `room` bytes before it is full."""

    def __init__(self, sock: socket.socket, room: int) -> None:
        super().__init__({"socket": sock})
        self.written: list[bytes] = []
        self.room = room
        self.protocol: Connection | None = None
        self.gone = False
        self.paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))
        self.room -= len(data)
        if self.room <= 0 and self.protocol is not None:
            self.protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.gone

    def abort(self) -> None:
        self.gone = True

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        assert self.paused
        assert not self.gone
        self.paused = False


class _Rests:
    def __init__(self) -> None:
        self.rested = 0

    def rest(self, connection: Connection) -> bool:
        self.rested += 1
        return True

    def lost(self, connection: Connection) -> None:
        pass


def _wired(room: int = 1 << 30) -> tuple[Connection, _Wire, _Rests]:
    owner = _Rests()
    connection = Connection(owner, Options(), asyncio.get_running_loop())
    with socket.socket() as sock:
        wire = _Wire(sock, room)
        connection.connection_made(wire)
    wire.protocol = connection
    return connection, wire, owner


def test_a_reader_that_wakes_late_does_not_disturb_the_next_exchange(loop: str) -> None:
    """The connection is given on and waited for again before the first reader has run."""

    async def main() -> None:
        connection, wire, owner = _wired()
        first = connection.send(HEAD, BODY, bodiless=False, stall=5)
        connection.data_received(OK[:-2])
        reader = asyncio.create_task(first.read())
        await asyncio.sleep(0)
        connection.data_received(OK[-2:])
        first.release()
        assert owner.rested == 1
        second = connection.send(HEAD, BODY, bodiless=False, stall=5)
        asyncio.get_running_loop().call_later(0.02, connection.data_received, OK)
        async with asyncio.timeout(30):
            assert (await second.begin(5)).status == 200
        assert await reader == b"hi"
        assert wire.written == [HEAD + BODY] * 2
        connection.connection_lost(None)

    run(loop, main())


def test_a_large_body_waits_for_room_and_an_unsent_rest_forbids_reuse(loop: str) -> None:
    async def main() -> None:
        connection, wire, owner = _wired(room=300_000)
        body = bytes(range(250)) * 4_000
        answer = connection.send(HEAD, body, bodiless=False, stall=5)
        written = len(b"".join(wire.written))
        assert 300_000 <= written < 500_000
        wire.room = 300_000
        connection.resume_writing()
        assert written < len(b"".join(wire.written)) < len(body)
        connection.data_received(OK)
        assert answer.ended
        wire.room = 1 << 30
        connection.resume_writing()
        assert b"".join(wire.written) == HEAD + body
        answer.release()
        assert owner.rested == 1
        wire.room = 1
        second = connection.send(HEAD, body, bodiless=False, stall=5)
        connection.data_received(OK)
        second.release()
        assert (owner.rested, wire.gone) == (1, True)
        written = len(wire.written)
        wire.room = 1 << 30
        connection.resume_writing()
        assert len(wire.written) == written
        connection.connection_lost(None)

    run(loop, main())


def test_reading_is_paused_once_and_resumed_once_and_not_on_a_closing_transport(loop: str) -> None:
    async def main() -> None:
        connection, wire, _ = _wired()
        answer = connection.send(HEAD, BODY, bodiless=False, stall=5)
        connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n")
        for _ in range(2):
            connection.data_received(b"x" * 262145)
        seen = [wire.paused]
        assert len(answer.take()) == 524290
        seen.append(wire.paused)
        assert answer.take() == b""
        connection.data_received(b"x" * 262145)
        assert [*seen, wire.paused] == [True, False, True]
        wire.gone = True
        assert len(answer.take()) == 262145
        connection.connection_lost(None)

    run(loop, main())


def test_a_lost_connection_leaves_no_timer(loop: str) -> None:
    async def main() -> None:
        connection, _, _ = _wired()
        answer = connection.send(HEAD, BODY, bodiless=False, stall=5)
        connection.data_received(OK)
        answer.release()
        timer = connection._timer
        assert timer is not None
        connection.connection_lost(None)
        assert timer.cancelled()

    run(loop, main())


@pytest.mark.parametrize("ending", ["cancelled", "timed out"])
def test_a_connect_that_is_given_up_late_closes_at_once(
    loop: str, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """Given up between the handshake and its news, the socket does not wait for the peer's farewell."""

    async def main() -> None:
        with socket.socket() as sock:
            wire = _Wire(sock, 0)

            async def made_but_not_told(factory: Callable[[], Connection], *_: object, **__: object) -> None:
                factory().connection_made(wire)
                await asyncio.Event().wait()

            monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", made_but_not_told)
            pool = Pool(Address("127.0.0.1", 9), Options(connect=0.05 if ending == "timed out" else 60.0))
            task = asyncio.create_task(pool.exchange(HEAD, BODY, first_byte=5, stall=5))
            await asyncio.sleep(0.01)
            if ending == "cancelled":
                task.cancel()
            (result,) = await asyncio.gather(task, return_exceptions=True)
            assert isinstance(result, asyncio.CancelledError if ending == "cancelled" else WireError)
            assert (wire.gone, pool.open) == (True, 0)

    run(loop, main())
