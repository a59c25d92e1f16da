"""The services of a Docker Swarm, as a manager lists them or as any node of an overlay network sees them.

Rules
- There is no event for a task, so the poll never stops. A half picture is none: that includes a network that does not exist,
  and the answers of an engine that is stopping, of a worker, of a swarm without a leader.
- A member's picture comes from gossip and holds names and addresses only: ports and models are then told by
  `sources.swarm.labels` and by the engines themselves.

It must not know: what makes a service a backend (rules/swarm.py), how often it is looked (following.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from autohedge.core.types import Blind
from autohedge.rules.gossip import members
from autohedge.rules.swarm import Reader, Wanted
from autohedge.rules.tasks import begins, network_id
from autohedge.settings.swarm import Engine, Swarm
from autohedge.sources.docker_api import DockerApi
from autohedge.sources.following import EngineSource, Survey, View

SERVICES = {"type": ["service", "node"]}
NETWORKS = {"type": ["network", "container"]}  # all that a node without a manager's picture is told: its own containers
FEW = 500  # tasks that may be listed again and again while one of them begins
OVERLAYS = {"scope": ["swarm"], "driver": ["overlay"]}


def swarm_source(settings: Swarm, name: str = "swarm") -> EngineSource:
    """The source that these settings ask for."""
    if settings.member:
        return EngineSource(settings, name, _by_gossip(settings), NETWORKS)
    return EngineSource(settings, name, _by_lists(settings), SERVICES)


def wanted_of(settings: Engine) -> Wanted:
    """What the rules need to know of the settings."""
    return Wanted(
        network=settings.network,
        labelled_only=settings.labelled_only,
        shared=frozenset(settings.shared_models),
        model_env=settings.env.model,
        window_env=settings.env.max_model_len,
        port_env=settings.env.port,
    )


def _by_lists(settings: Swarm) -> Survey:
    reader = Reader(wanted_of(settings))

    def survey(api: DockerApi) -> View:
        network = _network(api, settings)
        if network is None:
            return View(Blind(f"the swarm has no overlay network called {settings.network} (sources.swarm.network)"))
        services = api.list("/services")
        tasks = Passing(api.list("/tasks", {"desired-state": ["running"]}))
        seen = reader.look(network, services, tasks, api.list("/nodes"))
        return View(seen, tasks.beginning and tasks.number <= FEW)

    return survey


def _by_gossip(settings: Swarm) -> Survey:
    reader = Reader(wanted_of(settings))

    def survey(api: DockerApi) -> View:
        network = _network(api, settings)
        if network is None:
            return View(
                Blind(
                    f"this node has no overlay network called {settings.network} (sources.swarm.network); a node without a manager "
                    "knows it only while a container of its own is on it"
                )
            )
        seen = api.one(f"/networks/{network}", {"verbose": "true"})
        return View(reader.read(*members(seen, settings.labels)))

    return survey


def _network(api: DockerApi, settings: Swarm) -> str | None:
    return network_id(api.list("/networks", {"name": [settings.network], **OVERLAYS}), settings.network)


class Passing:
    """Tasks that are read one by one, with rests (docker_api.py). When they are through, it is known whether one of them begins."""

    def __init__(self, tasks: Iterable[Any]) -> None:
        self._tasks = tasks
        self.number = 0
        self.beginning = False

    def __iter__(self) -> Iterator[Any]:
        for task in self._tasks:
            self.number += 1
            self.beginning = self.beginning or begins(task)
            yield task
