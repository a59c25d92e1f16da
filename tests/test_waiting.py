"""The waiting room: bounded, fair, and empty again after everyone left."""

from __future__ import annotations

import asyncio

import pytest

from autohedge.core.types import Address, Replica, Seat
from autohedge.waiting import WaitingRoom
from tests.support.vtime import run

ONE = Replica("b@h:1", "b", Address("h", 1), Seat(1))
TWO = Replica("b@h:2", "b", Address("h", 2), Seat(1))


def test_a_freed_seat_wakes_the_first_who_can_use_it() -> None:
    """First come, first served; a waiter for another replica is passed over."""

    async def main() -> None:
        room = WaitingRoom(5)
        woken: list[str] = []

        async def wait(name: str, replica: Replica) -> None:
            assert await room.wait([replica], 60)
            woken.append(name)

        async with asyncio.TaskGroup() as group:
            for name, replica in (("for two", TWO), ("first", ONE), ("second", ONE)):
                group.create_task(wait(name, replica))
                await asyncio.sleep(0)
            room.freed(ONE)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert woken == ["first"]
            room.freed(ONE)
            room.freed(TWO)
        assert woken in (["first", "second", "for two"], ["first", "for two", "second"])
        assert len(room) == 0

    run(main())


def test_a_full_room_refuses_at_once() -> None:
    """The size is a bound, not a wish (B29: an engine whose queue has no bound gets one here)."""

    async def main() -> None:
        room = WaitingRoom(1)
        waiting = asyncio.get_running_loop().create_task(room.wait([ONE], 10))
        await asyncio.sleep(0)
        assert not await room.wait([ONE], 10)
        assert not await waiting  # patience ran out

    run(main())


@pytest.mark.parametrize("patience", [0, -1])
def test_no_patience_is_no_wait(patience: float) -> None:
    async def main() -> None:
        room = WaitingRoom(5)
        assert not await room.wait([ONE], patience)
        assert len(room) == 0

    run(main())


def test_a_waiter_who_leaves_frees_its_place() -> None:
    """A client that leaves while it waits is not woken later in another's place."""

    async def main() -> None:
        room = WaitingRoom(5)
        loop = asyncio.get_running_loop()
        leaver = loop.create_task(room.wait([ONE], 60))
        stayer = loop.create_task(room.wait([ONE], 60))
        await asyncio.sleep(0)
        leaver.cancel()
        await asyncio.sleep(0)
        assert len(room) == 1
        room.freed(ONE)
        assert await stayer
        assert leaver.cancelled()

    run(main())


@pytest.mark.parametrize("leaves", [False, True], ids=["runs", "leaves"])
def test_a_newcomer_never_comes_between_a_freed_seat_and_its_waiter(leaves: bool) -> None:
    """Found under load: request 5 took the seat that request 1 had been woken for, and 1 went to the end of the queue."""
    replica = Replica("b@h:3", "b", Address("h", 3), Seat(1))
    seat = replica.seat

    async def main() -> None:
        room = WaitingRoom(5)

        async def wait() -> None:
            assert await room.wait([replica], 60)
            assert seat.free
            seat.in_flight += 1

        seat.in_flight = 1
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        seat.in_flight -= 1
        room.freed(replica)
        assert not seat.free  # what a newcomer sees
        if leaves:
            waiting.cancel()
        await asyncio.wait([waiting])
        assert (seat.in_flight, seat.promised) == (0 if leaves else 1, 0)
        assert seat.free == leaves

    run(main())
