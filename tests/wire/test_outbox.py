"""What is written in one turn of the loop leaves together, in order, and not later than that."""

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


def test_written_together_at_the_end_of_the_turn(loop: str) -> None:
    """Nothing leaves while the requests of a turn are worked off; then all of it does, in the order in which it was put."""

    async def main() -> None:
        written: list[tuple[str, bytes]] = []
        one, two, box = Wire("one", written), Wire("two", written), Outbox()
        for wire, data in ((one, b"a"), (two, b"b"), (one, b"c")):
            box.put(wire, data)
        assert written == []
        await asyncio.sleep(0)
        assert written == [("one", b"a"), ("two", b"b"), ("one", b"c")]
        box.put(two, b"d")
        await asyncio.sleep(0)
        assert written[3:] == [("two", b"d")]

    run(loop, main())


def test_flushed_before_the_end(loop: str) -> None:
    """Whoever closes a transport writes what is due before; the end of the turn finds nothing more, and writes nothing twice."""

    async def main() -> None:
        written: list[tuple[str, bytes]] = []
        wire, box = Wire("one", written), Outbox()
        box.put(wire, b"a")
        box.flush()
        assert written == [("one", b"a")]
        box.put(wire, b"b")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert written == [("one", b"a"), ("one", b"b")]

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
        box.put(one, b"a")
        box.put(two, b"b")
        one.closed = True
        await asyncio.sleep(0)
        assert written == [("two", b"b")]

    run(loop, main())
