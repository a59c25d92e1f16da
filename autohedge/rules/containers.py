"""The containers of one Docker engine, as services and tasks.

Rules
- Compose's labels say which containers belong together; the backend is then called project_service, as a stack's service is.
  Tasks of a Swarm that run on this engine belong to their service. A container without them is a service of its own, under its name.
- A container gets requests when it runs, has an address on our network, and its health check, if it has one, is not in its first
  round. An unhealthy one stays: our own probes know better.
- All labels of a container count as those of its service: here there is no other place for them.

It must not know: how Docker is asked, what a backend is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from autohedge.core.types import NOTHING
from autohedge.rules.arguments import env_of
from autohedge.rules.tasks import RUNNING, Container, Service, Task, UnreadableError

PROJECT, SERVICE = "com.docker.compose.project", "com.docker.compose.service"
SWARM_SERVICE = "com.docker.swarm.service.name"
ONE_OFF = "com.docker.compose.oneoff"
STARTING = "starting"
_FIRST_ROUND = re.compile(r"\(health: starting\)")


class Row(NamedTuple):
    """One line of the list of containers. `state` is "" when it may get requests, else why not."""

    id: str
    name: str
    project: str
    created: str
    host: str
    state: str
    labels: Mapping[str, Any]


def row_of(raw: Any, network: str) -> Row | None:
    """A container as Docker lists it; `network` is a name. None for one that is not on it, or that Compose runs only once."""
    if not isinstance(raw, Mapping):
        raise UnreadableError("list")
    labels = raw.get("Labels") or NOTHING
    places = (raw.get("NetworkSettings") or NOTHING).get("Networks") or NOTHING
    place = places.get(network)
    names = raw.get("Names") or ["/?"]
    if not isinstance(place, Mapping) or labels.get(ONE_OFF) == "True":
        return None
    project, service = str(labels.get(PROJECT, "")), str(labels.get(SERVICE, ""))
    composed = f"{project}_{service}" if project and service else ""
    name = composed or str(labels.get(SWARM_SERVICE, "")) or str(names[0]).removeprefix("/")
    host = str(place.get("IPAddress") or place.get("GlobalIPv6Address") or "")
    state = str(raw.get("State", ""))
    if state == RUNNING:
        state = STARTING if _FIRST_ROUND.search(str(raw.get("Status", ""))) else "" if host else "without an address"
    return Row(str(raw.get("Id", "")), name, project, f"{raw.get('Created', 0):>20}", host, state, labels)


def container_of(raw: Mapping[str, Any], allowed: frozenset[str]) -> Container:
    """What a container was told, as Docker shows it in full; of the environment only what is allowed."""
    config = raw.get("Config")
    if not isinstance(config, Mapping):
        raise UnreadableError("Config")
    words = [*_words(config.get("Entrypoint")), *_words(config.get("Cmd"))]
    env = config.get("Env")
    pairs = env_of(env if isinstance(env, list) else [], allowed)
    return Container(str(config.get("Image", "")), tuple(words), tuple(pairs))


def grouped(rows: Sequence[Row], told: Mapping[str, Container]) -> tuple[list[Service], dict[str, list[Task]]]:
    """The services that these containers make, the oldest first, and the tasks of each by its Id. `told` is by container."""
    services: dict[str, Service] = {}
    tasks: dict[str, list[Task]] = {}
    for row in sorted(rows, key=lambda row: (row.created, row.id)):
        container = told[row.id]
        if row.name not in services:
            services[row.name] = Service(row.name, row.name, row.created, True, row.project, row.labels, container)
        tasks.setdefault(row.name, []).append(Task(row.id, row.name, row.created, row.host, row.state, container))
    return list(services.values()), tasks


def _words(value: Any) -> list[str]:
    return [str(word) for word in value] if isinstance(value, list) else []
