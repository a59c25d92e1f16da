"""The Swarm source against a Docker API on a real unix socket: it sees, goes blind with a reason, and sees again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from autohedge.core.types import Blind, Seen, Sweep
from autohedge.settings.load import load_text
from autohedge.settings.swarm import Swarm
from autohedge.sources import swarm as module
from autohedge.sources.contract import Source
from autohedge.sources.swarm import SwarmSource, wanted_of
from autohedge.sources.watch import watch
from tests.sources.test_docker_errors import OUTSIDE, WORKER
from tests.support.docker_stub import DockerStub
from tests.support.swarm import network, service, task


def settings(engine: DockerStub, more: str = "") -> Swarm:
    text = f"sources: {{swarm: {{enabled: true, host: 'unix://{engine.path}', {more}}}}}\n"

    def nothing(_path: str) -> str:
        raise FileNotFoundError

    return load_text(text, "c.yaml", {}, nothing).settings.sources.swarm


@asynccontextmanager
async def looking(engine: DockerStub, more: str = "timeout: 300ms") -> AsyncIterator[SwarmSource]:
    source = SwarmSource(settings(engine, more))
    try:
        yield source
    finally:
        source.close()


def played(tmp_path: Path, main: Callable[[DockerStub], Coroutine[Any, Any, None]]) -> None:
    with DockerStub(tmp_path / "docker.sock") as engine:
        engine.services = [service("vllm-a")]
        engine.tasks = [task("vllm-a", "10.0.1.3"), task("vllm-a", "10.0.1.4")]
        asyncio.run(main(engine))
        assert engine.writes == []


def hosts(sweep: Sweep) -> list[str]:
    assert isinstance(sweep, Seen), sweep
    return [address.host for backend in sweep.backends for address in backend.addresses]


def test_a_look_sees_the_services(tmp_path: Path) -> None:
    """X22: one complete look; four questions, none of them GET /info, none of them a write."""

    async def main(engine: DockerStub) -> None:
        async with looking(engine) as source:
            contract: Source = source
            assert contract.name == "swarm"
            assert hosts(await source.look()) == ["10.0.1.3", "10.0.1.4"]
            assert hosts(await source.look()) == ["10.0.1.3", "10.0.1.4"]
        asked = {path: engine.asked[path] for path in ("/networks", "/services", "/tasks", "/nodes", "/info")}
        assert asked == {"/networks": 2, "/services": 2, "/tasks": 2, "/nodes": 2, "/info": 0}

    played(tmp_path, main)


def test_only_the_network_of_exactly_this_name(tmp_path: Path) -> None:
    async def main(engine: DockerStub) -> None:
        engine.networks = [network("autohedge-net-2", "two")]
        async with looking(engine) as source:
            sweep = await source.look()
            assert sweep == Blind("the swarm has no overlay network called autohedge-net (sources.swarm.network)")

    played(tmp_path, main)


@pytest.mark.parametrize("path", ["/networks", "/services", "/tasks", "/nodes"])
@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        ((503, WORKER), "is a worker of its swarm"),
        ((503, OUTSIDE), "is not part of a swarm"),
        ((500, "rpc error: code = Unknown desc = The swarm does not have a leader."), "has no leader"),
        ((403, "forbidden"), "refuses GET "),
        ((503, "rpc error: code = Unavailable desc = connection error: transport"), "do not answer"),
    ],
)
def test_a_refusal_of_any_list_is_blind_with_the_reason(
    path: str, refusal: tuple[int, str], words: str, tmp_path: Path
) -> None:
    """Half a look is no look: never a shorter list, never an empty one."""

    async def main(engine: DockerStub) -> None:
        engine.refusals[path] = refusal
        async with looking(engine) as source:
            sweep = await source.look()
            assert isinstance(sweep, Blind)
            assert words in sweep.reason
            engine.refusals.clear()
            assert len(hosts(await source.look())) == 2

    played(tmp_path, main)


@pytest.mark.parametrize("path", ["/networks", "/services", "/tasks", "/nodes"])
@pytest.mark.parametrize("body", [b"", b"{}", b"[", b"<html>"])
def test_an_answer_that_is_no_list_is_blind(path: str, body: bytes, tmp_path: Path) -> None:
    async def main(engine: DockerStub) -> None:
        engine.raw[path] = body
        async with looking(engine) as source:
            sweep = await source.look()
            assert isinstance(sweep, Blind)
            assert f"GET {path}" in sweep.reason

    played(tmp_path, main)


def test_an_engine_that_hangs_or_is_gone_is_blind(tmp_path: Path) -> None:
    """Quorum lost: every answer takes its whole time. Then the engine goes, and comes back."""

    async def main(engine: DockerStub) -> None:
        async with looking(engine) as source:
            engine.hangs.add("/tasks")
            began = time.monotonic()
            assert "no answer to GET /tasks within 0.3 s" in str(await source.look())
            assert time.monotonic() - began < 2
            engine.hangs.clear()
            engine.stop()
            assert "does not exist here" in str(await source.look())
            engine.start()
            assert len(hosts(await source.look())) == 2

    played(tmp_path, main)


def test_the_loop_goes_on_while_the_engine_hangs(tmp_path: Path) -> None:
    """A hung engine is the real danger of a blocking client."""

    async def main(engine: DockerStub) -> None:
        engine.hangs.add("/services")
        async with looking(engine) as source:
            looks = asyncio.create_task(source.look())
            worst = 0.0
            while not looks.done():
                began = time.monotonic()
                await asyncio.sleep(0.001)
                worst = max(worst, time.monotonic() - began)
            assert worst < 0.1
            assert isinstance(await looks, Blind)

    played(tmp_path, main)


async def _waits(source: SwarmSource, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await source.hint()
    except TimeoutError:
        return False
    return True


def test_an_event_is_a_hint(tmp_path: Path) -> None:
    """X21: the stream that stands hints once, then every event, also one that comes while nobody waits."""

    async def main(engine: DockerStub) -> None:
        async with looking(engine) as source:
            await source.look()
            assert await _waits(source, 3)  # the stream stands
            await source.look()
            assert not await _waits(source, 0.3)
            engine.tell()
            began = time.monotonic()
            assert await _waits(source, 3)
            assert time.monotonic() - began < 1
            await source.look()
            engine.tell()
            await asyncio.sleep(0.1)
            assert await _waits(source, 0.3)

    played(tmp_path, main)


def test_a_stream_that_comes_back_is_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was missed meanwhile is not in the stream: look again."""
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.05)

    async def main(engine: DockerStub) -> None:
        async with looking(engine) as source:
            await source.look()
            assert await _waits(source, 3)
            await source.look()
            engine.hang_up()
            assert await _waits(source, 3)

    played(tmp_path, main)


def test_while_a_task_begins_the_next_look_comes_soon(tmp_path: Path) -> None:
    """A new replica is found a third of a second after it runs, without an event that would tell; later the pace is calm again."""

    async def main(engine: DockerStub) -> None:
        async with looking(engine) as source:
            await source.look()
            assert await _waits(source, 3)  # the stream stands
            engine.tasks.append(task("vllm-a", "10.0.1.5", state="starting"))
            assert len(hosts(await source.look())) == 2
            assert await _waits(source, 1)
            engine.tasks[-1] = task("vllm-a", "10.0.1.5")
            assert len(hosts(await source.look())) == 3
            assert not await _waits(source, 0.6)

    played(tmp_path, main)


def test_many_tasks_are_not_listed_so_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEW", 2)

    async def main(engine: DockerStub) -> None:
        async with looking(engine) as source:
            await source.look()
            assert await _waits(source, 3)
            engine.tasks.append(task("vllm-a", "10.0.1.5", state="starting"))
            await source.look()
            assert not await _waits(source, 0.6)

    played(tmp_path, main)


def test_while_blind_a_look_is_worth_while_every_few_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY", 0.1)

    async def main(engine: DockerStub) -> None:
        engine.refusals = {"/events": (403, ""), "/tasks": (403, "")}
        async with looking(engine) as source:
            await source.look()
            assert await _waits(source, 2)
            engine.refusals.pop("/tasks")
            await source.look()
            assert not await _waits(source, 0.3)

    played(tmp_path, main)


def test_the_watch_sees_a_change_at_once_and_an_engine_that_is_back_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within 1.5 s of a change (here by the event alone: the poll is too slow), and after an outage without its whole back-off."""
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.05)

    async def main(engine: DockerStub) -> None:
        sweeps: list[Sweep] = []
        more = asyncio.Event()

        def take(_name: str, sweep: Sweep) -> None:
            sweeps.append(sweep)
            more.set()

        async def until(true: Callable[[], bool]) -> float:
            began = time.monotonic()
            async with asyncio.timeout(10):
                while not true():
                    more.clear()
                    await more.wait()
            return time.monotonic() - began

        async with looking(engine) as source:
            watching = asyncio.create_task(watch(source, 60, take))
            await until(lambda: len(sweeps) >= 2)  # the first, and the one after the stream stood
            engine.tasks[0]["DesiredState"] = "shutdown"
            engine.tell()
            assert await until(lambda: hosts(sweeps[-1]) == ["10.0.1.4"]) < 1.5
            engine.refusals["/services"] = (500, "The swarm does not have a leader.")
            engine.tell()
            await until(lambda: isinstance(sweeps[-1], Blind))
            engine.refusals.clear()
            engine.hang_up()
            assert await until(lambda: isinstance(sweeps[-1], Seen)) < 4
            watching.cancel()

    played(tmp_path, main)


def test_the_settings_become_the_rules(tmp_path: Path) -> None:
    more = "network: n, labelled_only: true, shared_models: [m], env: {model: [A], max_model_len: [B], port: [C]}"
    wanted = wanted_of(settings(DockerStub(tmp_path / "s"), more))
    assert (wanted.network, wanted.labelled_only, wanted.shared) == ("n", True, frozenset({"m"}))
    assert wanted.env == {"A", "B", "C"}
