"""Probing: every model on every replica is asked a minimal inference, again and again, and health is told the verdict.

Rules
- When and what to ask is rules/probes.py, the verdict rules/probe_verdicts.py; every probe first asks the breaker for a lease.
- One probe in flight per replica; at most `parallel` are begun at a time, and a place is held for `HOLD` seconds at most, so
  that hung replicas keep nobody waiting. The longest waiting goes first.
- A probe takes a seat where the replica has a cap, and is not sent where no seat or slot is free: the second request may be
  the one that wedges an engine (B20).
- A replica that is out and fails its own probes, or was never probed since, is looked at without a lease (`Health.may_look`).
- A verdict against a replica that came while our own loop was late is thrown away (T89).
- A door that does not suit the model is followed by the next one; the one that answers is kept, and after a while the
  likeliest is tried again.
- A probe that hears that its model is gone for good makes that a fact, before a caller meets it. What is gone is not probed:
  the re-check looks at it, ever more rarely.
- Another worker may have the lease of a replica: then it probes, and we hear of it.

It must not know: how HTTP is spoken, what a breaker does with a verdict, who reads the results.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from autohedge.core.types import Candidate, Door, Kind, Outcome, Replica, Verdict
from autohedge.memory.retired import is_gone
from autohedge.providers import DIALECTS
from autohedge.rules.probe_verdicts import EXACT, Expected
from autohedge.rules.probes import Cadence, Pace, Probed, doors_of, patience, pause, proven
from autohedge.rules.standing import State, Via
from autohedge.settings.health import Probe
from autohedge.watchers.inference import Heard, Wanted, infer
from autohedge.watchers.means import Means
from autohedge.watchers.turns import in_turns

LOGGER = logging.getLogger(__name__)
SIGHT = 1.0  # seconds until a new replica is noticed when nobody calls `wake`
SOON = 0.5  # seconds within which a new one is probed
UNHEARD = 0.2  # seconds until a new one whose engine is not recognised yet is looked at again
HOLD = 1.0
KEPT = 30  # good probes of another door until the likeliest is tried again
UNUSED = 300.0  # seconds without a request: Ollama's own keep-alive
RESTLESS = frozenset({Verdict.BUSY, Verdict.LOADING, Verdict.ABANDONED})  # ask again soon


@dataclass(slots=True)
class _Turn:
    """The probes of one pair. Times in loop seconds."""

    candidate: Candidate
    due: float
    door: int = 0  # which of its doors is asked; grows while none suits
    kept: int = 0  # good probes of a door that is not the first
    silent: bool = False  # the latest one got no answer in time
    unsuitable: bool = False
    took: float = 0.0  # seconds of the latest good one

    @property
    def doors(self) -> tuple[Door, ...]:
        return doors_of(self.candidate, DIALECTS[self.candidate.kind])

    def learn(self, probe: Probed, *, unsuitable: bool) -> None:
        """Remember what the next probe should know."""
        self.unsuitable = unsuitable
        self.silent = probe.silent
        if unsuitable:
            self.door = (self.door + 1) % max(1, len(self.doors))
            self.kept = 0
        elif probe.verdict is Verdict.ANSWER:
            self.took = probe.took
            self.kept += self.door > 0
            if self.kept >= KEPT:
                self.door = self.kept = 0


class _Place:
    """A place among those that are begun at once; given back once, by whoever comes first."""

    def __init__(self, held: Callable[[int], None]) -> None:
        self._held: Callable[[int], None] | None = held
        held(1)

    def leave(self) -> None:
        if self._held is not None:
            self._held(-1)
            self._held = None


@dataclass(frozen=True, slots=True)
class _Sent:
    """One probe under way."""

    turn: _Turn
    stamp: int
    started: float
    wanted: Wanted
    seated: bool
    place: _Place


class Prober:
    """`settings` may be replaced as a whole at any time."""

    def __init__(self, means: Means, settings: Probe) -> None:
        self._means = means
        self.settings = settings
        self._turns: dict[tuple[str, str], _Turn] = {}
        self._models: Counter[str] = Counter()  # turns by replica id
        self._busy: set[str] = set()
        self._held = 0  # places that are taken
        self._seen: tuple[int, bool] | None = None
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """The registry may have new replicas; they are probed soon."""
        self._woken.set()

    def poke(self, replica: str) -> None:
        """Probe this replica now, whatever its cadence; the breaker and the live traffic are still asked."""
        for turn in self._turns.values():
            if turn.candidate.replica.id == replica:
                turn.due = float("-inf")
        self._woken.set()

    async def run(self) -> None:
        """Probe for ever; ends only when cancelled."""
        await in_turns(self._woken, self._start_due)

    # --- whose turn it is ---------------------------------------------------------------------------------------------

    def _start_due(self, group: asyncio.TaskGroup) -> float:
        """Start every probe that is due and may start; returns the seconds until the next one is due."""
        now = asyncio.get_running_loop().time()
        self._refresh(now)
        first: dict[str, _Turn] = {}
        for turn in self._turns.values():
            replica = turn.candidate.replica.id
            if replica not in self._busy and (replica not in first or turn.due < first[replica].due):
                first[replica] = turn
        wait = SIGHT
        for turn in sorted(first.values(), key=lambda turn: turn.due):
            if turn.due > now:
                return min(wait, turn.due - now)
            if self._held >= self.settings.parallel:
                return wait  # whoever gives a place back wakes us
            sent = self._begin(turn, now)
            if sent is None:
                wait = min(wait, turn.due - now)
            else:
                group.create_task(self._take(sent), name=f"probe {turn.candidate.replica.id}")
        return wait

    def _refresh(self, now: float) -> None:
        """Follow the snapshot: new pairs get a turn soon, those that are gone lose theirs."""
        snapshot, external = self._means.registry.snapshot, self.settings.external
        if (snapshot.version, external) == self._seen:
            return
        self._seen = snapshot.version, external
        self._means.health.settle(snapshot, now)
        turns: dict[tuple[str, str], _Turn] = {}
        for candidate in snapshot.everybody():
            key = (candidate.replica.id, candidate.served)
            if key in turns or (candidate.backend.external and not external):
                continue
            turn = self._turns.get(key)
            if turn is None or turn.candidate.replica is not candidate.replica:
                turn = _Turn(candidate, now + SOON * self._means.draw())
            turn.candidate = candidate
            turns[key] = turn
        self._turns = turns
        self._models = Counter(replica for replica, _ in turns)

    def _begin(self, turn: _Turn, now: float) -> _Sent | None:
        """Everything that is asked before a probe is sent; None fixes another due time, and health says why."""
        candidate, cadence, health = turn.candidate, self._cadence(), self._means.health
        replica = candidate.replica
        if not self._means.hooks.lease(f"probe:{replica.id}"):
            turn.due = now + SIGHT
            return None
        entry = health.entry(candidate, now)
        breaker = entry.breaker
        why, due = self._unaskable(turn), now + cadence.doubtful
        if not why and breaker.state is State.CLOSED and proven(entry.live, now, cadence.interval):
            why, due = "live traffic proves it", entry.live[-1] + pause(cadence, Pace.CALM, self._means.draw())
        if not why:
            admission = health.lease(candidate, now)
            if not admission.allowed and not health.may_look(candidate, now):
                why, due = admission.why, min(due, max(breaker.retry_at, now))
        if why:
            # one that has not been heard of yet will be in a moment, and until its first probe it gets no requests
            turn.due = now + UNHEARD if candidate.kind is Kind.AUTO else max(due, now + HOLD / 2)
            health.spared(candidate, why)
            return None
        quick = turn.silent and breaker.state is State.CLOSED  # a trial gets all its time
        seated = replica.seat.cap is not None
        replica.seat.in_flight += seated
        self._busy.add(replica.id)
        limit = patience(cadence, silent=quick, took=turn.took)
        return _Sent(turn, admission.stamp, now, self._wanted(turn, limit, now), seated, _Place(self._held_more))

    def _unaskable(self, turn: _Turn) -> str:
        """Why a probe of this pair would be wrong at the moment, or ""."""
        candidate = turn.candidate
        seat = candidate.replica.seat
        lesson = self._means.registry.snapshot.lessons.get(candidate.replica.id)
        slots = lesson.slots if lesson is not None else None
        if candidate.kind is Kind.AUTO:
            return "its kind is not recognised yet, and a probe might load a model"
        if not candidate.served and not candidate.known:
            return "it has not told its models yet"
        if not turn.doors:
            return "it has no door that a probe could use"
        if gone := self._means.hooks.barred(candidate):
            return gone
        if not seat.free or (slots is not None and seat.in_flight >= slots):
            return "every place on it is taken by live requests"
        return ""

    def _cadence(self) -> Cadence:
        probe = self.settings
        return Cadence(probe.interval, probe.doubtful_interval, probe.interval / 2, probe.timeout, probe.jitter)

    # --- one probe ----------------------------------------------------------------------------------------------------

    async def _take(self, sent: _Sent) -> None:
        """One probe: asked, judged, told, the next turn fixed. Nothing but a cancel leaves here."""
        loop = asyncio.get_running_loop()
        replica = sent.turn.candidate.replica
        timer = loop.call_later(HOLD, sent.place.leave)
        try:
            try:
                heard = await infer(self._means.ask, sent.turn.candidate, sent.wanted)
            finally:
                timer.cancel()
                sent.place.leave()
                self._give_back(replica, seated=sent.seated)
            self._tell(sent, heard, loop.time())
        except Exception as error:
            LOGGER.exception("a probe of replica %s could not be made", replica.id)
            reason = f"a fault of AutoHedge itself: {type(error).__name__}"
            lost = Probed(replica.id, sent.turn.candidate.served, Via.DEEP, Verdict.ABANDONED, reason)
            self._means.health.probed(sent.stamp, lost, loop.time())  # gives the lease back
            sent.turn.due = loop.time() + self.settings.doubtful_interval

    def _held_more(self, places: int) -> None:
        self._held += places
        self._woken.set()

    def _give_back(self, replica: Replica, *, seated: bool) -> None:
        self._busy.discard(replica.id)
        self._woken.set()
        if seated:
            replica.seat.in_flight -= 1
            self._means.hooks.freed(replica)

    def _wanted(self, turn: _Turn, limit: float, now: float) -> Wanted:
        candidate, settings = turn.candidate, self.settings
        entry = self._means.health.entry(candidate, now)
        calm = entry.breaker.known and entry.breaker.state is State.CLOSED
        lesson = self._means.registry.snapshot.lessons.get(candidate.replica.id)
        names: frozenset[str] = frozenset()
        if candidate.kind in EXACT and candidate.known and candidate.served and lesson is not None:
            listed = {name for model in lesson.models for name in (model.id, *model.names)}
            names = frozenset(listed | {candidate.served})
        door = turn.doors[turn.door % len(turn.doors)]
        expected = Expected(door, names, settings.degenerate, candidate.backend.key is not None)
        return Wanted(expected, settings.tokens, limit, unused=calm and now - entry.used > UNUSED)

    def _tell(self, sent: _Sent, heard: Heard, now: float) -> None:
        """What a verdict changes: health first, then the next turn."""
        turn, candidate, means = sent.turn, sent.turn.candidate, self._means
        judgement = means.fair(heard.judgement, sent.started, now)
        probe = Probed(
            candidate.replica.id,
            candidate.served,
            Via.DEEP,
            judgement.verdict,
            judgement.reason,
            certain=judgement.certain,
            silent=heard.silent and judgement is heard.judgement,
            took=now - sent.started,
        )
        if not heard.spared or judgement.verdict is not Verdict.ABANDONED:
            probe = means.health.probed(sent.stamp, probe, now)
            means.hooks.publish(candidate, probe)
        if heard.spared:
            means.health.spared(candidate, heard.spared)
        if heard.reply is not None and is_gone(candidate, judgement):
            outcome = Outcome(status=heard.reply.status, excerpt=heard.reply.body)
            means.hooks.gone(candidate, judgement, outcome, sent.wanted.expected.door)
        if probe.verdict is Verdict.MISCONFIGURED or (heard.unsuitable and not turn.unsuitable):
            LOGGER.info("probe of %s, model %s: %s", candidate.replica.id, candidate.served, probe.reason)
            means.hooks.poke(candidate.replica.id)
        turn.learn(probe, unsuitable=heard.unsuitable)
        self._plan_next(sent, "" if heard.spared else probe.verdict, now)

    def _plan_next(self, sent: _Sent, verdict: str, now: float) -> None:
        turn, cadence = sent.turn, self._cadence()
        entry = self._means.health.find(turn.candidate.replica.id, turn.candidate.served)
        if entry is None:
            return  # the replica vanished meanwhile
        breaker = entry.breaker
        out = breaker.state is State.OPEN
        untried = turn.unsuitable and turn.door != 0
        restless = breaker.doubtful(now) or verdict in RESTLESS or untried
        pace = Pace.LOOK if out else Pace.DOUBTFUL if restless else Pace.CALM
        due = sent.started + pause(cadence, pace, self._means.draw(), self._models[turn.candidate.replica.id])
        if out:
            due = min(due, breaker.retry_at)
        turn.due = max(due, now)
