"""One machine without a Swarm: containers of a plain engine are found, balanced, and may come and go. Issue 4, docker source."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.swarm import images, stack
from tests.swarm.cluster import Cluster
from tests.swarm.figures import tell
from tests.swarm.load import Load
from tests.swarm.node import Node
from tests.swarm.shell import until

pytestmark = [pytest.mark.swarm, pytest.mark.timeout(240)]
DOOR, NET = 9700, "plain"
CONFIG = {
    "server": {"listen": f"0.0.0.0:{stack.PORT}"},
    "sources": {"docker": {"enabled": True, "network": NET}},
    "admin": {"open": True},
}


@dataclass(frozen=True, slots=True)
class Plain:
    node: Node
    door: str

    def start(self, name: str) -> None:
        """One sample engine, as `docker run` would start a real one."""
        pace = ("--pace", str(stack.PACE), "--words", str(stack.WORDS), "--drain", "20")
        words = ("engine", "--kind", "vllm", "--host", "0.0.0.0", "--port", str(stack.PORT), "--name", name, *pace)
        label = ("--label", "autohedge.enable=true", "--label", f"autohedge.port={stack.PORT}")
        own = ("--name", name, "--network", NET, "--no-healthcheck", *label)
        self.node.docker("run", "--detach", *own, images.PROJECT, *words, "--model", "sample")

    def states(self) -> list[str]:
        return [
            one["state"] for one in stack.asked(f"http://{self.door}/admin/replicas")[1]["replicas"] if one["known"]
        ]


@pytest.fixture
def plain(built: Cluster, tmp_path: Path) -> Iterator[Plain]:
    """AutoHedge and one engine, as containers on a bridge."""
    node = built.manager
    made = Plain(node, f"{node.address}:{DOOR}")
    node.docker("network", "create", NET)
    made.start("one")
    config = tmp_path / "autohedge.yaml"
    config.write_text(json.dumps(CONFIG))
    tmp_path.chmod(0o755)
    mounts = ("--volume", f"{config}:/app/config/config.yaml:ro", "--volume", f"{node.socket}:/var/run/docker.sock")
    own = ("--name", "edge", "--user", "0", "--network", NET, "--publish", f"{DOOR}:{stack.PORT}")
    node.docker("run", "--detach", *own, *mounts, images.PROJECT)
    until(lambda: stack.asked(f"http://{made.door}/health")[0] == 200, 40, 0.2, "AutoHedge answers")
    yield made
    node.docker("rm", "--force", "--volumes", "edge", "one", "two")
    node.docker("network", "rm", NET)


def test_a_container_that_comes_gets_requests_and_one_that_goes_costs_none(plain: Plain) -> None:
    """40 requests/s while a second engine is started and the first is stopped as `docker stop` does: without a warning."""
    with Load([plain.door]) as load:
        time.sleep(2)
        plain.start("two")
        until(lambda: len(plain.states()) == 2, 20, what="both are known")
        time.sleep(2)
        plain.node.docker("stop", "--time", "20", "one")
        time.sleep(2)
    tell("containers:", load.report)
    load.report.well()
    assert set(load.report.speakers) == {"one", "two"}
