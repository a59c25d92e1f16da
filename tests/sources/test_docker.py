"""The containers of an engine, asked for over a real unix socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from autohedge.core.types import Blind, Seen, Sweep
from autohedge.settings.load import load_text
from autohedge.sources.docker import docker_source
from autohedge.sources.following import EngineSource
from tests.rules.test_containers import NET, compose, listed, shown
from tests.support.docker_stub import DockerStub


class Engine(DockerStub):
    """A stub with containers: what is listed, and what each shows in full."""

    def put(self, *containers: dict[str, Any], told: dict[str, Any] | None = None) -> None:
        self.raw["/containers/json"] = json.dumps(containers).encode()
        for one in containers:
            self.raw.setdefault(f"/containers/{one['Id']}/json", json.dumps(told or shown()).encode())


def played(tmp_path: Path, main: Callable[[Engine, EngineSource], Coroutine[Any, Any, None]]) -> None:
    with Engine(tmp_path / "docker.sock") as engine:
        text = f"sources: {{docker: {{enabled: true, host: '{engine.host}', network: {NET}, timeout: 30s}}}}\n"
        source = docker_source(load_text(text, "c.yaml", {}, str).settings.sources.docker)
        try:
            asyncio.run(main(engine, source))
        finally:
            source.close()
        assert engine.writes == []


def names(sweep: Sweep) -> list[str]:
    assert isinstance(sweep, Seen), sweep
    return [backend.name for backend in sweep.backends]


def test_compose_services_and_plain_containers_are_seen(tmp_path: Path) -> None:
    async def main(engine: Engine, source: EngineSource) -> None:
        engine.put(
            compose("app", "vllm-a", 1, "172.18.0.2"), listed("ollama-b", "172.18.0.3"), listed("web", "172.18.0.4")
        )
        assert source.name == "docker"
        assert names(await source.look()) == ["app_vllm-a", "ollama-b"]

    played(tmp_path, main)


def test_a_container_is_looked_into_once(tmp_path: Path) -> None:
    """One question a second, not one per container; one that comes again under its name has another Id."""

    async def main(engine: Engine, source: EngineSource) -> None:
        one = listed("vllm-a")
        engine.put(one)
        await source.look()
        await source.look()
        assert engine.asked["/containers/id-vllm-a/json"] == 1
        engine.put(one | {"Id": "new"})
        assert names(await source.look()) == ["vllm-a"]
        assert engine.asked["/containers/new/json"] == 1

    played(tmp_path, main)


def test_a_container_that_ends_between_the_questions_is_no_trouble(tmp_path: Path) -> None:
    async def main(engine: Engine, source: EngineSource) -> None:
        engine.put(listed("vllm-a"), listed("vllm-b", "172.18.0.3"))
        engine.refusals["/containers/id-vllm-a/json"] = (404, "No such container: id-vllm-a")
        assert names(await source.look()) == ["vllm-b"]

    played(tmp_path, main)


def test_one_that_cannot_be_read_spoils_nothing(tmp_path: Path) -> None:
    async def main(engine: Engine, source: EngineSource) -> None:
        engine.put(listed("vllm-a"), listed("vllm-b", "172.18.0.3"))
        engine.raw["/containers/id-vllm-a/json"] = b'{"Config": null}'
        sweep = await source.look()
        assert names(sweep) == ["vllm-b"]
        assert isinstance(sweep, Seen)
        assert sweep.notes == ("a container is left out: its Config cannot be read",)

    played(tmp_path, main)


def test_a_refusal_is_blind_and_names_the_right(tmp_path: Path) -> None:
    """A guard for Swarm does not let containers be listed."""

    async def main(engine: Engine, source: EngineSource) -> None:
        engine.put(listed("vllm-a"))
        await source.look()
        engine.refusals["/containers/json"] = (403, "forbidden")
        sweep = await source.look()
        assert isinstance(sweep, Blind)
        assert "refuses GET /containers/json (403)" in sweep.reason
        assert "CONTAINERS=1" in sweep.reason
        engine.put(listed("vllm-c"))
        engine.refusals = {"/containers/id-vllm-c/json": (403, "forbidden")}
        assert isinstance(await source.look(), Blind)

    played(tmp_path, main)
