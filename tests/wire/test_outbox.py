"""What is written in one turn of the loop: the first at once, the others together, in order, and not later than its end."""

from __future__ import annotations

import asyncio

import pytest

from autohedge.wire.outbox import MOST, Outbox
from tests.wire.raw import both_loops, run

pytestmark = both_loops


class Wire(asyncio.WriteTransport):
    """A transport that keeps what is written to it, in the order of all of them."""

    def __init__(self, name: str, written: list[tuple[str, bytes]]) -> None:
        super().__init__()
        self.name = name
        self.written = written
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append((self.name, bytes(data)))

    def is_closing(self) -> bool:
        return self.closed


def test_the_first_at_once_and_the_others_at_the_end_of_the_turn(loop: str) -> None:
    """A lone request waits for nothing; those that a turn works off beside it leave together, in the order in which they were put."""

    async def main() -> None:
        written: list[tuple[str, bytes]] = []
        one, two, box = Wire("one", written), Wire("two", written), Outbox()
        for turn in range(2):
            for wire, data in ((one, b"a"), (two, b"b"), (one, b"c")):
                box.put(wire, data)
            assert written == [("one", b"a"), ("two", b"b"), ("one", b"c")] * turn + [("one", b"a")]
            await asyncio.sleep(0)
            assert written == [("one", b"a"), ("two", b"b"), ("one", b"c")] * (turn + 1)

    run(loop, main())


def test_flushed_before_the_end(loop: str) -> None:
    """Whoever closes a transport writes what is due before; the end of the turn finds nothing more, and writes nothing twice."""

    async def main() -> None:
        written: list[tuple[str, bytes]] = []
        wire, box = Wire("one", written), Outbox()
        box.put(wire, b"a")
        box.put(wire, b"b")
        box.flush()
        assert written == [("one", b"a"), ("one", b"b")]
        box.put(wire, b"c")
        box.put(wire, b"d")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert written == [("one", b"a"), ("one", b"b"), ("one", b"c"), ("one", b"d")]

    run(loop, main())


@pytest.mark.parametrize("size", [1 << 10, MOST + 1])
def test_bounded(loop: str, size: int) -> None:
    """An app that writes without ever waiting is heard by its transport: no more than `MOST` bytes are kept."""

    async def main() -> None:
        written: list[tuple[str, bytes]] = []
        wire, box, put = Wire("one", written), Outbox(), 0
        while put < 3 * MOST:
            box.put(wire, b"x" * size)
            put += size
            assert put - sum(len(data) for _, data in written) <= MOST

    run(loop, main())


def test_dropped_for_a_transport_that_closed(loop: str) -> None:
    """Who is gone hears nothing, and keeps nobody else from hearing it."""

    async def main() -> None:
        written: list[tuple[str, bytes]] = []
        one, two, box = Wire("one", written), Wire("two", written), Outbox()
        for wire, data in ((two, b"a"), (one, b"b"), (two, b"c")):
            box.put(wire, data)
        one.closed = True
        await asyncio.sleep(0)
        assert written == [("two", b"a"), ("two", b"c")]
        box.put(one, b"d")
        assert len(written) == 2

    run(loop, main())
