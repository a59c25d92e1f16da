"""Probing: every model on every replica is asked a minimal inference, again and again, and health is told the verdict.

Rules
- When and what to ask is rules/probes.py, the verdict rules/probe_verdicts.py; every probe first asks the breaker for a lease.
- One probe in flight per replica; at most `parallel` are begun at a time, and a place is held for `HOLD` seconds at most, so
  that hung replicas keep nobody waiting. The longest waiting goes first.
- A probe takes a seat where the replica has a cap, and is not sent where no seat or slot is free: the second request may be
  the one that wedges an engine (B20).
- Where an engine loads models by name, it is asked first which are loaded. A loaded model that nobody used for `IDLE` seconds
  is let alone, or our probes would keep it in memory for ever (B14).
- A verdict against a replica that came while our own loop was late is thrown away (T89); a good one is good.
- A door that does not suit the model is followed by the next one; the one that answers is kept.
- Another worker may have the lease of a replica: then it probes, and we hear of it.

It must not know: how HTTP is spoken, what a breaker does with a verdict, who reads the results.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from autohedge.core.types import Candidate, Judgement, Kind, Replica, Verdict
from autohedge.memory.health import Health
from autohedge.memory.registry import Registry
from autohedge.providers import DIALECTS
from autohedge.providers.base import Reply
from autohedge.rules.probe_verdicts import AGAINST, EXACT, UNSUITABLE, Expected, judged, silent
from autohedge.rules.probes import (
    LOADED_MODELS,
    Cadence,
    Pace,
    Probed,
    doors_of,
    patience,
    pause,
    proven,
    question,
    resident,
)
from autohedge.rules.standing import State, Via
from autohedge.settings.health import Probe
from autohedge.watchers.asking import Asking, Headers
from autohedge.watchers.pulse import Pulse

LOGGER = logging.getLogger(__name__)
SIGHT = 1.0  # seconds until a new replica is noticed when nobody calls `wake`
SOON = 0.5  # seconds within which a new one is probed
HOLD = 1.0
IDLE = 300.0
LAG = 1.0  # seconds by which our own loop may be late
RESTLESS = frozenset({Verdict.BUSY, Verdict.LOADING, Verdict.ABANDONED})  # ask again soon


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the prober tells and asks others. `lease`: whether this process may probe the replica with that name, asked before
    each probe; `publish` hears every result as it was counted; `poke` asks for a new lesson of a replica; `freed` hears of
    seats that are given back.
    """

    lease: Callable[[str], bool] = lambda _name: True
    publish: Callable[[Candidate, Probed], None] = lambda _candidate, _probe: None
    poke: Callable[[str], None] = lambda _replica: None
    freed: Callable[[Replica], None] = lambda _replica: None


@dataclass(slots=True)
class _Turn:
    """The probes of one pair. Times in loop seconds."""

    candidate: Candidate
    due: float
    door: int = 0  # which of its doors is asked; grows while none suits
    silent: bool = False  # the latest one got no answer in time
    failing: bool = False  # the latest one spoke against it
    unsuitable: bool = False
    took: float = 0.0  # seconds of the latest good one


@dataclass(frozen=True, slots=True)
class _Sent:
    """One probe under way."""

    turn: _Turn
    stamp: int
    started: float
    limit: float
    seated: bool


def cadence_of(settings: Probe) -> Cadence:
    """The numbers of the rules from the settings."""
    return Cadence(
        settings.interval,
        settings.doubtful_interval,
        settings.interval / 2,
        settings.timeout,
        settings.jitter,
    )


class Prober:
    """`draw` gives random numbers in [0, 1). `settings` may be replaced as a whole at any time."""

    def __init__(
        self,
        registry: Registry,
        health: Health,
        ask: Asking,
        draw: Callable[[], float],
        settings: Probe | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        self._registry = registry
        self._health = health
        self._ask = ask
        self._draw = draw
        self.settings = settings or Probe()
        self._hooks = hooks or Hooks()
        self._pulse = Pulse()
        self._turns: dict[tuple[str, str], _Turn] = {}
        self._models: Counter[str] = Counter()  # turns by replica id
        self._busy: set[str] = set()
        self._held = 0  # places of the lane
        self._version = -1
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """The registry may have new replicas; they are probed soon."""
        self._woken.set()

    def poke(self, replica: str) -> None:
        """Probe this replica now, whatever its cadence; the breaker and the live traffic are still asked."""
        now = asyncio.get_running_loop().time()
        for turn in self._turns.values():
            if turn.candidate.replica.id == replica:
                turn.due = min(turn.due, now)
        self._woken.set()

    async def run(self) -> None:
        """Probe for ever; ends only when cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pulse.run(), name="pulse")
            while True:
                self._woken.clear()
                wait = self._start_due(group)
                try:
                    async with asyncio.timeout(wait):
                        await self._woken.wait()
                except TimeoutError:
                    continue

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
            if sent is not None:
                group.create_task(self._take(sent), name=f"probe {turn.candidate.replica.id}")
            else:
                wait = min(wait, max(turn.due - now, 0.01))
        return wait

    def _refresh(self, now: float) -> None:
        """Follow the snapshot: new pairs get a turn soon, those that are gone lose theirs."""
        snapshot = self._registry.snapshot
        if snapshot.version == self._version:
            return
        self._version = snapshot.version
        self._health.settle(snapshot, now)
        turns: dict[tuple[str, str], _Turn] = {}
        for route in snapshot.routes.values():
            for candidate in route.candidates:
                key = (candidate.replica.id, candidate.served)
                if key in turns or (candidate.backend.external and not self.settings.external):
                    continue
                turn = self._turns.get(key)
                if turn is None or turn.candidate.replica is not candidate.replica:
                    turn = _Turn(candidate, now + SOON * self._draw())
                turn.candidate = candidate
                turns[key] = turn
        self._turns = turns
        self._models = Counter(replica for replica, _ in turns)

    def _begin(self, turn: _Turn, now: float) -> _Sent | None:
        """Everything that must be asked before a probe is sent; None fixes another due time and says why in health."""
        candidate, cadence = turn.candidate, cadence_of(self.settings)
        replica = candidate.replica
        breaker = self._health.entry(candidate, now).breaker
        if not self._hooks.lease(f"probe:{replica.id}"):
            turn.due = now + SIGHT
            return None
        why = self._unaskable(candidate)
        if why:
            return self._put_off(turn, why, now, cadence.doubtful)
        live = self._health.entry(candidate, now).live
        if breaker.state is State.CLOSED and proven(live, now, cadence.interval):
            after = live[-1] + pause(cadence, Pace.CALM, self._draw())
            return self._put_off(turn, "live traffic proves it", now, after - now)
        admission = self._health.lease(candidate, now)
        if not admission.allowed and not (turn.failing and breaker.state is State.OPEN):
            left = breaker.retry_at - now
            return self._put_off(turn, admission.why, now, min(cadence.doubtful, left) if left > 0 else SIGHT)
        trial = breaker.state is not State.CLOSED
        limit = patience(cadence, silent=turn.silent and not trial, took=turn.took)
        seated = replica.seat.cap is not None
        replica.seat.in_flight += seated
        self._busy.add(replica.id)
        return _Sent(turn, admission.stamp, now, limit, seated)

    def _put_off(self, turn: _Turn, why: str, now: float, seconds: float) -> None:
        turn.due = now + max(seconds, 0.1)
        self._health.spared(turn.candidate, why, now)

    def _unaskable(self, candidate: Candidate) -> str:
        """Why a probe of this pair would be wrong at the moment, or ""."""
        seat = candidate.replica.seat
        lesson = self._registry.snapshot.lessons.get(candidate.replica.id)
        slots = lesson.slots if lesson is not None else None
        if candidate.kind is Kind.AUTO:
            return "its kind is not recognised yet, a probe might load a model"
        if not candidate.served and not candidate.known:
            return "it has not told its models yet"
        if not doors_of(candidate, DIALECTS[candidate.kind]):
            return "it has no door that a probe could use"
        if not seat.free or (slots is not None and seat.in_flight >= slots):
            return "every place on it is taken by live requests"
        return ""

    # --- one probe ----------------------------------------------------------------------------------------------------

    async def _take(self, sent: _Sent) -> None:
        """One probe: sent, judged, told, the next turn fixed. Nothing but a cancel leaves here."""
        loop = asyncio.get_running_loop()
        replica = sent.turn.candidate.replica
        place = [self._leave]
        self._held += 1
        timer = loop.call_later(HOLD, lambda: place and place.pop()())
        reply: Reply | None = None
        try:
            reply, judgement = await self._asked(sent)
        except Exception as error:
            LOGGER.exception("a probe of replica %s could not be made", replica.id)
            judgement = Judgement(Verdict.ABANDONED, f"a fault of AutoHedge itself: {type(error).__name__}")
        finally:
            timer.cancel()
            if place:
                place.pop()()
            self._busy.discard(replica.id)
            if sent.seated:
                replica.seat.in_flight -= 1
                self._hooks.freed(replica)
            self._woken.set()
        self._tell(sent, judgement, loop.time(), quiet=reply is not None and silent(reply))

    def _leave(self) -> None:
        self._held -= 1
        self._woken.set()

    async def _asked(self, sent: _Sent) -> tuple[Reply, Judgement]:
        candidate, kind = sent.turn.candidate, sent.turn.candidate.kind
        dialect, key = DIALECTS[kind], candidate.backend.key
        headers: Headers = () if key is None else dialect.authorize(key)
        address, limit = candidate.replica.address, sent.limit
        doors = doors_of(candidate, dialect)
        door = doors[sent.turn.door % len(doors)]
        expected = Expected(door, self._names(candidate), self.settings.degenerate, key is not None)
        if kind in LOADED_MODELS:
            reply = await self._ask(address, LOADED_MODELS[kind], headers, limit)
            if reply.status == 0 or reply.status >= 500:
                return reply, judged(reply, dialect, expected)
            loaded = resident(kind, reply, candidate.served)
            if loaded is False:
                return reply, Judgement(Verdict.CAPABILITY, "not loaded, and a probe would load it")
            if loaded and self._idle(sent):
                return reply, Judgement(Verdict.ABANDONED, "idle, and a probe would keep it in memory")
            limit = max(0.1, sent.started + limit - asyncio.get_running_loop().time())
        reply = await self._ask(address, question(candidate, door, self.settings.tokens, dialect), headers, limit)
        return reply, judged(reply, dialect, expected)

    def _names(self, candidate: Candidate) -> frozenset[str]:
        """All names under which the replica may answer; none where they are not comparable."""
        lesson = self._registry.snapshot.lessons.get(candidate.replica.id)
        if candidate.kind not in EXACT or candidate.backend.external or not candidate.known or lesson is None:
            return frozenset()
        return frozenset(name for model in lesson.models for name in (model.id, *model.names)) | {candidate.served}

    def _idle(self, sent: _Sent) -> bool:
        entry = self._health.entry(sent.turn.candidate, sent.started)
        breaker = entry.breaker
        return breaker.known and breaker.state is State.CLOSED and sent.started - entry.used > IDLE

    def _tell(self, sent: _Sent, judgement: Judgement, now: float, *, quiet: bool) -> None:
        """What a verdict changes: health first, then the next turn."""
        turn, candidate = sent.turn, sent.turn.candidate
        late = self._pulse.late(sent.started, now)
        if judgement.verdict in AGAINST and late > LAG:
            reason = f"thrown away: our own event loop was {late:.1f} s late"
            judgement, quiet = Judgement(Verdict.ABANDONED, reason), False
        probe = Probed(
            candidate.replica.id,
            candidate.served,
            Via.DEEP,
            judgement.verdict,
            judgement.reason,
            certain=judgement.certain,
            silent=quiet,
            took=now - sent.started,
        )
        probe = self._health.probed(sent.stamp, probe, now)
        self._hooks.publish(candidate, probe)
        self._learn(turn, probe)
        self._plan_next(sent, probe.verdict, now)

    def _learn(self, turn: _Turn, probe: Probed) -> None:
        """Remember what the next probe of this pair should know."""
        replica = turn.candidate.replica.id
        unsuitable = probe.verdict in UNSUITABLE
        if probe.verdict is Verdict.MISCONFIGURED or (unsuitable and not turn.unsuitable):
            self._hooks.poke(replica)
        if unsuitable and not turn.unsuitable:
            LOGGER.info("probe of %s, model %s: %s", replica, turn.candidate.served, probe.reason)
        turn.unsuitable = unsuitable
        turn.door += unsuitable
        turn.silent = probe.silent
        turn.failing = probe.verdict in AGAINST
        if probe.verdict is Verdict.ANSWER:
            turn.took = probe.took

    def _plan_next(self, sent: _Sent, verdict: Verdict, now: float) -> None:
        turn, cadence = sent.turn, cadence_of(self.settings)
        replica = turn.candidate.replica.id
        breaker = self._health.entry(turn.candidate, now).breaker
        untried = turn.unsuitable and turn.door % len(doors_of(turn.candidate, DIALECTS[turn.candidate.kind])) != 0
        if breaker.state is State.OPEN:
            pace = Pace.LOOK
        elif breaker.doubtful(now) or verdict in RESTLESS or untried:
            pace = Pace.DOUBTFUL
        else:
            pace = Pace.CALM
        turn.due = sent.started + pause(cadence, pace, self._draw(), self._models[replica])
        if breaker.state is State.OPEN:
            turn.due = now if verdict is Verdict.ANSWER else min(turn.due, max(breaker.retry_at, now))
        turn.due = max(turn.due, now)
