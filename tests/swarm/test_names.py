"""Without the Docker API: AutoHedge asks the engine's name server for tasks.<service>. Issue 4, swarm-lite and dns."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.swarm import stack
from tests.swarm.cluster import Cluster
from tests.swarm.figures import tell
from tests.swarm.happenings import Happenings
from tests.swarm.load import Load
from tests.swarm.shell import until

pytestmark = [pytest.mark.swarm, pytest.mark.timeout(300)]
BACKEND = "names_vllm-sample"
CONFIG = {
    "server": {"listen": f"0.0.0.0:{stack.PORT}"},
    "sources": {"dns": {"interval": "500ms", "confirm": 1}},
    "learning": {"interval": "5s"},
    "upstream_registry": {"vllm-sample": {"host": f"tasks.{BACKEND}:{stack.PORT}", "resolve": True}},
}
DOOR = 9100


@pytest.fixture
def door(built: Cluster) -> Iterator[str]:
    """Two replicas of AutoHedge behind one published port; the backend has one."""
    manager = built.manager
    services = {
        "vllm-sample": stack.sample(),
        "edge": stack.edge(deploy={"replicas": 2}),
        "door": stack.splitter("names_edge", DOOR),
    }
    stack.deploy(manager, "names", services, CONFIG)
    stack.settled(manager, "names_edge", 2)
    door = f"{manager.address}:{DOOR}"
    until(lambda: stack.asked(f"http://{door}/v1/models")[0] == 200, what="AutoHedge answers through the door")
    yield door
    stack.remove(manager, "names")


def test_scaling_out_and_in_costs_no_caller_anything(built: Cluster, door: str) -> None:
    """40 requests/s while a service goes from one task to four and back: none fails, no stream is cut, every task gets work."""
    manager = built.manager
    with Happenings(manager) as seen, Load([door]) as load:
        time.sleep(2)
        for replicas in (4, 1):
            manager.docker("service", "scale", "--detach", f"{BACKEND}={replicas}")
            stack.settled(manager, BACKEND, replicas)
            time.sleep(5)
    tell("names:", load.report)
    load.report.well()
    tasks = {task.name for task in seen.of(BACKEND)}
    assert len(tasks) == 4
    assert set(load.report.speakers) == tasks
