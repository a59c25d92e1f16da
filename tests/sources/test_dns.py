"""Backends behind names: threads and a resolver that is played, and once the real one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from autohedge.core.types import Blind, Seen, Sweep
from autohedge.rules.resolving import Answer
from autohedge.sources.contract import Source
from autohedge.sources.dns import RETRY, Asking, DnsSource, resolved
from tests.support.house import eventually
from tests.support.vtime import now
from tests.support.vtime import run as run_virtually
from tests.support.world import backend

A, B = "10.0.0.1", "10.0.0.2"


@pytest.fixture
def source() -> Iterator[Callable[..., DnsSource]]:
    made: list[DnsSource] = []

    def make(*answers: Answer, places: tuple[str, ...] = ("gpu:8081",), confirm: int = 2) -> DnsSource:
        """A source that is told `answers` one after the other, the last one again and again."""
        left = list(answers)
        asking = Asking(confirm=confirm, resolve=lambda _name: left.pop(0) if len(left) > 1 else left[0])
        made.append(DnsSource(backend("gpu", *places), asking))
        return made[-1]

    yield make
    for one in made:
        one.close()


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


def places(sweep: Sweep) -> list[str]:
    assert isinstance(sweep, Seen)
    return [f"{address.host}:{address.port}" for address in sweep.backends[0].addresses]


def test_every_address_of_a_name_is_a_replica(source: Callable[..., DnsSource]) -> None:
    """R3, R52: each address gets the port of the name."""

    async def main() -> None:
        it: Source = source(Answer((B, A)))
        assert it.name == "dns:gpu"
        sweep = await it.look()
        assert places(sweep) == [f"{A}:8081", f"{B}:8081"]
        assert isinstance(sweep, Seen)
        assert sweep.backends[0].origins == ("dns:gpu",)

    run(main)


def test_an_address_goes_when_it_was_missing_often_enough(source: Callable[..., DnsSource]) -> None:
    """R13."""

    async def main() -> None:
        it = source(Answer((A, B)), Answer((A,)))
        assert [places(await it.look()) for _ in range(3)] == [[f"{A}:8081", f"{B}:8081"]] * 2 + [[f"{A}:8081"]]

    run(main)


def test_no_such_name_leaves_the_backend_known_and_without_replicas(source: Callable[..., DnsSource]) -> None:
    """R7: a pool at zero; its model stays known, and a note says why it cannot answer."""

    async def main() -> None:
        it = source(Answer((A,)), Answer())
        assert places(await it.look()) == places(await it.look()) == [f"{A}:8081"]
        sweep = await it.look()
        assert places(sweep) == []
        assert isinstance(sweep, Seen)
        assert sweep.notes == ("gpu has no addresses",)

    run(main)


def test_trouble_of_the_resolver_is_blind_and_counts_for_nothing(source: Callable[..., DnsSource]) -> None:
    """R42 and facts, resilience 1.4: an outage of DNS removes nobody, however long it is."""

    async def main() -> None:
        trouble = Answer(trouble="temporary failure in name resolution")
        it = source(Answer((A,)), trouble, trouble, trouble, Answer(), Answer((A,)))
        assert places(await it.look()) == [f"{A}:8081"]
        assert [await it.look() for _ in range(3)] == [Blind(f"gpu: {trouble.trouble}")] * 3
        assert places(await it.look()) == [f"{A}:8081"]  # missing once, not four times

    run(main)


def test_a_literal_address_is_not_asked_for(source: Callable[..., DnsSource]) -> None:
    async def main() -> None:
        it = source(Answer(trouble="never asked"), places=("10.9.9.9:1",))
        assert places(await it.look()) == ["10.9.9.9:1"]

    run(main)


def test_a_resolver_that_hangs_is_left_alone_until_it_comes_back() -> None:
    """Facts, swarm 2: a name that goes to an unreachable resolver holds the thread for 10 s; one thread, not one per look."""
    free, asked = threading.Event(), []

    def hang(name: str) -> Answer:
        asked.append(name)
        free.wait()
        return Answer((A,))

    async def main() -> None:
        it = DnsSource(backend("gpu", "gpu:8081"), Asking(patience=0.05, resolve=hang))
        assert await it.look() == Blind("gpu: the resolver did not answer within 0.05 s")
        assert await it.look() == Blind("gpu: the resolver has not answered for 0.05 s and more")
        assert asked == ["gpu"]
        free.set()
        await eventually(lambda: it._question is not None and it._question.done())
        assert places(await it.look()) == [f"{A}:8081"]
        it.close()

    run(main)


def test_a_missing_address_is_looked_for_again_soon(source: Callable[..., DnsSource]) -> None:
    """R11: 30 s while all is well; a doubt is settled in seconds."""
    it = source(Answer((A,)), Answer())

    async def look_twice() -> None:
        await it.look()
        await it.look()

    run(look_twice)

    async def doubtful() -> None:
        started = now()
        await it.hint()
        assert now() - started == RETRY

    run_virtually(doubtful())


def test_what_is_certain_gives_no_hint(source: Callable[..., DnsSource]) -> None:
    it = source(Answer((A,)))

    async def look() -> None:
        await it.look()

    run(look)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await it.hint()

    run_virtually(main())


def test_the_system_s_resolver_knows_this_machine() -> None:
    """R14: /etc/hosts entries are names like any others."""
    assert "127.0.0.1" in resolved("localhost").addresses


@pytest.mark.parametrize("name", ["a..b", "x" * 300, "\udcff"])
def test_a_name_that_cannot_be_asked_for_empties_nothing_by_an_exception(name: str) -> None:
    assert resolved(name).addresses == ()
