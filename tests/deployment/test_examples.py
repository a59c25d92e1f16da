"""The examples that people copy: every configuration loads, the Compose file fits to its own, the dashboard to the metrics."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from autohedge.engine.main import parser
from autohedge.memory.exposition import View, exposition
from autohedge.memory.meters import Meters
from autohedge.memory.registry import Registry
from autohedge.settings.addresses import split_port
from autohedge.settings.durations import Duration
from autohedge.settings.load import load

ROOT = Path(__file__).resolve().parents[2]
# What an example takes from outside.
GIVEN = {"QUICKSTART_ENGINE_1": "127.0.0.1:1", "QUICKSTART_ENGINE_2": "127.0.0.1:2"}


def read(path: str) -> str:
    return "x" * 32 if path.startswith("/run/secrets/") else Path(path).read_text()


@pytest.mark.parametrize("path", sorted((ROOT / "config").glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_loads_without_a_warning(path: Path) -> None:
    """S100: an example that does not load is worse than none."""
    loaded = load(str(path), GIVEN, read)
    assert loaded.warnings == ()


def compose() -> dict[str, Any]:
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (ROOT / "compose.yml").read_text())
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def test_one_machine_without_a_swarm() -> None:
    """S22: the configuration names the engines of the same file; state lies in a volume; port 8000."""
    services = compose()["services"]
    edge = services["autohedge"]
    assert edge["ports"] == ["8000:8000"]
    assert "./config/compose.yaml:/app/config/config.yaml:ro" in edge["volumes"]
    assert "state:/var/lib/autohedge" in edge["volumes"]
    loaded = load(str(ROOT / "config" / "compose.yaml"), {}, read).settings
    hosts = [split_port(host, host)[0] for backend in loaded.upstream_registry.values() for host in backend.hosts]
    assert hosts
    assert set(hosts) <= services.keys()
    grace = float(Duration.of(edge["stop_grace_period"]))
    assert grace > loaded.server.drain + loaded.server.grace >= loaded.timeouts.total


def test_every_service_knows_how_its_image_is_built() -> None:
    """Compose pulls what has no `build`, before it builds the rest: a fresh machine would stop there."""
    assert {service["build"] for service in compose()["services"].values()} == {"."}
    assert len({service["image"] for service in compose()["services"].values()}) == 1


def test_the_sample_engines_are_started_with_words_that_exist() -> None:
    for name, service in compose()["services"].items():
        if name.startswith("engine-"):
            first, *words = service["command"]
            assert first == "engine"
            assert parser().parse_args(words).name == name
            assert "ports" not in service


def test_the_dashboard_shows_metrics_that_exist() -> None:
    """S149: a Grafana dashboard of the cluster's health."""
    dashboard = json.loads((ROOT / "docs" / "grafana.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    assert len(asked) >= 10
    view = View(Meters(), Registry(()).snapshot, 0.0, "0")
    known = set(re.findall(r"^# TYPE (\w+)", exposition(view, []).decode(), re.MULTILINE))
    for expression in asked:
        for name in re.findall(r"autohedge_\w+", expression):
            assert re.sub(r"_(bucket|sum|count)$", "", name) in known, expression
