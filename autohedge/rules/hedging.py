"""When a second attempt may start because the first one is slow.

Rules (resilience facts 3.1 and 7.2: without them a hedge turns a slow-down into an outage that does not end)
- The delay is 5 s (bge-router's default) for the first 50 samples, then the p95 of time to first byte over the last 200,
  within 50 ms and 30 s. `fixed` is bge-router's way.
- Samples are answers, waits that we cut ourselves, and hedged losers at the age at which they were cut. A fast failure is
  no sample, or the delay would collapse in an outage.
- Budget: every primary pays 0.10, at most 10 are kept, 2 to start with; one hedge takes 1 whole, in one step.
- Brake (gRPC A6): a failure takes 1 of 10, a success gives 0.1 back; at half or below nobody hedges.
- Gate: only to a replica with a free seat. Pushback: an engine that says Retry-After is not hedged against until then.
- A hedge that is refused is skipped, never queued. After the commit there is none.

Times are seconds. It must not know: sockets, tasks, which candidate is next.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from autohedge.core.ask import Ask
from autohedge.core.types import Attempt, Door, Failure, Verdict
from autohedge.rules.standing import NEVER

REPLAY_LIMIT = 8 << 20  # bytes of body that are worth sending twice
ALWAYS = frozenset({Door.EMBEDDINGS, Door.SPARSE, Door.BOTH, Door.RERANK, Door.SYSTEMONE})
FAILED = frozenset({Verdict.SICK, Verdict.DEAD, Verdict.BUSY})


class Skip(StrEnum):
    """Why a hedge was not sent; the label of its counter."""

    GATE = "gate"
    BRAKE = "brake"
    PUSHBACK = "pushback"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Options:
    warmup: int = 50
    first: float = 5.0
    quantile: float = 0.95
    shortest: float = 0.05
    longest: float = 30.0
    size: int = 200
    fixed: float | None = None
    ratio: float = 0.1
    cap: float = 10.0
    start: float = 2.0


DEFAULT = Options()


def eligible(ask: Ask, size: int, *, chat: bool = False) -> bool:
    """Whether a request of `size` bytes may be sent twice: a second run must be harmless. `chat`: the operator opted in."""
    return size <= REPLAY_LIMIT and (ask.door in ALWAYS or chat)


def sample_of(attempt: Attempt, now: float, *, superseded: bool = False) -> float | None:
    """What one attempt teaches about the time to first byte, or None. `superseded`: another attempt won while it ran."""
    if attempt.first_byte is not None:
        answered = attempt.judgement is not None and attempt.judgement.verdict is Verdict.ANSWER
        return attempt.first_byte - attempt.started if answered or superseded else None
    waited = (now if attempt.ended is None else attempt.ended) - attempt.started
    timed_out = attempt.outcome is not None and attempt.outcome.failure is Failure.FIRST_BYTE_TIMEOUT
    return waited if superseded or timed_out else None


class Delay:
    """The p95 of the last samples, exact: a ring of them and the same ones sorted."""

    __slots__ = ("_options", "_recent", "_sorted")

    def __init__(self, options: Options = DEFAULT) -> None:
        self._options = options
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []

    def feed(self, seconds: float) -> None:
        if len(self._recent) >= self._options.size:
            del self._sorted[bisect_left(self._sorted, self._recent.popleft())]
        self._recent.append(seconds)
        insort(self._sorted, seconds)

    @property
    def seconds(self) -> float:
        """How long to wait for a first byte before a hedge."""
        options = self._options
        if options.fixed is not None:
            return options.fixed
        count = len(self._sorted)
        if count < options.warmup:
            return options.first
        p95 = self._sorted[ceil(options.quantile * count) - 1]
        return min(max(p95, options.shortest), options.longest)


class Tokens:
    """A budget of hedges in proportion to primaries."""

    __slots__ = ("_cap", "_ratio", "left")

    def __init__(self, ratio: float = 0.1, cap: float = 10.0, start: float = 2.0) -> None:
        self._ratio = ratio
        self._cap = cap
        self.left = start

    def primary(self) -> None:
        self.left = min(self._cap, self.left + self._ratio)

    def take(self) -> bool:
        """Take one, if there is one; a sum of ten tenths counts as one."""
        if self.left < 1 - 1e-9:
            return False
        self.left = max(0.0, self.left - 1)
        return True


class Brake:
    """gRPC's retry throttle, for hedges only."""

    __slots__ = ("_most", "left")

    def __init__(self, most: float = 10.0) -> None:
        self._most = most
        self.left = most

    def tell(self, verdict: Verdict) -> None:
        if verdict is Verdict.ANSWER:
            self.left = min(self._most, self.left + 0.1)
        elif verdict in FAILED:
            self.left = max(0.0, self.left - 1)

    @property
    def on(self) -> bool:
        return self.left <= self._most / 2


class Hedging:
    """All of it for one model."""

    __slots__ = ("_quiet_until", "brake", "delay", "tokens")

    def __init__(self, options: Options = DEFAULT) -> None:
        self.delay = Delay(options)
        self.tokens = Tokens(options.ratio, options.cap, options.start)
        self.brake = Brake()
        self._quiet_until = NEVER

    def pushback(self, now: float, retry_after: float) -> None:
        """The pool of this model asked to be left alone; the longest word counts (litellm#40130)."""
        self._quiet_until = max(self._quiet_until, now + retry_after)

    def fire(self, now: float, *, free: bool) -> Skip | None:
        """Start a hedge to a replica that has a `free` seat or not. None: go, the token is taken."""
        if not free:
            return Skip.GATE
        if self.brake.on:
            return Skip.BRAKE
        if now < self._quiet_until:
            return Skip.PUSHBACK
        return None if self.tokens.take() else Skip.BUDGET
