"""Probes: what is asked of a model to see that it still infers, how often, and when it is left alone.

Rules (design 5; resilience facts 4.3.4 and 7.1)
- A probe is the smallest real inference in the model's own API. The door is the one that the engine says it has, chat where
  it says nothing; a door that does not suit is followed by the next one.
- Calm: every `interval`, and where a replica serves many models no more than one a second of them. In doubt: `doubtful`.
  A replica that is out and fails its own probes is looked at every `look` seconds, whatever its back-off: back-off guards
  against replicas that please a probe and fail callers.
- Models that refuse `max_tokens` by name are asked with the newer field (B52).
- Live answers prove more than a probe. While they come, none is sent.
- A model that the engine would have to load is not asked (B14, B16). Ollama loads by name, llama.cpp does as a router; both
  say which models are loaded.

Times are seconds of one monotonic clock; `draw` is a random number in [0, 1).
It must not know: sockets, how a reply is judged, breakers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from urllib.parse import quote

from autohedge.core.types import Candidate, Door, Kind, Verdict
from autohedge.providers import common, ollama
from autohedge.providers.base import Dialect, Question, Reply
from autohedge.rules.standing import Via

# In this order, where the engine says nothing. Images, audio and the rest have no smallest form.
DOORS = (Door.CHAT, Door.EMBEDDINGS, Door.COMPLETIONS, Door.SYSTEMONE, Door.RERANK)
SMALL = (*DOORS, Door.RESPONSES, Door.MESSAGES)  # all that have a smallest form
ENOUGH, RECENT, RECENTLY = 3, 5, 30.0  # live answers within one interval, or within that many seconds
EACH = 1.0  # seconds for each further model of a replica when it is calm


class Pace(StrEnum):
    """How urgently the next probe is wanted."""

    CALM = "calm"
    DOUBTFUL = "doubtful"
    LOOK = "look"


@dataclass(frozen=True, slots=True)
class Cadence:
    """Seconds; `jitter` is the share by which a pause varies."""

    interval: float = 10.0
    doubtful: float = 3.0
    look: float = 5.0
    timeout: float = 10.0
    jitter: float = 0.2


@dataclass(frozen=True, slots=True)
class Probed:
    """One judged probe, as other workers may hear of it. `silent`: nothing came in time. `took` is seconds."""

    replica: str
    model: str  # as the engine knows it
    via: Via
    verdict: Verdict
    reason: str = ""
    certain: bool = False
    silent: bool = False
    took: float = 0.0


def to_text(probe: Probed) -> str:
    """The probe as one worker tells it to the others."""
    return json.dumps(asdict(probe))


def from_text(text: str) -> Probed | None:
    """The probe that was told so, None when it is something else."""
    try:
        said = json.loads(text)
        return Probed(
            str(said["replica"]),
            str(said["model"]),
            Via(said["via"]),
            Verdict(said["verdict"]),
            str(said["reason"]),
            certain=bool(said["certain"]),
            silent=bool(said["silent"]),
            took=float(said["took"]),
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


# --- when -------------------------------------------------------------------------------------------------------------


def pause(cadence: Cadence, pace: Pace, draw: float, models: int = 1) -> float:
    """Seconds from the beginning of one probe to the next. `models`: how many are probed on the same replica."""
    base = {
        Pace.CALM: max(cadence.interval, (models - 1) * EACH),
        Pace.DOUBTFUL: min(cadence.doubtful, cadence.interval),
        Pace.LOOK: min(cadence.look, cadence.interval),
    }[pace]
    return base * (1 - cadence.jitter + 2 * cadence.jitter * draw)


def patience(cadence: Cadence, *, silent: bool, took: float) -> float:
    """Seconds that a probe may take. After a `silent` one a third is enough, so that a hang is found soon, but not less than
    three times what the latest good probe `took`.
    """
    if not silent:
        return cadence.timeout
    return min(cadence.timeout, max(cadence.timeout / 3, 3 * took))


def proven(live: Sequence[float], now: float, interval: float) -> bool:
    """Whether live answers, given by their times in order, prove enough: three within one interval, or five within 30 s. The
    latest must be younger than an interval in any case, or a hang after the last one would be seen too late.
    """
    if not live or now - live[-1] > interval:
        return False
    if len(live) >= ENOUGH and now - live[-ENOUGH] <= interval:
        return True
    return len(live) >= RECENT and now - live[-RECENT] <= RECENTLY


# --- what -------------------------------------------------------------------------------------------------------------


def doors_of(candidate: Candidate, dialect: Dialect) -> tuple[Door, ...]:
    """The doors worth trying, likeliest first: what the engine says it has, then what it does not deny."""
    said = candidate.limits.abilities
    tried = [door for door in DOORS if door in dialect.doors and not (door in said and not said[door].value)]
    return tuple(sorted(tried, key=lambda door: door not in said))


def question(candidate: Candidate, door: Door, tokens: int, dialect: Dialect) -> Question:
    """The probe of one door. Temperature 0, so that a model that is well answers the same every time; not for external
    providers, whose reasoning models refuse it.
    """
    asked = dialect.probe(candidate.served, door, tokens)
    body = dict(asked.json or {})
    if door in common.GENERATING and not candidate.backend.external:
        body["temperature"] = 0
    path = asked.path
    if "{" in path:  # Azure: deployment and API version stand in the path
        for name, value in {"deployment": candidate.served, **candidate.backend.params}.items():
            path = path.replace("{" + name + "}", quote(value, safe=""))
    return Question(path, body)


def newer_bound(asked: Question, reply: Reply) -> Question | None:
    """The same question for a model that wants its bound as `max_completion_tokens` and said so (B52); None for all others."""
    body = dict(asked.json or {})
    if reply.status != 400 or "max_tokens" not in body or b"max_completion_tokens" not in reply.body:
        return None
    body["max_completion_tokens"] = body.pop("max_tokens")
    return Question(asked.path, body)


# --- never load a model -----------------------------------------------------------------------------------------------

LOADED_MODELS: Mapping[Kind, Question] = {Kind.OLLAMA: Question(ollama.LOADED), Kind.LLAMACPP: common.MODELS}


def resident(kind: Kind, reply: Reply, served: str) -> bool | None:
    """What the reply to the question of `LOADED_MODELS` says of a model: loaded, not loaded (or untold, where the engine loads
    by name), or None for a server that has its one model all the time.
    """
    question = LOADED_MODELS[kind]
    cards = common.cards({question.key: reply}, question.key)
    if kind is Kind.OLLAMA:
        names = {common.name_of(card.get(key)) for card in cards or () for key in ("model", "name")}
        return any(served in ollama.names(name) for name in names if name)
    states = {common.name_of(card.get("id")): common.mapping(card.get("status")).get("value") for card in cards or ()}
    return states.get(served) == "loaded" if any(states.values()) else None
