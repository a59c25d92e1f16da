"""What people are told, and when: events become facts, and of each fact people hear once that it began and once that it ended.

Rules (issue 3; peers facts T32: one retired model opened a breaker and sent six mails a day)
- A fact is a topic and what it is about. Hearing it again adds to its count and to nothing else.
- What still stands after `repeat` is told again; a retirement is not: one message per fact. An exhausted chain has no end, so
  it is told again when it happened again, at most once per `repeat`.
- A fact that keeps coming back is declared over later each time: at once, then after 1 min of quiet, 3, 7 ... at most `repeat`.
  What comes back before that goes on as the same fact.
- A source that is blind for less than a minute is not worth a message.
- At most `queue` facts wait for a channel that is lost; then the oldest is dropped and counted.
- A fact ends with its owner: a replica, backend or source that is gone fails nobody.

Times are epoch seconds. It must not know: mail, webhooks, other workers, the clock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from autohedge.core.types import Candidate, Snapshot
from autohedge.rules.retirement import ALL, Retired
from autohedge.rules.standing import State, Transition

KNOWN = 1000  # facts that were told already and are remembered beside those that wait
QUIET = 60.0  # seconds of quiet after the second end of a fact, doubled with every further one


class Topic(StrEnum):
    BREAKER = "breaker"
    RETIRED = "retired"
    MISCONFIGURED = "misconfigured"
    EXHAUSTED = "chain exhausted"
    STATE = "state"
    BLIND = "source blind"


PATIENCE = {Topic.BLIND: 60.0}  # seconds that a fact must stand before it is told


class Phase(StrEnum):
    BEGAN = "began"
    STILL = "still"
    AGAIN = "again"
    OVER = "over"
    BRIEF = "over already"  # it ended before anybody could be told that it began


@dataclass(frozen=True, slots=True)
class Event:
    """Something began (`on`) or ended. `fact` tells facts of one topic apart and may hold an address, so it is never shown;
    `where` and `text` are. `owner` is what the fact ends with, as `living` names it.
    """

    topic: Topic
    fact: str
    on: bool
    where: str
    text: str
    at: float
    owner: str = ""

    @property
    def key(self) -> str:
        return f"{self.topic}|{self.fact}"


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to tell. `times` is how often it was heard since people were last told, `since` when it began."""

    phase: Phase
    event: Event
    since: float
    times: int
    over: Event | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """See the module; `repeat` is seconds."""

    repeat: float = 3600.0
    queue: int = 100


# --- what happened, as events -----------------------------------------------------------------------------------------


def moved(candidate: Candidate, transition: Transition, now: float) -> tuple[Event, ...]:
    """What a breaker's change of state means to people; nothing where it means nothing. `now` is epoch seconds."""
    backend, replica = candidate.backend.name, candidate.replica.id
    place = f"backend {backend}" + (f", model {candidate.served}" if candidate.served else "")
    fact = f"{replica}|{candidate.served}"
    if transition.new is State.OPEN:
        text = f"a replica is out of the pool: {transition.reason}"
        return (Event(Topic.BREAKER, fact, True, place, text, now, replica),)
    if transition.new is State.MISCONFIGURED:
        text = f"our credential is refused: {transition.reason}"
        return (Event(Topic.MISCONFIGURED, backend, True, place, text, now, _backend(backend)),)
    if transition.new is not State.CLOSED:
        return ()
    back = Event(Topic.BREAKER, fact, False, place, f"the replica is back: {transition.reason}", now, replica)
    if transition.old is not State.MISCONFIGURED:
        return (back,)
    text = f"our credential is no longer refused: {transition.reason}"
    return back, Event(Topic.MISCONFIGURED, backend, False, place, text, now, _backend(backend))


def retired(fact: Retired, on: bool, now: float) -> Event:
    """A provider or model was seen to be gone (once per fact), or came back (`on` False)."""
    place = f"backend {fact.provider}" if fact.model == ALL else f"backend {fact.provider}, model {fact.model}"
    what = "the provider" if fact.model == ALL else "the model"
    by = f" ({fact.by})" if fact.by != "answer" else f" ({fact.status} {fact.code}".rstrip() + ")"
    said = f": {fact.excerpt}" if fact.excerpt else ""
    text = f"{what} is retired{by}{said}" if on else f"{what} is no longer retired"
    return Event(Topic.RETIRED, f"{fact.provider}|{fact.model}", on, place, text, now)


def exhausted(model: str, why: str, now: float) -> Event:
    """A request for `model` found nobody in the whole chain; `why` is the message of our own answer."""
    return Event(Topic.EXHAUSTED, model, True, f"model {model}", why, now)


def state(lost: str, now: float) -> Event:
    """The store of shared state is lost for this reason, or is back ("")."""
    text = f"state is lost, the local picture goes on: {lost}" if lost else "state is back and merged"
    return Event(Topic.STATE, "", bool(lost), "state", text, now)


def source(name: str, blind: str, now: float) -> Event:
    """A source cannot look for this reason, or sees again ("")."""
    text = f"the source is blind, what it saw last stays: {blind}" if blind else "the source sees again"
    return Event(Topic.BLIND, name, bool(blind), f"source {name}", text, now, _source(name))


def living(snapshot: Snapshot) -> frozenset[str]:
    """The owners that exist, for `Board.keep_only`."""
    return frozenset((*snapshot.replicas, *map(_backend, snapshot.backends), *map(_source, snapshot.sources)))


def _backend(name: str) -> str:
    return f"backend {name}"


def _source(name: str) -> str:
    return f"source {name}"


# --- what of it is worth telling --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Kept:
    """A fact. `told_at`: when people were last told that it is so. `done_at`: when they were told that it is over."""

    event: Event
    since: float
    times: int = 1
    told_at: float | None = None
    over: Event | None = None
    done_at: float | None = None
    ends: int = 0


class Board:
    """The facts of one channel: each is told by itself, whether the other channels work or not."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._facts: dict[str, _Kept] = {}
        self.dropped = 0

    def note(self, event: Event) -> None:
        """Take one event."""
        kept = self._facts.get(event.key)
        if not event.on:
            self._ended(kept, event)
        elif kept is not None and kept.done_at is None and event.topic is not Topic.RETIRED:
            kept.event = event
            kept.times += 1
            kept.over = None
        else:
            recent = kept is not None and kept.done_at is not None and event.at - kept.done_at < self._pace.repeat
            self._insert(_Kept(event, event.at, ends=kept.ends if kept is not None and recent else 0))

    def keep_only(self, owners: Collection[str], now: float) -> None:
        """End the facts whose owner is not among those that exist."""
        for kept in self._facts.values():
            event = kept.event
            if event.owner and kept.over is None and kept.done_at is None and event.owner not in owners:
                kept.over = replace(event, on=False, text="it is gone, nobody uses it any more", at=now)

    def due(self, now: float) -> list[Item]:
        """What is to be told now, the oldest first."""
        ready = ((kept, self._ready(kept)) for kept in self._facts.values())
        due = [(at, kept, phase) for kept, (at, phase) in ready if at <= now]
        return [
            Item(phase, kept.event, kept.since, kept.times, kept.over)
            for _, kept, phase in sorted(due, key=lambda one: one[0])
        ]

    def next_at(self) -> float:
        """When `due` has something next, if nothing happens; infinity for never."""
        return min((self._ready(kept)[0] for kept in self._facts.values()), default=float("inf"))

    def told(self, items: Iterable[Item], now: float) -> None:
        """People know this now, from us or from another worker. What happened since `due` is still to be told."""
        for item in items:
            kept = self._facts.get(item.event.key)
            if kept is None or kept.since != item.since:
                continue
            kept.times -= item.times
            if item.over is None:
                kept.told_at = now
            elif kept.over is item.over:
                kept.done_at = now
                kept.ends += 1
            else:  # people heard that it is over, and meanwhile it is not
                kept.told_at = None
                kept.since = kept.event.at
                kept.ends += 1

    def _ended(self, kept: _Kept | None, event: Event) -> None:
        if kept is None or kept.done_at is not None:
            if event.topic is not Topic.RETIRED:
                return  # nobody was told that it began
            kept = _Kept(event, event.at, 0, told_at=event.at)  # another process told it
            self._insert(kept)
        elif kept.told_at is None and event.at < kept.since + PATIENCE.get(event.topic, 0.0):
            del self._facts[event.key]
            return
        kept.over = kept.over or event

    def _ready(self, kept: _Kept) -> tuple[float, Phase]:
        """From when on there is something to tell of a fact, and what."""
        topic, repeat = kept.event.topic, self._pace.repeat
        if kept.done_at is not None:
            return float("inf"), Phase.OVER
        if kept.told_at is None and kept.over is not None:
            return kept.over.at, Phase.BRIEF
        if kept.told_at is None:
            return kept.since + PATIENCE.get(topic, 0.0), Phase.BEGAN
        if kept.over is not None:
            return kept.over.at + min(repeat, QUIET * (2 ** min(kept.ends, 20) - 1)), Phase.OVER
        if topic is Topic.EXHAUSTED:
            return kept.told_at + repeat if kept.times else float("inf"), Phase.AGAIN
        return float("inf") if topic is Topic.RETIRED else kept.told_at + repeat, Phase.STILL

    def _insert(self, kept: _Kept) -> None:
        """Add a fact as the newest; the oldest make room."""
        self._facts.pop(kept.event.key, None)
        self._facts[kept.event.key] = kept
        waiting = [key for key, one in self._facts.items() if one.told_at is None and one.done_at is None]
        for key in waiting[: max(0, len(waiting) - self._pace.queue)]:
            del self._facts[key]
            self.dropped += 1
        known = [key for key, one in self._facts.items() if one.told_at is not None or one.done_at is not None]
        for key in known[: max(0, len(known) - KNOWN)]:
            del self._facts[key]
