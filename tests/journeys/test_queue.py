"""Journeys through the queue: a cap of requests in flight, a bounded wait, and who is woken."""

from __future__ import annotations

import asyncio

import pytest

from autohedge.core.types import Address, Replica, Seat
from autohedge.waiting import WaitingRoom
from tests.support.canned import held
from tests.support.house import CHAT, HELLO, SERVER, alone, eventually, house, pair, run
from tests.support.vtime import run as virtually

CAPPED = SERVER + 'upstream_registry:\n  alone: {host: "${ONE}", concurrency: 1}\n'


def test_a_freed_seat_is_taken_by_who_waits() -> None:
    """The cap holds at every moment, and everybody is served in the order of coming."""

    async def main() -> None:
        async with alone(config=CAPPED, latency=0.1) as edge:
            order: list[int] = []

            async def one(number: int) -> None:
                assert (await edge.chat()).status == 200
                order.append(number)

            tasks = []
            for number in range(6):
                tasks.append(asyncio.create_task(one(number)))
                await eventually(lambda: edge.house.meters.in_flight + len(order) > number)  # noqa: B023 - awaited here
                assert edge.one.state.running <= 1
            await asyncio.gather(*tasks)
            assert order == [0, 1, 2, 3, 4, 5]
            assert edge.busy == 0

    run(main())


def test_a_full_queue_is_a_503() -> None:
    """queue_full, at once, with Retry-After; an SDK may try again."""

    async def main() -> None:
        worker = held()
        async with house(CAPPED + "queue: {size: 2, wait: 60s}\n", one=worker.engine) as edge:
            waiting = [asyncio.create_task(edge.chat()) for _ in range(3)]
            await eventually(lambda: len(edge.house.room) == 2)
            for one in await asyncio.gather(edge.chat(), edge.chat()):
                assert (one.status, one.error["code"]) == (503, "queue_full")
                assert one.headers["retry-after"] == "1"
                assert "x-should-retry" not in one.headers
                assert one.took < 1
            worker.free.set()
            assert [one.status for one in await asyncio.gather(*waiting)] == [200, 200, 200]

    run(main())


def test_a_wait_is_bounded() -> None:
    """Whoever waited `queue.wait` without a seat is told so."""

    async def main() -> None:
        worker = held()
        async with house(CAPPED + "queue: {wait: 200ms}\n", one=worker.engine) as edge:
            first = asyncio.create_task(edge.chat())
            await eventually(lambda: edge.busy == 1)
            heard = await edge.chat()
            assert (heard.status, heard.error["code"]) == (503, "queue_full")
            assert heard.last > 0.15
            assert heard.took < 1
            worker.free.set()
            assert (await first).status == 200

    run(main())


def test_no_queue_at_all() -> None:
    """`queue.size: 0` refuses what has no seat."""

    async def main() -> None:
        worker = held()
        async with house(CAPPED + "queue: {size: 0}\n", one=worker.engine) as edge:
            first = asyncio.create_task(edge.chat())
            await eventually(lambda: edge.busy == 1)
            assert [one.status for one in await asyncio.gather(edge.chat(), edge.chat())] == [503, 503]
            worker.free.set()
            assert (await first).status == 200

    run(main())


def test_a_client_that_leaves_the_queue_takes_no_seat() -> None:
    """Its place is free, the engine never hears of it, and the next one is served."""

    async def main() -> None:
        worker = held()
        async with house(CAPPED, one=worker.engine) as edge:
            first = asyncio.create_task(edge.chat())
            await eventually(lambda: edge.busy == 1)
            second = asyncio.create_task(edge.chat())
            await eventually(lambda: len(edge.house.room) == 1)
            second.cancel()
            await eventually(lambda: len(edge.house.room) == 0)
            worker.free.set()
            assert (await first).status == 200
            assert (await edge.chat()).status == 200
            assert edge.work["one"] == 2

    run(main())


@pytest.mark.parametrize("how", ["answer", "error", "cut", "leave"])
def test_every_end_frees_the_seat(how: str) -> None:
    """Whatever ends an answer, the seat is given back and the one who waits gets it."""
    fault = {"answer": "B17=0.1", "error": "status=400:times=1", "cut": "B82:times=1", "leave": "hang:times=1"}[how]

    async def main() -> None:
        async with alone(fault, config=CAPPED) as edge:
            body = HELLO | {"stream": how == "cut"}
            first = asyncio.create_task(edge.client.post(edge.url + CHAT, json=body))
            await eventually(lambda: edge.work["one"] == 1)
            second = asyncio.create_task(edge.chat())
            if how == "leave":
                await eventually(lambda: len(edge.house.room) == 1)
                first.cancel()
            await asyncio.wait([first])
            assert (await second).status == 200
            assert edge.busy == 0

    run(main())


def test_a_wake_up_is_never_lost() -> None:
    """The one who is woken leaves in that very moment: the next one is woken in its place."""
    replica = Replica("b@h:1", "b", Address("h", 1), Seat(1))

    async def main() -> None:
        room = WaitingRoom(5)
        first = asyncio.create_task(room.wait([replica], 60))
        second = asyncio.create_task(room.wait([replica], 60))
        await asyncio.sleep(0)
        room.freed(replica)
        first.cancel()
        await asyncio.wait([first])
        async with asyncio.timeout(10):
            assert await second
        assert first.cancelled()

    virtually(main())


def test_the_queue_is_counted() -> None:
    """/metrics shows who waits and who is served now."""

    async def main() -> None:
        worker = held()
        async with house(CAPPED, one=worker.engine) as edge:
            tasks = [asyncio.create_task(edge.chat()) for _ in range(3)]
            await eventually(lambda: len(edge.house.room) == 2)
            text = (await edge.get("/metrics")).text
            assert "autohedge_in_flight 3.0" in text
            assert "autohedge_queued 2.0" in text
            worker.free.set()
            await asyncio.gather(*tasks)
            text = (await edge.get("/metrics")).text
            assert "autohedge_in_flight 0.0" in text
            assert "autohedge_queued 0.0" in text

    run(main())


def test_a_failover_waits_for_a_seat_too() -> None:
    """The first choice fails and the only other replica is at its cap: the request should wait for it, not fail."""
    config = SERVER + "upstream_registry:\n"
    config += '  second: {host: "${ONE}", concurrency: 1, priority: 2}\n  first: {host: "${TWO}", concurrency: 1, priority: 1}\n'

    async def main() -> None:
        async with pair("status=500", config=config) as edge:
            edge.two.set_faults("B17=0.2")
            running = asyncio.create_task(edge.chat())
            await eventually(lambda: edge.work["two"] == 1)
            heard = await edge.chat()
            assert (await running).status == 200
            assert (heard.status, heard.backend) == (200, "first")

    run(main())
