"""Who is asked, when, and what becomes of it: in virtual time, with small dialects of our own."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from autohedge.core.ask import Ask
from autohedge.core.types import (
    Address,
    Candidate,
    Door,
    Fact,
    Failure,
    Kind,
    LearnedModel,
    Lesson,
    Limits,
    Rank,
    Secret,
    Seen,
)
from autohedge.memory.registry import Registry
from autohedge.providers import lesson as real_lesson
from autohedge.providers.base import Counted, Dialect, Question, Replies, Reply
from autohedge.watchers.asking import Headers
from autohedge.watchers.learning import Learner, Pace, Speech
from tests.support.vtime import now, run
from tests.support.world import backend, seen

MODELS, WHO, EXTRA, COUNT = (
    Question("/models"),
    Question("/who"),
    Question("/extra"),
    Question("/count", {"text": "hi"}),
)
SILENCE = Reply(0, failure=Failure.REFUSED)


def read(replies: Replies, key: str) -> Any:
    reply = replies.get(key)
    return json.loads(reply.body) if reply is not None and reply.status == 200 else None


def lessons(replies: Replies, at: float) -> tuple[LearnedModel, ...] | None:
    listed = read(replies, "/models")
    if listed is None:
        return None
    window = read(replies, "/extra")
    context = Fact(window, "/extra", Rank.ENGINE, at) if window is not None else None
    return tuple(LearnedModel(name, limits=Limits(context=context)) for name in listed)


def dialect(kind: Kind, header: bytes = b"authorization") -> Dialect:
    return Dialect(
        kind=kind,
        doors={},
        default_port=8000,
        authorize=lambda key: ((header, key.reveal().encode()),),
        learn=(MODELS,),
        lessons=lessons,
        fits=lambda _ask, _tokens, _candidate, _now: [],
        probe=lambda _model, _door, _tokens: Question("/probe"),
        count=lambda _ask, served: COUNT if served == "m" else None,
        counted=lambda reply: Counted(int(reply.body or 0) or None, method="/count"),
        slots=lambda replies: 4 if "/extra" in replies else None,
        more=lambda replies: (EXTRA,) if kind is Kind.SGLANG and read(replies, "/models") else (),
    )


def recognise(replies: Replies) -> Kind | None:
    who = read(replies, "/who")
    return Kind(who) if who is not None else None


def taught(kind: Kind, replies: Replies, at: float) -> Lesson:
    models = lessons(replies, at)
    if models is None:
        failure = next((reply.failure for reply in replies.values() if reply.failure), "no list")
        return Lesson(kind, at=at, failed=failure)
    return Lesson(kind, models, at, slots=dialect(kind).slots(replies))


SPEECH = Speech(
    {Kind.VLLM: dialect(Kind.VLLM), Kind.SGLANG: dialect(Kind.SGLANG, b"x-key"), Kind.AUTO: dialect(Kind.AUTO)},
    (WHO, MODELS),
    recognise,
    taught,
)


def good(path: str) -> Reply:
    body = {"/models": ["m"], "/who": "vllm", "/extra": 400, "/count": 7}[path]
    return Reply(200, json.dumps(body).encode())


@dataclass
class Engines:
    """All engines behind one `ask`: by host a function path -> reply, which may wait. Notes every question."""

    answers: dict[str, Callable[[str], Reply | Awaitable[Reply]]] = field(default_factory=dict)
    asked: list[tuple[float, str, str]] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)
    limits: list[float | None] = field(default_factory=list)
    open: int = 0
    most_open: int = 0

    async def __call__(
        self, address: Address, question: Question, headers: Headers = (), limit: float | None = None
    ) -> Reply:
        self.asked.append((round(now(), 3), address.host, question.path))
        self.headers.append(headers)
        self.limits.append(limit)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            await asyncio.sleep(0)
            reply = self.answers.get(address.host, good)(question.path)
            return reply if isinstance(reply, Reply) else await reply
        finally:
            self.open -= 1

    def times(self, host: str, path: str = "/models") -> list[float]:
        return [when for when, where, what in self.asked if (where, what) == (host, path)]


async def hangs(_path: str = "") -> Reply:
    await asyncio.sleep(5)
    return Reply(0, failure=Failure.FIRST_BYTE_TIMEOUT)


@dataclass
class World:
    registry: Registry
    engines: Engines
    learner: Learner

    @classmethod
    def of(cls, looked: Seen, pace: Pace | None = None, **answers: Callable[[str], Reply | Awaitable[Reply]]) -> World:
        registry, engines = Registry(), Engines(answers)
        registry.apply("static", looked, 0.0)
        return cls(registry, engines, Learner(registry, engines, lambda: 1000.0 + now(), pace, SPEECH))

    async def spend(self, *seconds: float) -> None:
        """Let the learner run for these spans of virtual time."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.learner.run())
            for span in seconds:
                await asyncio.sleep(span)
            task.cancel()

    def lesson(self, host: str, name: str = "a") -> Lesson:
        return self.registry.snapshot.lessons[f"{name}@{host}:8000"]


def one(world: World, host: str = "t1") -> Lesson:
    return run(world.learner.learn(world.registry.snapshot.replicas[f"a@{host}:8000"]))


# --- one lesson -------------------------------------------------------------------------------------------------------


def test_an_unknown_kind_is_recognised_and_then_asked_in_its_own_words() -> None:
    """Replies of the recognition are not asked for twice."""

    async def main() -> None:
        world = World.of(seen(backend("a", "t1")))
        await world.spend(0.1)
        assert [path for _, _, path in world.engines.asked] == ["/who", "/models"]
        assert world.lesson("t1") == Lesson(Kind.VLLM, (LearnedModel("m"),), 1000.0)
        assert world.registry.snapshot.routes["m"].candidates[0].known

    run(main())


def test_a_known_kind_is_asked_at_once_and_a_second_round_follows() -> None:
    """`more` asks for what the first replies make worth asking; slots come along."""

    async def main() -> None:
        world = World.of(seen(backend("a", "t1", kind=Kind.SGLANG)))
        await world.spend(0.1)
        assert [path for _, _, path in world.engines.asked] == ["/models", "/extra"]
        lesson = world.lesson("t1")
        assert (lesson.kind, lesson.slots) == (Kind.SGLANG, 4)
        assert lesson.models[0].limits.context == Fact(400, "/extra", Rank.ENGINE, 1000.0)

    run(main())


def test_the_backends_own_key_goes_along_as_its_kind_wants_it() -> None:
    """B101: engines of our own that want a key; without one nothing is sent."""

    async def main() -> None:
        world = World.of(seen(backend("a", "t1", kind=Kind.SGLANG, key=Secret("k")), backend("b", "t2")))
        await world.spend(0.1)
        sent = {host: headers for (_, host, _), headers in zip(world.engines.asked, world.engines.headers, strict=True)}
        assert sent == {"t1": ((b"x-key", b"k"),), "t2": ()}

    run(main())


def test_nobody_there_is_one_question() -> None:
    """A refused connection says it for all questions."""
    world = World.of(seen(backend("a", "t1")), t1=lambda _: SILENCE)
    assert one(world) == Lesson(Kind.AUTO, at=1000.0, failed=Failure.REFUSED)
    assert len(world.engines.asked) == 1


def test_two_silent_questions_end_a_round() -> None:
    """An engine that answers one path and hangs on the others does not hold a lesson for long."""
    questions = tuple(Question(f"/{letter}") for letter in "abcdef")
    world = World.of(seen(backend("a", "t1")), t1=lambda path: Reply(404) if path == "/a" else SILENCE)
    speech = Speech(SPEECH.dialects, questions, recognise, taught)
    world.learner = Learner(world.registry, world.engines, lambda: 1000.0, None, speech)
    assert one(world).failed
    assert [path for _, _, path in world.engines.asked] == ["/a", "/b", "/c"]


def test_what_is_not_recognised_says_what_it_answered() -> None:
    """The reason is the room's own: a wrong key, a loading engine, a foreign server."""
    world = World.of(seen(backend("a", "t1")), t1=lambda _: Reply(401))
    speech = Speech(SPEECH.dialects, SPEECH.recognition, recognise, real_lesson)
    world.learner = Learner(world.registry, world.engines, lambda: 1000.0, None, speech)
    assert one(world).failed == "401: the key is missing or not accepted"


def test_a_replica_whose_backend_is_gone() -> None:
    """A late question about a vanished replica asks nobody."""
    world = World.of(seen(backend("a", "t1")))
    replica = world.registry.snapshot.replicas["a@t1:8000"]
    world.registry.apply("static", seen(), 1.0)
    assert run(world.learner.learn(replica)).failed == "the replica is gone"
    assert world.engines.asked == []


# --- whose turn it is -------------------------------------------------------------------------------------------------


def test_it_is_asked_again_every_minute() -> None:
    """engines (a): limits are read again every 60 s (T6), a recognised kind without recognition."""

    async def main() -> None:
        world = World.of(seen(backend("a", "t1")))
        await world.spend(185)
        assert world.engines.times("t1") == [0, 60, 120, 180]
        assert world.engines.times("t1", "/who") == [0]

    run(main())


def test_a_silent_replica_is_asked_less_and_less_until_it_answers() -> None:
    """1, 2, 4, 8, 15, 15 seconds; then the normal pace; its reason can be read meanwhile."""

    async def main() -> None:
        world = World.of(seen(backend("a", "t1")), t1=lambda path: good(path) if now() > 50 else SILENCE)
        await world.spend(40)
        assert world.learner.silent == {"a@t1:8000": Failure.REFUSED}
        await world.spend(100)
        assert world.learner.silent == {}
        assert world.engines.times("t1", "/who") == [0, 1, 3, 7, 15, 30, 45, 60]
        assert world.engines.times("t1") == [60, 120]

    run(main())


@pytest.mark.parametrize("kind", [Kind.OPENAI, Kind.AUTO])
@pytest.mark.parametrize(
    ("reply", "may"),
    [
        (SILENCE, True),
        (Reply(503, b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}'), True),
        (Reply(502, b"<html>"), True),
        (Reply(401), False),
        (Reply(403), False),
        (Reply(404, b"no such page"), False),
        (Reply(200, b"<html>a shop</html>"), False),
    ],
    ids=["away", "loading", "a proxy whose engine is away", "another key", "forbidden", "no engine", "a page"],
)
def test_who_may_still_tell_its_models(reply: Reply, may: bool, kind: Kind) -> None:
    """R40: who is away may serve what somebody asks for; who wants a key that only clients have, or is no engine, never says."""

    async def main() -> None:
        world = World.of(seen(backend("a", "t1", kind=kind)), t1=lambda _path: reply)
        world.learner = Learner(world.registry, world.engines, lambda: 1000.0)
        assert world.learner.may_tell("a@t1:8000")
        await world.spend(1)
        assert world.learner.may_tell("a@t1:8000") is may

    run(main())


def test_a_replica_that_went_silent_is_recognised_anew() -> None:
    """Another engine may listen at the address when it comes back; until then the old lesson stands."""

    async def main() -> None:
        kinds = {"vllm": True}

        def changing(path: str) -> Reply:
            if 55 < now() < 65:
                return SILENCE
            return Reply(200, b'"vllm"' if kinds["vllm"] else b'"sglang"') if path == "/who" else good(path)

        world = World.of(seen(backend("a", "t1")), t1=changing)
        await world.spend(62)
        kinds["vllm"] = False
        assert world.lesson("t1").kind is Kind.VLLM
        assert world.lesson("t1").failed == Failure.REFUSED
        await world.spend(10)
        assert world.lesson("t1").kind is Kind.SGLANG
        assert world.lesson("t1").failed == ""

    run(main())


def test_a_new_replica_is_asked_at_once() -> None:
    """Woken by whoever applied a sweep, and within a second when nobody woke it; a vanished one is not asked again."""

    async def main() -> None:
        world = World.of(seen(backend("a", "t1")))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.learner.run())
            await asyncio.sleep(10.5)
            world.registry.apply("static", seen(backend("a", "t2")), 10.5)
            world.learner.wake()
            await asyncio.sleep(10)
            world.registry.apply("static", seen(backend("a", "t2", "t3")), 20.5)
            await asyncio.sleep(60)
            task.cancel()
        assert world.engines.times("t1") == [0]
        assert world.engines.times("t2") == [10.5, 70.5]
        assert 20.5 <= world.engines.times("t3")[0] <= 21.5

    run(main())


def test_a_poke_brings_the_next_lesson_forward() -> None:
    """T6: after an answer that contradicted what we knew; a storm of them costs one lesson a second."""

    async def main() -> None:
        world = World.of(seen(backend("a", "t1")))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.learner.run())
            await asyncio.sleep(30)
            world.learner.poke("a@t1:8000")
            await asyncio.sleep(5)
            for _ in range(300):
                world.learner.poke("a@t1:8000")
                await asyncio.sleep(0.01)
            world.learner.poke("nobody@t9:8000")
            await asyncio.sleep(60)
            task.cancel()
        assert world.engines.times("t1") == [0, 30, 35, 36, 37, 38]

    run(main())


def test_a_poke_during_a_lesson_asks_once_more() -> None:
    """The lesson under way may have read the figure before it changed."""

    async def main() -> None:
        async def slowly(path: str) -> Reply:
            await asyncio.sleep(2)
            return good(path)

        world = World.of(seen(backend("a", "t1", kind=Kind.VLLM)), t1=slowly)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.learner.run())
            await asyncio.sleep(1)
            world.learner.poke("a@t1:8000")
            await asyncio.sleep(9)
            task.cancel()
        assert world.engines.times("t1") == [0, 3]

    run(main())


def test_hanging_replicas_delay_nobody() -> None:
    """T25, T59: ten backends that never answer, in front of the queue, and a lane of two."""

    async def main() -> None:
        hosts = [f"dead{number}" for number in range(10)]
        world = World.of(
            seen(backend("a", *hosts, "well", kind=Kind.VLLM)), Pace(parallel=2), **dict.fromkeys(hosts, hangs)
        )
        await world.spend(70)
        assert world.engines.times("well")[0] <= 1.25
        assert world.engines.times("well")[1] <= 61.5 + 1.25
        assert len(world.engines.times("dead0")) >= 5

    run(main())


def test_starts_are_bounded() -> None:
    """A thousand new replicas are not asked in one instant; healthy ones hold their place while they are asked."""

    async def main() -> None:
        async def quick(path: str) -> Reply:
            await asyncio.sleep(0.01)
            return good(path)

        hosts = [f"t{number}" for number in range(100)]
        world = World.of(seen(backend("a", *hosts, kind=Kind.VLLM)), Pace(parallel=4), **dict.fromkeys(hosts, quick))
        await world.spend(2)
        assert len(world.registry.snapshot.lessons) == 100
        assert world.engines.most_open == 4

    run(main())


def test_one_lesson_of_a_replica_at_a_time() -> None:
    """A replica that hangs is not asked a second time meanwhile, whoever pokes or wakes."""

    async def main() -> None:
        world = World.of(seen(backend("a", "t1", kind=Kind.VLLM)), t1=hangs)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(world.learner.run())
            for _ in range(45):
                await asyncio.sleep(0.1)
                world.learner.poke("a@t1:8000")
                world.learner.wake()
            task.cancel()
        assert world.engines.most_open == 1
        assert world.engines.times("t1") == [0]

    run(main())


def test_a_fault_of_ours_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A dialect that stumbles over a reply costs this replica its lesson, nobody else, and is logged."""

    async def main() -> None:
        def broken(_path: str) -> Reply:
            raise KeyError("surprise")

        world = World.of(seen(backend("a", "t1", "t2")), t1=broken)
        await world.spend(5)
        assert world.lesson("t2").models
        assert world.learner.silent == {"a@t1:8000": "a fault of AutoHedge itself: KeyError"}
        assert world.engines.times("t1", "/who") == [0, 1, 3]

    run(main())
    assert "could not be taken in" in caplog.text


def test_the_log_tells_changes_only(caplog: pytest.LogCaptureFixture) -> None:
    """First words, silence and return; not every minute again."""

    async def main() -> None:
        world = World.of(seen(backend("a", "t1")), t1=lambda path: SILENCE if 100 < now() < 150 else good(path))
        with caplog.at_level(logging.INFO, logger="autohedge"):
            await world.spend(400)

    run(main())
    assert [record.message for record in caplog.records] == [
        "replica a@t1:8000 is vllm and serves m",
        "replica a@t1:8000 taught nothing: connection refused",
        "replica a@t1:8000 is vllm and serves m",
    ]


# --- counting ---------------------------------------------------------------------------------------------------------


def candidate(world: World, name: str = "m") -> Candidate:
    return world.registry.snapshot.routes[name].candidates[0]


ASK = Ask(Door.CHAT, "m")


def test_counting_asks_the_engine_within_its_own_limit() -> None:
    """engines (b): only the engine's own count may refuse a prompt; the key goes along."""

    async def main() -> None:
        looked = seen(backend("a", "t1", kind=Kind.VLLM, models=("m",), key=Secret("k")))
        world = World.of(looked, Pace(count=0.3))
        assert await world.learner.count(candidate(world), ASK) == Counted(7, method="/count")
        assert world.engines.limits == [0.3]
        assert world.engines.headers == [((b"authorization", b"k"),)]

    run(main())


def test_what_cannot_be_counted_is_not_asked() -> None:
    """No question of the dialect, or counting switched off."""

    async def main() -> None:
        world = World.of(seen(backend("a", "t1", kind=Kind.VLLM, models=("m", "other"))))
        assert await world.learner.count(candidate(world, "other"), ASK) == Counted()
        world.learner = Learner(world.registry, world.engines, now, Pace(count=0), SPEECH)
        assert await world.learner.count(candidate(world), ASK) == Counted()
        assert world.engines.asked == []

    run(main())


def test_an_engine_that_does_not_count_is_left_alone_for_a_while() -> None:
    """No answer is no doubt, and the next requests do not wait for it again; a refusal to count mutes nobody."""

    async def main() -> None:
        replies = iter([SILENCE, Reply(404), Reply(200, b"9")])
        world = World.of(seen(backend("a", "t1", kind=Kind.VLLM, models=("m",))), t1=lambda _: next(replies))
        place = candidate(world)
        assert await world.learner.count(place, ASK) == Counted()
        await asyncio.sleep(9)
        assert await world.learner.count(place, ASK) == Counted()
        assert len(world.engines.asked) == 1
        await asyncio.sleep(1.1)
        assert (await world.learner.count(place, ASK)).tokens is None
        assert (await world.learner.count(place, ASK)).tokens == 9
        assert len(world.engines.asked) == 3

    run(main())
