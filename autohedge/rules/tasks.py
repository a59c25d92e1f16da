"""Docker's own words for services, tasks and nodes, cut down to what discovery needs; and which task may get requests.

Rules
- A task counts when it is meant to run and does, its node is not down, and it has an address on our network. "Starting" does
  not count: with a health check a task is that until it is healthy. A node that is "unknown" for a moment (the leader changed)
  still serves; only "down" is down.
- The address is the task's own on our network, by the network's Id: never a virtual IP, never the ingress network's, which
  comes first in Docker's lists.
- Environment is read through an allow-list and forgotten otherwise.
- What has not Docker's shape raises `UnreadableError`; the caller leaves that one thing out.

It must not know: labels, engines, what a backend is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv6Address
from typing import Any, NamedTuple

from autohedge.core.types import NOTHING
from autohedge.rules.arguments import env_of

STACK = "com.docker.stack.namespace"
_EMPTY: dict[str, Any] = {}  # never written to
RUNNING, DOWN = "running", "down"
BEGINNING = frozenset({"assigned", "accepted", "preparing", "ready", "starting"})  # not pending: that may last for ever

_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = re.compile(rf"{_BYTE}(?:\.{_BYTE}){{3}}")  # a tenth of what ipaddress takes, for each of thousands of tasks


class UnreadableError(ValueError):
    """An object that does not look like Docker's."""


class Container(NamedTuple):
    """What runs in a task. `words` is entry point and arguments together; `env` holds allowed variables only."""

    image: str = ""
    words: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    labels: Mapping[str, Any] = NOTHING


class Service(NamedTuple):
    """`here`: it is attached to our network."""

    id: str
    name: str
    created: str
    here: bool
    stack: str
    labels: Mapping[str, Any]
    container: Container


class Task(NamedTuple):
    """One container. `state` is "" when it may get requests while its node is up, else why not; `host` is its address on our
    network.
    """

    id: str
    service: str
    created: str
    host: str
    state: str
    container: Container
    node: str = ""


def service_of(raw: Any, network: str, allowed: frozenset[str]) -> Service:
    """A service as Docker lists it. `network` is an Id."""
    spec = _mapping(raw, "Spec")
    template = _mapping(spec, "TaskTemplate")
    attached = [*_listed(template, "Networks"), *_listed(spec, "Networks")]  # the second is where old services have it
    labels = _mapping(spec, "Labels")
    return Service(
        id=_text(raw, "ID"),
        name=_text(spec, "Name"),
        created=str(raw.get("CreatedAt", "")),
        here=any(isinstance(one, Mapping) and one.get("Target") == network for one in attached),
        stack=str(labels.get(STACK, "")),
        labels=labels,
        container=_container(template, allowed),
    )


def task_of(raw: Any, network: str, allowed: frozenset[str]) -> Task:
    """A task as Docker lists it. `network` is an Id."""
    number = _text(raw, "ID")
    host = _host(raw, network)
    return Task(
        id=number,
        service=_text(raw, "ServiceID"),
        created=str(raw.get("CreatedAt", "")),
        host=host,
        state=_against(raw) or ("" if host else "without an address on the network"),
        container=_container(_mapping(raw, "Spec"), allowed),
        node=str(raw.get("NodeID", "")),
    )


def begins(task: Task) -> bool:
    """Whether a task is about to run on our network: no event will tell when it does."""
    return task.state in BEGINNING and bool(task.host)


def nodes_down(raw: Iterable[Any]) -> frozenset[str]:
    """The Ids of the nodes that are down; one that cannot be read is not."""
    found = set()
    for node in raw:
        try:
            if _mapping(node, "Status").get("State") == DOWN:
                found.add(_text(node, "ID"))
        except UnreadableError:
            continue
    return frozenset(found)


def network_id(raw: Iterable[Any], name: str) -> str | None:
    """The Id of the overlay network of exactly this name; Docker's own filter takes any name that contains it."""
    for network in raw:
        if isinstance(network, Mapping) and network.get("Name") == name and network.get("Scope") == "swarm":
            return _text(network, "Id")
    return None


def _against(raw: Mapping[str, Any]) -> str:
    """Why a task may get no request; "" when nothing is against it."""
    state = _mapping(raw, "Status").get("State")
    wanted = raw.get("DesiredState")
    if wanted != RUNNING:
        return "ending" if state == RUNNING else f"to be {wanted}"
    return "" if state == RUNNING else f"{state}"


def _host(raw: Mapping[str, Any], network: str) -> str:
    """The task's address on our network, IPv4 first; "" without one."""
    other = ""
    for attachment in _listed(raw, "NetworksAttachments"):
        if _mapping(attachment, "Network").get("ID") == network:
            for text in _listed(attachment, "Addresses"):
                host = str(text).partition("/")[0]
                if _IPV4.fullmatch(host):
                    return host
                other = other or _ipv6(host)
    return other


def _ipv6(host: str) -> str:
    try:
        return IPv6Address(host).compressed
    except ValueError:
        return ""


def _container(parent: Mapping[str, Any], allowed: frozenset[str]) -> Container:
    spec = _mapping(parent, "ContainerSpec")
    words = [str(word) for word in (*_listed(spec, "Command"), *_listed(spec, "Args"))]
    return Container(
        str(spec.get("Image", "")),
        tuple(words),
        tuple(env_of(_listed(spec, "Env"), allowed)),
        _mapping(spec, "Labels"),
    )


def _mapping(raw: Any, key: str) -> Mapping[str, Any]:
    """What stands under `key`; an absent or null mapping is empty."""
    value = raw.get(key) if isinstance(raw, dict) else raw
    if value is None:
        return _EMPTY
    if not isinstance(value, dict):
        raise UnreadableError(key)
    return value


def _listed(raw: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = raw.get(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise UnreadableError(key)
    return value


def _text(raw: Any, key: str) -> str:
    value = raw.get(key) if isinstance(raw, dict) else None
    if not isinstance(value, str) or not value:
        raise UnreadableError(key)
    return value
