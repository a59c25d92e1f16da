"""Connections to engines, a pool of its own for each place: what one engine is asked costs the same however many there are.

Rules
- httpcore looks at every connection of a pool for each idle one in it, whenever a request comes or goes. With two hundred
  engines in one pool that is a sixth of a processor, with two thousand it is all of one; apart, nobody looks at the others.
- A place that nobody asked for `idle` seconds loses its pool and with it its connections. Those stand first in the order of
  use, and every request ends at most `CLOSED` of them: more go than come, and nobody waits for many.

It must not know: questions, engines.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import httpx

CLOSED = 2  # pools that one request may end

Place = tuple[str, str, int | None]


@dataclass(slots=True, eq=False)
class Pool:
    """The connections to one place. `busy`: answers that are not read yet; `since`: when it was used last."""

    transport: httpx.AsyncBaseTransport
    busy: int = 0
    since: float = 0.0

    def left(self) -> None:
        self.busy -= 1
        self.since = asyncio.get_running_loop().time()


class Apart(httpx.AsyncBaseTransport):
    """`make` gives an empty pool, for TLS or without."""

    def __init__(self, make: Callable[[bool], httpx.AsyncBaseTransport], idle: float) -> None:
        self._make = make
        self._idle = idle
        self._pools: dict[Place, Pool] = {}  # the one that was used longest ago first

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        place = url.scheme, url.host, url.port
        pool = self._pools.pop(place, None) or Pool(self._make(url.scheme == "https"))
        self._pools[place] = pool
        pool.busy += 1
        try:
            await self._close_some()
            response = await pool.transport.handle_async_request(request)
        except BaseException:
            pool.left()
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = Counted(response.stream, pool)
        return response

    async def aclose(self) -> None:
        while self._pools:
            await self._pools.popitem()[1].transport.aclose()

    async def _close_some(self) -> None:
        """End those that nobody uses any more, a few at a time."""
        before = asyncio.get_running_loop().time() - self._idle
        for _ in range(CLOSED):
            place, pool = next(iter(self._pools.items()))
            if pool.busy:
                self._pools[place] = self._pools.pop(place)  # in use for long: nobody waits behind it
            elif pool.since < before:
                del self._pools[place]
                await pool.transport.aclose()


class Counted(httpx.AsyncByteStream):
    """The body of an answer, until it is closed."""

    def __init__(self, body: httpx.AsyncByteStream, pool: Pool) -> None:
        self._body = body
        self._pool: Pool | None = pool

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._body:
            yield piece

    async def aclose(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.left()
        await self._body.aclose()
