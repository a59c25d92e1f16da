"""How an exchange ends other than well: cut, reset, stalled, early, left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from autohedge.core.types import Failure
from autohedge.wire.connection import Options
from autohedge.wire.errors import WireError
from autohedge.wire.heads import request_head
from autohedge.wire.pool import Pool
from tests.support.fair import Watch
from tests.wire.raw import (
    CHUNKED,
    Peer,
    answering,
    ask,
    both_loops,
    run,
    serve,
    settled,
    until,
    whole,
)

pytestmark = both_loops


@pytest.mark.parametrize("then", ["close", "reset"])
def test_a_body_without_a_length_is_complete_only_after_a_proper_end(loop: str, then: str) -> None:
    async def main() -> None:
        async with serve(answering(b"HTTP/1.0 200 OK\r\n\r\n", b"hi", gap=0.05, then="")) as server:
            pool = Pool(server.address, Options())

            async def close(peer: Peer) -> None:
                await peer.request()
                await peer.send(b"HTTP/1.0 200 OK\r\n\r\n", b"hi", gap=0.02)
                await asyncio.sleep(0.05)
                peer.close() if then == "close" else peer.reset()

            server.plays = (close,)
            answer = await ask(pool)
            if then == "close":
                assert await whole(answer) == b"hi"
            else:
                with pytest.raises(WireError) as caught:
                    await whole(answer)
                assert caught.value.failure is Failure.RESET
            answer.release()
            assert pool.idle == 0
            await settled(pool, server)

    run(loop, main())


@pytest.mark.parametrize(
    ("sent", "then", "failure"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\nhi", "close", Failure.CUT),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\nhi", "reset", Failure.RESET),
        (CHUNKED + b"2\r\nhi\r\n", "close", Failure.CUT),
        (CHUNKED + b"2\r\nhi\r\n5\r\nab", "reset", Failure.RESET),
        (CHUNKED + b"2\r\nhi\r\nzz\r\n", "", Failure.MALFORMED),
        (CHUNKED + b"2\r\nhi\r\n", "", Failure.STALLED),
    ],
)
def test_a_body_that_ends_badly(loop: str, sent: bytes, then: str, failure: Failure) -> None:
    """B82, B94: what arrived is handed out, then the failure is told; the connection is gone."""

    async def main() -> None:
        head, _, rest = sent.partition(b"\r\n\r\n")
        async with serve(answering(head + b"\r\n\r\n", rest, gap=0.02)) as server:

            async def play(peer: Peer) -> None:
                await peer.request()
                await peer.send(head + b"\r\n\r\n", rest, gap=0.02)
                await asyncio.sleep(0.05)
                if then:
                    peer.close() if then == "close" else peer.reset()

            server.plays = (play,)
            pool = Pool(server.address, Options())
            answer = await ask(pool, stall=0.2 if failure is Failure.STALLED else 30.0)
            await until(lambda: answer.held > 0)
            assert answer.take() in {b"hi", b"hiab"}
            with pytest.raises(WireError) as caught:
                await whole(answer)
            assert (caught.value.failure, caught.value.sent, answer.ended) == (failure, True, False)
            await until(lambda: pool.open == 0)
            answer.release()
            await settled(pool, server)

    run(loop, main())


@pytest.mark.parametrize(
    ("play", "failure"),
    [
        (answering(then="close"), Failure.SILENT),
        (answering(then="reset"), Failure.RESET),
        (answering(b"HTTP/1.1 200 OK\r\nConte", then="close"), Failure.CUT),
        (answering(b"SSH-2.0\r\n"), Failure.MALFORMED),
        (answering(b"HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), Failure.MALFORMED),
        (answering(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70000 + b"\r\n\r\n"), Failure.TOO_BIG),
        (answering(b"HTTP/1.1 200 OK\r\n"), Failure.FIRST_BYTE_TIMEOUT),
        (answering(*[b"HTTP/1.1 102 Processing\r\n\r\n"] * 50, gap=0.1), Failure.FIRST_BYTE_TIMEOUT),
    ],
)
def test_a_head_that_never_comes(loop: str, play: Callable[[Peer], object], failure: Failure) -> None:
    """On a fresh connection there is no second try, and a drip of bytes does not stretch the first byte's time."""

    async def main() -> None:
        async with serve(play) as server:  # type: ignore[arg-type]
            pool = Pool(server.address, Options())
            watch = Watch()
            with pytest.raises(WireError) as caught:
                await ask(pool, first_byte=0.2 if failure is Failure.FIRST_BYTE_TIMEOUT else 30.0)
            assert watch.seconds < 4  # the drip goes on for five seconds
            assert (caught.value.failure, caught.value.sent) == (failure, True)
            assert server.accepted == 1
            await until(lambda: pool.open == 0)
            await settled(pool, server)

    run(loop, main())


@pytest.mark.parametrize("ending", ["stays", "close", "reset"])
def test_an_early_answer_to_a_half_sent_body_arrives(loop: str, ending: str) -> None:
    """B104: a 413 sent before the body was read is returned, and the connection closed on release."""

    async def main() -> None:
        async def play(peer: Peer) -> None:
            await peer.reader.readuntil(b"\r\n\r\n")
            await peer.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\n\r\nlong")
            if ending != "stays":
                peer.close() if ending == "close" else peer.reset()
            else:
                await asyncio.sleep(60)

        async with serve(play) as server:
            body = b"x" * 20_000_000
            head = request_head(b"POST", b"/", [(b"content-length", b"20000000")])
            pool = Pool(server.address, Options())
            answer = await pool.exchange(head, body, first_byte=30, stall=30)
            assert answer.status == 413
            assert await whole(answer) == b"long"
            answer.release()
            assert pool.idle == 0
            await until(lambda: pool.open == 0)
            pool.close()

    run(loop, main())


def test_release_wakes_a_reader_of_another_task(loop: str) -> None:
    async def main() -> None:
        async with serve(answering(CHUNKED)) as server:
            pool = Pool(server.address, Options())
            answer = await ask(pool)
            reader = asyncio.create_task(answer.read())
            await asyncio.sleep(0.01)
            answer.release()
            with pytest.raises(WireError) as caught:
                await reader
            assert caught.value.failure is Failure.CUT
            await settled(pool, server)

    run(loop, main())


def test_leaving_a_stream_closes_upstream_at_once(loop: str) -> None:
    """B97, B98: the engine sees the end of the connection, so that it can stop generating."""

    async def main() -> None:
        async with serve(answering(CHUNKED, b"2\r\nhi\r\n")) as server:
            pool = Pool(server.address, Options())
            answer = await ask(pool)
            assert await answer.read() == b"hi"
            reader = asyncio.create_task(answer.read())
            await asyncio.sleep(0.01)
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
            answer.release()
            await until(lambda: server.busy == 0)
            await settled(pool, server)

    run(loop, main())
