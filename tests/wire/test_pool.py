"""Reuse, expiry, and the one replay."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

import pytest

from autohedge.core.types import Failure
from autohedge.wire.connection import Options
from autohedge.wire.errors import WireError
from autohedge.wire.pool import Pool
from tests.wire.raw import BODY, CHUNKED, HEAD, OK, Peer, answering, ask, both_loops, once, run, serve, until

pytestmark = both_loops


def test_the_last_to_rest_is_used_first(loop: str) -> None:
    async def main() -> None:
        async with serve(answering(OK)) as server:
            pool = Pool(server.address, Options())
            answers = [await ask(pool) for _ in range(3)]
            assert (pool.open, pool.idle) == (3, 0)
            links = [answer._link for answer in answers]
            for answer in answers:
                answer.release()
            assert (pool.open, pool.idle) == (3, 3)
            again = [await ask(pool) for _ in range(3)]
            assert [answer._link for answer in again] == links[::-1]
            for answer in again:
                answer.release()
            assert server.accepted == 3
            pool.close()

    run(loop, main())


def test_no_more_than_max_idle_are_kept(loop: str) -> None:
    async def main() -> None:
        async with serve(answering(OK)) as server:
            pool = Pool(server.address, Options(max_idle=2))
            answers = [await ask(pool) for _ in range(5)]
            for answer in answers:
                answer.release()
            assert pool.idle == 2
            await until(lambda: pool.open == 2)
            pool.close()

    run(loop, main())


def test_idle_connections_expire_by_themselves(loop: str) -> None:
    async def main() -> None:
        async with serve(answering(OK)) as server:
            pool = Pool(server.address, Options(keep_alive=0.5))
            for _ in range(3):
                assert await once(pool) == 200
            assert server.accepted == 1
            await until(lambda: pool.open == 0)
            assert pool.idle == 0
            await until(lambda: server.busy == 0)
            assert await once(pool) == 200
            assert server.accepted == 2
            pool.close()

    run(loop, main())


def test_an_expired_connection_is_not_used_though_its_timer_is_late(loop: str) -> None:
    async def main() -> None:
        async with serve(answering(OK)) as server:
            pool = Pool(server.address, Options(keep_alive=0.05))
            await once(pool)
            time.sleep(0.1)  # noqa: ASYNC251 - the loop is held up on purpose
            await asyncio.sleep(0)
            assert await once(pool) == 200
            assert server.accepted == 2
            pool.close()

    run(loop, main())


def test_use_moves_the_expiry(loop: str) -> None:
    async def main() -> None:
        async with serve(answering(OK)) as server:
            pool = Pool(server.address, Options(keep_alive=60))
            ends = []
            for _ in range(5):
                await once(pool)
                ends.append(pool._idle[0]._deadline)
                await asyncio.sleep(0.01)
            assert server.accepted == 1
            assert all(later - earlier > 0.005 for earlier, later in pairwise(ends))
            pool.close()

    run(loop, main())


@pytest.mark.parametrize("then", ["close", "reset"])
def test_a_connection_that_died_at_rest_is_dropped(loop: str, then: str) -> None:
    """B92: an idle close or reset is noticed before the next request."""

    async def main() -> None:
        rests = asyncio.Event()

        async def play(peer: Peer) -> None:
            await peer.request()
            await peer.send(OK)
            await rests.wait()
            peer.close() if then == "close" else peer.reset()

        async with serve(play) as server:
            pool = Pool(server.address, Options())
            await once(pool)
            assert (pool.open, pool.idle) == (1, 1)
            rests.set()
            await until(lambda: pool.open == 0)
            assert pool.idle == 0
            await once(pool)
            assert len(server.requests) == 2
            pool.close()

    run(loop, main())


def test_bytes_that_nobody_asked_for_close_an_idle_connection(loop: str) -> None:
    """A server's 408 to an idle connection is never taken for the next answer."""

    async def main() -> None:
        async with serve(answering(OK, b"HTTP/1.1 408 Timeout\r\nContent-Length: 0\r\n\r\n", gap=0.02)) as server:
            pool = Pool(server.address, Options(keep_alive=60))
            await once(pool)
            await until(lambda: pool.open == 0)
            assert await once(pool) == 200
            pool.close()

    run(loop, main())


@pytest.mark.parametrize("surplus", [b"x", OK])
def test_surplus_bytes_close_the_connection(loop: str, surplus: bytes) -> None:
    async def main() -> None:
        async with serve(answering(OK + surplus)) as server:
            pool = Pool(server.address, Options())
            assert await once(pool) == 200
            assert pool.idle == 0
            assert await once(pool) == 200
            assert server.accepted == 2
            pool.close()

    run(loop, main())


def test_surplus_bytes_between_end_and_release_close_the_connection(loop: str) -> None:
    async def main() -> None:
        async with serve(answering(OK, OK, gap=0.02)) as server:
            pool = Pool(server.address, Options())
            answer = await ask(pool)
            await until(lambda: answer.ended and not answer.reusable)  # the second one came as well
            assert await answer.read() == b"hi"
            answer.release()
            assert pool.idle == 0
            pool.close()

    run(loop, main())


@pytest.mark.parametrize("then", ["close", "reset"])
def test_a_reused_connection_that_closes_without_a_byte_is_replayed_once(loop: str, then: str) -> None:
    """B91: the engine's keep-alive ran out while the request was on its way."""

    async def main() -> None:
        async def second_closes(peer: Peer) -> None:
            await peer.request()
            await peer.send(OK)
            await peer.request()
            peer.close() if then == "close" else peer.reset()

        async with serve(second_closes, answering(OK)) as server:
            pool = Pool(server.address, Options())
            assert await once(pool) == 200
            assert await once(pool) == 200
            assert (server.accepted, server.requests) == (2, [HEAD + BODY] * 3)
            assert pool.idle == 1
            pool.close()

    run(loop, main())


def test_the_replay_is_not_repeated(loop: str) -> None:
    async def main() -> None:
        async def second_closes(peer: Peer) -> None:
            await peer.request()
            await peer.send(OK)
            await peer.request()
            peer.close()

        async with serve(second_closes, answering(then="close")) as server:
            pool = Pool(server.address, Options())
            await once(pool)
            with pytest.raises(WireError) as caught:
                await ask(pool)
            assert (caught.value.failure, caught.value.sent) == (Failure.SILENT, True)
            assert (server.accepted, len(server.requests)) == (2, 3)
            await until(lambda: pool.open == 0)

    run(loop, main())


@pytest.mark.parametrize(
    ("sent", "then", "failure"),
    [
        (b"HTTP/1.1 2", "close", Failure.CUT),
        (b"HTTP/1.1 2", "reset", Failure.RESET),
        (b"?", "", Failure.MALFORMED),
        (b"", "", Failure.FIRST_BYTE_TIMEOUT),
    ],
)
def test_nothing_else_is_replayed(loop: str, sent: bytes, then: str, failure: Failure) -> None:
    """One byte of an answer, or time, means that the engine may be at work."""

    async def main() -> None:
        async def second_fails(peer: Peer) -> None:
            await peer.request()
            await peer.send(OK)
            await peer.request()
            await peer.send(sent)
            await asyncio.sleep(0.02)
            if then:
                peer.close() if then == "close" else peer.reset()

        async with serve(second_fails, answering(OK)) as server:
            pool = Pool(server.address, Options())
            await once(pool)
            with pytest.raises(WireError) as caught:
                await ask(pool, first_byte=0.2 if failure is Failure.FIRST_BYTE_TIMEOUT else 30.0)
            assert caught.value.failure is failure
            assert server.accepted == 1
            pool.close()

    run(loop, main())


def test_the_replay_has_only_the_time_that_is_left(loop: str) -> None:
    closed: list[float] = []

    async def main() -> None:
        async def slow_close(peer: Peer) -> None:
            await peer.request()
            await peer.send(OK)
            await peer.request()
            await asyncio.sleep(0.5)
            closed.append(time.monotonic())
            peer.close()

        async with serve(slow_close, answering()) as server:
            pool = Pool(server.address, Options())
            await once(pool)
            began = time.monotonic()
            with pytest.raises(WireError) as caught:
                await ask(pool, first_byte=1.5)
            assert caught.value.failure is Failure.FIRST_BYTE_TIMEOUT
            assert time.monotonic() - began > 1.45
            assert time.monotonic() - closed[0] < 1.5  # the whole time would end later
            assert server.accepted == 2
            pool.close()

    run(loop, main())


def test_a_closed_pool_closes_what_is_released(loop: str) -> None:
    async def main() -> None:
        async with serve(answering(OK)) as server:
            pool = Pool(server.address, Options())
            one, two = await ask(pool), await ask(pool)
            one.release()
            pool.close()
            assert pool.idle == 0
            await until(lambda: pool.open == 1)
            assert await two.read() == b"hi"
            two.release()
            await until(lambda: pool.open == 0)
            assert await once(pool) == 200
            await until(lambda: pool.open == 0)

    run(loop, main())


def test_an_unfinished_answer_closes_its_connection(loop: str) -> None:
    async def main() -> None:
        async with serve(answering(CHUNKED)) as server:
            pool = Pool(server.address, Options())
            answer = await ask(pool)
            answer.release()
            answer.release()
            assert pool.idle == 0
            await until(lambda: pool.open == 0 and server.busy == 0)

    run(loop, main())
