"""Asking every replica what it serves and what it takes, again and again, and asking for the exact size of one prompt.

Rules
- A new replica is asked at once. Until it answers: after 1, 2, 4, 8, 15 seconds, then every 15. After that every `interval`
  seconds, and soon when an engine's refusal contradicted what we knew (`poke`; T6).
- A backend of unknown kind is recognised first; once recognised it is asked in its own words until it fails to answer.
- The backend's own key goes along, as its kind wants it; a client's never.
- At most `parallel` replicas start being asked at a time, and a place is held for `HOLD` seconds at most: a replica that hangs
  keeps nobody waiting (T25, T59). Each replica is asked by one task only.
- When nothing answers the first question, the others are not asked; two silent ones end a round.
- Counting is on a client's time: it has its own short limit, and a replica that did not answer is not asked for `MUTED` seconds.

It must not know: how HTTP is spoken, what a dialect's questions mean, who reads the lessons.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from autohedge import providers
from autohedge.core.ask import Ask
from autohedge.core.types import Address, BackendSpec, Candidate, Kind, Lesson, Replica
from autohedge.memory.registry import Registry
from autohedge.providers.base import Counted, Dialect, Question, Replies, Reply
from autohedge.watchers.asking import Asking, Headers
from autohedge.watchers.turns import in_turns

LOGGER = logging.getLogger(__name__)
FIRST_WAIT, LONGEST_WAIT = 1.0, 15.0  # seconds before a silent replica is asked again
GAP = 1.0  # seconds between two lessons of one replica at least, however often it is poked
SIGHT = 1.0  # seconds until a new replica is noticed when nobody calls `wake`
HOLD = 0.25  # seconds: an engine that is well answers in a few milliseconds
MUTED = 10.0


@dataclass(frozen=True, slots=True)
class Speech:
    """The dialects, how a kind is recognised, and how its replies become a lesson; the whole room `providers`."""

    dialects: Mapping[Kind, Dialect] = field(default_factory=lambda: providers.DIALECTS)
    recognition: tuple[Question, ...] = providers.RECOGNITION
    recognise: Callable[[Replies], Kind | None] = providers.recognise
    lesson: Callable[[Kind, Replies, float], Lesson] = providers.lesson


@dataclass(frozen=True, slots=True)
class Pace:
    """`interval` seconds between lessons of a replica, `parallel` replicas at once, `count` seconds for one count (0: never)."""

    interval: float = 60.0
    parallel: int = 8
    count: float = 0.5


@dataclass(slots=True)
class _Turn:
    """When a replica is asked next, in loop seconds."""

    replica: Replica
    due: float
    ended: float = float("-inf")
    busy: bool = False
    poked: bool = False
    failures: int = 0
    reason: str = ""
    mute: bool = False


class Learner:
    """`clock` gives epoch seconds, for the time that stands at a learned figure."""

    def __init__(
        self,
        registry: Registry,
        ask: Asking,
        clock: Callable[[], float],
        pace: Pace | None = None,
        speech: Speech | None = None,
    ) -> None:
        self._registry = registry
        self._ask = ask
        self._clock = clock
        self._pace = pace or Pace()
        self._speech = speech or Speech()
        self._turns: dict[str, _Turn] = {}
        self._muted: dict[str, float] = {}  # loop seconds until which a replica is not asked to count
        self._lane = asyncio.Semaphore(self._pace.parallel)
        self._woken = asyncio.Event()

    @property
    def silent(self) -> Mapping[str, str]:
        """Why each replica that gave no answer at its last turn gave none, by replica id."""
        return {name: turn.reason for name, turn in self._turns.items() if turn.reason}

    def may_tell(self, replica_id: str) -> bool:
        """Whether one that told nothing yet may still do so: it was not asked, is away or loads."""
        turn = self._turns.get(replica_id)
        return turn is None or not turn.mute

    def wake(self) -> None:
        """The registry may have new replicas; they are asked at once."""
        self._woken.set()

    def poke(self, replica_id: str) -> None:
        """An answer of this replica contradicted what we knew: ask it anew, at most once in `GAP` seconds."""
        turn = self._turns.get(replica_id)
        if turn is None:
            return
        turn.poked = True
        if not turn.busy:
            turn.due = min(turn.due, turn.ended + GAP)
            self._woken.set()

    async def run(self) -> None:
        """Ask for ever; ends only when cancelled."""
        await in_turns(self._woken, self._start_due)

    async def learn(self, replica: Replica) -> Lesson:
        """Ask one replica what it serves. Never raises for what an engine does; `Lesson.failed` says why nothing was learned."""
        spec = self._registry.snapshot.backends.get(replica.backend)
        if spec is None:
            return Lesson(Kind.AUTO, failed="the replica is gone")
        replies: dict[str, Reply] = {}
        kind: Kind | None = spec.kind
        if kind is Kind.AUTO:
            kind = self._kind_known(replica)
        if kind is None:
            await self._round(replica.address, self._headers(spec, Kind.AUTO), self._speech.recognition, replies)
            kind = self._speech.recognise(replies)
        if kind is None:
            return self._speech.lesson(Kind.AUTO, replies, self._clock())
        dialect, headers = self._speech.dialects[kind], self._headers(spec, kind)
        await self._round(replica.address, headers, dialect.learn, replies)
        await self._round(replica.address, headers, dialect.more(replies), replies)
        return self._speech.lesson(kind, replies, self._clock())

    async def count(self, candidate: Candidate, ask: Ask) -> Counted:
        """The engine's own count of this prompt; `Counted()` when it has none, or not in time."""
        replica, dialect = candidate.replica, self._speech.dialects[candidate.kind]
        now = asyncio.get_running_loop().time()
        question = dialect.count(ask, candidate.served) if self._pace.count > 0 else None
        if question is None or self._muted.get(replica.id, now) > now:
            return Counted()
        headers = self._headers(candidate.backend, candidate.kind)
        reply = await self._ask(replica.address, question, headers, self._pace.count)
        if reply.status == 0:
            self._muted[replica.id] = asyncio.get_running_loop().time() + MUTED
            return Counted()
        return dialect.counted(reply)

    # --- one round of questions ---------------------------------------------------------------------------------------

    def _kind_known(self, replica: Replica) -> Kind | None:
        """What an AUTO replica turned out to be, unless it failed since: then something else may listen there now."""
        turn = self._turns.get(replica.id)
        lesson = self._registry.snapshot.lessons.get(replica.id)
        known = lesson is not None and lesson.kind is not Kind.AUTO and not (turn is not None and turn.failures)
        return lesson.kind if lesson is not None and known else None

    def _headers(self, spec: BackendSpec, kind: Kind) -> Headers:
        return () if spec.key is None else self._speech.dialects[kind].authorize(spec.key)

    async def _round(
        self, address: Address, headers: Headers, questions: Iterable[Question], replies: dict[str, Reply]
    ) -> None:
        """Ask what was not asked yet, in order, into `replies`."""
        for question in questions:
            silent = sum(reply.status == 0 for reply in replies.values())
            if silent and (silent == len(replies) or silent > 1):
                return
            if question.key not in replies:
                replies[question.key] = await self._ask(address, question, headers)

    # --- whose turn it is ---------------------------------------------------------------------------------------------

    def _start_due(self, group: asyncio.TaskGroup) -> float:
        """Start every lesson that is due; returns the seconds until the next one is."""
        now = asyncio.get_running_loop().time()
        replicas = self._registry.snapshot.replicas
        for name in [name for name in self._turns if name not in replicas]:
            del self._turns[name]
            self._muted.pop(name, None)
        wait = SIGHT
        for name, replica in replicas.items():
            turn = self._turns.get(name)
            if turn is None or turn.replica is not replica:
                turn = self._turns[name] = _Turn(replica, now)
            if turn.busy:
                continue
            if turn.due <= now:
                turn.busy, turn.poked = True, False
                group.create_task(self._take(turn), name=f"learn {name}")
            else:
                wait = min(wait, turn.due - now)
        return wait

    async def _take(self, turn: _Turn) -> None:
        """One turn: a lesson, the registry told, the next turn fixed. Nothing but a cancel leaves here."""
        loop = asyncio.get_running_loop()
        await self._lane.acquire()
        place = _Place(self._lane)
        timer = loop.call_later(HOLD, place.leave)
        try:
            lesson = await self.learn(turn.replica)
            self._registry.learn(turn.replica.id, lesson, self._clock())
        except Exception as error:
            LOGGER.exception("a lesson of replica %s could not be taken in", turn.replica.id)
            lesson = Lesson(Kind.AUTO, failed=f"a fault of AutoHedge itself: {type(error).__name__}")
        finally:
            timer.cancel()
            place.leave()
        _tell(turn, lesson)
        turn.reason, turn.mute = lesson.failed, lesson.mute
        turn.failures = turn.failures + 1 if lesson.failed else 0
        back_off = min(FIRST_WAIT * 2 ** min(turn.failures - 1, 10), LONGEST_WAIT)
        turn.ended = loop.time()
        turn.due = turn.ended + (GAP if turn.poked else back_off if turn.failures else self._pace.interval)
        turn.busy = False
        self._woken.set()


class _Place:
    """A place in the lane that is given back once, by whoever comes first."""

    def __init__(self, lane: asyncio.Semaphore) -> None:
        self._lane: asyncio.Semaphore | None = lane

    def leave(self) -> None:
        if self._lane is not None:
            self._lane.release()
            self._lane = None


def _tell(turn: _Turn, lesson: Lesson) -> None:
    """Log what changed since the last turn, and nothing else."""
    if lesson.failed and lesson.failed != turn.reason:
        LOGGER.warning("replica %s taught nothing: %s", turn.replica.id, lesson.failed)
    elif not lesson.failed and (turn.reason or turn.ended == float("-inf")):
        shown = ", ".join(model.id for model in lesson.models[:5]) or "no models"
        LOGGER.info("replica %s is %s and serves %s", turn.replica.id, lesson.kind, shown)
