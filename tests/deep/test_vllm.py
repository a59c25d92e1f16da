"""A real vLLM: an API process in front of an engine process, so that one can be sick behind the other's green page (`make test-deep`).

One server for all, started once; the tests run in the order of what is left of it: frozen, killed in mid-stream, dead,
gone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from autohedge.engine.sample import SampleEngine
from tests.support.house import CHAT
from tests.support.processes import Child, edge, ending

VENV = os.environ.get("AUTOHEDGE_DEEP_VENV", "")
pytestmark = [
    pytest.mark.deep,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not VENV, reason="needs a real vLLM of its own: make test-deep"),
]
STARTS_WITHIN = 600.0  # seconds; an idle machine takes 30 to 60
FLAGS = "--max-model-len 400 --enforce-eager --max-num-seqs 4 --dtype float32 --served-model-name tiny"
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_KEEP_ALIVE_ON_ENGINE_DEATH": "1",
}
CONFIG = """
server: {{listen: "127.0.0.1:0"}}
timeouts: {{first_byte: 5s, stall: 5s, loading: 5s}}
probe: {{interval: 3s, doubtful_interval: 1s, timeout: 4s}}
breaker: {{open: 3s}}
upstream_registry:
  vllm: {{host: "{vllm}"}}
  spare: {{host: "{spare}", provider: openai-compatible, model: spare}}
fallback_chain: [{{provider: swarm, models: [spare]}}]
"""
BODY: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "bade"}], "temperature": 0}


class Vllm:
    """The server as it was started; `engine` is the process that computes."""

    def __init__(self, model: Path, log: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        words = ["serve", str(model), "--host", "127.0.0.1", "--port", str(port), *FLAGS.split()]
        self._log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [f"{VENV}/bin/python", "-m", "vllm.entrypoints.cli.main", *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, **ENVIRONMENT},
                start_new_session=True,
            )
        self._await()

    def _await(self) -> None:
        end = time.monotonic() + STARTS_WITHIN
        while self.health() != 200:
            if self._process.poll() is not None or time.monotonic() > end:
                self.stop()
                pytest.fail("vLLM did not start:\n" + self._log.read_text()[-3000:])
            time.sleep(0.5)

    def health(self) -> int:
        """The status of its own page, 0 when nobody listens."""
        try:
            return httpx.get(f"{self.url}/health", timeout=5).status_code
        except httpx.HTTPError:
            return 0

    @property
    def engine(self) -> int:
        for entry in Path("/proc").iterdir():
            named = b"EngineCore" in _read(entry / "cmdline") + _read(entry / "comm")
            if named and os.getpgid(int(entry.name)) == self._process.pid:
                return int(entry.name)
        pytest.fail("the engine's process is gone")

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGCONT)
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vllm]:
    folder = tmp_path_factory.mktemp("vllm")
    maker = Path(__file__).with_name("make_model.py")
    subprocess.run([f"{VENV}/bin/python", str(maker), str(folder / "model")], check=True)
    server = Vllm(folder / "model", folder / "vllm.log")
    yield server
    server.stop()


class Front:
    """AutoHedge before the vLLM and a spare."""

    def __init__(self, child: Child, client: httpx.AsyncClient) -> None:
        self.child = child
        self.client = client

    async def ask(self, **fields: Any) -> tuple[int, str, int]:
        """Status, who answered, after how many attempts."""
        answer = await self.client.post(self.child.url + CHAT, json=BODY | {"max_tokens": 4} | fields)
        head = answer.headers
        return answer.status_code, head.get("x-autohedge-backend", ""), int(head.get("x-autohedge-attempts", 0))

    async def verdicts(self) -> dict[str, float]:
        """The vLLM's attempts by verdict."""
        lines = (await self.client.get(f"{self.child.url}/metrics")).text.splitlines()
        mine = [line for line in lines if line.startswith('autohedge_attempts_total{backend="vllm"')]
        return {line.partition('verdict="')[2].partition('"')[0]: float(line.rpartition(" ")[2]) for line in mine}

    async def until(self, backend: str, seconds: float) -> list[tuple[int, str, int]]:
        """Ask until that one answers at once; everything that was told on the way."""
        told: list[tuple[int, str, int]] = []
        end = time.monotonic() + seconds
        while not told or told[-1] != (200, backend, 1):
            assert time.monotonic() < end, told[-5:]
            told.append(await self.ask())
            await asyncio.sleep(0.1)
        return told


@asynccontextmanager
async def standing(vllm: Vllm, folder: Path) -> AsyncIterator[Front]:
    spare = SampleEngine("openai-compatible", model="spare")
    config = CONFIG.format(vllm=vllm.url, spare=await spare.start())
    child = await asyncio.to_thread(edge, config, folder)
    try:
        with ending(child):
            async with httpx.AsyncClient(timeout=60) as client:
                yield Front(child, client)
    finally:
        await spare.stop()


def run(vllm: Vllm, folder: Path, walk: Callable[[Front], Any]) -> None:
    async def main() -> None:
        async with standing(vllm, folder) as front:
            await walk(front)

    asyncio.run(main())


def test_its_limits_are_learned_and_an_overlong_prompt_is_no_failure(vllm: Vllm, tmp_path: Path) -> None:
    """max_model_len is read from the engine; what it could not take is a 400 before it sees it."""

    async def walk(front: Front) -> None:
        assert await front.ask() == (200, "vllm", 1)
        answer = await front.client.post(
            front.child.url + CHAT, json=BODY | {"max_tokens": 500}, headers={"x-autohedge-no-fallback": "1"}
        )
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "max_tokens")
        assert "400" in answer.json()["error"]["message"]
        assert await front.ask() == (200, "vllm", 1)

    run(vllm, tmp_path, walk)


def test_a_frozen_engine_behind_a_green_health_page(vllm: Vllm, tmp_path: Path) -> None:
    """B01: /health, /v1/models and /tokenize are well, nothing is computed. The spare answers; thawed, it is taken back."""

    async def walk(front: Front) -> None:
        await front.until("vllm", 60)
        os.kill(vllm.engine, signal.SIGSTOP)
        try:
            told = await front.until("spare", 60)
            assert {status for status, _, _ in told} == {200}
            assert sum(attempts > 1 for _, _, attempts in told) <= 3
            assert vllm.health() == 200
        finally:
            os.kill(vllm.engine, signal.SIGCONT)
        assert {status for status, _, _ in await front.until("vllm", 60)} == {200}

    run(vllm, tmp_path, walk)


def test_an_engine_that_is_killed_in_mid_stream(vllm: Vllm, tmp_path: Path) -> None:
    """An error event followed by [DONE] is no answer; the API process lives on, and nobody is sent there any more."""

    async def walk(front: Front) -> None:
        await front.until("vllm", 60)
        before = await front.verdicts()
        body, killed = b"", False
        async with front.client.stream(
            "POST", front.child.url + CHAT, json=BODY | {"max_tokens": 380, "stream": True}
        ) as answer:
            async for piece in answer.aiter_raw():
                body += piece
                if not killed and body.count(b'"content"') > 3:
                    killed = True
                    os.kill(vllm.engine, signal.SIGKILL)
        assert b'"error"' in body
        assert body.rstrip().endswith(b"data: [DONE]")
        after = await front.verdicts()
        assert after["answer"] == before["answer"]
        assert after.get("dead", 0) + after.get("sick", 0) == 1
        assert {told[0] for told in await front.until("spare", 30)} == {200}
        assert vllm.health() in (200, 503)  # the page is still served

    run(vllm, tmp_path, walk)


def test_a_dead_engine_behind_a_living_api_and_then_nobody(vllm: Vllm, tmp_path: Path) -> None:
    """An AutoHedge that is new to it: models are listed, every chat is a 500 of a dead engine, which counts at once. Then kill -9
    of the API as well. No caller notices either.
    """

    async def walk(front: Front) -> None:
        told = await front.until("spare", 30)
        assert len(told) <= 2
        assert {status for status, _, _ in told} == {200}
        vllm.kill()
        assert [await front.ask() for _ in range(5)] == [(200, "spare", 1)] * 5

    run(vllm, tmp_path, walk)
