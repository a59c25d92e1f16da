"""One cluster for all Swarm tests of a run. They are collected when they are asked for: `make test-swarm`, or `pytest -m swarm`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.swarm import images, stack
from tests.swarm.cluster import Cluster, cluster
from tests.swarm.place import chosen
from tests.swarm.traces import traces


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without `-m swarm` they are not even looked at: they need root, and minutes."""
    asked = config.option.markexpr == "swarm"
    return True if collection_path.name.startswith("test_") and not asked else None


@pytest.fixture(scope="session")
def swarm() -> Iterator[Cluster]:
    """A Swarm of one manager. At the end of the run nothing of it is left on the machine."""
    place = chosen()
    before = traces(place)
    with cluster(place) as made:
        images.base(made.manager, place.cache)
        yield made
    assert traces(place).beyond(before) == {}


@pytest.fixture(scope="session")
def built(swarm: Cluster) -> Cluster:
    """The Swarm with the project's image and the overlay network of the backends."""
    images.project(swarm.manager)
    stack.network(swarm.manager)
    return swarm


@pytest.fixture(scope="session")
def three(swarm: Cluster) -> Cluster:
    """The same Swarm with two workers."""
    swarm.up(managers=1, workers=2)
    images.spread(swarm.manager, swarm.nodes[1:], images.BASE)
    return swarm
