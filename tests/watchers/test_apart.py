"""Pools of connections, one for each place: who is asked, and when a pool ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from autohedge.watchers.apart import CLOSED, Apart
from tests.support.vtime import run

IDLE = 2.0


class Body(httpx.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"{}"


class Wire(httpx.AsyncBaseTransport):
    """A pool that keeps the paths that it was asked for."""

    def __init__(self, tls: bool) -> None:
        self.tls = tls
        self.asked: list[str] = []
        self.closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.path)
        if request.url.path == "/refused":
            raise httpx.ConnectError("refused")
        return httpx.Response(200, stream=Body())

    async def aclose(self) -> None:
        self.closed = True


class Street:
    """Places behind one client; `pools` in the order in which they were made."""

    def __init__(self) -> None:
        self.pools: list[Wire] = []
        self.client = httpx.AsyncClient(transport=Apart(self._make, IDLE))

    def _make(self, tls: bool) -> Wire:
        self.pools.append(Wire(tls))
        return self.pools[-1]

    @property
    def open(self) -> list[int]:
        return [number for number, pool in enumerate(self.pools) if not pool.closed]


def test_a_question_touches_the_connections_of_its_place_only() -> None:
    """httpcore's work for a question grows with the square of its pool: 200 engines in one took a sixth of a processor."""

    async def main() -> None:
        street = Street()
        for host in ("a:1", "b:1", "a:2", "a:1"):
            await street.client.get(f"http://{host}/{host}")
        await street.client.get("https://a:1/tls")
        assert [pool.asked for pool in street.pools] == [["/a:1", "/a:1"], ["/b:1"], ["/a:2"], ["/tls"]]
        assert [pool.tls for pool in street.pools] == [False, False, False, True]

    run(main())


def test_a_place_that_nobody_asks_any_more_loses_its_connections() -> None:
    """A few with each question, the longest unused first; so an engine that left keeps no socket here."""

    async def main() -> None:
        street = Street()
        for port in range(5):
            await street.client.get(f"http://gone:{port}/")
        await asyncio.sleep(IDLE / 2)
        await street.client.get("http://here:1/")
        assert street.open == [0, 1, 2, 3, 4, 5]
        await asyncio.sleep(IDLE)
        await street.client.get("http://here:1/")
        assert street.open == list(range(CLOSED, 6))
        for _ in range(2):
            await street.client.get("http://here:1/")
        assert street.open == [5]

    run(main())


def test_a_place_whose_answer_is_still_read_keeps_them() -> None:
    """However long it takes, and nobody waits behind it."""

    async def main() -> None:
        street = Street()
        async with street.client.stream("GET", "http://slow:1/"):
            await street.client.get("http://gone:1/")
            await asyncio.sleep(2 * IDLE)
            await street.client.get("http://here:1/")
            assert street.open == [0, 2]
        await street.client.get("http://here:1/")
        assert street.open == [0, 2]
        await asyncio.sleep(2 * IDLE)
        await street.client.get("http://here:1/")
        assert street.open == [2]

    run(main())


def test_a_place_that_refuses_is_not_in_use() -> None:
    async def main() -> None:
        street = Street()
        with pytest.raises(httpx.ConnectError):
            await street.client.get("http://gone:1/refused")
        await asyncio.sleep(2 * IDLE)
        await street.client.get("http://here:1/")
        assert street.open == [1]

    run(main())


def test_all_end_with_the_client() -> None:
    async def main() -> None:
        street = Street()
        for port in range(5):
            await street.client.get(f"http://here:{port}/")
        await street.client.aclose()
        assert street.open == []

    run(main())
