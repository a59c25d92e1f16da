"""What is known of every (replica, model): one breaker each, fed by live traffic and probes, asked by the plan.

Rules
- A breaker is made when a pair is first seen and forgotten with its replica; what comes in late for a forgotten one is dropped.
- The pool of a breaker is the set of replicas that serve the same model on the same rung; it may hold back an ejection by
  ratio (rules/pool.py), never one by hard evidence. Where another rung could take over (`spare`), the last three outcomes
  were failures and the pool would hold it all the same, it goes: callers are better served by that rung.
- Where nobody probes, a replica without evidence is as good as any: somebody has to be first. External backends are probed
  only when that was asked for.
- A probe that gets no answer in time while live requests run on the replica is neutral: those are older and will tell, and a
  long prefill or a full queue is no fault (B08, B11). Not so once a live attempt has failed there.
- What another worker saw comes in as its probes (`heard`) and its openings (`adopt`). Soft openings of others are taken over
  only up to the share that may be out: the union of several pictures would be too much.
- The operator's wish outlives evidence, breaker and replica; only the operator takes it back.

It must not know: how outcomes are judged, sockets, who waits. Times are loop seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace
from typing import Any

from autohedge.core.types import NOTHING, Attempt, Candidate, Judgement, Replica, Snapshot, Verdict
from autohedge.memory.entry import Entry, Opening, Rules, described, keeps_failing, pressed
from autohedge.rules.breaker import DEFAULT, Breaker, Guard, Options
from autohedge.rules.pool import hold
from autohedge.rules.probe_verdicts import AGAINST
from autohedge.rules.probes import Probed
from autohedge.rules.standing import ALIVE, Admission, State, Tier, Transition, Via, Wish

__all__ = ["Entry", "Health", "Opening", "Rules"]

ANSWER = Verdict.ANSWER  # looked up in its enum it costs every request
WISHES = 1000  # kept at most; the oldest goes first
PICTURE = 1.0  # seconds
UNLISTED = 600.0  # seconds that a pair is kept which no lesson lists
GOOD = ALIVE | {Verdict.ANSWER}
OUT = frozenset({State.OPEN, State.HALF_OPEN})


class Health:
    """`draw` gives random numbers in [0, 1); `told` is called once per change of state."""

    def __init__(
        self,
        draw: Callable[[], float],
        options: Options | None = None,
        told: Callable[[Candidate, Transition], None] = lambda _candidate, _transition: None,
        rules: Rules | None = None,
    ) -> None:
        self._draw = draw
        self._rules = rules or Rules(options or DEFAULT, unprobed=replace(options or DEFAULT, probed=False))
        self._told = told
        self._entries: dict[str, dict[str, Entry]] = {}  # by replica id, then by the name that the engine knows
        self._pools: dict[str, list[Entry]] = {}  # by the name that the engines know
        self._wishes: dict[tuple[str, str | None], Wish] = {}
        self._pending: dict[
            tuple[str, str], tuple[Opening, float]
        ] = {}  # of pairs that are not known yet, with their end
        self._begun: dict[str, float] = {}
        self._settled: tuple[object, float] = (None, 0.0)  # the routes that were gone through last, and when

    # --- asked by the plan --------------------------------------------------------------------------------------------

    def look(self, candidate: Candidate, now: float) -> Admission:
        """What an admission would say, without taking anything."""
        breaker = self.entry(candidate, now).breaker
        seen = breaker.look(now, self._draw())
        if seen.tier is Tier.UNKNOWN and not breaker.options.probed:
            return seen._replace(tier=Tier.GOOD)
        return seen

    def admit(self, candidate: Candidate, now: float, *, insist: bool = False) -> Admission:
        """Ask for one live request at the moment it is sent."""
        entry = self.entry(candidate, now)
        admission = entry.breaker.admit(now, self._draw(), insist=insist)
        if admission.allowed:
            entry.used = now
            if admission.moved is not None:
                self._told(candidate, admission.moved)
        return admission

    def record(self, attempt: Attempt, now: float) -> None:
        """Take the verdict of one attempt."""
        judgement = attempt.judgement
        assert judgement is not None
        entry = self.find(attempt.candidate.replica.id, attempt.candidate.served)
        if entry is None:
            return
        breaker = entry.breaker
        if judgement.verdict is ANSWER:
            entry.live.append(now)
            if breaker.options.slow is not None and attempt.first_byte is not None:
                breaker.pace(attempt.first_byte - attempt.started)
        moved = breaker.record(attempt.stamp, judgement.verdict, now, self._draw(), certain=judgement.certain)
        if moved is not None:
            self._tell(entry, moved, judgement)

    def usable(self, snapshot: Snapshot, now: float, silent: Container[str] = ()) -> int:
        """How many replicas can serve at least one of their models. Those that are `silent` when asked for their models and
        never answered anything are none: nobody can probe them, so nothing else would tell.
        """
        return len({one.replica.id for one in snapshot.everybody() if self._serves(one, now, silent)})

    def _serves(self, candidate: Candidate, now: float, silent: Container[str]) -> bool:
        if self.look(candidate, now).tier > Tier.UNKNOWN:
            return False
        breaker = self.entry(candidate, now).breaker
        return candidate.replica.id not in silent or bool(candidate.served) or breaker.known or breaker.judge.heals

    def well(self, replica: Replica, places: Iterable[Candidate], now: float, silent: Container[str] = ()) -> bool:
        """Whether a replica can serve one of these places at least; without any, whether nothing speaks against it."""
        serves = [self._serves(place, now, silent) for place in places]
        if serves:
            return any(serves)
        tiers = [entry.breaker.view(now).tier for entry in self._entries.get(replica.id, {}).values()]
        return not tiers or min(tiers) <= Tier.UNKNOWN

    def entry(self, candidate: Candidate, now: float) -> Entry:
        """What is known of one pair; made when it is new."""
        models = self._entries.get(candidate.replica.id)
        if models is None:
            models = self._entries[candidate.replica.id] = {}
        entry = models.get(candidate.served)
        if entry is None:
            entry = models[candidate.served] = self._made(candidate, now)
        return entry

    def find(self, replica: str, model: str) -> Entry | None:
        """What is known of one pair, None when it is not known or forgotten."""
        models = self._entries.get(replica)
        return models.get(model) if models is not None else None

    # --- the world changes --------------------------------------------------------------------------------------------

    def keep_only(self, replicas: Iterable[str]) -> None:
        """Forget the breakers of replicas that are gone."""
        known = set(replicas)
        for name in [name for name in self._entries if name not in known]:
            for model in list(self._entries[name]):
                self._forget(name, model)
        for name in [name for name in self._begun if name not in known]:
            del self._begun[name]

    def settle(self, snapshot: Snapshot, now: float) -> None:
        """Know every pair of the snapshot, so that pools have their size; take over the openings that waited for them; forget
        models that a replica does not serve any more and that nobody asked for lately. The same picture is not gone through
        again within `PICTURE` seconds: with two thousand replicas that takes milliseconds.
        """
        routes, at = self._settled
        if snapshot.routes is routes and now - at < PICTURE and not self._pending:
            return
        self._settled = snapshot.routes, now
        listed = {(one.replica.id, one.served): one for one in snapshot.everybody()}
        for (replica, served), candidate in listed.items():
            if served not in self._entries.get(replica, NOTHING):
                self.entry(candidate, now)
        unlisted = sum(map(len, self._entries.values())) > len(listed)
        for entry in list(self._all()) if unlisted else ():
            key = (entry.candidate.replica.id, entry.candidate.served)
            passing = not key[1]  # what stood for the models of a replica that had not told them yet
            if key not in listed and (passing or now - max(entry.used, entry.made) > UNLISTED):
                self._forget(*key)
        for key, (opening, until) in list(self._pending.items()):
            if until <= now:
                del self._pending[key]
            elif self.find(*key) is not None:
                del self._pending[key]
                self.adopt(replace(opening, left=until - now), now)

    def begin(self, replica: str, now: float, reason: str = "new task") -> None:
        """A new task behind an address: all evidence is void, and failures before its first answer are loading."""
        self._begun[replica] = now
        for entry in self._entries.get(replica, {}).values():
            old = entry.breaker.state
            moved = entry.breaker.begin(now, reason)
            entry.live.clear()
            entry.probe = None
            if old is not State.CLOSED:
                self._told(entry.candidate, moved)

    # --- probes -------------------------------------------------------------------------------------------------------

    def lease(self, candidate: Candidate, now: float) -> Admission:
        """Ask for one probe. Refused while the replica is out and its time has not come, or another trial is out."""
        entry = self.entry(candidate, now)
        entry.candidate = candidate
        admission = entry.breaker.lease(now)
        if admission.moved is not None:
            self._told(candidate, admission.moved)
        return admission

    def may_look(self, candidate: Candidate, now: float) -> bool:
        """Whether a replica that is out may be probed without a lease: nobody probed it since it went out, or its own probes
        fail. Back-off guards against replicas that please a probe and fail callers, not against those that fail both.
        """
        entry = self.entry(candidate, now)
        breaker = entry.breaker
        return breaker.state is State.OPEN and (entry.probed_at < breaker.since or _told_by_probes(entry))

    def probed(self, stamp: int, probe: Probed, now: float) -> Probed:
        """Take the result of a probe; `stamp` is that of its lease. Returns it as it was counted."""
        entry = self.find(probe.replica, probe.model)
        if entry is None:
            return probe
        if probe.silent and pressed(entry, now):
            probe = replace(probe, verdict=Verdict.BUSY, reason="no answer in time, while live requests are running")
        self._take(entry, stamp, probe, now)
        return probe

    def heard(self, probe: Probed, now: float) -> None:
        """Take the result of another worker's probe; where this replica is out, it is its trial when one is due."""
        entry = self.find(probe.replica, probe.model)
        if entry is None:
            return
        if probe.via is Via.LIGHT:
            self._take(entry, entry.breaker.stamp, probe, now)
            return
        lease = self.lease(entry.candidate, now)
        self._take(entry, lease.stamp, probe, now)
        if not lease.allowed and probe.verdict is Verdict.ANSWER and entry.breaker.state is State.OPEN:
            lease = self.lease(entry.candidate, now)  # the answer may have made the trial due: it is its first result
            if lease.allowed:
                self._take(entry, lease.stamp, probe, now)

    def pinged(self, probe: Probed, now: float) -> list[tuple[Candidate, Probed]]:
        """Take the result of a ping for every model of its replica; returns it for each of them."""
        told = []
        for model, entry in self._entries.get(probe.replica, {}).items():
            one = replace(probe, model=model)
            self._take(entry, entry.breaker.stamp, one, now)
            told.append((entry.candidate, one))
        return told

    def spared(self, candidate: Candidate, reason: str) -> None:
        """Note why a probe that was due was not sent."""
        entry = self.find(candidate.replica.id, candidate.served)
        if entry is not None:
            entry.spared = reason

    def reachable(self, replica: str) -> bool | None:
        """Whether evidence says that something works there: True, False, or None without any."""
        entries = self._entries.get(replica, {}).values()
        probes = [entry.probe for entry in entries if entry.probe is not None]
        if any(entry.breaker.known and entry.breaker.state is State.CLOSED and entry.live for entry in entries):
            return True
        return any(probe.verdict in GOOD for probe in probes) if probes else None

    def awaits(self, replica: str) -> bool:
        """Whether a probe of this replica is still to come: somebody probes it, and there is no result yet."""
        entries = self._entries.get(replica, {}).values()
        return any(entry.breaker.options.probed and entry.probe is None and not entry.spared for entry in entries)

    def why(self, replica: str) -> str:
        """The reason of the latest probe of a replica that did not go well, "" without one."""
        probes = (entry.probe for entry in self._entries.get(replica, {}).values())
        return next(
            (probe.reason or probe.verdict.value for probe in probes if probe and probe.verdict not in GOOD), ""
        )

    # --- people and other workers -------------------------------------------------------------------------------------

    def force(self, replica: str, wish: Wish, model: str | None = None) -> int:
        """Set the operator's wish for a replica, or for one model on it. NONE takes it back. Returns how many breakers it
        concerns now; it holds for those to come as well.
        """
        if model is None:
            for key in [key for key in self._wishes if key[0] == replica]:
                del self._wishes[key]
        self._wishes.pop((replica, model), None)
        if wish is not Wish.NONE or (model is not None and (replica, None) in self._wishes):
            self._wishes[replica, model] = wish
            while len(self._wishes) > WISHES:
                del self._wishes[next(iter(self._wishes))]
        entries = self._entries.get(replica, {})
        chosen = [entry for name, entry in entries.items() if model in (None, name)]
        for entry in chosen:
            entry.breaker.force(wish)
        return len(chosen)

    @property
    def wishes(self) -> list[tuple[str, str | None, Wish]]:
        """All wishes: replica, model (None: all of them), wish."""
        return [(replica, model, wish) for (replica, model), wish in self._wishes.items()]

    def openings(self, now: float) -> list[Opening]:
        """All breakers that are open or on trial."""
        return [
            Opening(
                entry.candidate.replica.id,
                entry.candidate.served,
                max(0.0, entry.breaker.retry_at - now),
                entry.breaker.reason,
                entry.breaker.hard,
                entry.breaker.level,
            )
            for entry in self._all()
            if entry.breaker.state in OUT
        ]

    def adopt(self, opening: Opening, now: float) -> None:
        """Take over an opening that another worker saw or that a restart forgot; it waits for a pair that is not known yet."""
        entry = self.find(opening.replica, opening.model)
        until = now + opening.left
        if entry is None:
            self._pending[opening.replica, opening.model] = (opening, until)
            return
        if entry.breaker.state is State.OPEN:
            entry.breaker.follow(max(until, entry.breaker.retry_at))
            return
        if not opening.hard and not self._rules.spare(entry.candidate):
            pool = self._pools[opening.model]
            out = sum(other.breaker.view(now).tier is Tier.RATIO for other in pool)
            if out + 1 > int(len(pool) * self._rules.pool.share):
                return
        moved = entry.breaker.adopt(until, opening.reason, now, hard=opening.hard, level=opening.level)
        if moved is not None:
            self._told(entry.candidate, moved)

    def relieve(self, replica: str, model: str, now: float) -> None:
        """Another worker closed its breaker: let the trial of ours begin."""
        entry = self.find(replica, model)
        if entry is not None:
            entry.breaker.follow(min(now, entry.breaker.retry_at))

    def describe(self, now: float) -> list[dict[str, Any]]:
        """Every breaker with its reasons and the ages of its evidence in seconds, for the admin API."""
        return [described(entry, now) for entry in self._all()]

    # --- inside -------------------------------------------------------------------------------------------------------

    def _made(self, candidate: Candidate, now: float) -> Entry:
        rules = self._rules
        probed = rules.options.probed and rules.probed(candidate)
        judge = rules.judge() if probed else rules.unprobed_judge()
        breaker = Breaker(judge, rules.options if probed else rules.unprobed, now)
        breaker.yields = rules.yields
        entry = Entry(candidate, breaker, now)
        pool = self._pools.setdefault(candidate.served, [])
        pool.append(entry)
        if not judge.heals:  # eidex holds nobody back
            breaker.guard = self._guard(entry, pool)
        replica = candidate.replica.id
        if replica in self._begun:
            breaker.begin(self._begun[replica])
        wish = self._wishes.get((replica, candidate.served), self._wishes.get((replica, None)))
        if wish is not None:
            breaker.force(wish)
        return entry

    def _guard(self, entry: Entry, pool: list[Entry]) -> Guard:
        def guard(now: float) -> str:
            why = hold([other.breaker.view(now) for other in pool if other is not entry], now, self._rules.pool)
            return "" if why and self._rules.spare(entry.candidate) and keeps_failing(entry.breaker, now) else why

        return guard

    def _forget(self, replica: str, model: str) -> None:
        entry = self._entries[replica].pop(model)
        if not self._entries[replica]:
            del self._entries[replica]
        self._pools[model].remove(entry)
        if not self._pools[model]:
            del self._pools[model]

    def _all(self) -> Iterator[Entry]:
        for models in self._entries.values():
            yield from models.values()

    def _take(self, entry: Entry, stamp: int, probe: Probed, now: float) -> None:
        looked = entry.breaker.state is State.OPEN and probe.verdict is Verdict.ANSWER and not _told_by_probes(entry)
        heals = entry.breaker.judge.heals
        if probe.via is Via.DEEP or heals:
            entry.probe, entry.probed_at, entry.spared = probe, now, ""
        if looked and not heals:
            return  # live traffic put it out, so an answer to a probe does not shorten its time
        moved = entry.breaker.record(stamp, probe.verdict, now, self._draw(), via=probe.via, certain=probe.certain)
        if moved is not None:
            self._tell(entry, moved, Judgement(probe.verdict, probe.reason))

    def _tell(self, entry: Entry, moved: Transition, judgement: Judgement) -> None:
        if moved.new is State.MISCONFIGURED and judgement.reason:
            moved = replace(moved, reason=judgement.reason)
            entry.breaker.reason = judgement.reason
        self._told(entry.candidate, moved)


def _told_by_probes(entry: Entry) -> bool:
    """Whether probes see what put a replica out: nobody listened, or the latest probe failed as well."""
    return entry.breaker.hard or (entry.probe is not None and entry.probe.verdict in AGAINST)
