"""One pool per replica, for as long as it is there."""

from __future__ import annotations

from autohedge.core.types import Address, BackendSpec, Candidate, Kind, Limits, Replica, Seat
from autohedge.pools import Pools, trusted


def candidate(port: int, *, tls: bool = False) -> Candidate:
    replica = Replica(f"b@127.0.0.1:{port}", "b", Address("127.0.0.1", port, tls=tls), Seat())
    return Candidate(replica, BackendSpec("b"), Kind.VLLM, "m", Limits())


def test_a_replica_keeps_its_pool() -> None:
    pools = Pools(2.0)
    assert pools.of(candidate(1)) is pools.of(candidate(1))
    assert pools.of(candidate(1)) is not pools.of(candidate(2))


def test_the_pool_of_a_vanished_replica_is_closed() -> None:
    """A replica that comes back at the same address starts afresh."""
    pools = Pools(2.0)
    old = pools.of(candidate(1))
    kept = pools.of(candidate(2))
    pools.keep_only({"b@127.0.0.1:2": None})
    assert pools.of(candidate(1)) is not old
    assert pools.of(candidate(2)) is kept


def test_certificates_are_read_once() -> None:
    assert trusted() is trusted()
    pools = Pools(2.0)
    assert pools.of(candidate(3, tls=True)) is pools.of(candidate(3, tls=True))
