"""The prober against real llama.cpp servers: frozen, killed, busy, and one that only embeds."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from autohedge.core.types import Address, BackendSpec, Candidate, Kind, Seen
from autohedge.memory.health import Health
from autohedge.memory.registry import Registry
from autohedge.memory.tuning import rules_of
from autohedge.settings.model import Settings
from autohedge.watchers.asking import Asker
from autohedge.watchers.learning import Learner
from autohedge.watchers.means import Means
from autohedge.watchers.probers import Probers
from tests.support.fair import Watch
from tests.support.processes import Child, ending, llama

pytestmark = pytest.mark.real

SETTINGS = Settings.model_validate(
    {
        "probe": {"interval": "300ms", "doubtful_interval": "100ms", "timeout": "2s"},
        "breaker": {"open": "500ms"},
    }
)


class Watched:
    """Real servers of one backend, learned and probed."""

    def __init__(self, health: Health, registry: Registry) -> None:
        self.health = health
        self.registry = registry

    def candidate(self, child: Child) -> Candidate:
        found = [one for route in self.registry.snapshot.routes.values() for one in route.candidates]
        return next(one for one in found if one.replica.address.port == child.port)

    def state(self, child: Child) -> str:
        return self.health.entry(self.candidate(child), asyncio.get_running_loop().time()).breaker.state.value

    def known(self, child: Child) -> bool:
        return self.health.entry(self.candidate(child), asyncio.get_running_loop().time()).breaker.known

    async def wait(self, what: Callable[[], object]) -> float:
        """Wait until something is so; returns the seconds that it took without the machine's other work."""
        watch = Watch()
        async with asyncio.timeout(60):
            while not what():  # noqa: ASYNC110 - a real engine has no events for us
                await asyncio.sleep(0.01)
        return watch.seconds


@asynccontextmanager
async def watched(*children: Child) -> AsyncIterator[Watched]:
    registry = Registry()
    health = Health(random.random, rules=rules_of(SETTINGS))
    addresses = tuple(Address("127.0.0.1", child.port) for child in children)
    registry.apply("test", Seen((BackendSpec("b", Kind.AUTO, addresses),)), time.time())
    async with Asker(5.0) as ask:
        learner = Learner(registry, ask, time.time)
        for replica in registry.snapshot.replicas.values():
            registry.learn(replica.id, await learner.learn(replica), time.time())
        probers = Probers(Means(registry, health, ask, random.random), SETTINGS)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(probers.run())
            yield Watched(health, registry)
            task.cancel()


def test_frozen_thawed_and_killed() -> None:
    """SIGSTOP: the port still takes connections and says nothing. SIGCONT brings it back, SIGKILL takes it for good."""
    one, two = llama("--alias", "tiny"), llama("--alias", "tiny")

    async def main() -> None:
        async with watched(one, two) as world:
            await world.wait(lambda: world.known(one) and world.known(two))
            one.send(signal.SIGSTOP)
            await world.wait(lambda: world.state(one) == "open")
            one.send(signal.SIGCONT)
            assert await world.wait(lambda: world.state(one) == "closed") < 3.0
            one.send(signal.SIGKILL)
            await world.wait(lambda: world.state(one) == "open")
            assert world.health.entry(world.candidate(one), 0.0).breaker.hard
            assert world.state(two) == "closed"

    with ending(one, two):
        asyncio.run(main())


def test_a_busy_server_is_left_alone() -> None:
    """One slot, one long answer: a probe would wait behind it without a byte while /health is 200."""
    slow, peer = llama("--alias", "tiny", "--slots", "1", width=512, layers=6, window=2048), llama("--alias", "tiny")

    async def main() -> None:
        async with watched(slow, peer) as world:
            await world.wait(lambda: world.known(slow))
            seat = world.candidate(slow).replica.seat
            seat.in_flight = 1
            body = {
                "model": "tiny",
                "messages": [{"role": "user", "content": "hi"}],
                "max_tokens": 1500,
                "stream": True,
            }
            pieces = 0
            began = time.monotonic()
            async with (
                httpx.AsyncClient(timeout=60) as client,
                client.stream("POST", f"{slow.url}/v1/chat/completions", content=json.dumps(body)) as answer,
            ):
                async for _ in answer.aiter_raw():
                    pieces += 1
                    if time.monotonic() - began > 4.0 and pieces > 10:
                        break
            assert pieces > 10
            assert world.state(slow) == "closed"
            seat.in_flight = 0

    with ending(slow, peer):
        asyncio.run(main())


def test_a_server_that_only_embeds_is_known_by_its_vectors() -> None:
    """Its 500 to a chat is no failure; the next door answers."""
    one, two = llama("--alias", "vec", embeds=True), llama("--alias", "vec", embeds=True)

    async def main() -> None:
        async with watched(one, two) as world:
            await world.wait(lambda: world.known(one) and world.known(two))
            assert world.state(one) == world.state(two) == "closed"

    with ending(one, two):
        asyncio.run(main())
