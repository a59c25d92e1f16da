"""Discovery without a manager: a worker's own picture of the network, and the containers of one engine. Issue 4, swarm-lite and docker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from autohedge.core.types import Blind, Seen, Sweep
from autohedge.settings.load import load_text
from autohedge.settings.sources import Sources
from autohedge.sources.docker import docker_source
from autohedge.sources.following import EngineSource
from autohedge.sources.swarm import swarm_source
from tests.swarm import images
from tests.swarm.cluster import Cluster
from tests.swarm.node import Node
from tests.swarm.shell import until

pytestmark = [pytest.mark.swarm, pytest.mark.timeout(300)]
NET, SERVICE = "members", "vllm-members"


def sources(node: Node) -> Sources:
    place = f"{{enabled: true, host: 'unix://{node.socket}', network: {NET}"
    text = f"sources: {{swarm: {place}, member: true}}, docker: {place}}}}}\n"
    return load_text(text, "c.yaml", {}, str).settings.sources


def seen_by(source: EngineSource) -> Sweep:
    try:
        return asyncio.run(source.look())
    finally:
        source.close()


def hosts(sweep: Sweep) -> dict[str, list[str]]:
    if isinstance(sweep, Blind):
        return {}
    return {spec.name: [address.host for address in spec.addresses] for spec in sweep.backends}


@pytest.fixture(scope="module")
def running(three: Cluster) -> Iterator[Cluster]:
    """A service with two tasks on each worker, and a container that is nobody's on worker 2."""
    manager = three.manager
    manager.docker("network", "create", "--driver", "overlay", "--attachable", NET)
    words = ("--detach", "--no-resolve-image", "--replicas", "4", "--network", NET, "--name", SERVICE)
    rest = ("--constraint", "node.role==worker", "--env", "MODEL=m", "--stop-grace-period", "1s")
    manager.docker("service", "create", *words, *rest, images.BASE, "sleep", "1000")
    try:
        until(lambda: all(len(node.containers()) == 2 for node in three.nodes[1:]), 60, what="two tasks on each worker")
        yield three
    finally:
        manager.docker("service", "rm", SERVICE)
        until(lambda: not any(node.containers() for node in three.nodes), what="the tasks are gone")
        manager.docker("network", "rm", NET)


def test_a_worker_sees_the_tasks_of_all_nodes(running: Cluster) -> None:
    """Facts, swarm 1: names and addresses by gossip, the same on both workers; no manager is asked."""

    def found(node: Node) -> dict[str, list[str]]:
        return hosts(seen_by(swarm_source(sources(node).swarm)))

    one, two = running.nodes[1:]
    until(
        lambda: len(found(one).get(SERVICE, ())) == len(found(two).get(SERVICE, ())) == 4, 10, what="gossip went round"
    )
    assert list(found(one)) == [SERVICE]
    assert sorted(found(one)[SERVICE]) == sorted(found(two)[SERVICE])


def test_the_manager_is_not_on_the_network_and_says_what_that_takes(running: Cluster) -> None:
    """A manager knows the network, though no container of its own is on it: nothing is seen, and no error is made of it."""
    assert hosts(seen_by(swarm_source(sources(running.manager).swarm))) == {}


def test_a_task_that_is_killed_leaves_the_picture_at_once(running: Cluster) -> None:
    """Gossip is quicker than the list of tasks: its address is out of DNS, and out of the picture, within 2 s."""
    node = running[2]
    victim = node.containers()[0]
    host = victim["NetworkSettings"]["Networks"][NET]["IPAddress"]
    assert host in hosts(seen_by(swarm_source(sources(node).swarm)))[SERVICE]
    node.docker("kill", victim["Id"])
    until(lambda: host not in hosts(seen_by(swarm_source(sources(node).swarm)))[SERVICE], 2, what="the address is gone")
    until(lambda: len(node.containers()) == 2, 60, what="the task is replaced")


def test_one_engine_sees_its_own_containers(running: Cluster) -> None:
    """Tasks that run there, under their service, with what they were told; and what was started by hand."""
    node = running[2]
    node.docker("run", "--detach", "--rm", "--name", "ollama-hand", "--network", NET, images.BASE, "sleep", "1000")
    try:
        sweep = seen_by(docker_source(sources(node).docker))
        found = hosts(sweep)
        assert {name: len(places) for name, places in found.items()} == {SERVICE: 2, "ollama-hand": 1}
        assert isinstance(sweep, Seen)
        assert {spec.name: spec.models for spec in sweep.backends} == {SERVICE: ("m",), "ollama-hand": ()}
    finally:
        node.docker("kill", "ollama-hand")
