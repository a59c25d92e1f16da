"""Which services of a Swarm are backends, and what each of them is: Docker's lists in, `Seen` out.

Rules
- A service on our network is a backend when its name says so (vllm-, ollama-, sglang-, tgi-, llamacpp-, also behind a stack's
  prefix) or its label autohedge.enable=true does. autohedge.enable=false always keeps it out.
- The backend has the service's full name: two stacks may use the same short one. Its replicas are the tasks that may get
  requests (rules/tasks.py); one without any stays, so that its models are known and their absence is a 503.
- What a task was told (label, environment, arguments) is that task's own. Where the tasks of one service differ, as they do in
  an update, only what all say is declared, and the engines are asked for the rest.
- Port: label, then arguments, then environment, then the usual one of the engine.
- The name only suggests an engine; unless a label says it, the engine is asked what it is.
- A model belongs to the stack that claimed it first; a service of another stack that claims it as well is left out, unless
  `shared` allows. What its engine lists without a claim is held the same way where routes are drawn (memory/drawing.py). An address that two tasks have belongs to the newer one.
- A service that cannot be read is left out and told. It spoils nothing else.

It must not know: how Docker is asked, settings, snapshots.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from autohedge.core.types import Address, BackendSpec, Fact, Kind, Limits, Rank, Seen
from autohedge.providers import DIALECTS
from autohedge.rules import labels
from autohedge.rules.arguments import Told, number, told
from autohedge.rules.labels import PREFIX, Marks
from autohedge.rules.tasks import Container, Service, Task, UnreadableError, service_of, task_of

NAMES = {
    "vllm": Kind.VLLM,
    "ollama": Kind.OLLAMA,
    "sglang": Kind.SGLANG,
    "tgi": Kind.TGI,
    "llamacpp": Kind.LLAMACPP,
}
NAMED = re.compile(rf"(?:^|_)({'|'.join(NAMES)})-.")
# Words of an image or of a command that only one engine has.
TRACES = (
    ("vllm", Kind.VLLM),
    ("sglang", Kind.SGLANG),
    ("ollama", Kind.OLLAMA),
    ("text-generation", Kind.TGI),
    ("llama.cpp", Kind.LLAMACPP),
    ("llama-server", Kind.LLAMACPP),
)
EVERY = "*"
DEFAULT = BackendSpec("")
MOST_NOTES = 200
TENANT = 12  # characters of a task's Id, as Docker shows it


@dataclass(frozen=True, slots=True)
class Wanted:
    """`network` is its name, for the notes. The environment is read through the three lists of names only."""

    network: str = "autohedge-net"
    labelled_only: bool = False
    shared: frozenset[str] = frozenset()
    model_env: tuple[str, ...] = ("MODEL",)
    window_env: tuple[str, ...] = ("MAX_MODEL_LEN",)
    port_env: tuple[str, ...] = ()

    @property
    def shares(self) -> tuple[str, ...]:
        return tuple(sorted(self.shared))

    @property
    def env(self) -> frozenset[str]:
        return frozenset((*self.model_env, *self.window_env, *self.port_env))


class Found(NamedTuple):
    """What became of one service: a backend or none, and why."""

    spec: BackendSpec | None
    notes: tuple[str, ...] = ()


class Claim(NamedTuple):
    """What one task says of itself."""

    models: tuple[str, ...]
    exact: tuple[str, ...]
    window: Fact[int] | None
    port: int | None


class Reader:
    """Reads whole pictures, one after the other. What did not change since the last one is the same object again."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._env = wanted.env
        self._known: dict[str, tuple[Service, tuple[Task, ...], Found]] = {}

    def service(self, raw: Any, network: str) -> Service | str:
        """A service as Docker lists it, or a note when it cannot be read. `network` is an Id."""
        try:
            return service_of(raw, network, self._env)
        except UnreadableError as error:
            return f"service {_name_of(raw)} is left out: its {error} cannot be read"

    def task(self, raw: Any, network: str) -> Task | str:
        """A task as Docker lists it, or a note when it cannot be read. `network` is an Id."""
        try:
            return task_of(raw, network, self._env)
        except UnreadableError as error:
            return f"a task is left out: its {error} cannot be read"

    def look(
        self,
        services: Iterable[Service | str],
        tasks: Iterable[Task | str],
        down: frozenset[str],
        breathe: Callable[[], object] = lambda: None,
    ) -> Seen:
        """The backends of one look. `down` are the Ids of nodes that are gone; `breathe` is called between two services."""
        notes: list[str] = []
        listed: list[Service] = []
        for read in services:
            if isinstance(read, str):
                notes.append(read)
            else:
                listed.append(read)
        listed.sort(key=lambda service: (service.created, service.name))  # the oldest first
        return self.read(listed, _tasks(tasks, down, notes), notes, breathe)

    def read(
        self,
        services: Iterable[Service],
        tasks: Mapping[str, Sequence[Task]],
        notes: Iterable[str] = (),
        breathe: Callable[[], object] = lambda: None,
    ) -> Seen:
        """The same for services in their order, the oldest first, and the tasks of each by its Id. `notes` come before those
        that are made here.
        """
        told = list(notes)
        known = {}
        for service in services:
            breathe()
            mine = tuple(sorted(tasks.get(service.id, ()), key=lambda task: task.id))
            before = self._known.get(service.id)
            if before is not None and before[0] == service and before[1] == mine:
                known[service.id] = before
            else:
                known[service.id] = (service, mine, found(service, mine, self._wanted))
        self._known = known
        backends = []
        owners: dict[str, str] = {}
        for service, _, one in known.values():
            told += one.notes
            against = _claimed(service, one.spec, owners, self._wanted.shared) if one.spec is not None else ""
            if against:
                told.append(f"service {service.name} is left out: {against}")
            elif one.spec is not None:
                backends.append(one.spec)
        if len(told) > MOST_NOTES:
            told = [*told[:MOST_NOTES], f"and {len(told) - MOST_NOTES} more"]
        return Seen(tuple(backends), tuple(told))


def _tasks(tasks: Iterable[Task | str], down: frozenset[str], notes: list[str]) -> Mapping[str, list[Task]]:
    """The tasks of each service, by its Id; of two with one address only the newer one has it."""
    by_service: dict[str, list[Task]] = {}
    holders: dict[str, Task] = {}
    for task in tasks:
        if isinstance(task, str):
            notes.append(task)
            continue
        if not task.state and task.node in down:
            task = task._replace(state="on a node that is down")  # noqa: PLW2901 - the same task, seen whole
        if not task.state:
            holder = holders.setdefault(task.host, task)
            if holder is not task:
                newer, older = sorted((holder, task), key=lambda one: (one.created, one.id), reverse=True)
                notes.append(f"task {older.id[:TENANT]} is left out: a newer one has its address")
                if newer is holder:
                    continue
                by_service[older.service].remove(older)
                holders[task.host] = newer
        by_service.setdefault(task.service, []).append(task)
    return by_service


def found(service: Service, tasks: Sequence[Task], wanted: Wanted) -> Found:
    """What one service with these tasks is."""
    marks = labels.read(service.labels, service.container.labels)
    notes = [f"service {service.name}: {note}" for note in marks.notes]
    against = _unwanted(service, marks, wanted)
    if against is not None:
        return Found(None, tuple([*notes, f"service {service.name} {against}"] if against else notes))
    usable = [task for task in tasks if not task.state]
    if not usable:
        states = sorted({task.state for task in tasks})
        waits = f" (its tasks are {', '.join(states)})" if states else ""
        notes.append(f"service {service.name} has no running task on {wanted.network}{waits}")
    kind = marks.provider or _suggested(service)
    claims = _claims(service, usable, marks, wanted)
    said = list(claims.values()) or [claim(service, service.container, marks, wanted)]
    usual = DIALECTS[kind].default_port
    return Found(_spec(service, marks, said, _places(usable, claims, usual), wanted.shares), tuple(notes))


def _claims(service: Service, tasks: Sequence[Task], marks: Marks, wanted: Wanted) -> dict[str, Claim]:
    """What each task says, by its Id; what runs the same says the same."""
    claims: dict[str, Claim] = {}
    last: tuple[Container, Claim] | None = None
    for task in tasks:
        if last is None or last[0] != task.container:
            last = task.container, claim(service, task.container, marks, wanted)
        claims[task.id] = last[1]
    return claims


def claim(service: Service, container: Container, marks: Marks, wanted: Wanted) -> Claim:
    """What a task's own labels, environment and arguments say. `marks` are those of the service as it is now."""
    same = container.labels == service.container.labels
    marks = marks if same else labels.read(service.labels, container.labels)
    env = dict(container.env)
    said = told(container.words, _traced(container))
    named = (env[name] for name in wanted.model_env if name in env)
    models = (*marks.models, *(name for name in named if labels.is_model(name)), *said.exact)
    ports = (number(env[name]) for name in wanted.port_env if name in env)
    port = marks.port or said.port or next((port for port in ports if port is not None and port <= 65535), None)
    window = _window(service, marks, env, said, wanted)
    return Claim(tuple(dict.fromkeys(models)), said.exact, window, port)


def _window(service: Service, marks: Marks, env: Mapping[str, str], said: Told, wanted: Wanted) -> Fact[int] | None:
    """The strongest word about the context: arguments, then environment, then label."""
    if said.window is not None:
        return Fact(said.window, f"--{said.window_by} of service {service.name}", Rank.ARGS)
    for name in wanted.window_env:
        value = number(env.get(name, ""))
        if value is not None:
            return Fact(value, f"{name} in the environment of service {service.name}", Rank.ENV)
    if marks.max_model_len is not None:
        return Fact(marks.max_model_len, f"label {PREFIX}max_model_len of service {service.name}", Rank.LABEL)
    return None


def _places(tasks: Sequence[Task], claims: Mapping[str, Claim], usual: int) -> tuple[Address, ...]:
    return tuple(Address(task.host, claims[task.id].port or usual, tenant=task.id[:TENANT]) for task in tasks)


def _spec(
    service: Service, marks: Marks, said: Sequence[Claim], places: tuple[Address, ...], shares: tuple[str, ...]
) -> BackendSpec:
    first, *others = said
    models = tuple(name for name in first.models if all(name in one.models for one in others))
    window = first.window if all(one.window == first.window for one in others) else None
    only = models[0] if len(models) == 1 else ""
    aliases = {public: served or only for public, served in marks.aliases.items()}
    return BackendSpec(
        name=service.name,
        kind=marks.provider or Kind.AUTO,
        addresses=places,
        models=models,
        by_args=bool(first.exact) and all(one.exact == first.exact for one in others),
        aliases={public: served for public, served in aliases.items() if served},
        hints=Limits(context=window),
        concurrency=marks.concurrency,
        pool=marks.pool,
        priority=DEFAULT.priority if marks.priority is None else marks.priority,
        weight=DEFAULT.weight if marks.weight is None else marks.weight,
        stack=service.stack,
        shares=shares,
        labels={"stack": service.stack} if service.stack else {},
    )


# --- who is a backend --------------------------------------------------------------------------------------------------


def _unwanted(service: Service, marks: Marks, wanted: Wanted) -> str | None:
    """Why a service is no backend: None when it is one, "" when that needs no word."""
    named = NAMED.search(service.name) is not None
    if marks.enable is False:
        return f"is left out by its label {PREFIX}enable=false" if named else ""
    if not marks.enable and wanted.labelled_only:
        return f"has an engine's name, but no label {PREFIX}enable=true" if named and service.here else ""
    if not (marks.enable or named):
        said = any(key.startswith(PREFIX) for key in (*service.labels, *service.container.labels))
        return f"has labels of ours, but no {PREFIX}enable=true and no engine's name" if said else ""
    if not service.here:
        return f"is not on network {wanted.network}"
    return None


def _claimed(service: Service, spec: BackendSpec, owners: dict[str, str], shared: frozenset[str]) -> str:
    """What forbids a service the models that it claims; its claims are noted in `owners` when nothing does."""
    if EVERY in shared:
        return ""
    claims = [name for name in (*spec.models, *spec.aliases) if name not in shared]
    for name in claims:
        owner = owners.get(name, service.stack)
        if owner != service.stack:
            whose = f"stack {owner}" if owner else "a service without a stack"
            return f"its model {name} belongs to {whose} (sources.swarm.shared_models allows it)"
    owners.update(dict.fromkeys(claims, service.stack))
    return ""


def _suggested(service: Service) -> Kind:
    """The engine that a service is probably: by its name, else by what it runs."""
    named = NAMED.search(service.name)
    kind = NAMES[named[1]] if named is not None else _traced(service.container)
    return Kind.VLLM if kind is Kind.AUTO else kind


def _traced(container: Container) -> Kind:
    """The engine whose image or command this is, AUTO when nothing tells."""
    for text in (container.image.partition("@")[0], start_of(container.words)):
        for trace, kind in TRACES:
            if trace in text:
                return kind
    return Kind.AUTO


def start_of(words: Sequence[str]) -> str:
    """The part of a command line in which an engine's name may stand."""
    return " ".join(word[:60] for word in words[:4])


def _name_of(raw: Any) -> str:
    spec = raw.get("Spec") if isinstance(raw, Mapping) else None
    name = spec.get("Name") if isinstance(spec, Mapping) else None
    return name[:100] if isinstance(name, str) and name.isprintable() else "without a name"
