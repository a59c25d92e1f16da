"""What a cluster could leave behind on the machine: processes, namespaces, mounts, links, firewall rules, cgroups.

Taken before and after. Only what could be a cluster's is looked at, so that the machine's other work does not disturb.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.swarm.cluster import processes
from tests.swarm.place import Place
from tests.swarm.shell import run

COUNTED = "#"  # iptables-save dates its output in comments


@dataclass(frozen=True, slots=True)
class Traces:
    processes: frozenset[str]
    spaces: frozenset[str]
    mounts: frozenset[str]
    links: frozenset[str]
    rules: frozenset[str]
    cgroups: frozenset[str]
    sockets: frozenset[str]

    def beyond(self, earlier: Traces) -> dict[str, list[str]]:
        """What is here and was not there earlier."""
        pairs = ((name, getattr(self, name) - getattr(earlier, name)) for name in self.__slots__)
        return {name: sorted(more) for name, more in pairs if more}


def traces(place: Place) -> Traces:
    """Everything on this machine that is named after the cluster, and all mounts and rules whose owner cannot be told."""
    return Traces(
        processes=frozenset(f"{pid} {words}" for pid, words in processes(place).items()),
        spaces=frozenset(path.name for path in Path("/run/netns").glob("*") if path.name.startswith(place.name)),
        mounts=frozenset(_mounts(place)),
        links=frozenset(path.name for path in Path("/sys/class/net").iterdir() if path.name.startswith(place.name)),
        rules=frozenset(_rules(place)),
        cgroups=frozenset(str(path) for path in Path("/sys/fs/cgroup").glob(f"**/{place.name}*")),
        sockets=frozenset(str(path) for path in Path("/run").glob(f"*{place.name}*")),
    )


def _mounts(place: Place) -> Iterator[str]:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        point = line.split()[1]
        # the folder of the names is everybody's; it is ours to take away when nobody else has a name in it
        orphan = point == "/run/netns" and not any(Path(point).iterdir())
        if place.name in point or orphan or str(place.cache) in point:
            yield point


def _rules(place: Place) -> Iterator[str]:
    for table in ("filter", "nat", "mangle", "raw"):
        for line in run("iptables-save", "-t", table).splitlines():
            if not line.startswith((COUNTED, ":")) and (place.name in line or place.net in line):
                yield f"{table} {line}"
