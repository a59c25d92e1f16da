"""The sources that a configuration asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from autohedge.core.types import Address, Blind, Seen, Sweep
from autohedge.discovery import DOCKER, FILE, STATIC, SWARM, WORKERS, Discovery, Told
from autohedge.settings.load import load_text
from autohedge.settings.model import Settings
from autohedge.sources.workers import WorkersSource
from tests.sources.test_workers import Store
from tests.support.docker_stub import DockerStub
from tests.support.house import eventually
from tests.support.swarm import service, task

NAMED = "upstream_registry: {n: {host: 'localhost:8081', resolve: true}}\n"
CONFIG = "upstream_registry: {a: {host: '10.0.0.1:8000'}}\n"


def nothing(_path: str) -> str:
    raise FileNotFoundError


class Ears:
    """What discovery told: the last sweep of every source, and the sources that were taken away."""

    def __init__(self) -> None:
        self.swept: dict[str, Sweep] = {}
        self.gone: list[str] = []

    def take(self, name: str, sweep: Sweep) -> None:
        self.swept[name] = sweep


def looked(*texts: str, until: Callable[[Ears], bool]) -> Ears:
    """Run discovery with the first configuration, then reload the others one by one; `until` is waited for at the end."""
    ears = Ears()

    def settings(text: str) -> Settings:
        return load_text(text, "c.yaml", {}, nothing).settings

    async def main() -> None:
        workers = WorkersSource(Store(), "boot", lambda: 0.0)
        discovery = Discovery(settings(texts[0]), {}, nothing, Told(ears.take, ears.gone.append), workers)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(discovery.run())
            await eventually(lambda: bool(ears.swept))
            for text in texts[1:]:
                await asyncio.sleep(0.05)
                discovery.reload(settings(text))
            await eventually(lambda: until(ears))
            task.cancel()

    asyncio.run(main())
    return ears


def names(sweep: Sweep | None) -> list[str]:
    return [backend.name for backend in sweep.backends] if isinstance(sweep, Seen) else []


def test_the_registry_of_the_configuration_is_a_source_of_its_own() -> None:
    ears = looked(CONFIG, until=lambda ears: len(ears.swept) == 2)
    assert {name: names(sweep) for name, sweep in ears.swept.items()} == {STATIC: ["a"], WORKERS: []}


def test_a_file_is_looked_at_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "endpoints.yaml"
    path.write_text("models: {m: ['http://10.0.0.2:8000']}\n")
    looked(
        f"{CONFIG}sources: {{file: {{path: '{path}'}}}}\n",
        until=lambda ears: set(ears.swept) == {STATIC, FILE, WORKERS},
    )


def test_workers_of_the_configuration_are_a_source_too() -> None:
    """eidex's list; a reload takes over another one."""
    one, two = ("workers: [{url: 'http://w1:1'}]\n", "workers: [{url: 'http://w2:1', model_id: dex}]\n")
    ears = looked(one, until=lambda ears: len(names(ears.swept.get(WORKERS))) == 1)
    ears = looked(one, two, until=lambda ears: "dex" in models(ears.swept.get(WORKERS)))
    assert ears.gone == []


def models(sweep: Sweep | None) -> list[str]:
    return [name for backend in sweep.backends for name in backend.models] if isinstance(sweep, Seen) else []


def test_a_reload_changes_what_the_configuration_declares() -> None:
    looked(CONFIG, CONFIG.replace("{a:", "{b:"), until=lambda ears: names(ears.swept[STATIC]) == ["b"])


def test_a_backend_behind_a_name_has_a_source_of_its_own() -> None:
    """R3, R11: its addresses are what the resolver tells; the other source does not report it as well."""
    ears = looked(NAMED, until=lambda ears: "dns:n" in ears.swept and STATIC in ears.swept)
    assert names(ears.swept[STATIC]) == []
    sweep = ears.swept["dns:n"]
    assert isinstance(sweep, Seen)
    assert sweep.backends[0].addresses == (Address("127.0.0.1", 8081),)


def test_a_reload_that_takes_a_name_away_takes_its_source_away() -> None:
    ears = looked(NAMED, CONFIG, until=lambda ears: bool(ears.gone))
    assert ears.gone == ["dns:n"]


def test_a_reload_that_changes_a_name_is_looked_at_under_its_new_form() -> None:
    def moved(ears: Ears) -> bool:
        sweep = ears.swept.get("dns:n")
        return isinstance(sweep, Seen) and sweep.backends[0].addresses[0].port == 9

    assert looked(NAMED, NAMED.replace("8081", "9"), until=moved).gone == []


def test_docker_s_two_sources_are_followed_side_by_side(tmp_path: Path) -> None:
    """A Swarm and one engine may be asked by one process; each has its own picture, or its own reason for none."""
    with DockerStub(tmp_path / "docker.sock") as engine:
        engine.services, engine.tasks = [service("vllm-a")], [task("vllm-a", "10.0.1.3")]
        engine.refusals["/containers/json"] = (403, "forbidden")
        place = f"{{enabled: true, host: '{engine.host}'}}"
        text = f"{CONFIG}sources: {{swarm: {place}, docker: {place}}}\n"
        ears = looked(text, until=lambda ears: len(ears.swept) == 4)
    assert names(ears.swept[SWARM]) == ["vllm-a"]
    assert isinstance(ears.swept[DOCKER], Blind)
