"""The contract of a store: what outlives a restart and is shared by workers and replicas.

Rules of every store
- Keys and values are text without lone surrogates; what the value means is the caller's business.
- Keys, leases and counters share one space of names: `get` of a lease is its holder, `get` of a counter its decimal number.
- Times to live are seconds. None is for ever; 0 or less is already over, so the key is gone.
- Every verb answers within about 3 s, or raises `StateLost`. After `StateLost` of a write nobody knows whether it happened.
- Nothing is retried here: who asks decides (`resilient.py`), because only there is the picture that goes on without a store.

It must not know: Redis, SQLite, or what is kept.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

Put = tuple[str, str, float | None]  # key, value, seconds to live


class StateLost(Exception):  # noqa: N818 - the word that people read
    """The store did not do what was asked. `reason` may be shown to anybody: no address, no credential, no key."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Store(Protocol):
    """Each verb raises `StateLost` when the store cannot be reached, does not answer in time or refuses."""

    async def get(self, key: str) -> str | None:
        """The value under `key`; None when there is none, or its time is over."""

    async def put(self, key: str, value: str, ttl: float | None = None) -> None:
        """Set `key`, whatever it held; an earlier time to live is replaced."""

    async def put_all(self, facts: Sequence[Put]) -> None:
        """The same for many, in one question: who writes a hundred waits once. Where it fails, some may have been written."""

    async def delete(self, key: str) -> None:
        """Remove `key`; nothing happens when there is none."""

    async def scan(self, prefix: str) -> dict[str, str]:
        """All keys that begin with `prefix` and their values. What changes meanwhile may be missing or not."""

    async def lease(self, key: str, holder: str, seconds: float) -> bool:
        """Take the lease for `seconds`, or extend it where `holder` has it. False: somebody else has it."""

    async def release(self, key: str, holder: str) -> None:
        """Give the lease back; nothing happens where another holder has it."""

    async def publish(self, topic: str, message: str) -> None:
        """Tell `message` to all who watch `topic` now, the sender included. Nobody else will ever hear it."""

    def watch(self, topic: str) -> AbstractAsyncContextManager[AsyncIterator[str]]:
        """Messages of `topic` from the moment of entering, each within 1 s, in the order of their sender.

        The iterator never ends: it raises `StateLost` as soon as a message may have been missed. Watch again, then read
        what the messages were about.
        """

    async def count(self, key: str, by: int, ttl: float | None = None) -> int:
        """Add `by` to a counter and return its total; the time to live starts with the first count.

        Raises ValueError when the key holds something that is no number.
        """

    async def close(self) -> None:
        """Give everything back to the system. Never raises; every later verb is `StateLost`."""
