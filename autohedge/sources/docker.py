"""The containers of one Docker engine: plain ones, and the services of Compose.

Rules
- A container is looked into once: what it was told at its start cannot change. The list tells its state and its addresses.
- Containers of one Compose service are one backend; every other container is a backend of its own.

It must not know: what makes a container a backend (rules/swarm.py), how often it is looked (following.py).
"""

from __future__ import annotations

from autohedge.rules.containers import STARTING, Row, container_of, grouped, row_of
from autohedge.rules.swarm import Reader
from autohedge.rules.tasks import Container, UnreadableError
from autohedge.settings.swarm import Docker
from autohedge.sources.docker_api import DockerApi
from autohedge.sources.docker_errors import ApiError
from autohedge.sources.following import EngineSource, Survey, View
from autohedge.sources.swarm import wanted_of

ENDED = 404  # between the two questions
CONTAINERS = {"type": ["container", "network"]}


def docker_source(settings: Docker, name: str = "docker") -> EngineSource:
    """The source that these settings ask for."""
    return EngineSource(settings, name, _survey(settings), CONTAINERS)


def _survey(settings: Docker) -> Survey:
    wanted = wanted_of(settings)
    reader = Reader(wanted)
    known: dict[str, Container] = {}  # by Id

    def survey(api: DockerApi) -> View:
        rows: list[Row] = []
        notes: list[str] = []
        for raw in list(api.list("/containers/json", {"network": [settings.network]})):
            try:
                row = row_of(raw, settings.network)
                if row is None:
                    continue
                if row.id not in known:
                    known[row.id] = container_of(api.one(f"/containers/{row.id}/json"), wanted.env)
            except UnreadableError as error:
                notes.append(f"a container is left out: its {error} cannot be read")
            except ApiError as error:
                if error.status != ENDED:
                    raise
            else:
                rows.append(row)
        for gone in known.keys() - {row.id for row in rows}:
            del known[gone]
        return View(reader.read(*grouped(rows, known), notes), any(row.state == STARTING for row in rows))

    return survey
