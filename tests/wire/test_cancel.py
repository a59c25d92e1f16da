"""A36: whoever is cancelled at any moment, once or twice, leaves no socket and no place in the pool."""

from __future__ import annotations

import asyncio

import pytest

from autohedge.core.types import Address
from autohedge.wire.connection import Options
from autohedge.wire.pool import Pool
from tests.wire.raw import (
    BODY,
    CHUNKED,
    HEAD,
    OK,
    Contexts,
    Peer,
    Server,
    both_loops,
    open_sockets,
    run,
    serve,
    tls_contexts,
    until,
)

pytestmark = both_loops

_GAPS = (None, 0, 1, 2, 3)  # ticks between the first and the second cancel; None: only one


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    return tls_contexts(tmp_path_factory.mktemp("tls"))


async def _play(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.send(CHUNKED)
        await peer.send(b"2\r\nhi\r\n", b"0\r\n\r\n")


async def _caller(pool: Pool, stages: list[str]) -> None:
    answer = await pool.exchange(HEAD, BODY, first_byte=5.0, stall=5.0)
    stages.append("head")
    try:
        while await answer.read():
            stages.append("body")
        stages.append("end")
    finally:
        answer.release()


async def _cancelled_at(pool: Pool, ticks: int, gap: int | None) -> str:
    """Run one exchange, cancel it after so many ticks of the loop; the last stage that it reached."""
    stages = ["start"]
    task = asyncio.create_task(_caller(pool, stages))
    for _ in range(ticks):
        await asyncio.sleep(0)
    task.cancel()
    if gap is not None:
        for _ in range(gap):
            await asyncio.sleep(0)
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled() or task.exception() is None
    return stages[-1]


async def _storm(server: Server, address: Address, options: Options, *, warm: bool, ticks: int) -> None:
    before = open_sockets()
    reached: set[str] = set()
    pool = Pool(address, options)
    for tick in range(ticks):
        for gap in _GAPS:
            if not warm:
                pool.close()
                pool = Pool(address, options)
            elif not pool.idle:
                await _caller(pool, [])
            reached.add(await _cancelled_at(pool, tick, gap))
            await until(lambda pool=pool: pool.open == pool.idle)  # type: ignore[misc]
            assert pool.idle <= 1
    assert reached >= {"start", "end"}
    stages: list[str] = []
    await _caller(pool, stages)
    assert stages[-1] == "end"
    pool.close()
    await until(lambda: server.busy == 0 and open_sockets() <= before)


@pytest.mark.parametrize("warm", [True, False], ids=["reused", "fresh"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_cancel_at_every_tick_leaves_nothing(loop: str, host: str, warm: bool) -> None:
    async def main() -> None:
        async with serve(_play) as server:
            await _storm(server, Address(host, server.address.port), Options(), warm=warm, ticks=60)

    run(loop, main())


def test_a_cancel_at_every_tick_of_a_handshake_leaves_nothing(loop: str, contexts: Contexts) -> None:
    async def main() -> None:
        async with serve(_play, tls=contexts[0]) as server:
            await _storm(server, server.address, Options(ssl=contexts[1]), warm=False, ticks=60)

    run(loop, main())


def test_a_cancel_during_the_replay_leaves_nothing(loop: str) -> None:
    async def main() -> None:
        async def once_then_close(peer: Peer) -> None:
            await peer.request()
            await peer.send(OK)
            await peer.request()
            peer.close()

        async with serve(once_then_close) as server:
            await _storm(server, server.address, Options(), warm=True, ticks=40)

    run(loop, main())


def test_many_races_share_one_pool(loop: str) -> None:
    """500 exchanges, 32 at a time, each cancelled at another tick: numbers return to the start and the next is served."""

    async def main() -> None:
        async with serve(_play) as server:
            before = open_sockets()
            pool = Pool(server.address, Options())
            numbers = iter(range(500))

            async def worker() -> None:
                for number in numbers:
                    await _cancelled_at(pool, number % 37, _GAPS[number % len(_GAPS)])

            await asyncio.gather(*[worker() for _ in range(32)])
            await until(lambda: pool.open == pool.idle)
            await _caller(pool, [])
            pool.close()
            await until(lambda: server.busy == 0 and open_sockets() <= before)

    run(loop, main())
