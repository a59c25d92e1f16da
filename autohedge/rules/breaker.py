"""The breaker of one (replica, model): may traffic go there, and what does an outcome change?

States and their exits
  closed         -> open           by the judge (soft: "6/10 succeeded"), unless the pool holds it
                 -> open           by hard evidence: 2 refused or reset connections in a row, or the engine's own obituary
  open           -> half-open      after 15 s x 2^n (+-20 %, at most 300 s) with one leased probe
  half-open      -> closed         after 2 answers; traffic then ramps 10 / 50 / 100 % over 30 s
                 -> open           longer, on a failure; after a soft opening the first soft failure is asked once more
  any            -> loading        the engine says that it loads; left by the first sign of life
  any            -> misconfigured  our key is refused; re-checked every 60 s, left by the first sign of life

Rules (resilience facts 4.1, 4.3, 7.1)
- Only ANSWER counts for, only SICK and DEAD count against. Everything else neither adds nor resets, but frees the lease.
- Every transition starts a generation. A result with an older stamp is ignored.
- Half-open is for probes. Live traffic gets the one lease instead where no probe can decide: nobody probes (paid
  providers), the engine calls our probe unsuitable, or no probe came for `patience` seconds. So there is always a way back.
- "One failure re-opens" and "every false opening is healed by its first half-open" exclude each other at 3 % probe loss
  (6 % of the trials would fail). A trial costs no caller anything, so a softly opened one is asked again once.
- No evidence is not open: it is closed and not `known`.
- The operator's wish is kept apart: observation goes on under it.

Times are seconds of one monotonic clock; `draw` is a random number in [0, 1).
It must not know: pools (it asks `guard`), probes' content, storage, the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autohedge.core.types import Verdict
from autohedge.rules.standing import ALIVE, NEVER, Admission, Judge, State, Tier, Transition, Via, View, Wish, no_wait
from autohedge.rules.window import Pace

Guard = Callable[[float], str]  # (now) -> why the pool cannot spare this replica, "" when it can


@dataclass(frozen=True, slots=True)
class Options:
    """Numbers of a breaker; times in seconds. `ramp` lists (until, share) after closing. `slow` is the limit for first bytes."""

    hard: int = 2  # refused or reset connections in a row; 0 is off
    hard_age: float = 120.0  # an older one is not "in a row" any more
    opens: float = 15.0
    cap: float = 300.0
    jitter: float = 0.2
    calm: float = 60.0  # healthy time that takes one doubling back
    close_after: int = 2
    forgiven: int = 1  # soft failures that a softly opened replica may have while half-open
    lease: float = 30.0
    patience: float = 30.0
    ramp: tuple[tuple[float, float], ...] = ((15.0, 0.1), (30.0, 0.5))
    probed: bool = True
    grace: float = 600.0  # after a task's start: failures before the first answer are loading
    recheck: float = 60.0
    slow: float | None = None


DEFAULT = Options()
ANSWER, CLOSED, LIGHT = Verdict.ANSWER, State.CLOSED, Via.LIGHT  # looked up in their enums they cost every request
EIDEX = Options(hard=0, ramp=())  # seed 000: probes alone decide, at once


class Breaker:
    """See the module. `guard` is asked only when soft evidence would open; `yields` gives the seconds by which this process leaves
    a live trial to another one.
    """

    __slots__ = (
        "_dead", "_dead_at", "_forgiven", "_good", "_lease_until", "_leased_at", "_level", "_opened_at", "_pace", "_pass",
        "_ramp_from", "_ramp_until", "_slow", "_started", "_unsuitable", "answered_at", "failed_at", "failures", "guard",
        "hard", "held", "judge", "known", "options", "reason", "retry_at", "since", "stamp", "state", "wish",
        "yields",
    )  # fmt: skip

    def __init__(self, judge: Judge, options: Options = DEFAULT, now: float = 0.0, guard: Guard | None = None) -> None:
        self.judge = judge
        self.options = options
        self.guard = guard
        self.yields = no_wait
        self.state = State.CLOSED
        self.wish = Wish.NONE
        self.stamp = 1
        self.since = now
        self.reason = "no evidence yet"
        self.held = ""  # why the pool kept it in when soft evidence called for opening
        self.known = judge.heals  # eidex starts optimistic
        self.hard = False
        self.failures = 0
        self.retry_at = NEVER
        self.answered_at = NEVER
        self.failed_at = NEVER
        self._pace = Pace(options.slow)
        self._slow = False
        self._started: float | None = None
        self._opened_at = NEVER
        self._level = 0
        self._ramp_from = self._ramp_until = NEVER
        self._pass: Admission | None = None
        self._unsuitable = False
        self._dead_at = self._leased_at = self._lease_until = NEVER
        self._dead = self._good = self._forgiven = 0
        self._refresh()

    # --- may traffic go there? ----------------------------------------------------------------------------------------

    def look(self, now: float, draw: float = 0.0) -> Admission:
        """What `admit` would say, without taking anything: for the plan, for `explain`, for the pool."""
        if self._pass is not None:
            if now >= self._ramp_until or draw < self._share(now):
                return self._pass
            why = f"closed {now - self._ramp_from:.0f} s ago, takes {self._share(now):.0%} of its traffic"
            return Admission(False, self.stamp, why, Tier.RAMPING)
        if self.wish is Wish.NONE:
            due = self._trial_due(now)
            return Admission(True, self.stamp, "one live request as its trial") if due else self._barred()
        forced = self.wish is Wish.CLOSED
        why = "draining" if self.wish is Wish.DRAIN else f"{self.wish} by the operator"
        return Admission(forced, self.stamp, why, Tier.GOOD if forced else Tier.OUT)

    def admit(self, now: float, draw: float = 0.0, *, insist: bool = False) -> Admission:
        """Ask for one live request at the moment it is sent; takes the lease where it is a trial.

        `insist`: the plan has nothing better (ramp, loading, panic); only OUT still refuses.
        """
        if self._pass is not None and now >= self._ramp_until:
            return self._pass
        seen = self.look(now, draw)
        if seen.allowed:
            return seen if self._pass is not None or self.wish is Wish.CLOSED else self._take(now, seen.why)
        if insist and seen.tier is not Tier.OUT:
            return seen._replace(allowed=True)
        return seen

    def lease(self, now: float) -> Admission:
        """Ask for one probe. Every probe asks first: while not closed, one at a time, and not before `retry_at`."""
        if self.state is State.CLOSED or self.judge.heals:
            return Admission(True, self.stamp)
        if now < self._lease_until:
            return Admission(False, self.stamp, "another trial is out", Tier.OUT)
        if now < self.retry_at and self.state is not State.LOADING:
            return Admission(False, self.stamp, f"{self.state} for {self.retry_at - now:.0f} s more", Tier.OUT)
        return self._take(now, "trial")

    # --- what an outcome changes --------------------------------------------------------------------------------------

    def record(
        self, stamp: int, verdict: Verdict, now: float, draw: float = 0.0, *, via: Via = Via.LIVE, certain: bool = False
    ) -> Transition | None:
        """Take one verdict. `certain`: an engine-dead text, which opens at once. Returns the change of state, if any."""
        if stamp != self.stamp:
            return None
        if verdict is ANSWER:
            if self.state is not CLOSED:
                return self._answered(via, now)
            self._dead = 0
            self.judge.note(True, via, now)
            if via is not LIGHT:
                self.answered_at = now
                if not self.known:
                    self.known = True
                    self.reason = "answered"
                    self._refresh()
            return None
        if verdict is Verdict.SICK or verdict is Verdict.DEAD:
            dead = verdict is Verdict.DEAD
            if via is Via.LIGHT and not dead and not self.judge.heals:
                return None  # a hint: SGLang's /health is 503 under a long prefill (B08)
            self.failed_at = now
            return self._failed(now, draw, via, dead=dead, certain=certain)
        return self._neutral(verdict, now)

    def pace(self, first_byte: float) -> None:
        """Take a time to first byte in seconds: mostly late ones rank the replica down."""
        slow = self._pace.note(first_byte)
        if slow is not self._slow:
            self._slow = slow
            self._refresh()

    # --- what people and other workers change -------------------------------------------------------------------------

    def force(self, wish: Wish) -> None:
        """Set the operator's wish; NONE gives the word back to the evidence."""
        self.wish = wish
        self._refresh()

    def begin(self, now: float, reason: str = "new task", *, starting: bool = True) -> Transition:
        """A new task behind the address, or a new configuration: all evidence is void. `starting` opens the start grace."""
        self.judge.clear()
        self._pace.clear()
        self._slow = self._unsuitable = self.hard = False
        self.failures = 0
        self.known = self.judge.heals
        self._level = 0
        self._started = now if starting else None
        self._ramp_from = self._ramp_until = NEVER
        return self._move(State.CLOSED, reason, now)

    def adopt(self, until: float, reason: str, now: float, *, hard: bool, level: int = 1) -> Transition | None:
        """Take over an opening that another worker saw, or that a restart forgot."""
        if self.state in {State.OPEN, State.HALF_OPEN} or until <= now:
            return None
        self.hard, self._level, self._opened_at, self.retry_at = hard, level, now, until
        self.failures = self.judge.failures(now)
        return self._move(State.OPEN, reason, now)

    def follow(self, until: float) -> None:
        """Another worker's trial failed (a later time) or ended well (an earlier one): ours comes then."""
        if self.state is State.OPEN:
            self.retry_at = until

    # --- what can be seen ---------------------------------------------------------------------------------------------

    @property
    def level(self) -> int:
        """Openings that the next back-off remembers."""
        return self._level

    def doubtful(self, now: float) -> bool:
        """True while something in view failed or the replica is not plainly closed: probe every 3 s instead of 10."""
        return self.state is not State.CLOSED or self.judge.failures(now) > 0

    def view(self, now: float) -> View:
        """For the pool: a replica on trial is still out."""
        plain = self._pass is not None or self.wish is not Wish.NONE
        return View(self.look(now).tier if plain else self._barred().tier, self._opened_at, self.failures)

    def describe(self, now: float) -> dict[str, object]:
        """State, reason and the ages of the evidence in seconds, for the admin API and logs."""
        shown: dict[str, object] = {
            "state": self.state.value,
            "wish": self.wish.value,
            "reason": self.reason,
            "since_s": round(now - self.since, 1),
            "known": self.known,
            "judge": self.judge.told(now),
            "evidence": self.judge.evidence(now),
        }
        if self.answered_at != NEVER:
            shown["answered_s_ago"] = round(now - self.answered_at, 1)
        if self.failed_at != NEVER:
            shown["failed_s_ago"] = round(now - self.failed_at, 1)
        if self.state is not State.CLOSED:
            shown["hard"] = self.hard
            shown["retry_in_s"] = round(max(0.0, self.retry_at - now), 1)
        elif self.held and self.judge.sick(now):
            shown["held"] = self.held
        if self._slow:
            shown["slow"] = True
        return shown

    # --- inside -------------------------------------------------------------------------------------------------------

    def _share(self, now: float) -> float:
        for until, share in self.options.ramp:
            if now < self._ramp_from + until:
                return share
        return 1.0

    def _trial_due(self, now: float) -> bool:
        if self.judge.heals or now < self._lease_until:
            return False
        if not self.options.probed or self._unsuitable:
            return now >= self.retry_at + self.yields()
        return now >= max(self.retry_at, self._leased_at) + self.options.patience

    def _barred(self) -> Admission:
        why = f"{self.state}: {self.reason}"
        if self.state is State.LOADING:
            return Admission(False, self.stamp, why, Tier.LOADING)
        soft = self.state is not State.MISCONFIGURED and not self.hard
        return Admission(False, self.stamp, why, Tier.RATIO if soft else Tier.OUT, self.failures)

    def _take(self, now: float, why: str) -> Admission:
        moved = self._move(State.HALF_OPEN, why, now) if self.state is State.OPEN else None
        self._leased_at = now
        self._lease_until = now + self.options.lease
        return Admission(True, self.stamp, why, moved=moved)

    def _answered(self, via: Via, now: float) -> Transition | None:
        if self.judge.heals:
            self.judge.note(True, via, now)
            return None if via is Via.LIVE or self.judge.sick(now) else self._close(f"{via} probe answered", now)
        if via is Via.LIGHT:
            return None
        self.answered_at = now
        self._lease_until = NEVER
        if self.state is State.OPEN:  # a request sent in panic came back well: let the trial begin now
            self.retry_at = min(self.retry_at, now)
            return None
        if self.state is not State.HALF_OPEN:
            return self._close("answered", now)
        self._good += 1
        if self._good < self.options.close_after:
            return None
        return self._close(f"{self._good} trials answered", now, ramp=True)

    def _failed(self, now: float, draw: float, via: Via, *, dead: bool, certain: bool) -> Transition | None:
        hard = dead and certain
        if self.judge.heals or self.state not in {State.OPEN, State.HALF_OPEN}:
            self.judge.note(False, via, now)
        if self.state is State.OPEN:
            return None
        self._lease_until = NEVER
        if self.state is State.HALF_OPEN:
            hard = dead or self.hard
            if not hard and self._forgiven < self.options.forgiven:
                self._forgiven += 1
                return None
            return self._open("failed its trial", now, draw, hard=hard)
        if self.state is State.MISCONFIGURED:
            self.retry_at = now + self.options.recheck
        reason = self._hard_reason(now, dead=dead, certain=hard)
        if reason:
            return self._open(reason, now, draw, hard=True)
        reason = self.judge.sick(now)
        self.held = self.guard(now) if reason and self.guard is not None else ""
        return self._open(reason, now, draw, hard=False) if reason and not self.held else None

    def _hard_reason(self, now: float, *, dead: bool, certain: bool) -> str:
        in_row = self._dead if now - self._dead_at <= self.options.hard_age else 0
        self._dead = in_row + 1 if dead else 0
        self._dead_at = now
        if certain:
            return "the engine says that it is dead"
        if self.options.hard and self._dead >= self.options.hard:
            return f"{self._dead} connections in a row refused or reset"
        return ""

    def _neutral(self, verdict: Verdict, now: float) -> Transition | None:
        self._lease_until = NEVER
        if verdict is Verdict.LOADING or verdict is Verdict.MISCONFIGURED:
            loading = verdict is Verdict.LOADING
            self.retry_at = now + (self.options.opens if loading else self.options.recheck)
            new = State.LOADING if loading else State.MISCONFIGURED
            if self.state is new:
                return None
            self.hard = False
            return self._move(new, "the engine says that it loads" if loading else "our credential is refused", now)
        if verdict not in ALIVE:
            return None
        if self.state is State.LOADING or self.state is State.MISCONFIGURED:
            return self._close(f"alive: {verdict}", now)
        if self.state is State.HALF_OPEN:
            self._unsuitable = True  # alive, yet no success either (smg PR 2565): live traffic has to tell
        return None

    def _open(self, reason: str, now: float, draw: float, *, hard: bool) -> Transition | None:
        options = self.options
        if not self.known and self._started is not None and now < self._started + options.grace:
            if self.state is State.LOADING:
                return None
            self.retry_at = now + options.opens
            return self._move(State.LOADING, f"starting: {reason}", now)
        if self.state is State.CLOSED:
            self._level = max(0, self._level - int((now - self.since) / options.calm))
        spread = 1 - options.jitter + 2 * options.jitter * draw
        longest = options.cap / (1 + options.jitter)  # so that the jitter never crosses the cap
        self.retry_at = now + min(options.opens * 2 ** min(self._level, 30), longest) * spread
        self._level += 1
        self._opened_at = now
        if self.state is not State.HALF_OPEN:
            self.failures = self.judge.failures(now)
        self.hard = hard
        return self._move(State.OPEN, reason, now)

    def _close(self, reason: str, now: float, *, ramp: bool = False) -> Transition:
        if not self.judge.heals:
            self.judge.clear()
        self.known = True
        self.hard = self._unsuitable = False
        self.failures = 0
        if ramp and self.options.ramp:
            self._ramp_from = now
            self._ramp_until = now + self.options.ramp[-1][0]
        else:
            self._ramp_from = self._ramp_until = NEVER
        return self._move(State.CLOSED, reason, now)

    def _move(self, new: State, reason: str, now: float) -> Transition:
        old, self.state = self.state, new
        self.stamp += 1
        self.since = now
        self.reason = reason
        self.held = ""
        self._dead = self._good = self._forgiven = 0
        self._lease_until = NEVER
        self._refresh()
        return Transition(old, new, reason, now, self.hard, None if new is State.CLOSED else self.retry_at)

    def _refresh(self) -> None:
        """Prepare the answer of the common case: closed, and no wish of the operator."""
        self._pass = None
        if self.state is State.CLOSED and self.wish is Wish.NONE:
            tier = Tier.UNKNOWN if not self.known else Tier.SLOW if self._slow else Tier.GOOD
            self._pass = Admission(True, self.stamp, "" if self.known else "no evidence yet", tier)
