"""The promises of semantic health (issue 3, acceptance 1, 2 and 4) on real processes: AutoHedge, llama.cpp, Redis, a mail server."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from autohedge.engine.sample import SampleEngine
from autohedge.wire.trust import trusted
from tests.e2e.test_survival import loaded
from tests.state.servers import RedisServer
from tests.support.fair import Watch
from tests.support.house import CHAT, eventually
from tests.support.processes import Child, edge, ending, llama
from tests.test_workers import pids
from tests.watchers.postoffice import PostOffice, post_office

pytestmark = pytest.mark.real
MESSAGES = [{"role": "user", "content": "hello"}]
MAIL = "alerts: {{min_interval: 0, mail: {{host: 127.0.0.1, port: {port}, sender: hedge@edge.example, to: [ops@a.example]}}}}\n"


async def until(true: Callable[[], object]) -> None:
    """Wait until something is so."""
    await eventually(lambda: bool(true()))


async def processor_time(seconds: float, *processes: int) -> None:
    """So long, as if these processes had a machine for themselves."""
    watch = Watch(*processes)
    while watch.seconds < seconds and watch.wall < 60:  # noqa: ASYNC110 - time itself is waited for
        await asyncio.sleep(0.05)


@asynccontextmanager
async def serving(*engines: SampleEngine) -> AsyncIterator[list[str]]:
    """Their URLs."""
    try:
        yield [await engine.start() for engine in engines]
    finally:
        for engine in engines:
            await engine.stop()


# --- the article's walk-through (4.4) -----------------------------------------------------------------------------------

ARTICLE = """
server: {{listen: "127.0.0.1:0"}}
timeouts: {{first_byte: 4s, stall: 4s}}
probe: {{interval: 2s, doubtful_interval: 500ms, timeout: 3s}}
breaker: {{open: 2s}}
upstream_registry:
  vllm-qwen2-7b: {{host: "{one}"}}
  ollama-llama3: {{host: "{two}", provider: ollama}}
fallback_chain:
  - {{provider: swarm, models: [vllm-qwen2-7b]}}
  - {{provider: ollama, model: "llama3:8b"}}
"""


@dataclass
class Traffic:
    """One caller after the other for the service's name: who answered, and after how many attempts."""

    url: str
    told: list[tuple[int, str, int]] = field(default_factory=list)

    async def run(self) -> None:
        body = {"model": "vllm-qwen2-7b", "messages": MESSAGES, "max_tokens": 4}
        async with httpx.AsyncClient(timeout=90) as client:
            while True:
                answer = await client.post(self.url + CHAT, json=body)
                backend = answer.headers.get("x-autohedge-backend", answer.text)
                self.told.append((answer.status_code, backend, int(answer.headers.get("x-autohedge-attempts", 0))))
                await asyncio.sleep(0.1)

    def served_by(self, backend: str) -> bool:
        return bool(self.told) and self.told[-1][1:] == (backend, 1)


async def _walk(
    front: Child, office: PostOffice, sicken: Callable[[], Awaitable[object]], heal: Callable[[], object]
) -> None:
    """First rung, then the engine fails behind its open port, second rung, a mail; the engine is well again, first rung."""
    traffic = Traffic(front.url)
    calling = asyncio.create_task(traffic.run())
    await until(lambda: len(traffic.told) > 12)
    assert {told[1:] for told in traffic.told} == {("vllm-qwen2-7b", 1)}
    await sicken()
    await until(lambda: traffic.served_by("ollama-llama3"))
    assert sum(attempts == 2 for _, _, attempts in traffic.told) <= 3
    await until(lambda: office.mails)
    assert re.search(r"backend vllm-qwen2-7b, model \S+: .*out of the pool", office.subjects[0])
    assert re.search(r"\d/10 succeeded", office.text(0))
    assert re.search(r"worker health changed.*closed -> open \([0-7]/10 succeeded", front.output())
    heal()
    await until(lambda: traffic.served_by("vllm-qwen2-7b"))
    await until(lambda: "the replica is back: 2 trials answered" in office.text())
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    assert {status for status, _, _ in traffic.told} == {200}
    assert len(office.mails) == 2


def test_the_article_s_walk_through_on_a_frozen_engine(tmp_path: Path) -> None:
    """Acceptance 1: a real llama.cpp is frozen; its port still accepts, nothing answers. Callers are served all the time."""
    one = llama("--alias", "qwen2")

    async def main() -> None:
        two = SampleEngine("ollama", model="llama3:8b")
        async with post_office() as office, serving(two) as urls:
            config = ARTICLE.format(one=one.url, two=urls[0]) + MAIL.format(port=office.port)
            front = await asyncio.to_thread(edge, config, tmp_path)

            async def freeze() -> None:
                one.send(signal.SIGSTOP)

            with ending(front):
                await _walk(front, office, freeze, lambda: one.send(signal.SIGCONT))

    with ending(one):
        asyncio.run(main())


def test_the_article_s_walk_through_behind_a_green_health_page(tmp_path: Path) -> None:
    """Acceptance 1: /health says 200, every inference is a 500."""

    async def main() -> None:
        one, two = SampleEngine("vllm", model="/models/qwen2"), SampleEngine("ollama", model="llama3:8b")
        async with post_office() as office, serving(one, two) as urls:
            config = ARTICLE.format(one=urls[0], two=urls[1]) + MAIL.format(port=office.port)
            front = await asyncio.to_thread(edge, config, tmp_path)

            async def sicken() -> None:
                one.set_faults("status=500")
                async with httpx.AsyncClient(timeout=90) as client:
                    assert (await client.get(urls[0] + "/health")).status_code == 200

            with ending(front):
                await _walk(front, office, sicken, one.set_faults)

    asyncio.run(main())


# --- retired, and killed right afterwards -------------------------------------------------------------------------------

PROVIDERS = 'server: {listen: "127.0.0.1:0", workers: WORKERS}\nprobe: {enabled: false}\nupstream_registry:\n'
SPARE = "fallback_chain: [{provider: swarm, models: [spare]}]\n"
GONE = {
    "walkai": "B107",  # 410 with "retired"
    "hf": "status=410",  # without the word
    "github": "B106",  # a brownout's code
    "groq": "decommissioned-400",
    "openai": "B109",  # a 404 that says deprecated
    "azure": "B115",  # a deployment that is not there
}


def provider(name: str, url: str) -> str:
    """A provider that serves one model of its own name."""
    kind = "azure, api_version: 2024-02-01, api_key: sk-x" if name == "azure" else "openai-compatible"
    return f'  {name}: {{host: "{url}", provider: {kind}, model: {name}}}\n'


async def asked(front: Child) -> dict[str, tuple[int, str, str]]:
    """Who answered for each model, and after how many attempts; then kill -9."""
    told = {}
    async with httpx.AsyncClient(timeout=90) as client:
        for name in GONE:
            answer = await client.post(front.url + CHAT, json={"model": name, "messages": MESSAGES})
            words = (answer.headers["x-autohedge-backend"], answer.headers["x-autohedge-attempts"])
            told[name] = (answer.status_code, *words)
    front.send(signal.SIGKILL)
    return told


def test_what_is_retired_stays_so_after_a_kill(tmp_path: Path) -> None:
    """Acceptance 2: kill -9 right after the answer that met the retirement; started again, nobody is sent there."""

    async def main() -> None:
        kinds = {"azure": "azure"}
        engines = {
            name: SampleEngine(kinds.get(name, "openai-compatible"), model=name, faults=[fault])
            for name, fault in GONE.items()
        }
        spare = SampleEngine("openai-compatible", model="spare")
        async with serving(*engines.values(), spare) as urls:
            await ask_twice(PROVIDERS.replace("WORKERS", "1") + "".join(map(provider, (*GONE, "spare"), urls)) + SPARE)
        asked_for = {
            name: sum(count for path, count in one.received.items() if path.endswith("/chat/completions"))
            for name, one in engines.items()
        }
        assert asked_for == dict.fromkeys(GONE, 1)

    async def ask_twice(config: str) -> None:
        for attempts in ("2", "1"):
            front = await asyncio.to_thread(edge, config, tmp_path)
            with ending(front):
                assert await asked(front) == dict.fromkeys(GONE, (200, "spare", attempts))

    asyncio.run(main())


def test_a_retirement_that_one_of_four_workers_meets_is_obeyed_by_all(tmp_path: Path) -> None:
    """Acceptance 4: the provider says 410 once and would serve again; within a second no worker sends it anything."""

    async def main() -> None:
        gone = SampleEngine("openai-compatible", model="walkai", faults=["B107:times=1"])
        spare = SampleEngine("openai-compatible", model="spare")
        async with serving(gone, spare) as urls:
            config = PROVIDERS.replace("WORKERS", "4") + "".join(map(provider, ("walkai", "spare"), urls)) + SPARE
            front = await asyncio.to_thread(edge, config, tmp_path)
            with ending(front):
                await until(lambda: front.output().count(" listens on ") == 4)
                assert await ask(front.url) == (200, "spare")
                await processor_time(1, front.process.pid, *pids(front))
                assert set(await asyncio.gather(*(ask(front.url) for _ in range(60)))) == {(200, "spare")}
                assert gone.received[CHAT] == 1

    async def ask(url: str) -> tuple[int, str]:
        async with httpx.AsyncClient(
            timeout=90, verify=trusted()
        ) as client:  # a connection of its own: the kernel picks the worker
            answer = await client.post(url + CHAT, json={"model": "walkai", "messages": MESSAGES})
            return answer.status_code, answer.headers["x-autohedge-backend"]

    asyncio.run(main())


# --- Redis lost ---------------------------------------------------------------------------------------------------------

STATEFUL = """
server: {{listen: "127.0.0.1:0"}}
state: {{url: "{redis}"}}
probe: {{enabled: false}}
upstream_registry:
  one: {{host: "{one}", provider: openai-compatible, models: [tiny, before, meanwhile]}}
"""


def resident(pid: int) -> int:
    """Bytes that a process holds in memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) << 10


def emptied(server: RedisServer) -> Callable[[], object]:
    server.stop()
    return server.start


def cut_off(server: RedisServer) -> Callable[[], object]:
    server.send(signal.SIGSTOP)
    return lambda: server.send(signal.SIGCONT)


@pytest.fixture
def redis(tmp_path: Path) -> Any:
    server = RedisServer(tmp_path)
    yield server
    server.stop()


@pytest.mark.parametrize("fault", [emptied, cut_off])
def test_redis_is_lost_under_load(
    fault: Callable[[RedisServer], Callable[[], object]], redis: RedisServer, tmp_path: Path
) -> None:
    """Acceptance 4: 50 requests/s while Redis is stopped and comes back empty, or is frozen: none fails, memory is flat, what was
    decided before and meanwhile is in Redis afterwards, and people hear once that it was lost and once that it is back.
    """

    async def main() -> None:
        engine = SampleEngine("openai-compatible", model="tiny")
        async with post_office() as office, httpx.AsyncClient(timeout=90) as client, serving(engine) as urls:
            config = STATEFUL.format(redis=redis.url, one=urls[0]) + MAIL.format(port=office.port)
            front = await asyncio.to_thread(edge, config, tmp_path)

            def retire(model: str) -> None:
                body = {"provider": "one", "model": model}
                httpx.post(f"{front.url}/admin/retired", json=body, timeout=90).raise_for_status()

            async def state() -> Any:
                return (await client.get(f"{front.url}/health")).json()

            with ending(front):
                await asyncio.to_thread(retire, "before")
                assert await loaded(front.url, False, lambda: asyncio.sleep(1)) == []
                held = resident(front.process.pid)

                async def steps() -> None:
                    await asyncio.sleep(0.5)
                    mend = await asyncio.to_thread(fault, redis)
                    await until(lambda: len(office.mails) == 2)
                    await asyncio.to_thread(retire, "meanwhile")
                    lost = await state()
                    assert (lost["status"], bool(lost["state_lost"])) == ("degraded", True)
                    await until(lambda: len(office.mails) == 3)
                    await asyncio.to_thread(mend)
                    await asyncio.sleep(2)

                assert await loaded(front.url, False, steps) == []
                assert resident(front.process.pid) - held < 16 << 20
                await until(lambda: "state is back" in office.text())
                assert (await state())["status"] == "ok"
                topics = [subject.partition(": ")[2][:13] for subject in office.subjects]
                assert topics == ["the model is ", "state is lost", "the model is ", "state is back"]
                await until(lambda: redis.say("KEYS", "autohedge:*retired:one:*").count(b"retired") == 2)

    asyncio.run(main())
