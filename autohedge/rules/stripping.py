"""What of a Docker engine's answer leaves `autohedge docker-guard`: the fields that discovery reads.

Rules
- Shapes say what stays; what no shape names is gone, whatever a newer engine puts there. A value of another form than its
  shape (a mapping where a text should be) is gone too.
- Environment, command line and labels are looked at entry by entry (`keeping.py`). Secrets, configs, mounts, health checks,
  the previous specification, logs settings and node certificates have no shape.
- Command and arguments become one list of arguments.
- An event keeps its kind, its id and a few attributes. `exec_create: <command line>` and other acts inside a container go.

It must not know: HTTP, which questions are allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from autohedge.rules.guarding import Subject
from autohedge.rules.keeping import env, labels, words

LONGEST = 1024  # characters of a text
Shape = Callable[[Any], Any]
Strip = Callable[[Any], Any]


class Dropped(Exception):  # noqa: N818 - the usual case for fields of no interest
    """The value has not the form of its shape."""


def plain(value: Any) -> Any:
    """A text, number, boolean or null."""
    if isinstance(value, str):
        return value[:LONGEST]
    if value is None or isinstance(value, bool | int | float):
        return value
    raise Dropped


def record(**fields: Shape) -> Shape:
    """A mapping of which these fields stay."""

    def strip(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise Dropped
        kept: dict[str, Any] = {}
        for name, shape in fields.items():
            if name in value:
                try:
                    kept[name] = shape(value[name])
                except Dropped:
                    continue
        return kept

    return strip


def each(shape: Shape) -> Shape:
    """A list of things of one shape."""

    def strip(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, list):
            raise Dropped
        kept = []
        for item in value:
            try:
                kept.append(shape(item))
            except Dropped:
                continue
        return kept

    return strip


def named(shape: Shape) -> Shape:
    """A mapping with free keys to things of one shape."""

    def strip(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise Dropped
        kept = {}
        for name, item in value.items():
            try:
                kept[name[:LONGEST]] = shape(item)
            except Dropped:
                continue
        return kept

    return strip


def only(*fields: str) -> Shape:
    """A mapping of which these plain fields stay."""
    return record(**dict.fromkeys(fields, plain))


def _container(allowed: frozenset[str]) -> Shape:
    inner = record(Image=plain, Env=lambda found: env(found, allowed), Labels=labels, StopGracePeriod=plain)

    def strip(value: Any) -> Any:
        kept = inner(value)
        said = words(value.get("Command"), value.get("Args"))
        return kept | ({"Args": said} if said else {})

    return strip


_INDEX = only("Index")
_NETWORKS = each(record(Target=plain, Aliases=each(plain)))
_PORTS = each(only("Name", "Protocol", "TargetPort", "PublishedPort", "PublishMode"))
_NETWORK = record(
    Id=plain,
    Name=plain,
    Scope=plain,
    Driver=plain,
    Internal=plain,
    Attachable=plain,
    Ingress=plain,
    EnableIPv6=plain,
    Labels=labels,
    Services=named(
        record(
            VIP=plain,
            Ports=each(plain),
            LocalLBIndex=plain,
            Tasks=each(record(Name=plain, EndpointID=plain, EndpointIP=plain, Info=record(**{"Host IP": plain}))),
        )
    ),
)
_NODE = record(
    ID=plain,
    Version=_INDEX,
    Spec=only("Availability", "Role"),
    Status=only("State", "Message"),
    Description=only("Hostname"),
    ManagerStatus=only("Leader", "Reachability"),
)
_VERSION = only("Version", "ApiVersion", "MinAPIVersion", "Os", "Arch")


def _service(allowed: frozenset[str]) -> Shape:
    template = record(ContainerSpec=_container(allowed), Networks=_NETWORKS, ForceUpdate=plain, Runtime=plain)
    mode = record(
        Replicated=only("Replicas"),
        Global=only(),
        ReplicatedJob=only("MaxConcurrent", "TotalCompletions"),
        GlobalJob=only(),
    )
    return record(
        ID=plain,
        Version=_INDEX,
        CreatedAt=plain,
        UpdatedAt=plain,
        Spec=record(
            Name=plain,
            Labels=labels,
            TaskTemplate=template,
            Networks=_NETWORKS,
            Mode=mode,
            EndpointSpec=record(Mode=plain, Ports=_PORTS),
        ),
        Endpoint=record(Spec=only("Mode"), VirtualIPs=each(only("NetworkID", "Addr")), Ports=_PORTS),
        UpdateStatus=only("State", "StartedAt", "CompletedAt", "Message"),
        ServiceStatus=only("RunningTasks", "DesiredTasks", "CompletedTasks"),
    )


def _task(allowed: frozenset[str]) -> Shape:
    return record(
        ID=plain,
        Version=_INDEX,
        CreatedAt=plain,
        UpdatedAt=plain,
        ServiceID=plain,
        Slot=plain,
        NodeID=plain,
        DesiredState=plain,
        Spec=record(ContainerSpec=_container(allowed), Networks=_NETWORKS, ForceUpdate=plain, Runtime=plain),
        Status=record(State=plain, Message=plain, Err=plain, Timestamp=plain, PortStatus=record(Ports=_PORTS)),
        NetworksAttachments=each(
            record(Network=record(ID=plain, Spec=record(Name=plain, Ingress=plain)), Addresses=each(plain))
        ),
    )


def stripper(subject: Subject, allowed: frozenset[str]) -> Strip:
    """What makes an answer about this subject harmless. `allowed` are the names of variables that may be read."""
    shapes: dict[Subject, Shape] = {
        Subject.VERSION: _VERSION,
        Subject.SERVICES: each(_service(allowed)),
        Subject.TASKS: each(_task(allowed)),
        Subject.NODES: each(_NODE),
        Subject.NETWORKS: each(_NETWORK),
        Subject.NETWORK: _NETWORK,
    }
    shape = shapes[subject]

    def strip(answer: Any) -> Any:
        try:
            return shape(answer)
        except Dropped:
            return None

    return strip


_SWARM = "com.docker.swarm."
_ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "service": ("name", "replicas.old", "replicas.new", "updatestate.old", "updatestate.new"),
    "node": ("name", "state.old", "state.new", "availability.old", "availability.new", "role.old", "role.new"),
    "network": ("name", "type", "container"),
    "container": (
        "name",
        "image",
        "exitCode",
        "signal",
        *(_SWARM + name for name in ("service.id", "service.name", "task.id", "task.name", "node.id")),
    ),
}
_ACTS = frozenset({"create", "start", "health_status", "oom", "kill", "die", "stop", "destroy"})  # of a container
_EVENT = only("Type", "scope", "time", "timeNano")


def event(found: Any) -> dict[str, Any] | None:
    """An event without what it carries by the way; None for one of a kind that discovery does not follow."""
    kind = found.get("Type") if isinstance(found, Mapping) else None
    if not isinstance(kind, str) or kind not in _ATTRIBUTES:
        return None
    action = str(found.get("Action", ""))[:LONGEST]
    first, _, rest = action.partition(":")
    if kind == "container" and first not in _ACTS:
        return None
    if first == "health_status":
        first = f"{first}: {rest.split()[0]}" if rest.split() else first
    actor = record(ID=plain, Attributes=only(*_ATTRIBUTES[kind]))
    kept: dict[str, Any] = _EVENT(found)
    kept |= {"Action": first}
    try:
        kept["Actor"] = actor(found.get("Actor"))
    except Dropped:
        kept["Actor"] = {}
    return kept
