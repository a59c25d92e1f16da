"""The stack files: what they promise is in them, and nobody but the guard sees the engine's socket."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from autohedge.light import LIGHT
from autohedge.rules.keeping import labels
from autohedge.settings.durations import Duration
from autohedge.settings.load import load

ROOT = Path(__file__).resolve().parents[2]


def parsed(name: str) -> dict[str, Any]:
    """A stack file as the engine gets it: variables at their defaults."""
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (ROOT / name).read_text())
    assert "${" not in re.sub(r"#.*", "", text)
    found: dict[str, Any] = yaml.safe_load(text)
    return found


STACK = parsed("stack.yml")
ENGINES = parsed("stack.example-backends.yml")["services"]
EDGE, GUARD, STORE = (STACK["services"][name] for name in ("autohedge", "docker-guard", "valkey"))


def seconds(text: str) -> float:
    return float(Duration.of(text))


def settings() -> Any:
    path = STACK["configs"]["autohedge"]["file"]
    return load(
        path, {}, lambda name: "x" * 32 if name.startswith("/run/secrets/") else (ROOT / name).read_text()
    ).settings


def test_only_the_guard_sees_the_socket() -> None:
    """facts swarm 2b: whoever reaches the socket is root, `:ro` or not."""
    for name, service in STACK["services"].items():
        assert ("docker.sock" in str(service)) is (name == "docker-guard"), name
    assert "docker.sock" not in str(ENGINES)


def test_the_guard_runs_on_managers_and_has_no_way_out() -> None:
    assert GUARD["deploy"]["placement"]["constraints"] == ["node.role == manager"]
    assert GUARD["networks"] == ["control"]
    assert STACK["networks"]["control"]["internal"] is True
    assert "ports" not in GUARD
    assert GUARD["cap_drop"] == ["ALL"]
    assert GUARD["read_only"] is True
    assert GUARD["command"][0] in LIGHT
    assert GUARD["healthcheck"]["test"][1:3] == ["autohedge", "healthcheck"]


def test_the_edge_is_there_twice_and_is_updated_without_a_gap() -> None:
    """R68: several side by side. The new task is healthy before the old one goes, and a bad one goes back by itself."""
    deploy = EDGE["deploy"]
    assert deploy["replicas"] >= 2
    assert deploy["update_config"]["order"] == "start-first"
    assert deploy["update_config"]["failure_action"] == "rollback"
    assert deploy["update_config"]["parallelism"] == 1
    assert seconds(deploy["update_config"]["monitor"]) > 0
    assert deploy["rollback_config"]["order"] == "start-first"
    assert EDGE["ports"] == [{"target": 8000, "published": 8000, "protocol": "tcp", "mode": "ingress"}]


def test_a_stop_waits_as_long_as_the_longest_request() -> None:
    """Docker's ten seconds kill long generations: the grace holds drain, the longest request and a little."""
    server, total = settings().server, settings().timeouts.total
    assert server.grace >= total
    assert seconds(EDGE["stop_grace_period"]) > server.drain + server.grace
    for name, engine in ENGINES.items():
        assert seconds(engine["stop_grace_period"]) > total, name


def test_everything_has_bounds() -> None:
    for name, service in STACK["services"].items():
        assert service["deploy"]["resources"]["limits"].keys() == {"cpus", "memory"}, name
        assert service["logging"]["options"].keys() == {"max-size", "max-file"}, name
        assert service["healthcheck"]["test"], name
    assert EDGE["read_only"] is True
    assert EDGE["cap_drop"] == ["ALL"]


def test_the_configuration_leads_to_guard_store_and_secret() -> None:
    """config by a config, secrets by secrets; the names in it are those of the stack."""
    loaded = settings()
    assert loaded.sources.swarm.enabled
    assert loaded.sources.swarm.host == "tcp://docker-guard:2375"
    assert loaded.state.url.startswith("redis://valkey:6379")
    assert loaded.sources.swarm.network == STACK["networks"]["backends"]["name"]
    assert EDGE["configs"] == [{"source": "autohedge", "target": "/app/config/config.yaml"}]
    text = (ROOT / STACK["configs"]["autohedge"]["file"]).read_text()
    named = set(re.findall(r"^[^#\n]*\$\{file:/run/secrets/(\w+)\}", text, re.MULTILINE))
    assert named == set(EDGE["secrets"]) == set(STACK["secrets"])


def test_the_guard_lets_through_what_the_configuration_reads() -> None:
    allowed = set(GUARD["command"][GUARD["command"].index("--allow-env") + 1].split(","))
    assert settings().sources.swarm.env.names <= allowed


def test_the_store_keeps_its_file_and_is_never_there_twice() -> None:
    assert "--appendonly yes" in STORE["command"]
    assert STORE["volumes"] == ["state:/data"]
    assert STORE["deploy"]["replicas"] == 1
    assert STORE["deploy"]["update_config"]["order"] == "stop-first"
    assert STORE["networks"] == ["control"]


def test_the_network_of_the_engines_outlives_the_stack() -> None:
    """S89, S27: an attachable overlay, made once; other stacks live on it."""
    head = (ROOT / "stack.yml").read_text().partition("version:")[0]
    assert "docker network create --driver overlay --attachable autohedge-net" in head
    for file in (STACK, parsed("stack.example-backends.yml")):
        assert file["networks"]["backends"] == {"external": True, "name": "autohedge-net"}


@pytest.mark.parametrize("name", ENGINES)
def test_an_example_engine_is_found_and_publishes_nothing(name: str) -> None:
    """S92, e7.7: two published 8000s collide in the mesh, and clients could pass AutoHedge by."""
    engine = ENGINES[name]
    assert "ports" not in engine
    assert engine["networks"] == ["backends"]
    ours = engine["deploy"]["labels"]
    assert ours["autohedge.enable"] == "true"
    assert ours["autohedge.port"].isdigit()
    assert labels(ours) == ours  # what the guard lets through
    assert all(isinstance(value, str) for value in ours.values())
    assert "labels" not in engine


def test_engines_may_be_pinned_to_nodes() -> None:
    """S91."""
    assert any(engine["deploy"].get("placement", {}).get("constraints") for engine in ENGINES.values())
