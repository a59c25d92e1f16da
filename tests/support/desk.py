"""The tools of the way without a socket: a real registry, health and meters over backends that are described in a line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

from autohedge.attempt import Attempter
from autohedge.call import Call
from autohedge.core.ask import Ask
from autohedge.core.types import Candidate, Door, Lesson, Snapshot
from autohedge.examiner import Examiner
from autohedge.fallback import chains
from autohedge.memory.affinity import Affinity
from autohedge.memory.cooling import Cooling
from autohedge.memory.health import Health
from autohedge.memory.meters import Meters
from autohedge.memory.registry import Registry
from autohedge.memory.retired import Retirements
from autohedge.payloads.reading import Bounds, Reading, examine
from autohedge.providers.base import Counted
from autohedge.rules.breaker import Options
from autohedge.rules.budget import RetryBudget
from autohedge.settings.load import load_text
from autohedge.state.resilient import Shared
from autohedge.tools import Tools
from autohedge.waiting import WaitingRoom
from autohedge.watchers.learning import Learner
from tests.support.world import seen


class Shelf:
    """A shared state that nobody shares."""

    def __init__(self) -> None:
        self.kept: dict[str, Mapping[str, Any]] = {}
        self.flushes = 0

    def put_soon(self, key: str, value: Mapping[str, Any], ttl: float | None = None) -> None:
        self.kept[key] = value

    def delete_soon(self, key: str) -> None:
        self.kept.pop(key, None)

    def on_change(self, prefix: str, callback: Callable[[str, Mapping[str, Any] | None], object]) -> None:
        """Nobody else writes."""

    async def refresh(self, key: str) -> None:
        """Nobody else writes."""

    async def flushed(self, patience: float = 1.0) -> bool:
        self.flushes += 1
        return True


class Counter:
    """A learner that only counts: `tokens` by backend."""

    def __init__(self, **tokens: int) -> None:
        self.tokens = tokens
        self.asked: list[str] = []
        self.poked: list[str] = []
        self.closed: set[str] = set()
        self.silent: dict[str, str] = {}

    async def count(self, candidate: Candidate, ask: Ask) -> Counted:
        self.asked.append(candidate.backend.name)
        return Counted(self.tokens.get(candidate.backend.name))

    def may_tell(self, replica_id: str) -> bool:
        return replica_id not in self.closed

    def poke(self, replica_id: str) -> None:
        self.poked.append(replica_id)


class Desk:
    """`now` is both clocks. Backends are added with what they teach."""

    def __init__(self, config: str = "", **tokens: int) -> None:
        settings = load_text(config, "desk.yaml", {}, lambda path: path).settings
        self.now = 1000.0
        self.shelf = Shelf()
        self.counter = Counter(**tokens)
        self.told: list[str] = []
        registry = Registry()
        health = Health(
            lambda: 0.5, Options(probed=False), lambda one, moved: self.told.append(f"{one.replica.id} {moved.new}")
        )
        room = WaitingRoom(settings.queue.size)
        clock = lambda: self.now  # noqa: E731
        attempter = Attempter(_no_pool, clock, settings.timeouts, room.freed)
        self.tools = Tools(
            settings=settings,
            chains=chains(settings),
            registry=registry,
            health=health,
            examiner=Examiner(Bounds(), frozenset),
            learner=cast("Learner", self.counter),
            attempter=attempter,
            room=room,
            retries=RetryBudget(),
            meters=Meters(),
            retirements=Retirements(self.shelf, clock),
            cooling=Cooling(self.shelf),
            shared=cast("Shared", self.shelf),
            affinity=Affinity(),
            exhausted=lambda model, _why: self.told.append(f"exhausted {model}"),
            clock=clock,
            wall=clock,
        )

    def add(self, source: str, spec: Any, *lessons: Lesson) -> None:
        """A backend of its own source; one lesson per replica."""
        self.tools.registry.apply(source, seen(spec), self.now)
        mine = [replica for replica in self.snapshot.replicas.values() if replica.backend == spec.name]
        for replica, lesson in zip(mine, lessons, strict=False):
            self.tools.registry.learn(replica.id, lesson, self.now)

    @property
    def snapshot(self) -> Snapshot:
        return self.tools.registry.snapshot

    def candidates(self, model: str) -> tuple[Candidate, ...]:
        return self.snapshot.routes[model].candidates


def _no_pool(_candidate: Candidate) -> Any:
    raise AssertionError("nothing is sent in this test")


def call(body: bytes = b"{}", **fields: Any) -> Call:
    made = Call(Door.CHAT, "/v1/chat/completions", b"", fields.pop("headers", []), [], body, "", b"id", 1000.0, 1300.0)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def reading(body: bytes, door: Door = Door.CHAT) -> Reading:
    return examine(door, body, "", Bounds())


def run(main: Any) -> Any:
    return asyncio.run(main)
