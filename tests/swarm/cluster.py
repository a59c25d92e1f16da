"""A Swarm of real engines on one machine: a switch, cables, nodes.

The switch is a bridge in a network namespace of its own; every node has a cable to it, and so has the machine, which is the
nodes' way out (NAT, for `docker build`). So the machine itself gets one link and three iptables rules, and each of them carries
the cluster's name.

    with cluster(Place(), managers=1, workers=2) as swarm:
        swarm.manager.docker("service", "create", ...)
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from pathlib import Path

from tests.swarm import packages
from tests.swarm.node import Node
from tests.swarm.place import Place
from tests.swarm.shell import CommandError, run, tried, until

HELPERS = ("dockerd", "containerd", "runc", "exe")
CGROUPS = Path("/sys/fs/cgroup")
NAMES = Path("/run/netns")
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")


@dataclass(slots=True)
class Cluster:
    place: Place
    nodes: list[Node] = field(default_factory=list)

    @property
    def manager(self) -> Node:
        return self.nodes[0]

    def __getitem__(self, number: int) -> Node:
        """Nodes are counted from one, as their names are."""
        return self.nodes[number - 1]

    # --- the wires --------------------------------------------------------------------------------------------------

    def wire(self) -> None:
        """The switch, and the machine's cable to it."""
        place = self.place
        if not NAMES.is_mount():
            (place.live / "names-were-no-mount").touch()  # the first `ip netns add` makes one
        if not (NAMES / place.switch).exists():
            run("ip", "netns", "add", place.switch)
            run("ip", "-n", place.switch, "link", "add", "hub", "type", "bridge")
            run("ip", "-n", place.switch, "link", "set", "hub", "up")
            run("ip", "-n", place.switch, "link", "set", "lo", "up")
        if not Path(f"/sys/class/net/{place.uplink}").exists():
            self._cable(place.uplink, place.switch, "machine")
            run("ip", "addr", "add", f"{place.gateway}/24", "dev", place.uplink)
            run("ip", "link", "set", place.uplink, "mtu", _mtu(), "up")
        if FORWARDING.read_text().strip() == "0":
            FORWARDING.write_text("1")
            (place.live / "forwarding-was-off").touch()
        for rule in _rules(place):
            if not tried("iptables", "-w", *rule("-C")):
                run("iptables", "-w", *rule("-I"))

    def _cable(self, outer: str, space: str, inner: str) -> None:
        """A cable from the machine to the switch."""
        run("ip", "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", space)
        run("ip", "-n", space, "link", "set", inner, "mtu", _mtu(), "master", "hub", "up")

    def _space(self, node: Node) -> None:
        """The node's network namespace and its cable."""
        place, name = self.place, node.name
        if (NAMES / name).exists():
            return
        run("ip", "netns", "add", name)
        run("ip", "-n", place.switch, "link", "add", node.cable, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "-n", place.switch, "link", "set", node.cable, "mtu", _mtu(), "master", "hub", "up")
        run("ip", "-n", name, "addr", "add", f"{node.address}/24", "dev", "eth0")
        run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", name, "link", "set", "eth0", "mtu", _mtu(), "up")
        run("ip", "-n", name, "route", "add", "default", "via", place.gateway)

    # --- the swarm --------------------------------------------------------------------------------------------------

    def up(self, managers: int = 1, workers: int = 0) -> None:
        """Start what does not run; more nodes may be asked for later. Node 1 is a manager, further managers come next."""
        packages.install()
        self.place.live.mkdir(parents=True, exist_ok=True)
        self.wire()
        _weigh(self.place)
        for number in range(1, managers + workers + 1):
            node = Node(self.place, number)
            if number > len(self.nodes):
                self.nodes.append(node)
            self._space(node)
            fresh = node.pid is None
            node.start()
            if fresh:
                node.sweep()  # what an earlier run that did not end well has left
            self.join(node, manager=number <= managers)

    def join(self, node: Node, *, manager: bool = False) -> None:
        """Make a node part of the swarm; the first makes it."""
        if node.api("/info")["Swarm"]["LocalNodeState"] == "active":
            return
        own = ("--advertise-addr", node.address, "--listen-addr", f"{node.address}:2377")
        if node == self.manager:
            node.docker("swarm", "init", *own)
            return
        token = self.manager.docker("swarm", "join-token", "-q", "manager" if manager else "worker")
        node.docker("swarm", "join", *own, "--token", token, f"{self.manager.address}:2377")
        if manager:
            until(lambda: node.api("/info")["Swarm"]["ControlAvailable"], what=f"{node.name} is a manager")

    def down(self) -> None:
        """End everything that carries the cluster's name, whoever started it. What is kept are images and the base archive."""
        place = self.place
        nodes = [Node(place, int(path.name[1:])) for path in sorted(place.live.glob("n[0-9]*"))]
        for node in nodes:
            pid = node.pid
            if pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
                tried("ip", "-n", place.switch, "link", "set", node.cable, "up")
                node.sweep()
        for node in nodes:
            node.end()
        for node in nodes:
            with suppress(TimeoutError):
                node.ended(20)
        _end_processes(place)
        _unmount(place)
        for space in sorted(path.name for path in NAMES.glob(f"{place.name}-*")):
            run("ip", "netns", "del", space)
        if (place.live / "names-were-no-mount").exists() and not list(NAMES.iterdir()):
            tried("umount", str(NAMES))
        if Path(f"/sys/class/net/{place.uplink}").exists():
            tried("ip", "link", "del", place.uplink)
        for rule in _rules(place):
            while tried("iptables", "-w", *rule("-D")):
                pass
        if (place.live / "forwarding-was-off").exists():
            FORWARDING.write_text("0")
        _drop_cgroups(place)
        shutil.rmtree(place.live, ignore_errors=True)
        self.nodes.clear()


@contextmanager
def cluster(place: Place, managers: int = 1, workers: int = 0) -> Iterator[Cluster]:
    """A cluster for the length of a `with`. Two runs at once of one place are refused: they would end each other's engines."""
    place.cache.mkdir(parents=True, exist_ok=True)
    with (place.cache / f"{place.name}.lock").open("w") as held:
        try:
            flock(held, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(f"the cluster {place.name} is in use by another run") from None
        made = Cluster(place)
        try:
            made.up(managers, workers)
            yield made
        finally:
            made.down()
            flock(held, LOCK_UN)


def _mtu() -> str:
    """That of the machine's way out: a larger packet would be lost there."""
    try:
        words = run("ip", "-o", "route", "get", "192.0.2.1").split()
        return Path(f"/sys/class/net/{words[words.index('dev') + 1]}/mtu").read_text().strip()
    except (CommandError, ValueError, OSError):
        return "1500"


class _Rule:
    """One iptables rule; called with -C, -I or -D it gives the words of the command."""

    def __init__(self, place: Place, table: str, chain: str, *words: str) -> None:
        self._head, self._tail = ("-t", table), (chain, *words, "-m", "comment", "--comment", place.name)

    def __call__(self, act: str) -> tuple[str, ...]:
        return (*self._head, act, *self._tail)


def _rules(place: Place) -> list[_Rule]:
    """The nodes' way out. FORWARD is opened for them alone: an engine of the machine's own closes it for everybody."""
    subnet = f"{place.net}.0/24"
    return [
        _Rule(place, "nat", "POSTROUTING", "-s", subnet, "!", "-d", subnet, "-j", "MASQUERADE"),
        _Rule(place, "filter", "FORWARD", "-i", place.uplink, "-j", "ACCEPT"),
        _Rule(place, "filter", "FORWARD", "-o", place.uplink, "-j", "ACCEPT"),
    ]


def processes(place: Place) -> dict[int, str]:
    """What runs of the cluster: engines and their helpers by the folder in their words, containers by their cgroup."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            helper = (folder / "comm").read_text().startswith(HELPERS) and f"{place.live}/n" in words
            if helper or f"/{place.name}/" in (folder / "cgroup").read_text():
                found[int(folder.name)] = words.strip()
    return found


def _end_processes(place: Place) -> None:
    """What a crashed engine has left behind: shims first, or they would be started again by nobody and wait for nobody."""
    for _ in range(50):
        left = processes(place)
        if not left:
            return
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(TimeoutError):
            until(lambda: not processes(place), 0.2)
    raise RuntimeError(f"these processes do not end: {processes(place)}")


def _unmount(place: Place) -> None:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    points = [line.split()[1] for line in lines]
    for point in sorted(points, reverse=True):
        if point.startswith((f"{place.live}/", f"{place.cache}/{place.name}-n")):
            tried("umount", "--lazy", point)


def _weigh(place: Place) -> None:
    """The kernel shares processors between groups, and all our containers are in one: without more weight they would get, all
    together, what one process of somebody else gets, and on a busy machine no figure would mean anything.
    """
    for file, weight in (("cpu/{}/cpu.shares", "16384"), ("{}/cpu.weight", "1600")):
        path = CGROUPS / file.format(place.name)
        if path.parent.parent.joinpath("cgroup.procs").exists():
            path.parent.mkdir(exist_ok=True)
            with suppress(OSError):
                path.write_text(weight)


def _drop_cgroups(place: Place) -> None:
    """The empty cgroups of the containers."""
    for top in (*CGROUPS.glob(f"*/{place.name}"), CGROUPS / place.name):
        for folder, _, _ in os.walk(top, topdown=False):
            with suppress(OSError):
                Path(folder).rmdir()
