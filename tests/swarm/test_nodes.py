"""Issue 4, acceptance 3: three nodes, and what happens to them. Callers see no failure while one healthy replica exists.

AutoHedge runs on a worker, n3, and reads the manager, n1, through docker-guard. The backend has a task on every node. 40 requests/s
run all the time. A stream that a lost node had begun cannot be saved by anybody; all others can, and nobody waits for it longer
than `timeouts.acknowledge` allows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.swarm import images, stack
from tests.swarm.cluster import Cluster
from tests.swarm.figures import tell
from tests.swarm.happenings import Happenings
from tests.swarm.load import Heard, Load, Report
from tests.swarm.node import Node
from tests.swarm.shell import until

pytestmark = [pytest.mark.swarm, pytest.mark.timeout(240)]
BACKEND = "nodes_vllm-sample"
DOOR = 9300
Ways = tuple[Callable[[], None], Callable[[], None]]
LONG = 60.0  # seconds that a caller waits here
SOON = 10.0  # seconds for a plain request on a node whose cable was cut: its time to acknowledge, and another's answer
CONFIG = {
    "server": {"listen": f"0.0.0.0:{stack.PORT}"},
    "sources": {"swarm": {"enabled": True, "network": "backends", "host": "tcp://tasks.nodes_guard:2375"}},
    "admin": {"open": True},
}


@dataclass(frozen=True, slots=True)
class Wide:
    swarm: Cluster
    door: str

    @property
    def manager(self) -> Node:
        return self.swarm[1]

    def load(self) -> Load:
        return Load([self.door], patience=LONG)

    def address(self, node: Node) -> str:
        """The overlay address of the backend's task on a node."""
        for task in self.manager.api("/tasks", service=[BACKEND], desired_state=["running"]):
            if task["NodeID"] == self.id(node) and task["Status"]["State"] == "running":
                return str(task["NetworksAttachments"][0]["Addresses"][0]).partition("/")[0]
        return ""

    def id(self, node: Node) -> str:
        return self.manager.docker("node", "inspect", "--format", "{{.ID}}", node.name)

    def usable(self) -> dict[str, str]:
        """Address and state of every replica that AutoHedge knows."""
        _, told = stack.asked(f"http://{self.door}/admin/replicas")
        return {one["replica"].partition("@")[2].partition(":")[0]: one["state"] for one in told["replicas"]}

    def health(self) -> tuple[str, str]:
        """The status of /health, and all that it says."""
        _, told = stack.asked(f"http://{self.door}/health")
        return str(told.get("status")), str(told)

    def whole(self) -> None:
        """Wait until everything is as at the beginning."""
        until(lambda: all(self._ready()), 60, 0.2, "all nodes are ready")
        stack.settled(self.manager, BACKEND, 3)
        until(lambda: list(self.usable().values()) == ["closed"] * 3, 60, 0.2, "AutoHedge knows three replicas")
        until(lambda: self.health()[0] == "ok", 60, 0.2, "AutoHedge is well")

    def _ready(self) -> list[bool]:
        return [node["Status"]["State"] == "ready" for node in self.manager.api("/nodes")]

    def gone(self, address: str, since: float, within: float = 40.0) -> float:
        """Seconds until AutoHedge no longer uses an address: it has left, or its breaker is open."""
        until(lambda: self.usable().get(address, "") in {"", "open"}, within, what=f"{address} is not used")
        return time.time() - since


@pytest.fixture(scope="module")
def wide(built: Cluster, three: Cluster) -> Iterator[Wide]:
    images.spread(three[1], three.nodes[1:], images.PROJECT)
    everywhere = {"mode": "global", "placement": {"constraints": []}}
    backend = stack.sample(deploy=everywhere)
    port = {"mode": "host", "target": stack.PORT, "published": DOOR}
    edge = stack.edge(ports=[port], deploy={**stack.EDGE_DEPLOY, **stack.on(three[3])})
    services = {"vllm-sample": backend, "edge": edge, "guard": stack.guard(three[1])}
    stack.deploy(three.manager, "nodes", services, CONFIG)
    made = Wide(three, f"{three[3].address}:{DOOR}")
    until(lambda: stack.asked(f"http://{made.door}/health")[0] == 200, 60, 0.2, "AutoHedge answers")
    made.whole()
    yield made
    stack.remove(three.manager, "nodes")


def lost(report: Report, before: float, on: str) -> tuple[list[Heard], list[Heard]]:
    """The failures, in two parts: streams that a task had begun before a moment, and all others."""
    failed = [one for one in report.heard if one.fault]
    begun = [one for one in failed if one.stream and one.speaker == on and one.at < before]
    return begun, [one for one in failed if one not in begun]


def speaker(wide: Wide, node: Node) -> str:
    """The name of the backend's task on a node, as its answers begin with it."""
    (task,) = wide.manager.api("/tasks", service=[BACKEND], desired_state=["running"], node=[wide.id(node)])
    return f"{BACKEND}.{task['NodeID']}.{task['ID']}"


def broken(wide: Wide, what: str, node: Node, ways: Ways, *, planned: bool = False) -> Report:
    """Do something to a node under load, print how soon it was noticed, and mend it. `planned`: the node stays in the Swarm."""
    do, mend = ways
    address, task = wide.address(node), speaker(wide, node)
    with Happenings(wide.manager, node) as seen, wide.load() as load:
        time.sleep(3)
        at = time.time()
        do()
        try:
            unused = wide.gone(address, at)
            until(
                lambda: planned or any(state == "down" for _, _, state in seen.nodes),
                25,
                what="Swarm calls the node down",
            )
            time.sleep(2)
        finally:
            mend()
        time.sleep(3)
    down = [when - at for when, _, state in seen.nodes if state == "down"]
    begun, others = lost(load.report, at + 0.5, task)
    tell(
        f"{what}: not used any more after {unused:.1f} s, down for Swarm after {min(down, default=0):.1f} s; {load.report}; "
        f"{len(begun)} streams lost with their node"
    )
    assert [f"{one.at - at:.2f} s after it, {one.took:.2f} s: {one.fault}" for one in others] == []
    wide.whole()
    return load.report


def test_a_worker_s_engine_is_killed(wide: Wide) -> None:
    broken(wide, "engine killed", wide.swarm[2], (wide.swarm[2].kill, wide.swarm[2].start))


def test_a_cable_is_cut_and_healed(wide: Wide) -> None:
    report = broken(wide, "cable cut", wide.swarm[2], (wide.swarm[2].unplug, wide.swarm[2].plug))
    assert report.slowest.took < SOON


def test_a_node_is_drained(wide: Wide) -> None:
    """Planned, so that even the streams of the node come to their end."""

    def availability(word: str) -> None:
        wide.manager.docker("node", "update", "--availability", word, wide.swarm[2].name)

    ways = (lambda: availability("drain"), lambda: availability("active"))
    report = broken(wide, "drained", wide.swarm[2], ways, planned=True)
    report.well()


def test_the_manager_is_restarted(wide: Wide) -> None:
    """Its engine crashes and comes back three seconds later: its containers are replaced, docker-guard among them."""

    def crash() -> None:
        wide.manager.kill()
        time.sleep(3)
        wide.manager.start()

    broken(wide, "manager restarted", wide.manager, (crash, lambda: None), planned=True)


def test_the_quorum_is_lost_and_found(wide: Wide) -> None:
    """Two managers, one is killed: nobody may change anything, the API stops to answer. Routing goes on with what was known."""
    wide.manager.docker("node", "promote", wide.swarm[2].name)
    until(lambda: wide.swarm[2].api("/info")["Swarm"]["ControlAvailable"], what="n2 is a manager")
    address, task = wide.address(wide.swarm[2]), speaker(wide, wide.swarm[2])
    with wide.load() as load:
        time.sleep(2)
        at = time.time()
        wide.swarm[2].unplug()  # the whole machine is gone, silently
        wide.swarm[2].kill()
        try:
            unused = wide.gone(address, at, 60)
            until(lambda: wide.health()[0] != "ok", 60, 0.2, "/health tells that the source is blind")
            blind, said = time.time() - at, wide.health()[1]
            time.sleep(3)
        finally:
            wide.swarm[2].plug()
            wide.swarm[2].start()
        back = time.time()
        until(lambda: wide.health()[0] == "ok", 60, 0.2, "/health is well again")
        again = time.time() - back
    begun, others = lost(load.report, at + 0.5, task)
    tell(
        f"quorum lost: n2 not used after {unused:.1f} s, blind after {blind:.1f} s ({said}), well {again:.1f} s after the "
        f"second manager's return; {load.report}; {len(begun)} streams lost with their node"
    )
    until(lambda: all(wide._ready()), 60, 0.2, "all nodes are ready")
    wide.manager.docker("node", "demote", wide.swarm[2].name)
    assert [f"{one.at - at:.2f} s after it, {one.took:.2f} s: {one.fault}" for one in others] == []
    wide.whole()
