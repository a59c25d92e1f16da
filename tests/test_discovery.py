"""The sources that a configuration asks for."""

from __future__ import annotations

import asyncio
from pathlib import Path

from autohedge.core.types import Seen, Sweep
from autohedge.discovery import FILE, STATIC, Discovery
from autohedge.settings.load import load_text
from autohedge.settings.model import Settings

CONFIG = "upstream_registry: {a: {host: '10.0.0.1:8000'}}\n"


def nothing(_path: str) -> str:
    raise FileNotFoundError


async def _looked(text: str, sources: int, then: str | None = None) -> dict[str, Sweep]:
    """What every source saw first; with `then`, what it saw after a reload to that configuration."""
    swept: dict[str, Sweep] = {}
    more = asyncio.Event()

    def take(name: str, sweep: Sweep) -> None:
        swept[name] = sweep
        more.set()

    def settings(text: str) -> Settings:
        return load_text(text, "c.yaml", {}, nothing).settings

    discovery = Discovery(settings(text), {}, nothing, take)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        task = group.create_task(discovery.run())
        while len(swept) < sources:
            more.clear()
            await more.wait()
        if then is not None:
            more.clear()
            discovery.reload(settings(then))
            await more.wait()
        task.cancel()
    return swept


def looked(text: str, sources: int, then: str | None = None) -> dict[str, Sweep]:
    return asyncio.run(_looked(text, sources, then))


def names(sweep: Sweep) -> list[str]:
    assert isinstance(sweep, Seen)
    return [backend.name for backend in sweep.backends]


def test_the_registry_of_the_configuration_is_a_source_of_its_own() -> None:
    assert {name: names(sweep) for name, sweep in looked(CONFIG, 1).items()} == {STATIC: ["a"]}


def test_a_file_is_looked_at_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "endpoints.yaml"
    path.write_text("models: {m: ['http://10.0.0.2:8000']}\n")
    swept = looked(f"{CONFIG}sources: {{file: {{path: '{path}'}}}}\n", 2)
    assert set(swept) == {STATIC, FILE}


def test_a_reload_changes_what_the_configuration_declares() -> None:
    assert names(looked(CONFIG, 1, CONFIG.replace("{a:", "{b:"))[STATIC]) == ["b"]
