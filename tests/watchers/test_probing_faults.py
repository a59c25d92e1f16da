"""The bug log against real sockets: sample engines with their faults, the real asker, and the prober at a quick pace."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from autohedge.core.types import Address, BackendSpec, Candidate, Kind, Secret, Seen
from autohedge.engine.sample import SampleEngine
from autohedge.memory.health import Health
from autohedge.memory.registry import Registry
from autohedge.memory.tuning import rules_of
from autohedge.rules.standing import Transition
from autohedge.settings.model import Settings
from autohedge.watchers.asking import Asker
from autohedge.watchers.learning import Learner
from autohedge.watchers.means import Means
from autohedge.watchers.probers import Probers
from tests.support.house import started

QUICK: dict[str, Any] = {
    "probe": {
        "interval": "200ms",
        "doubtful_interval": "80ms",
        "timeout": "20s",
    },  # a busy machine is not a sick engine
    "breaker": {"open": "300ms"},
}
HASTY = {**QUICK, "probe": {**QUICK["probe"], "timeout": "500ms"}}  # where an engine hangs
HELLO = {"model": "m", "messages": [{"role": "user", "content": "hello there"}], "stream": True}
CHAT, EMBED = "/v1/chat/completions", "/v1/embeddings"


@dataclass
class House:
    """One backend of some engines, learned and probed."""

    engines: list[SampleEngine]
    health: Health
    registry: Registry
    changes: list[tuple[str, Transition]]

    def candidate(self, number: int = 0) -> Candidate:
        port = self.engines[number].port
        found = self.registry.snapshot.routes["m"].candidates
        return next(one for one in found if one.replica.address.port == port)

    def state(self, number: int = 0) -> str:
        return self.health.entry(self.candidate(number), self.now).breaker.state.value

    def shown(self, number: int = 0) -> dict[str, Any]:
        found = self.candidate(number).replica.id
        self.state(number)  # known from now on
        return next(one for one in self.health.describe(self.now) if one["replica"] == found)

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def wait(self, what: Callable[[], object], patience: float = 60.0) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(patience):
            while not what():  # noqa: ASYNC110 - there is no event for what an engine of another kind would do
                await asyncio.sleep(0.01)

    async def until(self, state: str, number: int = 0, patience: float = 60.0) -> None:
        """Wait for a state of one engine's breaker."""
        await self.wait(lambda: self.state(number) == state, patience)

    async def evidence(self, number: int = 0) -> None:
        """Wait for the first good probe."""
        await self.wait(lambda: self.shown(number)["known"])


@asynccontextmanager
async def probed(
    kind: Kind, *faults: str, tree: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **engine: Any
) -> AsyncIterator[House]:
    """Two engines of one kind, the first with faults; they have told their models, and probers are at work."""
    changes: list[tuple[str, Transition]] = []
    settings = Settings.model_validate(tree or QUICK)
    registry = Registry()
    health = Health(random.random, None, lambda one, moved: changes.append((one.replica.id, moved)), rules_of(settings))
    engines = [SampleEngine(kind, model="m", name=f"e{number}", **engine) for number in range(2)]
    for one in engines:
        await started(one)
    try:
        addresses = tuple(Address("127.0.0.1", one.port) for one in engines)
        registry.apply("test", Seen((BackendSpec("b", kind, addresses, **(spec or {})),)), time.time())
        async with Asker(2.0) as ask:
            learner = Learner(registry, ask, time.time)
            for replica in registry.snapshot.replicas.values():
                registry.learn(replica.id, await learner.learn(replica), time.time())
            engines[0].set_faults(*faults)
            probers = Probers(Means(registry, health, ask, random.random), settings)
            async with asyncio.TaskGroup() as group:
                task = group.create_task(probers.run())
                yield House(engines, health, registry, changes)
                task.cancel()
    finally:
        for one in engines:
            await one.stop()


def told(scene: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(scene())  # type: ignore[arg-type]


def heals(kind: Kind, fault: str, *, first: str = "open", **more: Any) -> None:
    """The faulty engine goes out while its peer stays; when the fault is gone it comes back."""

    async def scene() -> None:
        async with probed(kind, **more) as house:
            await house.evidence()
            house.engines[0].set_faults(fault)
            await house.until(first)
            assert house.state(1) == "closed"
            house.engines[0].set_faults()
            await house.until("closed")

    told(scene)


@pytest.mark.parametrize("fault", ["B01", "B07"])
@pytest.mark.parametrize("kind", [Kind.VLLM, Kind.SGLANG])
def test_a_hang_behind_a_green_health_page(kind: Kind, fault: str) -> None:
    """B01, B07: GETs are answered at once, work never."""
    heals(kind, fault, tree=HASTY)


def test_a_freeze_in_the_middle_of_a_stream() -> None:
    """B02: three chunks, then silence for ever, also for all later work."""

    async def scene() -> None:
        unhurried = {**HASTY, "probe": {**HASTY["probe"], "timeout": "2s"}}  # of which one silence may last nine tenths
        async with probed(Kind.VLLM, tree=unhurried) as house:
            await house.evidence()
            house.engines[0].set_faults("B02")
            with pytest.raises(httpx.ReadTimeout):
                async with httpx.AsyncClient(timeout=httpx.Timeout(60, read=0.5)) as client:
                    await client.post(house.engines[0].url + CHAT, json=HELLO)
            await house.until("open")
            assert house.shown()["probe"]["reason"] == "no first byte in time"

    told(scene)


def test_a_cuda_error_is_an_obituary() -> None:
    """B04: out with the first probe that sees it; health is well all the time."""

    async def scene() -> None:
        async with probed(Kind.VLLM) as house:
            await house.evidence()
            house.engines[0].set_faults("B04")
            await house.until("open")
            ((_, moved),) = [one for one in house.changes if one[1].new.value == "open"]
            assert moved.hard
            assert moved.reason == "the engine says that it is dead"
            house.engines[0].set_faults()
            await house.until("closed")

    told(scene)


def test_an_engine_that_dies_and_is_started_again() -> None:
    """B05: the first obituary opens, then nobody listens; back after a second, a real inference closes."""

    async def scene() -> None:
        async with probed(Kind.VLLM) as house:
            await house.evidence()
            house.engines[0].set_faults("B05=1")
            await house.wait(lambda: house.changes)
            assert house.changes[0][1].hard
            await house.until("closed")
            assert house.shown()["probe"]["verdict"] == "answer"

    told(scene)


def test_health_that_is_503_while_requests_are_answered() -> None:
    """B08: the light probe is a hint, the real one decides."""

    async def scene() -> None:
        tree = {**QUICK, "probe": {**QUICK["probe"], "light_interval": "100ms"}}
        async with probed(Kind.VLLM, "health-503", tree=tree) as house:
            await house.evidence()
            await house.wait(lambda: house.engines[0].received["/health"] >= 10)
            assert house.changes == []

    told(scene)


def test_a_health_page_that_takes_a_second() -> None:
    """B10: only the engine's own path is late; nothing of it is waited for."""

    async def scene() -> None:
        async with probed(Kind.SGLANG, "B10") as house:
            await house.evidence()
            await asyncio.sleep(0.5)
            assert house.changes == []
            assert house.shown()["probe"]["took_s"] < 0.9  # the page takes a second

    told(scene)


def test_reasoning_models_want_sixteen_tokens() -> None:
    """B13: with 16 it answers; with fewer the 400 is alive and unsuitable, and nobody is out."""

    async def scene() -> None:
        async with probed(Kind.OPENAI, "B13") as house:
            await house.evidence()
        small = {**QUICK, "probe": {**QUICK["probe"], "tokens": 1}}
        async with probed(Kind.OPENAI, "B13", tree=small) as house:
            await house.evidence(1)
            await house.evidence()  # by the next door: this engine embeds as well
            assert house.engines[0].received[CHAT] == 1
            assert house.changes == []

    told(scene)


@pytest.mark.parametrize("fault", ["B14", "B16=20"])
def test_a_cold_ollama_is_never_loaded_by_a_probe(fault: str) -> None:
    """B14, B16: /api/ps is asked again and again, the model never; and nobody is out."""

    async def scene() -> None:
        async with probed(Kind.OLLAMA, fault) as house:
            await house.evidence(1)
            await house.wait(lambda: house.engines[0].received["/api/ps"] >= 5)
            assert house.engines[0].received[CHAT] == 0
            assert house.engines[0].state.loads == 0
            assert house.changes == []
            assert "not loaded" in house.shown()["not_probed"]

    told(scene)


def test_paid_work_is_not_spent_on_probes() -> None:
    """B19: not one call of an external backend."""

    async def scene() -> None:
        async with probed(Kind.OPENAI, spec={"external": True, "models": ("m",)}) as house:
            await asyncio.sleep(1.0)
            assert [one.received[CHAT] for one in house.engines] == [0, 0]

    told(scene)


def test_a_second_request_that_wedges_both() -> None:
    """B20: with a cap of one, no probe is sent beside a live request, and the engine survives."""

    async def scene() -> None:
        async with probed(Kind.VLLM, spec={"concurrency": 1}) as house:
            await house.evidence()
            engine, seat = house.engines[0], house.candidate().replica.seat
            await house.wait(lambda: not seat.in_flight)
            engine.set_faults("B20")
            engine.state.latency = 1.5
            seat.in_flight += 1
            async with httpx.AsyncClient(timeout=60) as client:
                answer = await client.post(engine.url + CHAT, json={**HELLO, "stream": False})
            seat.in_flight -= 1
            assert answer.status_code == 200
            assert house.changes == []

    told(scene)


def test_loading_is_waited_for() -> None:
    """B22: llama.cpp is 503 on every path for two seconds, then well; its breaker is never open."""

    async def scene() -> None:
        async with probed(Kind.LLAMACPP, "B22=2") as house:
            await house.until("loading")
            await house.until("closed")
            assert {moved.new.value for _, moved in house.changes} == {"loading", "closed"}
            assert house.shown()["known"]

    told(scene)


def test_an_embedding_server_is_found_out() -> None:
    """llama.cpp answers 500 to a chat it cannot do; the next door answers, and nobody was out."""

    async def scene() -> None:
        async with probed(Kind.LLAMACPP, "no-chat") as house:
            await house.evidence()
            assert house.engines[0].received[EMBED] >= 1
            assert house.changes == []

    told(scene)


@pytest.mark.parametrize(
    "kind", [Kind.VLLM, Kind.SGLANG, Kind.OLLAMA, Kind.TGI, Kind.LLAMACPP, Kind.OPENAI, Kind.SYSTEMONE]
)
def test_every_kind_is_probed_in_its_own_words(kind: Kind) -> None:
    """With its key; the first probe of a healthy engine is an answer."""

    async def scene() -> None:
        async with probed(kind, spec={"key": Secret("k")}, key="k") as house:
            await house.evidence()
            assert house.shown()["probe"]["verdict"] == "answer"
            assert house.changes == []

    told(scene)


def test_a_wrong_key_is_ours() -> None:
    """Misconfigured, not sick; and 401 without a key of ours is alive."""

    async def scene() -> None:
        async with probed(Kind.VLLM, spec={"key": Secret("wrong"), "models": ("m",)}, key="k") as house:
            await house.until("misconfigured")
            assert house.shown()["reason"].startswith("401")
        async with probed(Kind.VLLM, spec={"models": ("m",)}, key="k") as house:
            await house.wait(lambda: house.shown().get("probe"))
            assert house.shown()["probe"]["verdict"] == "client_fault"
            assert house.changes == []

    told(scene)


def test_eidex_s_pair_on_a_real_engine() -> None:
    """The light path is green, the deep one fails: out by its own streak, and back with one success."""
    tree = {
        "health": {
            "judge": "streak",
            "health_check_interval": "50ms",
            "health_gen_check_interval": "120ms",
            "health_timeout": "20s",  # SGLang's own takes a second
        }
    }

    async def scene() -> None:
        async with probed(Kind.SGLANG, tree=tree) as house:
            await asyncio.sleep(0.3)
            assert house.changes == []
            house.engines[0].set_faults("status=503:on=/health_generate")
            await house.until("open")
            assert house.state(1) == "closed"
            house.engines[0].set_faults()
            await house.until("closed")

    told(scene)
