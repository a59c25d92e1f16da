"""The services of a Docker Swarm, as a manager lists them or as any node of an overlay network sees them.

Rules
- There is no event for a task, so the poll never stops. A half picture is none: that includes a network that does not exist,
  and the answers of an engine that is stopping, of a worker, of a swarm without a leader.
- A member's picture comes from gossip and holds names and addresses only: ports and models are then told by
  `sources.swarm.labels` and by the engines themselves.

It must not know: what makes a service a backend (rules/swarm.py), how often it is looked (following.py).
"""

from __future__ import annotations

from typing import NamedTuple

from autohedge.core.types import Blind
from autohedge.rules.gossip import members
from autohedge.rules.swarm import Reader, Wanted
from autohedge.rules.tasks import Service, Task, begins, network_id, nodes_down
from autohedge.settings.swarm import Engine, Swarm
from autohedge.sources.docker_api import DockerApi
from autohedge.sources.following import EngineSource, Survey, View
from autohedge.sources.own_thread import Breath
from autohedge.sources.recalling import Recall

SERVICES = {"type": ["service", "node"]}
NETWORKS = {"type": ["network", "container"]}  # all that a node without a manager's picture is told: its own containers
FEW = 500  # tasks that may be listed again and again while one of them begins
OVERLAYS = {"scope": ["swarm"], "driver": ["overlay"]}


def swarm_source(settings: Swarm, name: str = "swarm") -> EngineSource:
    """The source that these settings ask for."""
    if settings.member:
        return EngineSource(settings, name, _by_gossip(settings), NETWORKS)
    return EngineSource(settings, name, ByLists(settings), SERVICES)


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


class Lists(NamedTuple):
    """What one look brought: the Id of the network, the two long lists as they came, and the nodes that are down."""

    network: str
    services: bytes
    tasks: bytes
    down: frozenset[str]


class ByLists:
    """The picture of a manager. What did not change since the last look is not worked out again."""

    def __init__(self, settings: Swarm) -> None:
        self._settings = settings
        self._reader = Reader(wanted_of(settings))
        self._last: tuple[Lists, View] | None = None
        self._services: Recall[Service | str]
        self._tasks: Recall[Task | str]

    def __call__(self, api: DockerApi) -> View:
        network = _network(api, self._settings)
        if network is None:
            name = self._settings.network
            return View(Blind(f"the swarm has no overlay network called {name} (sources.swarm.network)"))
        tasks = {"desired-state": ["running"]}
        lists = Lists(network, api.read("/services"), api.read("/tasks", tasks), nodes_down(api.list("/nodes")))
        if self._last is None or self._last[0] != lists:
            if self._last is None or self._last[0].network != network:
                self._services = Recall(lambda raw: self._reader.service(raw, network))
                self._tasks = Recall(lambda raw: self._reader.task(raw, network))
            self._last = lists, self._view(api, lists)
        return self._last[1]

    def _view(self, api: DockerApi, lists: Lists) -> View:
        breathe = Breath()
        services = self._services.take(lists.services, api.who("/services"), breathe)
        tasks = self._tasks.take(lists.tasks, api.who("/tasks"), breathe)
        beginning = len(tasks) <= FEW and any(begins(one) for one in tasks if isinstance(one, Task))
        return View(self._reader.look(services, tasks, lists.down, breathe), beginning)


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
