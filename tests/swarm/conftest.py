"""One cluster for all Swarm tests of a run: `make test-swarm`, or `pytest -n 0 -m swarm tests/swarm/test_nodes.py` for a part.

They need root, Debian or a relative of it, and cgroups that can be written. An engine is installed where there is none; it is
never started for the machine. Every node is a `dockerd` in namespaces of its own; the machine gets one link, three firewall
rules and one forwarding switch, all of which are gone at the end, also after a crash of the tests (`python -m tests.swarm down`).

Kept between runs: AUTOHEDGE_TESTS_CACHE (/var/cache/autohedge-tests), the base image and the nodes' images, 1-2 GB. Two runs at
once need AUTOHEDGE_TESTS_NAME and AUTOHEDGE_TESTS_NET (198.18.77) to differ. To look around: `python -m tests.swarm up 1 2`.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.swarm import images, stack
from tests.swarm.cluster import Cluster, cluster
from tests.swarm.figures import FIGURES
from tests.swarm.place import chosen
from tests.swarm.traces import traces


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without `-m swarm` they are not even looked at: they need root, and minutes."""
    asked = config.option.markexpr == "swarm"
    return True if collection_path.name.startswith("test_") and not asked else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if FIGURES:
        terminalreporter.section("what was measured")
        for line in FIGURES:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def swarm() -> Iterator[Cluster]:
    """A Swarm of one manager. At the end of the run nothing of it is left on the machine."""
    place = chosen()
    before = traces(place)
    with cluster(place) as made:
        images.base(made.manager, place.cache)
        yield made
    assert traces(place).beyond(before) == {}


@pytest.fixture(scope="session", autouse=True)
def building(swarm: Cluster) -> Iterator[Future[None]]:
    """The project's image in the making, from the first test on: it is compiled beside those that do not need it yet."""
    with ThreadPoolExecutor(1) as beside:
        yield beside.submit(images.project, swarm.manager)


@pytest.fixture(scope="session")
def built(swarm: Cluster, building: Future[None]) -> Cluster:
    """The Swarm with the project's image and the overlay network of the backends."""
    building.result()
    stack.network(swarm.manager)
    return swarm


@pytest.fixture(scope="module")
def alone(built: Cluster) -> Iterator[Cluster]:
    """The same Swarm; if there are workers, none of them takes a task meanwhile. For stacks that do not say where they run."""
    others = [node.name for node in built.nodes[1:]]
    for name in others:
        built.manager.docker("node", "update", "--availability", "drain", name)
    yield built
    for name in others:
        built.manager.docker("node", "update", "--availability", "active", name)


@pytest.fixture(scope="session")
def three(swarm: Cluster) -> Cluster:
    """The same Swarm with two workers."""
    swarm.up(managers=1, workers=2)
    images.spread(swarm.manager, swarm.nodes[1:], images.BASE)
    return swarm
