"""What the engine does and when: each task's states as its API tells them, and the signals that containers get.

One thread looks at the task list ten times a second, and one per node reads the engine's own events.
Times are seconds of the machine's clock, which engines, containers and callers share.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from tests.swarm.node import Node, UnixConnection

LOOK = 0.1  # a look costs the engine some milliseconds
TERM = "15"


@dataclass(slots=True)
class Task:
    """One task. `running` is when the API first said so, `leaving` when it was first no longer wanted."""

    name: str
    service: str
    node: str = ""
    running: float | None = None
    leaving: float | None = None
    states: list[tuple[float, str, str]] = field(default_factory=list)


class Happenings:
    """`with Happenings(manager, others) as seen: ...`; `seen.tasks` by name (service.slot.id), `seen.terms` the moment of
    SIGTERM by the same names.
    """

    def __init__(self, manager: Node, *others: Node) -> None:
        self.tasks: dict[str, Task] = {}
        self.terms: dict[str, float] = {}
        self.nodes: list[tuple[float, str, str]] = []
        self._manager, self._others = manager, others
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._poll, name="tasks")]
        self._threads += [threading.Thread(target=self._listen, args=(node,)) for node in (manager, *others)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def of(self, service: str) -> list[Task]:
        """The tasks of a service that were wanted at some time of the watch."""
        return [
            task
            for task in self.tasks.values()
            if task.service == service and any(desired in {"ready", "running"} for _, _, desired in task.states)
        ]

    # --- tasks ------------------------------------------------------------------------------------------------------

    def _poll(self) -> None:
        services: dict[str, str] = {}
        while not self._ended.wait(LOOK):
            with suppress(OSError, RuntimeError):
                now = time.time()
                listed = self._manager.api("/tasks", timeout=3)
                if {task["ServiceID"] for task in listed} - set(services):
                    services = {one["ID"]: one["Spec"]["Name"] for one in self._manager.api("/services", timeout=3)}
                for task in listed:
                    self._note(task, services.get(task["ServiceID"], ""), now)
                if not self._others:
                    continue
                states = [(one["ID"], one["Status"]["State"]) for one in self._manager.api("/nodes", timeout=3)]
                known = {name: state for _, name, state in self.nodes}
                self.nodes += [(now, name, state) for name, state in states if known.get(name) != state]

    def _note(self, task: dict[str, Any], service: str, now: float) -> None:
        slot = task.get("Slot") or task.get("NodeID", "")
        name = next((known for known in self.tasks if known.endswith(task["ID"])), f"{service}.{slot}.{task['ID']}")
        kept = self.tasks.setdefault(name, Task(name, service))
        kept.node = task.get("NodeID", "")
        state, desired = task["Status"]["State"], task["DesiredState"]
        if not kept.states or kept.states[-1][1:] != (state, desired):
            kept.states.append((now, state, desired))
        if state == "running" and desired == "running" and kept.running is None:
            kept.running = now
        if desired != "running" and kept.leaving is None and kept.running is not None:
            kept.leaving = now

    # --- events -----------------------------------------------------------------------------------------------------

    def _listen(self, node: Node) -> None:
        """Read the node's events until the end. A node whose engine dies has no more to tell."""
        filters = json.dumps({"type": ["container"], "event": ["kill"]})
        with closing(UnixConnection(node.socket, 0.5)) as wire, suppress(OSError):
            wire.request("GET", f"/v1.41/events?filters={quote(filters)}")
            assert wire.sock is not None
            stream = wire.sock
            half = b""
            while not self._ended.is_set():
                try:
                    piece = stream.recv(65536)
                except TimeoutError:
                    continue
                if not piece:
                    return
                *lines, half = (half + piece).split(b"\n")
                for line in lines:
                    self._event(line)

    def _event(self, line: bytes) -> None:
        if not line.startswith(b"{"):
            return  # the answer's head, or the size of a chunk
        event = json.loads(line)
        told = event["Actor"]["Attributes"]
        if told.get("signal") == TERM:
            self.terms.setdefault(told.get("com.docker.swarm.task.name", told["name"]), event["timeNano"] / 1e9)
