"""Where a test cluster lives: its names, its folders, its addresses. Everything that it makes is named after it, so that the
end can find it all again, and so that a second cluster beside it shares nothing.

Folders
- `cache`: what is worth keeping between runs: the base image's archive, and the data root (images) of every node.
- `live`: sockets, pid files and logs of what runs now; gone after the end.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

CACHE = Path("/var/cache/autohedge-tests")
NAME = "ahtest"
NET = "198.18.77"  # of the range that is set aside for tests of networks


@dataclass(frozen=True, slots=True)
class Place:
    """`name` is at most seven letters: names of network links end at fifteen."""

    name: str = NAME
    cache: Path = CACHE
    net: str = NET
    volatile: bool = False  # the nodes' data is thrown away at the end

    @property
    def live(self) -> Path:
        return Path("/run") / f"autohedge-tests-{self.name}"

    @property
    def switch(self) -> str:
        """The network namespace that holds the bridge."""
        return f"{self.name}-switch"

    @property
    def uplink(self) -> str:
        """The machine's end of the cable to the switch."""
        return f"{self.name}-up"

    @property
    def gateway(self) -> str:
        return f"{self.net}.1"

    def node(self, number: int) -> str:
        """The network namespace of a node, and the node's host name."""
        return f"{self.name}-n{number}"

    def address(self, number: int) -> str:
        return f"{self.net}.{10 + number}"

    def data(self, number: int) -> Path:
        return (self.live if self.volatile else self.cache) / self.node(number)


def chosen() -> Place:
    """The place that the environment asks for: AUTOHEDGE_TESTS_CACHE, AUTOHEDGE_TESTS_NAME, AUTOHEDGE_TESTS_NET."""
    env = os.environ
    return Place(
        name=env.get("AUTOHEDGE_TESTS_NAME", NAME),
        cache=Path(env.get("AUTOHEDGE_TESTS_CACHE", str(CACHE))),
        net=env.get("AUTOHEDGE_TESTS_NET", NET),
    )
