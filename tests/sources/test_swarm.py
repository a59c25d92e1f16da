"""The Swarm source against a Docker API on a real unix socket: it sees, goes blind with a reason, and sees again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from autohedge.core.types import Blind, Seen, Sweep
from autohedge.settings.load import load_text
from autohedge.settings.swarm import Swarm
from autohedge.sources.contract import Source
from autohedge.sources.following import EngineSource
from autohedge.sources.swarm import swarm_source, wanted_of
from tests.sources.test_docker_errors import OUTSIDE, WORKER
from tests.support.docker_stub import DockerStub
from tests.support.swarm import NETWORK, network, service, task


def settings(engine: DockerStub, more: str = "") -> Swarm:
    text = f"sources: {{swarm: {{enabled: true, host: 'unix://{engine.path}', {more}}}}}\n"

    def nothing(_path: str) -> str:
        raise FileNotFoundError

    return load_text(text, "c.yaml", {}, nothing).settings.sources.swarm


@asynccontextmanager
async def looking(engine: DockerStub, more: str = "timeout: 30s") -> AsyncIterator[EngineSource]:
    source = swarm_source(settings(engine, more))
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


async def waits(source: EngineSource, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await source.hint()
    except TimeoutError:
        return False
    return True


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


def test_the_settings_become_the_rules(tmp_path: Path) -> None:
    more = "network: n, labelled_only: true, shared_models: [m], env: {model: [A], max_model_len: [B], port: [C]}"
    wanted = wanted_of(settings(DockerStub(tmp_path / "s"), more))
    assert (wanted.network, wanted.labelled_only, wanted.shared) == ("n", True, frozenset({"m"}))
    assert wanted.env == {"A", "B", "C"}


def test_while_a_task_begins_the_next_look_comes_soon(tmp_path: Path) -> None:
    """A new replica is found a third of a second after it runs, without an event that would tell; later the pace is calm again."""

    async def main(engine: DockerStub) -> None:
        async with looking(engine) as source:
            await source.look()
            assert await waits(source, 3)  # the stream stands
            engine.tasks.append(task("vllm-a", "10.0.1.5", state="starting"))
            assert len(hosts(await source.look())) == 2
            assert await waits(source, 1)
            engine.tasks[-1] = task("vllm-a", "10.0.1.5")
            assert len(hosts(await source.look())) == 3
            assert not await waits(source, 0.6)

    played(tmp_path, main)


def test_many_tasks_are_not_listed_so_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autohedge.sources.swarm.FEW", 2)

    async def main(engine: DockerStub) -> None:
        async with looking(engine) as source:
            await source.look()
            assert await waits(source, 3)
            engine.tasks.append(task("vllm-a", "10.0.1.5", state="starting"))
            await source.look()
            assert not await waits(source, 0.6)

    played(tmp_path, main)


GOSSIP = {
    "Name": "autohedge-net",
    "Services": {
        "": {"VIP": "<nil>", "Tasks": [{"Name": "by-hand", "EndpointID": "e", "EndpointIP": "10.0.1.9", "Info": {}}]},
        "vllm-a": {
            "VIP": "10.0.1.2",
            "Tasks": [
                {"Name": "vllm-a.1.abc", "EndpointID": "f", "EndpointIP": "10.0.1.5", "Info": {"Host IP": "1.2.3.4"}}
            ],
        },
    },
}


def test_a_member_of_the_network_sees_names_and_addresses(tmp_path: Path) -> None:
    """Facts, swarm 1: without a manager the network itself tells, on any node; no list of a manager is asked for."""

    async def main(engine: DockerStub) -> None:
        engine.raw[f"/networks/{NETWORK}"] = json.dumps(GOSSIP).encode()
        engine.refusals = dict.fromkeys(("/services", "/tasks", "/nodes"), (503, WORKER))
        async with looking(engine, "member: true") as source:
            sweep = await source.look()
            assert hosts(sweep) == ["10.0.1.5"]
            assert isinstance(sweep, Seen)
            assert [backend.name for backend in sweep.backends] == ["vllm-a"]

    played(tmp_path, main)


def test_a_member_that_is_not_on_the_network_says_what_that_takes(tmp_path: Path) -> None:
    """A worker's engine lists an overlay only while a container of its own is on it."""

    async def main(engine: DockerStub) -> None:
        engine.networks = []
        async with looking(engine, "member: true") as source:
            sweep = await source.look()
            assert isinstance(sweep, Blind)
            assert "only while a container of its own is on it" in sweep.reason

    played(tmp_path, main)
