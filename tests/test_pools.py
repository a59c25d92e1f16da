"""One pool per replica, for as long as it is there."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from autohedge.core.types import Address, BackendSpec, Candidate, Failure, Kind, Limits, Replica, Seat
from autohedge.pools import Pools
from autohedge.wire.errors import WireError
from autohedge.wire.outbox import Outbox


def candidate(port: int) -> Candidate:
    replica = Replica(f"b@127.0.0.1:{port}", "b", Address("127.0.0.1", port), Seat())
    return Candidate(replica, BackendSpec("b"), Kind.VLLM, "m", Limits())


def test_a_replica_keeps_its_pool() -> None:
    pools = Pools(2.0, 6.0)
    assert pools.of(candidate(1)) is pools.of(candidate(1))
    assert pools.of(candidate(1)) is not pools.of(candidate(2))


def test_all_pools_write_by_one_outbox() -> None:
    """Requests of one turn of the loop leave together, whichever replica they go to (docs/adr/0009)."""
    box = Outbox()
    pools = Pools(2.0, 6.0, outbox=box)
    assert all(pools.of(candidate(port))._options.outbox is box for port in (1, 2))


def test_the_pool_of_a_vanished_replica_is_closed() -> None:
    """A replica that comes back at the same address starts afresh."""
    pools = Pools(2.0, 6.0)
    old = pools.of(candidate(1))
    kept = pools.of(candidate(2))
    pools.keep_only({"b@127.0.0.1:2": None})
    assert pools.of(candidate(1)) is not old
    assert pools.of(candidate(2)) is kept


def test_only_a_guarded_place_is_asked_about() -> None:
    """Its URL came over HTTP: the address that its name led to is looked at (the workers API)."""
    asked: list[str] = []

    def guard(address: str) -> bool:
        asked.append(address)
        return False

    async def main() -> None:
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        pools = Pools(2.0, 6.0, guard)
        plain, guarded = candidate(port), candidate(port)
        place = Address("localhost", port, guarded=True)
        guarded = replace(guarded, replica=replace(guarded.replica, id="g", address=place))
        for one in (plain, guarded):
            with pytest.raises(WireError) as raised:
                await pools.of(one).exchange(b"GET / HTTP/1.1\r\n\r\n", b"", first_byte=2.0, stall=1.0)
            assert (raised.value.failure is Failure.UNREACHABLE) is (one is guarded)
        assert pools.of(guarded).open == 0
        server.close()
        await server.wait_closed()

    asyncio.run(main())
    assert asked == ["127.0.0.1"]
