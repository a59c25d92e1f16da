"""The contract of a provider: how to speak to one kind of engine. One file per engine fills it.

Rules
- A dialect is data and pure functions. It never opens a socket: it says what to ask and reads what came back.
- What a dialect does not know stays `None`; nothing is guessed from a model's name.
- Whatever comes back from an engine is foreign: reading it never raises.

It must not know: sources, the registry, the breaker, or who is calling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autohedge.core.ask import Ask
from autohedge.core.problems import Detail
from autohedge.core.types import NOTHING, Candidate, Door, Judgement, Kind, LearnedModel, Outcome, Secret

# A prompt that is longer than any window: the engine refused to count it, or nothing bounds it from above.
TOO_LONG = 1 << 62


@dataclass(frozen=True, slots=True)
class Question:
    """One call of the control plane. `json` makes it a POST. `name` tells questions to one path apart."""

    path: str
    json: Mapping[str, Any] | None = None
    name: str = ""

    @property
    def key(self) -> str:
        """Under which name the reply to this question is handed back."""
        return self.name or self.path


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back; `status` 0 means no answer, and `failure` says why. The body may hold a key, so it is not shown."""

    status: int
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=lambda: NOTHING, repr=False)  # names in lower case
    failure: str = ""


Replies = Mapping[str, Reply]  # by the key of the question


@dataclass(frozen=True, slots=True)
class Counted:
    """An engine's own count of a prompt. `too_long` is set when it refused to count because the prompt does not fit."""

    tokens: int | None = None
    too_long: bool = False
    method: str = ""  # the endpoint, for the 400

    @property
    def size(self) -> int | None:
        """The count as the checks take it: `TOO_LONG` when the engine refused, None when nothing was learned."""
        return TOO_LONG if self.too_long else self.tokens


def nothing_more(_replies: Replies) -> tuple[Question, ...]:
    """For engines that tell everything in one round."""
    return ()


def no_slots(_replies: Replies) -> int | None:
    """For engines that do not say how many requests they work on at once."""
    return None


def no_count(_ask: Ask, _served: str) -> Question | None:
    """For engines that cannot count a prompt."""
    return None


def not_counted(_reply: Reply) -> Counted:
    """For engines that cannot count a prompt."""
    return Counted()


@dataclass(frozen=True, slots=True)
class Dialect:
    """How to speak to one kind.

    doors      upstream path per door that this kind can serve; an absent door is unknown and tried as the client sent it.
               "{deployment}" and "{api_version}" stand for parameters of the backend (Azure)
    default_port, authorize (credential -> header pairs as sent on the wire)
    learn      questions to ask, in order; empty: this kind tells nothing about itself and the declared models stand
    more       a second round that the first one's replies ask for (one question per model), () when there is none
    lessons    (replies by key, now) -> models with limits, or None when this is not such an engine or it does not answer
    count      (ask, name that the engine knows) -> the question that counts this prompt exactly, or None; `counted` reads it
    fits       the engine's own arithmetic: (ask, prompt tokens or None, candidate, now) -> findings. More tokens never
               give fewer findings, which is why an upper bound without findings proves that a prompt fits
    probe      (model, door, tokens) -> path and body of the minimal inference
    counts     what such a server takes at the System One door unless somebody knows better (`Limits.counts`)

    The tables hold lower-case parts of an error's message, see rules/verdicts.py for the order in which they are read:
    client_faults  inside a 5xx: the client's mistake        capability     this backend lacks it, a peer may have it
    engine_dead    the engine will not come back by itself   engine_failed  inside a 4xx: the engine's failure
    busy, loading  inside a 503
    """

    kind: Kind
    doors: Mapping[Door, str]
    default_port: int
    authorize: Callable[[Secret], Sequence[tuple[bytes, bytes]]]
    learn: tuple[Question, ...]
    lessons: Callable[[Replies, float], tuple[LearnedModel, ...] | None]
    fits: Callable[[Ask, int | None, Candidate, float], list[Detail]]
    probe: Callable[[str, Door, int], Question]
    count: Callable[[Ask, str], Question | None] = no_count
    counted: Callable[[Reply], Counted] = not_counted
    slots: Callable[[Replies], int | None] = no_slots
    more: Callable[[Replies], tuple[Question, ...]] = nothing_more
    counts: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    light: str = "/health"  # the engine's own health path: a hint only
    client_faults: tuple[str, ...] = ()
    capability: tuple[str, ...] = ()
    engine_dead: tuple[str, ...] = ()
    engine_failed: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    loading: tuple[str, ...] = ()
    keep_alive: float = 4.0  # seconds an idle connection is kept: 2 s below the engine's own, 4 s where unknown


Judge = Callable[[Outcome, Dialect], Judgement]
