"""What a node that is no manager knows of an overlay network: names of services and the addresses of their tasks.

Rules
- `docker network inspect --verbose` answers it from the nodes' gossip, for all nodes. Nothing else is known: no label, no
  environment, no image. `labels` of the configuration stand for those that a service has and that cannot be read here.
- A task is listed while it is in the network's DNS: a new one not before it is healthy, an ending one no more 2 s before its
  SIGTERM.
- What is on the network without a service (a container that was started by hand) is nobody's.

It must not know: how Docker is asked, what a backend is.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from autohedge.core.types import NOTHING
from autohedge.rules.tasks import Container, Service, Task, UnreadableError

Labels = Mapping[str, Mapping[str, str]]


def members(raw: Mapping[str, Any], labels: Labels) -> tuple[list[Service], dict[str, list[Task]]]:
    """Services by name and their tasks by the service's Id, out of a network that was inspected verbosely. `labels`: by service."""
    listed = raw.get("Services") or NOTHING
    if not isinstance(listed, Mapping):
        raise UnreadableError("Services")
    services = []
    tasks: dict[str, list[Task]] = {}
    for name in sorted({*listed, *labels} - {""}):
        services.append(Service(name, name, "", True, "", labels.get(name, NOTHING), Container()))
        entry = listed.get(name)
        rows = entry.get("Tasks") if isinstance(entry, Mapping) else None
        for row in rows if isinstance(rows, list) else ():
            host = _host(row)
            if host:
                tasks.setdefault(name, []).append(Task(_id(row), name, "", host, "", Container()))
    return services, tasks


def _host(row: Any) -> str:
    try:
        return ip_address(str(row["EndpointIP"])).compressed
    except (KeyError, TypeError, ValueError):
        return ""


def _id(row: Mapping[str, Any]) -> str:
    """The task's own Id: the last part of `service.slot.id`."""
    return str(row.get("Name", "")).rpartition(".")[2] or str(row.get("EndpointID", ""))
