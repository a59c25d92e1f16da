"""The contract of a provider: how to speak to one kind of engine. One file per engine fills it.

Rules
- A dialect is data and pure functions. It never opens a socket: it says what to ask and reads what came back.
- What a dialect does not know stays `None`; nothing is guessed from a model's name.

It must not know: sources, the registry, the breaker, or who is calling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autohedge.core.problems import Detail
from autohedge.core.types import NOTHING, Ask, Door, Kind, LearnedModel, Limits, Outcome, Secret


@dataclass(frozen=True, slots=True)
class Question:
    """One call of the control plane. `json` makes it a POST."""

    path: str
    json: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back; `status` 0 means no answer, and `failure` says why."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=lambda: NOTHING)  # names in lower case
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Counted:
    """An engine's own count of a prompt. `too_long` is set when it refused to count because the prompt does not fit."""

    tokens: int | None = None
    too_long: bool = False
    method: str = ""  # the endpoint, for the 400


@dataclass(frozen=True, slots=True)
class Dialect:
    """How to speak to one kind.

    doors      upstream path per door that this kind can serve; an absent door is unknown and tried as the client sent it
    default_port, authorize (credential -> header pairs as sent on the wire)
    learn      questions to ask, in order; `lessons` reads all replies (by path) into models with limits, or None when
               this is not such an engine; (replies, now) -> models
    count      the question that counts this prompt exactly, or None; `counted` reads its reply
    fits       the engine's own arithmetic: (ask, prompt tokens or None, limits, now) -> findings
    engine_dead, busy, loading, context, capability: lower-case substrings of an error message, see rules/verdicts.py
    probe      (model, door, tokens) -> path and body of the minimal inference
    """

    kind: Kind
    doors: Mapping[Door, str]
    default_port: int
    authorize: Callable[[Secret], Sequence[tuple[bytes, bytes]]]
    learn: tuple[Question, ...]
    lessons: Callable[[Mapping[str, Reply], float], tuple[LearnedModel, ...] | None]
    count: Callable[[Ask, str], Question | None]
    counted: Callable[[Reply], Counted]
    fits: Callable[[Ask, int | None, Limits, float], list[Detail]]
    slots: Callable[[Mapping[str, Reply]], int | None]
    probe: Callable[[str, Door, int], Question]
    light: str = "/health"  # the engine's own health path: a hint only
    client_faults: tuple[str, ...] = ()  # texts inside a 5xx that are the client's mistake
    capability: tuple[str, ...] = ()
    engine_dead: tuple[str, ...] = ()
    engine_failed: tuple[str, ...] = ()  # texts inside a 4xx that are the engine's failure (TGI 424)
    keep_alive: float = 4.0  # seconds an idle connection is kept: 2 s below the engine's own, 4 s where unknown


Judge = Callable[[Outcome, Dialect], Any]
