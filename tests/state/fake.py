"""A store in memory that can be taken away, for tests of what stands before it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from autohedge.state.contract import Put, StateLost
from autohedge.state.resilient import MARK
from tests.support.vtime import now


class Place:
    """What several fakes share: the keys, the watchers, and whether anybody can reach it (`lost` is the reason)."""

    def __init__(self) -> None:
        self.keys: dict[str, str] = {}
        self.ends: dict[str, float | None] = {}
        self.watchers: list[asyncio.Queue[str | None]] = []
        self.lost = ""
        self.refuses = ""  # the reason why writes alone fail
        self.writes: list[str] = []

    @property
    def facts(self) -> dict[str, str]:
        """All but the marks."""
        return {key: text for key, text in self.keys.items() if not key.startswith(MARK)}

    def lose(self, reason: str = "away") -> None:
        self.lost = reason
        for queue in self.watchers:
            queue.put_nowait(None)

    def empty(self) -> None:
        self.keys.clear()
        self.ends.clear()


class FakeStore:
    """One connection to a place. Each verb takes `delay` seconds."""

    def __init__(self, place: Place, delay: float = 0.001) -> None:
        self.place = place
        self.delay = delay
        self.tries: list[float] = []
        self.closed = False

    async def _reach(self, *, write: bool = False) -> None:
        await asyncio.sleep(self.delay)
        if self.place.lost:
            raise StateLost(self.place.lost)
        if write and self.place.refuses:
            raise StateLost(self.place.refuses)

    def _alive(self, key: str) -> str | None:
        end = self.place.ends.get(key)
        return None if end is not None and now() >= end else self.place.keys.get(key)

    async def get(self, key: str) -> str | None:
        await self._reach()
        return self._alive(key)

    async def put(self, key: str, value: str, ttl: float | None = None) -> None:
        await self._reach(write=True)
        if not key.startswith(MARK):
            self.place.writes.append(key)
        self.place.keys[key] = value
        self.place.ends[key] = None if ttl is None else now() + ttl

    async def put_all(self, facts: Sequence[Put]) -> None:
        for fact in facts:
            await self.put(*fact)

    async def delete(self, key: str) -> None:
        await self._reach(write=True)
        self.place.keys.pop(key, None)

    async def scan(self, prefix: str) -> dict[str, str]:
        await self._reach()
        held = {key: self._alive(key) for key in self.place.keys if key.startswith(prefix)}
        return {key: value for key, value in held.items() if value is not None}

    async def lease(self, key: str, holder: str, seconds: float) -> bool:
        await self._reach(write=True)
        if self._alive(key) not in {None, holder}:
            return False
        self.place.keys[key] = holder
        self.place.ends[key] = now() + seconds
        return True

    async def release(self, key: str, holder: str) -> None:
        await self._reach(write=True)
        if self._alive(key) == holder:
            del self.place.keys[key]

    async def publish(self, topic: str, message: str) -> None:
        await self._reach(write=True)
        for queue in self.place.watchers:
            queue.put_nowait(message)

    async def count(self, key: str, by: int, ttl: float | None = None) -> int:
        await self._reach(write=True)
        total = int(self._alive(key) or 0) + by
        self.place.keys[key] = str(total)
        return total

    @asynccontextmanager
    async def watch(self, topic: str) -> AsyncIterator[AsyncIterator[str]]:
        self.tries.append(now())
        await self._reach()
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        self.place.watchers.append(queue)
        try:
            yield self._messages(queue)
        finally:
            self.place.watchers.remove(queue)

    async def _messages(self, queue: asyncio.Queue[str | None]) -> AsyncIterator[str]:
        while True:
            message = await queue.get()
            if message is None:
                raise StateLost(self.place.lost or "cut off")
            yield message

    async def close(self) -> None:
        self.closed = True
