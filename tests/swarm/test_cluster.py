"""The harness itself: it makes a Swarm that works, breaks it as real nodes break, and leaves nothing behind."""

from __future__ import annotations

import http.client
from contextlib import closing

import pytest

from tests.swarm import images
from tests.swarm.cluster import Cluster, cluster, processes
from tests.swarm.place import Place, chosen
from tests.swarm.shell import until
from tests.swarm.traces import traces

pytestmark = [pytest.mark.swarm, pytest.mark.timeout(300)]
PORT = 8080


def page(address: str, path: str = "/etc/hostname") -> str:
    with closing(http.client.HTTPConnection(address, PORT, timeout=5)) as wire:
        wire.request("GET", path)
        return wire.getresponse().read().decode().strip()


def answers(address: str) -> bool:
    try:
        return page(address) != ""
    except OSError:
        return False


def test_tasks_run_on_every_node_and_reach_each_other(three: Cluster) -> None:
    """A global service answers on each node's published port; over the overlay one task sees the addresses of all three."""
    manager = three.manager
    manager.docker("network", "create", "--driver", "overlay", "wide")
    words = (
        "--detach",
        "--no-resolve-image",
        "--mode",
        "global",
        "--network",
        "wide",
        "--name",
        "web",
        "--stop-grace-period",
        "1s",
    )
    serve = ("python", "-m", "http.server", str(PORT), "--directory", "/")
    publish = ("--publish", f"mode=host,target={PORT},published={PORT}")
    manager.docker("service", "create", *words, *publish, images.BASE, *serve)
    try:
        for node in three.nodes:
            until(lambda node=node: answers(node.address), 40, what=f"the task on {node.name} answers")  # type: ignore[misc]
        hosts = {page(node.address) for node in three.nodes}
        assert len(hosts) == 3
        task = three[3].containers()[0]["Id"]
        look = f"""
import socket, urllib.request
found = sorted({{one[4][0] for one in socket.getaddrinfo("tasks.web", {PORT}, type=socket.SOCK_STREAM)}})
print(" ".join(urllib.request.urlopen(f"http://{{one}}:{PORT}/etc/hostname").read().decode().strip() for one in found))
"""
        assert set(three[3].docker("exec", task, "python", "-c", look).split()) == hosts
    finally:
        manager.docker("service", "rm", "web")
        until(lambda: not any(node.containers() for node in three.nodes), what="the tasks are gone")
        manager.docker("network", "rm", "wide")


def test_its_end_leaves_nothing_even_after_a_crash() -> None:
    """Issue 4, 7: no process, namespace, mount, link, rule or cgroup is left, also of an engine that was killed under its container."""
    main = chosen()
    place = Place(f"{main.name[:5]}-x", main.cache, "198.18.78", volatile=True)
    before = traces(place)
    with cluster(place, managers=1, workers=1) as pair:
        assert traces(place).beyond(before).keys() >= {"processes", "spaces", "links", "rules", "sockets"}
        images.base(pair[2], place.cache)
        pair[2].docker("run", "--detach", images.BASE, "sleep", "1000")
        pair[2].kill()
        assert any("sleep 1000" in words for words in processes(place).values()), "a container outlives its engine"
    assert traces(place).beyond(before) == {}
