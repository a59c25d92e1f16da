"""Issue 4, acceptance 4: the Docker API is away, hangs, refuses, or is that of a worker. Requests go on with the last picture;
/health is degraded and says why, in a sentence that names what to do; one line stands in the log.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.swarm import images, stack
from tests.swarm.cluster import Cluster
from tests.swarm.figures import tell
from tests.swarm.load import Load
from tests.swarm.node import Node
from tests.swarm.shell import until

pytestmark = [pytest.mark.swarm, pytest.mark.timeout(240)]
DOOR = 9500
AWAY = 15.0  # seconds; nothing in AutoHedge waits longer for a dead API, so a minute would show no more
HUNG = (
    8.0  # when a manager hangs for three heartbeats (15 s), Swarm calls its own node down and replaces the tasks there
)

# What a docker-socket-proxy without TASKS=1 does: all of the API but one path.
REFUSING = """
import http.client, http.server, socket
class Wire(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("/var/run/docker.sock")
class Proxy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        status, body = 403, b"<html><body>403 Forbidden</body></html>"
        if "/tasks" not in self.path and "/events" not in self.path:
            wire = Wire("engine")
            wire.request("GET", self.path)
            answer = wire.getresponse()
            status, body = answer.status, answer.read()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("0.0.0.0", 2375), Proxy).serve_forever()
"""


def config(host: str, **more: Any) -> dict[str, Any]:
    swarm = {"enabled": True, "network": "backends", "host": host, "timeout": "2s"}
    return {"server": {"listen": f"0.0.0.0:{stack.PORT}"}, "sources": {"swarm": swarm}, "admin": {"open": True}, **more}


@contextmanager
def deployed(
    node: Node, host: str, where: Node | None = None, others: dict[str, stack.Service] | None = None, **edge: Any
) -> Iterator[str]:
    """AutoHedge with a published port, a backend, and what else is given; its door."""
    port = {"mode": "host", "target": stack.PORT, "published": DOOR}
    placed = {**stack.EDGE_DEPLOY, **stack.on(where or node)}
    services = {
        "vllm-sample": stack.sample(),
        "edge": stack.edge(ports=[port], deploy=placed, **edge),
        **(others or {}),
    }
    stack.deploy(node, "trouble", services, config(host))
    door = f"{(where or node).address}:{DOOR}"
    try:
        until(lambda: stack.asked(f"http://{door}/health")[0] in {200, 503}, 60, 0.2, "AutoHedge answers")
        yield door
    finally:
        stack.remove(node, "trouble")


def health(door: str) -> dict[str, Any]:
    told: dict[str, Any] = stack.asked(f"http://{door}/health")[1]
    return told


def well(door: str) -> bool:
    return health(door).get("status") == "ok" and stack.asked(f"http://{door}/v1/models")[1]["data"] != []


def blind(door: str, words: str = "swarm", within: float = 40.0) -> str:
    """Wait until /health is not well because of the source, and return what it says."""

    def look() -> str:
        told = health(door)
        return str(told) if told.get("status") != "ok" and words in str(told) else ""

    return until(look, within, 0.2, f"/health says {words}")


def said(node: Node, words: str) -> int:
    """How many lines of AutoHedge's log hold these words."""
    return sum(words in line for line in node.log("trouble_edge"))


def test_the_engine_hangs_and_comes_back(built: Cluster) -> None:
    """Its API takes connections and says nothing: not one request fails, and afterwards a new task is found."""
    node = built.manager
    with deployed(node, "unix:///var/run/docker.sock", volumes=[stack.socket(node)], user="0") as door:
        until(lambda: well(door), 60, 0.2, "the backend is known")
        with Load([door]) as load:
            with node.frozen():
                begun = time.monotonic()
                reason = blind(door)
                noticed = time.monotonic() - begun
                time.sleep(HUNG - min(noticed, HUNG))
            begun = time.monotonic()
            until(lambda: well(door), 30, 0.2, "it sees again")
            back = time.monotonic() - begun
        tell(f"hang told after {noticed:.1f} s, seen again after {back:.1f} s: {reason}; {load.report}")
        load.report.well()
        assert "no answer" in reason
        assert said(node, "is blind") == 1
        assert said(node, "sees again") == 1
        node.docker("service", "scale", "--detach", "trouble_vllm-sample=2")
        stack.settled(node, "trouble_vllm-sample", 2)
        until(lambda: len(replicas(door)) == 2, 10, what="the new task is found")


def test_the_guard_is_away_and_comes_back(built: Cluster) -> None:
    """Nobody listens: not one request fails, /health tells who is down."""
    node = built.manager
    others = {"guard": stack.guard(node)}
    with deployed(node, "tcp://tasks.trouble_guard:2375", others=others) as door:
        until(lambda: well(door), 60, 0.2, "the backend is known")
        with Load([door]) as load:
            node.docker("service", "scale", "--detach", "trouble_guard=0")
            reason = blind(door)
            time.sleep(AWAY - 5)
            node.docker("service", "scale", "--detach", "trouble_guard=1")
            until(lambda: well(door), 40, 0.2, "it sees again")
        tell("guard away:", reason, load.report)
        load.report.well()
        assert said(node, "is blind") <= 2  # refused, then without a name: two different sentences


def test_no_permission_for_the_socket(built: Cluster) -> None:
    """The usual first mistake: the socket is mounted, the image's user may not use it."""
    node = built.manager
    node.socket.chmod(0o660)
    with deployed(node, "unix:///var/run/docker.sock", volumes=[stack.socket(node)]) as door:
        reason = blind(door)
        tell(reason)
        assert "no permission for the Docker socket" in reason
        until(lambda: said(node, "no permission"), 10, what="the log tells it")
        assert said(node, "no permission") == 1


def test_the_socket_of_a_worker(three: Cluster, built: Cluster) -> None:
    """A worker knows no services. The sentence says where to go."""
    images.spread(three[1], three.nodes[1:], images.PROJECT)
    worker = three[2]
    with deployed(
        three.manager, "unix:///var/run/docker.sock", worker, volumes=[stack.socket(worker)], user="0"
    ) as door:
        reason = blind(door)
        tell(reason)
        assert "is a worker of its swarm" in reason
        assert "let sources.swarm.host be a manager" in reason


def test_a_proxy_that_refuses_tasks(built: Cluster) -> None:
    """A docker-socket-proxy without TASKS=1: the missing permission has its name in the sentence."""
    node = built.manager
    proxy = {
        "image": images.BASE,
        "command": ["python", "-c", REFUSING.replace("$", "$$")],
        "volumes": [stack.socket(node)],
        "networks": ["backends"],
        "stop_grace_period": "1s",
        "deploy": {"endpoint_mode": "dnsrr", **stack.on(node)},
    }
    with deployed(node, "tcp://tasks.trouble_proxy:2375", others={"proxy": proxy}) as door:
        tell(blind(door, "TASKS=1"))


def replicas(door: str) -> set[str]:
    return {one["replica"] for one in stack.asked(f"http://{door}/admin/replicas")[1]["replicas"]}
