"""`autohedge check --discover`: what every source sees, in words."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from autohedge import cli
from autohedge.core.types import Blind, Fact, Kind, Limits, Rank, Seen
from autohedge.settings.load import load_text
from autohedge.surveying import survey, told
from tests.support.docker_stub import DockerStub
from tests.support.swarm import container, service, task
from tests.support.world import backend


def test_a_backend_is_one_line_and_what_was_ignored_another() -> None:
    spec = backend(
        "vllm-a",
        "t1",
        "t2",
        models=("m",),
        kind=Kind.VLLM,
        aliases={"gpt": "m"},
        hints=Limits(context=Fact(9, "MAX of it", Rank.ENV)),
        pool="gpu",
        concurrency=4,
    )
    assert list(told("swarm", Seen((spec, backend("b")), ("service x is odd",)))) == [
        "source swarm sees 2 backends",
        "  vllm-a: 2 replicas (http://t1:8000 http://t2:8000), provider vllm, models m, aliases gpt=m, context 9 (MAX of it), pool gpu, concurrency 4",
        "  b: 0 replicas, provider asked for, models asked for",
        "  note: service x is odd",
    ]
    assert list(told("file", Blind("cannot read x"))) == ["source file is blind: cannot read x"]


def test_every_source_is_looked_at_once(tmp_path: Path) -> None:
    file = tmp_path / "endpoints.yaml"
    file.write_text("upstream_registry: {f: {host: '10.0.0.2:8000'}}\n")
    with DockerStub(tmp_path / "docker.sock") as engine:
        engine.services, engine.tasks = [service("vllm-a")], [task("vllm-a", "10.0.1.3")]
        text = (
            "upstream_registry: {s: {host: '10.0.0.1:8000'}, n: {host: 'localhost:8081', resolve: true}}\n"
            f"sources: {{file: {{path: '{file}'}}, swarm: {{enabled: true, host: '{engine.host}'}}}}\n"
        )

        def nothing(_path: str) -> str:
            raise FileNotFoundError

        sweeps = asyncio.run(survey(load_text(text, "c.yaml", {}, nothing).settings, {}, nothing))
    names = {name: [spec.name for spec in sweep.backends] for name, sweep in sweeps.items() if isinstance(sweep, Seen)}
    assert list(names) == ["static", "file", "swarm", "dns:n"]
    assert names["static"] == ["s"]
    assert names["swarm"] == ["vllm-a"]
    assert names["dns:n"] == ["n"]


def test_the_command_tells_it_and_fails_when_a_source_is_blind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Swarm 4.1: explains what it found and what it ignored and why; no value of a variable that is not a model's."""
    monkeypatch.delenv("AUTOHEDGE_CONFIG", raising=False)
    config = tmp_path / "c.yaml"
    with DockerStub(tmp_path / "docker.sock") as engine:
        spec = container(env=["MODEL=m", "KEY=sk-secret"])
        engine.services = [service("vllm-a", spec=spec), service("web", {"autohedge.enabled": "true"})]
        engine.tasks = [task("vllm-a", "10.0.1.3", spec)]
        config.write_text(f"sources: {{swarm: {{enabled: true, host: '{engine.host}'}}}}\n")
        assert cli.main(["check", "--config", str(config)]) == 0
        assert "source swarm" not in capsys.readouterr().out
        assert cli.main(["check", "--discover", "--config", str(config)]) == 0
        shown = capsys.readouterr().out
        assert "vllm-a: 1 replica (http://10.0.1.3:8000), provider asked for, models m" in shown
        assert "note: service web: label autohedge.enabled is not known; did you mean autohedge.enable?" in shown
        assert "sk-secret" not in shown
        engine.refusals["/tasks"] = (403, "")
        assert cli.main(["check", "--discover", "--config", str(config)]) == 1
        assert "source swarm is blind: the guard or socket proxy" in capsys.readouterr().out
