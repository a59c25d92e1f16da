"""Journeys in front of a Swarm: sample engines are its tasks, a Docker API on a real socket lists them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from autohedge.engine.sample import SampleEngine
from autohedge.sources import following as module
from tests.support.canned import held
from tests.support.docker_stub import DockerStub
from tests.support.house import SERVER, Edge, eventually, house, run, vllm
from tests.support.swarm import container, service, task


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY", 0.3)
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.1)


class Swarm:
    """A stub of the engine whose tasks are the sample engines."""

    def __init__(self, stub: DockerStub) -> None:
        self.stub = stub
        self.number = 0

    def start(self, name: str, engine: SampleEngine, *args: str) -> dict[str, Any]:
        """A new task of a service that runs this engine."""
        self.number += 1
        port = engine.url.rpartition(":")[2]
        spec = container([*args, "--port", port])
        raw = task(name, engine.host, spec) | {"ID": f"task{self.number:06}{'x' * 15}"}
        self.stub.tasks = [*self.stub.tasks, raw]
        self.stub.tell()
        return raw

    def stop(self, *gone: dict[str, Any]) -> None:
        """What the engine lists from the moment on in which it wants a task to end; its SIGTERM comes two seconds later."""
        self.stub.tasks = [raw | {"DesiredState": "shutdown"} if raw in gone else raw for raw in self.stub.tasks]
        self.stub.tell()


@asynccontextmanager
async def swarm(
    tmp_path: Path, *services: dict[str, Any], **engines: SampleEngine
) -> AsyncIterator[tuple[Swarm, Edge]]:
    """AutoHedge in front of a Swarm with these services and no task yet."""
    with DockerStub(tmp_path / "docker.sock") as stub:
        stub.services = list(services)
        config = f"{SERVER}sources: {{swarm: {{enabled: true, host: '{stub.host}', timeout: 10s}}}}\n"
        async with house(config, None, None, **engines) as edge:
            await eventually(lambda: "swarm" in edge.house.registry.snapshot.sources)
            yield Swarm(stub), edge


def candidates(edge: Edge, model: str = "m") -> int:
    route = edge.house.registry.snapshot.routes.get(model)
    return -1 if route is None else len(route.candidates)


def heard(edge: Edge, number: int) -> bool:
    snapshot = edge.house.registry.snapshot
    return len(snapshot.lessons) == len(snapshot.replicas) == number


def test_a_service_is_served_by_the_name_of_its_model_and_by_its_own(tmp_path: Path) -> None:
    """S137: nobody registers anything; the engine tells its model, the service's name stands for it."""

    async def main() -> None:
        async with swarm(tmp_path, service("vllm-a"), one=vllm(), two=vllm(host="127.0.0.2")) as (cluster, edge):
            cluster.start("vllm-a", edge.one)
            assert await eventually(lambda: candidates(edge) == 1) < 1.5
            assert (await edge.chat()).status == 200
            assert (await edge.chat(model="vllm-a")).status == 200
            cluster.start("vllm-a", edge.two)
            assert await eventually(lambda: candidates(edge) == 2) < 1.5

    run(main())


def test_a_task_that_is_to_end_gets_no_new_request_and_its_stream_ends_whole(tmp_path: Path) -> None:
    """Drain ahead of SIGTERM: B22; a stream that began before goes on to [DONE], all later requests go to the other task."""

    async def main() -> None:
        worker = held(stream=True)
        async with swarm(tmp_path, service("vllm-a"), one=worker.engine, two=vllm(host="127.0.0.2")) as (cluster, edge):
            old = cluster.start("vllm-a", edge.one)
            await eventually(lambda: candidates(edge) == 1)
            running = asyncio.create_task(edge.stream())
            await eventually(lambda: edge.busy == 1)
            cluster.start("vllm-a", edge.two)
            await eventually(lambda: heard(edge, 2))
            cluster.stop(old)
            assert await eventually(lambda: heard(edge, 1)) < 1.5
            assert not running.done()
            before = edge.work["one"]
            for _ in range(10):
                assert (await edge.chat()).status == 200
            assert edge.work["one"] == before
            worker.free.set()
            stream = await running
            assert stream.errors == []
            assert stream.body.endswith(b"[DONE]\n\n")

    run(main())


def test_a_service_without_a_task_is_a_503_and_comes_back(tmp_path: Path) -> None:
    """Traefik #9907: scaled to zero the model is unavailable, not unknown; a model that nobody knows stays a 404."""

    async def main() -> None:
        async with swarm(tmp_path, service("vllm-a"), one=vllm()) as (cluster, edge):
            only = cluster.start("vllm-a", edge.one)
            await eventually(lambda: candidates(edge) == 1)
            cluster.stop(only)
            await eventually(lambda: candidates(edge) == 0)
            answer = await edge.chat()
            assert (answer.status, answer.error["code"]) == (503, "no_backend")
            assert (await edge.chat(model="vllm-a")).status == 503
            assert (await edge.chat(model="other")).status == 404
            assert (await edge.get("/v1/models")).json()["data"] == []
            cluster.start("vllm-a", edge.one)
            await eventually(lambda: candidates(edge) == 1)
            assert (await edge.chat()).status == 200

    run(main())


def test_a_blind_api_is_degraded_and_the_data_path_goes_on(tmp_path: Path) -> None:
    """The last picture stays; /health says why, and is well again soon after the API is."""

    async def main() -> None:
        async with swarm(tmp_path, service("vllm-a"), one=vllm()) as (cluster, edge):
            cluster.start("vllm-a", edge.one)
            await eventually(lambda: candidates(edge) == 1)
            snapshot = edge.house.registry.snapshot

            def blind() -> str:
                return edge.house.registry.snapshot.sources["swarm"].blind

            cluster.stub.refusals["/tasks"] = (403, "no")
            await eventually(lambda: bool(blind()))
            for _ in range(5):
                assert (await edge.chat()).status == 200
            health = (await edge.get("/health")).json()
            assert health["status"] == "degraded"
            assert "refuses GET /tasks (403)" in health["blind_sources"]["swarm"]
            assert edge.house.registry.snapshot.replicas == snapshot.replicas
            cluster.stub.stop()
            await eventually(lambda: "does not exist" in blind())
            assert (await edge.chat()).status == 200
            cluster.stub.refusals.clear()
            cluster.stub.start()
            await eventually(lambda: not blind())
            assert (await edge.get("/health")).json()["status"] == "ok"

    run(main())


def test_a_replica_that_answers_for_another_model_is_not_routed(tmp_path: Path) -> None:
    """moby #39028: the address of a task is answered by the container of another one."""

    async def main() -> None:
        other = SampleEngine("vllm", model="llama", host="127.0.0.2")
        args = ("vllm", "serve", "x", "--served-model-name", "m")
        async with swarm(tmp_path, service("vllm-a"), one=vllm(), two=other) as (cluster, edge):
            cluster.start("vllm-a", edge.one, *args)
            cluster.start("vllm-a", edge.two, *args)
            await eventually(lambda: heard(edge, 2))
            for _ in range(6):
                assert (await edge.chat()).status == 200
            assert edge.work == {"one": 6, "two": 0}
            assert (await edge.chat(model="llama")).status == 404
            notes = edge.house.registry.snapshot.sources["swarm"].notes
            assert any("its engine serves llama, not m" in note for note in notes)

    run(main())
