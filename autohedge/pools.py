"""The connections to every replica: a pool is made when a replica is first used and closed when it vanished.

It must not know: who is tried when.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autohedge.core.types import Candidate
from autohedge.providers import DIALECTS
from autohedge.wire.connection import Options
from autohedge.wire.outbox import Outbox
from autohedge.wire.pool import Pool


class Pools:
    """`connect` is seconds until a connection stands, `acknowledge` how long its machine may then be unheard of. An idle one is
    kept as long as its kind of engine keeps it, less 2 s. `guard` says whether the address that a guarded place has led to may be used.
    All share one `outbox`.
    """

    def __init__(
        self,
        connect: float,
        acknowledge: float,
        guard: Callable[[str], bool] = lambda _address: True,
        outbox: Outbox | None = None,
    ) -> None:
        self._connect = connect
        self._acknowledge = acknowledge
        self._guard = guard
        self._outbox = outbox or Outbox()
        self._pools: dict[str, Pool] = {}

    def of(self, candidate: Candidate) -> Pool:
        replica = candidate.replica
        pool = self._pools.get(replica.id)
        if pool is None:
            options = Options(
                connect=self._connect,
                acknowledge=self._acknowledge,
                keep_alive=DIALECTS[candidate.kind].keep_alive,
                guard=self._guard if replica.address.guarded else None,
                outbox=self._outbox,
            )
            pool = self._pools[replica.id] = Pool(replica.address, options)
        return pool

    def keep_only(self, replicas: Mapping[str, object]) -> None:
        for name in [name for name in self._pools if name not in replicas]:
            self._pools.pop(name).close()
