"""One exchange over a real socket: clocks, back-pressure, bodies of all shapes."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from autohedge.core.types import Failure
from autohedge.wire.connection import Options
from autohedge.wire.errors import WireError
from autohedge.wire.heads import request_head
from autohedge.wire.pool import Pool
from tests.support.fair import Watch
from tests.wire.raw import (
    BODY,
    CHUNKED,
    HEAD,
    OK,
    Peer,
    answering,
    ask,
    both_loops,
    hold_up,
    run,
    serve,
    settled,
    until,
    whole,
)

pytestmark = both_loops


def test_a_request_arrives_as_written_and_the_answer_as_sent(loop: str) -> None:
    async def main() -> None:
        async with serve(answering(OK)) as server:
            pool = Pool(server.address, Options())
            answer = await ask(pool)
            assert (answer.status, answer.http_version, answer.headers) == (200, "1.1", [(b"content-length", b"2")])
            assert await whole(answer) == b"hi"
            assert answer.ended
            answer.release()
            assert server.requests == [HEAD + BODY]
            await settled(pool, server)

    run(loop, main())


@pytest.mark.parametrize(
    "message",
    [OK, CHUNKED + b"1\r\nh\r\n1\r\ni\r\n0\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n" + OK],
    ids=["length", "chunked", "interim"],
)
def test_an_answer_sent_byte_by_byte(loop: str, message: bytes) -> None:
    async def main() -> None:
        async with serve(answering(*[message[i : i + 1] for i in range(len(message))])) as server:
            pool = Pool(server.address, Options())
            for _ in range(2):
                answer = await ask(pool)
                assert await whole(answer) == b"hi"
                answer.release()
            assert server.accepted == 1
            await settled(pool, server)

    run(loop, main())


def test_any_bytes_re_arm_the_stall(loop: str) -> None:
    """B88: comments and even the bytes of a chunk's size keep a stream alive; silence does not."""

    async def main() -> None:
        drip = [bytes([byte]) for byte in b"00000000002;ext=abcdef\r\nhi\r\n"]
        async with serve(answering(CHUNKED, b"3\r\n:\n\n\r\n", *drip, gap=0.04)) as server:
            pool = Pool(server.address, Options())
            answer = await ask(pool, stall=0.5)
            assert await answer.read() == b":\n\n"
            assert await answer.read() + await answer.read() == b"hi"
            watch = Watch()
            with pytest.raises(WireError) as caught:
                await answer.read()
            assert caught.value.failure is Failure.STALLED
            assert watch.wall > 0.45
            assert watch.seconds < 5
            answer.release()
            await settled(pool, server)

    run(loop, main())


def test_what_came_while_the_loop_was_held_up_is_read_before_anybody_is_judged(loop: str) -> None:
    """A process that had no processor for longer than the stall: the bytes were there in time, only we were not."""

    async def main() -> None:
        async with serve(answering(CHUNKED, b"2\r\nhi\r\n")) as server:
            pool = Pool(server.address, Options())
            answer = await ask(pool, stall=0.1)
            assert await answer.read() == b"hi"
            reading = asyncio.create_task(answer.read())
            await asyncio.sleep(0.01)  # it waits, its timer runs
            hold_up(lambda: _meanwhile(server.peers[0], b"2\r\nyo\r\n"))
            assert await reading == b"yo"
            with pytest.raises(WireError) as caught:  # and who is silent is judged after all
                await answer.read()
            assert caught.value.failure is Failure.STALLED
            answer.release()
            await settled(pool, server)

    run(loop, main())


def _meanwhile(peer: Peer, data: bytes) -> None:
    """The peer sends, and this process has no processor."""
    os.write(peer.writer.get_extra_info("socket").fileno(), data)
    time.sleep(0.3)


def test_no_clock_runs_while_the_caller_is_busy(loop: str) -> None:
    async def main() -> None:
        async with serve(answering(CHUNKED, b"2\r\nhi\r\n", b"0\r\n\r\n", gap=0.25)) as server:
            pool = Pool(server.address, Options())
            answer = await ask(pool, first_byte=1.0, stall=1.0)
            assert await answer.read() == b"hi"
            await asyncio.sleep(1.2)
            assert await answer.read() == b""
            answer.release()
            assert pool.idle == 1
            await settled(pool, server)

    run(loop, main())


def test_reading_pauses_when_nobody_takes_and_goes_on_after(loop: str) -> None:
    """The buffer stays near the bound, and the whole body still arrives."""
    size = 30_000_000

    async def main() -> None:
        async with serve(answering(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size, b"x" * size)) as server:
            pool = Pool(server.address, Options(high_water=100_000))
            answer = await ask(pool)
            await until(lambda: answer.held > 100_000)
            await asyncio.sleep(0.1)
            assert answer.held < 1_000_000
            assert not answer.ended
            total = 0
            while piece := await answer.read():
                total += len(piece)
            assert total == size
            answer.release()
            again = await ask(pool)
            again.release()
            await settled(pool, server)

    run(loop, main())


def test_a_paused_connection_reads_again_after_its_release(loop: str) -> None:
    """A complete body over the bound, released before it is taken, leaves a connection that works."""

    async def main() -> None:
        body = b"x" * 50_000
        async with serve(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n" + body)) as server:
            pool = Pool(server.address, Options(high_water=1000))
            for _ in range(3):
                answer = await ask(pool)
                while not answer.ended:
                    await answer.read()
                answer.release()
            answer = await ask(pool)
            await until(lambda: answer.ended or answer.held > 1000)
            answer.release()
            await settled(pool, server)

    run(loop, main())


def test_a_large_body_is_sent_whole(loop: str) -> None:
    async def main() -> None:
        async with serve(answering(OK)) as server:
            body = bytes(range(256)) * 40_000
            head = request_head(b"POST", b"/", [(b"content-length", b"%d" % len(body))])
            pool = Pool(server.address, Options())
            answer = await pool.exchange(head, body, first_byte=10, stall=5)
            assert await whole(answer) == b"hi"
            answer.release()
            assert server.requests == [head + body]
            assert pool.idle == 1
            await settled(pool, server)

    run(loop, main())


def test_head_answers_have_no_body_and_close(loop: str) -> None:
    async def main() -> None:
        async with serve(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n")) as server:
            pool = Pool(server.address, Options())
            answer = await ask(pool, method=b"HEAD")
            assert (answer.ended, await answer.read()) == (True, b"")
            answer.release()
            assert pool.idle == 0
            await settled(pool, server)

    run(loop, main())


def test_a_cancelled_read_loses_nothing(loop: str) -> None:
    async def main() -> None:
        cancelled = asyncio.Event()

        async def play(peer: Peer) -> None:
            await peer.request()
            await peer.send(CHUNKED)
            await cancelled.wait()
            await peer.send(b"2\r\nhi\r\n0\r\n\r\n")

        async with serve(play) as server:
            pool = Pool(server.address, Options())
            answer = await ask(pool)
            reader = asyncio.create_task(answer.read())
            await asyncio.sleep(0.01)
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
            cancelled.set()
            assert await whole(answer) == b"hi"
            answer.release()
            assert pool.idle == 1
            await settled(pool, server)

    run(loop, main())


def test_a_busy_connection_keeps_one_timer(loop: str) -> None:
    """Fifty exchanges on one connection set no new timer: the deadline moves, the timer stays."""

    async def main() -> None:
        async with serve(answering(OK)) as server:
            pool = Pool(server.address, Options())
            timers = set()
            for _ in range(51):
                answer = await ask(pool)
                while await answer.read():
                    pass
                answer.release()
                timers.add(id(pool._idle[0]._timer))
            assert len(timers) == 1
            await settled(pool, server)

    run(loop, main())
