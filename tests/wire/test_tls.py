"""The same exchange over TLS, and the ways in which a handshake fails."""

from __future__ import annotations

import asyncio

import pytest

from autohedge.core.types import Address, Failure
from autohedge.wire.connection import Options
from autohedge.wire.errors import WireError
from autohedge.wire.pool import Pool
from tests.wire.raw import (
    BODY,
    CHUNKED,
    HEAD,
    OK,
    Contexts,
    Peer,
    answering,
    both_loops,
    run,
    serve,
    tls_contexts,
    until,
)

pytestmark = both_loops


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    return tls_contexts(tmp_path_factory.mktemp("tls"))


async def once(pool: Pool) -> bytes:
    answer = await pool.exchange(HEAD, BODY, first_byte=5.0, stall=5.0)
    body = b""
    while piece := await answer.read():
        body += piece
    answer.release()
    return body


@pytest.mark.parametrize("message", [OK, CHUNKED + b"2\r\nhi\r\n0\r\n\r\n"], ids=["length", "chunked"])
def test_an_exchange_and_its_connection_reused(loop: str, contexts: Contexts, message: bytes) -> None:
    async def main() -> None:
        async with serve(answering(message), tls=contexts[0]) as server:
            pool = Pool(server.address, Options(ssl=contexts[1]))
            assert await once(pool) == b"hi"
            assert await once(pool) == b"hi"
            assert (server.accepted, pool.open, pool.idle) == (1, 1, 1)
            pool.close()
            await until(lambda: pool.open == 0 and server.busy == 0)

    run(loop, main())


def test_a_large_body_both_ways(loop: str, contexts: Contexts) -> None:
    size = 5_000_000

    async def main() -> None:
        async def play(peer: Peer) -> None:
            request = await peer.request()
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size, request[-size:])

        async with serve(play, tls=contexts[0]) as server:
            pool = Pool(server.address, Options(ssl=contexts[1], high_water=50_000))
            head = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % size
            answer = await pool.exchange(head, b"x" * size, first_byte=30, stall=30)
            total = 0
            while piece := await answer.read():
                total += len(piece)
            assert total == size
            answer.release()
            pool.close()

    run(loop, main())


def test_an_early_answer_to_a_half_sent_body(loop: str, contexts: Contexts) -> None:
    async def main() -> None:
        async def play(peer: Peer) -> None:
            await peer.reader.readuntil(b"\r\n\r\n")
            await peer.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nhi")
            await asyncio.sleep(60)

        async with serve(play, tls=contexts[0]) as server:
            pool = Pool(server.address, Options(ssl=contexts[1]))
            head = b"POST / HTTP/1.1\r\nContent-Length: 20000000\r\n\r\n"
            answer = await pool.exchange(head, b"x" * 20_000_000, first_byte=30, stall=30)
            assert (answer.status, await answer.read(), await answer.read()) == (413, b"hi", b"")
            answer.release()
            assert pool.idle == 0
            await until(lambda: pool.open == 0)

    run(loop, main())


def test_a_body_without_a_length_ends_with_the_connection(loop: str, contexts: Contexts) -> None:
    async def main() -> None:
        async with serve(answering(b"HTTP/1.0 200 OK\r\n\r\nhi", then="close"), tls=contexts[0]) as server:
            pool = Pool(server.address, Options(ssl=contexts[1]))
            assert await once(pool) == b"hi"
            await until(lambda: pool.open == 0)

    run(loop, main())


def test_a_reused_connection_that_closes_is_replayed(loop: str, contexts: Contexts) -> None:
    """B91 over TLS."""

    async def main() -> None:
        async def second_closes(peer: Peer) -> None:
            await peer.request()
            await peer.send(OK)
            await peer.request()
            peer.close()

        async with serve(second_closes, answering(OK), tls=contexts[0]) as server:
            pool = Pool(server.address, Options(ssl=contexts[1]))
            assert await once(pool) == b"hi"
            assert await once(pool) == b"hi"
            assert server.accepted == 2
            pool.close()

    run(loop, main())


async def failure(pool: Pool) -> tuple[Failure, bool]:
    with pytest.raises(WireError) as caught:
        await pool.exchange(HEAD, BODY, first_byte=5.0, stall=5.0)
    assert pool.open == pool.idle == 0
    return caught.value.failure, caught.value.sent


def test_a_certificate_that_is_not_trusted(loop: str, contexts: Contexts) -> None:
    async def main() -> None:
        async with serve(answering(OK), tls=contexts[0]) as server:
            assert await failure(Pool(server.address, Options())) == (Failure.TLS, False)

    run(loop, main())


def test_a_certificate_for_another_name(loop: str, contexts: Contexts) -> None:
    async def main() -> None:
        async with serve(answering(OK), tls=contexts[0]) as server:
            pool = Pool(Address("127.0.0.1", server.address.port, tls=True), Options(ssl=contexts[1]))
            assert await failure(pool) == (Failure.TLS, False)

    run(loop, main())


@pytest.mark.parametrize("then", ["close", "reset", "speak"])
def test_a_peer_that_speaks_no_tls(loop: str, contexts: Contexts, then: str) -> None:
    async def main() -> None:
        async def play(peer: Peer) -> None:
            await peer.reader.read(1)
            if then == "speak":
                await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            peer.reset() if then == "reset" else peer.close()

        async with serve(play) as server:
            pool = Pool(Address("localhost", server.address.port, tls=True), Options(ssl=contexts[1]))
            assert await failure(pool) == (Failure.TLS, False)

    run(loop, main())


def test_a_handshake_that_hangs_is_part_of_the_connect_time(loop: str, contexts: Contexts) -> None:
    async def main() -> None:
        async def play(peer: Peer) -> None:
            await peer.gone()

        async with serve(play) as server:
            pool = Pool(Address("127.0.0.1", server.address.port, tls=True), Options(ssl=contexts[1], connect=0.2))
            assert await failure(pool) == (Failure.CONNECT_TIMEOUT, False)
            await until(lambda: server.busy == 0)

    run(loop, main())
