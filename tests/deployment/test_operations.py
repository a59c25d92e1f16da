"""docs/operations.md tells what an operator needs, and README how it is deployed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autohedge.rules import labels
from autohedge.rules.alerts import Topic

ROOT = Path(__file__).resolve().parents[2]
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


@pytest.mark.parametrize(
    "told",
    [
        "docker-guard", "IPVS", "stop_grace_period", "SERVICES: 1", "TASKS: 1", "NODES: 1", "NETWORKS: 1", "POST: 0",
        "mode: host", "rollback", "node.role == manager", "appendonly", "ExecStart=", "Restart=on-failure", "autohedge_admin",
        "docker swarm init", "docker swarm join", "max_replicas_per_node", "/admin/sources", "grafana.json",
    ],
)  # fmt: skip
def test_operations_tell(told: str) -> None:
    """E153: a unit is documented. S87, S88: one machine or three, initialised and joined by token."""
    assert told in OPERATIONS


@pytest.mark.parametrize("topic", Topic)
def test_operations_explain_every_alert(topic: Topic) -> None:
    """Whoever gets the mail at night finds the line."""
    assert f"| `{topic.value}` |" in OPERATIONS


def test_every_label_is_in_the_table() -> None:
    """The labels that are read, and no others."""
    table = OPERATIONS.partition("| label (under `deploy:`)")[2].partition("\n\n")[0]
    cells = " ".join(line.split("|")[1] for line in table.splitlines()[2:])
    assert set(re.findall(r"`autohedge\.(\w+)`", cells)) == set(labels._READERS)


def test_the_reasons_of_a_blind_source_are_told_in_its_own_words() -> None:
    """Who searches the page for what /health says finds it."""
    words = (ROOT / "autohedge" / "sources" / "docker_errors.py").read_text()
    table = OPERATIONS.partition("| reason, in its own words |")[2].partition("\n\n")[0]
    reasons = [line.split("|")[1].strip() for line in table.splitlines()[2:]]
    assert len(reasons) >= 8
    for part in (
        ", ".join(reasons).replace("GET /tasks (403)", "GET").replace("manager, only", "manager only").split(", ")
    ):
        assert part in words, part


def test_the_readme_shows_the_swarm() -> None:
    """S21, S107: deployed by commands that stand in the first page."""
    text = (ROOT / "README.md").read_text()
    assert "docker network create --driver overlay --attachable autohedge-net" in text
    assert "docker stack deploy --compose-file stack.yml" in text
    assert "docker compose up" in text
