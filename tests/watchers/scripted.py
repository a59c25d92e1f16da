"""Scripted engines for tests of the probers: an asker that answers by address, in virtual time, and writes down what it heard."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from autohedge.core.types import (
    Address,
    Attempt,
    BackendSpec,
    Candidate,
    Fact,
    Failure,
    Judgement,
    Kind,
    LearnedModel,
    Lesson,
    Limits,
    Outcome,
    Rank,
    Seen,
    Verdict,
)
from autohedge.memory.entry import Rules
from autohedge.memory.health import Health
from autohedge.memory.registry import Registry
from autohedge.providers.base import Question, Reply
from autohedge.rules.standing import Transition
from autohedge.settings.health import Probe
from autohedge.watchers.means import Hooks, Means
from autohedge.watchers.probing import Prober
from tests.support.vtime import VirtualLoop, now

T = TypeVar("T")
Answer = Callable[[Question], Reply | None]


def chat(text: str = "hello you", model: str = "m", **choice: Any) -> Reply:
    """A good answer to a chat."""
    said = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}, **choice}
    return reply(200, {"id": "x", "object": "chat.completion", "model": model, "choices": [said]})


def reply(status: int, body: Any = None, **headers: str) -> Reply:
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    return Reply(status, raw, {"content-type": "application/json", **headers})


def failed(failure: Failure) -> Reply:
    return Reply(0, failure=failure)


@dataclass
class Engine:
    """`answer` gives the reply to a question, None is silence. `latency` in seconds."""

    answer: Answer = lambda question: chat(model=str((question.json or {}).get("model", "m")))
    latency: float = 0.05
    asked: list[tuple[float, Question]] = field(default_factory=list)
    keys: list[Sequence[tuple[bytes, bytes]]] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    running: int = 0
    most: int = 0

    @property
    def inferences(self) -> list[float]:
        """When it was asked to infer."""
        return [at for at, question in self.asked if question.json is not None]

    def hang(self) -> None:
        self.answer = lambda _question: None

    def heal(self) -> None:
        self.answer = Engine().answer

    def fail(self, status: int, body: Any = None) -> None:
        self.answer = lambda _question: reply(status, body)

    def refuse(self) -> None:
        self.answer = lambda _question: failed(Failure.REFUSED)


@dataclass
class World:
    """Engines by their host, the registry that knows them, and health. `draws` is given to everything that draws."""

    rules: Rules | None = None
    draws: Callable[[], float] = lambda: 0.5
    engines: dict[str, Engine] = field(default_factory=dict)
    specs: dict[str, BackendSpec] = field(default_factory=dict)
    changes: list[tuple[float, str, Transition]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.registry = Registry()
        self.health = Health(self.draws, None, self._told, self.rules)

    def _told(self, candidate: Candidate, moved: Transition) -> None:
        self.changes.append((moved.at, candidate.replica.id, moved))

    async def ask(
        self,
        address: Address,
        question: Question,
        headers: Sequence[tuple[bytes, bytes]] = (),
        limit: float | None = None,
    ) -> Reply:
        engine = self.engines[address.host]
        engine.asked.append((now(), question))
        engine.keys.append(headers)
        engine.limits.append(limit or 0.0)
        engine.running += 1
        engine.most = max(engine.most, engine.running)
        limit = limit or 5.0
        try:
            given = engine.answer(question)
            if given is None or engine.latency > limit:
                await asyncio.sleep(limit)
                return failed(Failure.FIRST_BYTE_TIMEOUT)
            await asyncio.sleep(engine.latency)
            return given
        finally:
            engine.running -= 1

    def add(self, name: str, *hosts: str, kind: Kind = Kind.VLLM, models: Sequence[str] = ("m",), **more: Any) -> None:
        """One backend whose engines, one per host, have told their models. `abilities`: door to yes or no."""
        abilities = {door: Fact(can, "the test", Rank.ENGINE) for door, can in more.pop("abilities", {}).items()}
        slots = more.pop("slots", None)
        self.specs[name] = BackendSpec(name, kind, tuple(Address(host, 8000) for host in hosts), **more)
        self.registry.apply("test", Seen(tuple(self.specs.values())), 0.0)
        taught = tuple(LearnedModel(model, (model,), Limits(abilities=abilities)) for model in models)
        for host in hosts:
            self.engines.setdefault(host, Engine())
            self.registry.learn(f"{name}@{host}:8000", Lesson(kind, taught, 1.0, slots=slots), 1.0)

    def candidate(self, replica: str, model: str = "m") -> Candidate:
        found = self.registry.snapshot.routes[model].candidates
        return next(one for one in found if one.replica.id == replica)

    def prober(self, hooks: Hooks | None = None, **settings: Any) -> Prober:
        means = Means(self.registry, self.health, self.ask, self.draws, hooks or Hooks())
        return Prober(means, Probe.model_validate(settings))

    def state(self, replica: str, model: str = "m") -> str:
        return self.health.entry(self.candidate(replica, model), now()).breaker.state.value

    def known(self, replica: str, model: str = "m") -> bool:
        return self.health.entry(self.candidate(replica, model), now()).breaker.known

    def shown(self, replica: str, model: str = "m") -> dict[str, Any]:
        shown = self.health.describe(now())
        return next(one for one in shown if (one["replica"], one["model"]) == (replica, model))

    def live(self, replica: str, verdict: Verdict = Verdict.ANSWER, model: str = "m") -> bool:
        """One live request that ends at once; whether it was admitted."""
        candidate = self.candidate(replica, model)
        admission = self.health.admit(candidate, now())
        if admission.allowed:
            ended = Attempt(candidate, now(), admission.stamp, outcome=Outcome(), judgement=Judgement(verdict))
            self.health.record(ended, now())
        return admission.allowed


async def during(seconds: float, *watchers: Any, then: Callable[[], T] = lambda: None) -> T:  # type: ignore[assignment,return-value]
    """Run the watchers for so long; returns what `then` says before they end."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(watcher.run()) for watcher in watchers]
        await asyncio.sleep(seconds)
        result = then()
        for task in tasks:
            task.cancel()
    return result


def blocked(seconds: float) -> None:
    """Our own loop does nothing for so long, in virtual time."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop._virtual.now += seconds
