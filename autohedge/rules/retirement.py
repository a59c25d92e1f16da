"""Retired: what is remembered of a provider, or of one of its models, that said it is gone.

Life of a fact (engines facts d3)
  a sighting   -> retired at once; first re-check after 15 min, or after 1 min where the model was only not known there:
                  that may be a typo, or an Azure deployment that was made a moment ago (B113, B115)
  a re-check   -> gone again: the pause doubles, up to 24 h
               -> answered: undone (GitHub's 410 was a rehearsal)
               -> anything else: no proof either way, same pause again
  an operator  -> retires for good (never re-checked), or undoes

Rules
- Many requests see the same 410 at once: sightings before the re-check is due count, but double nothing.
- One fact is one alert, however many requests met it: `confirm` says whether the fact is new.
- The excerpt is at most 300 bytes of the engine's own message, without control characters.
- Adaptive (article 3.4): the failed requests of the last 24 h are grouped by model, and each such name is sent to the first
  rung that is usable. Names come from callers, so their number is bounded.

Times are epoch seconds: a fact outlives the process. It must not know: Redis, mail, how a retired answer is recognised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from autohedge.core.types import Verdict

FIRST_PAUSE = 15 * 60.0
SHORT_PAUSE = 60.0
LONGEST_PAUSE = 24 * 3600.0
EXCERPT = 300  # bytes
ALL = "*"
DAY_HOURS = 24
NAMES = 500  # model names remembered per provider and hour


@dataclass(frozen=True, slots=True)
class Sighting:
    """One answer that said so. `model` is ALL when the provider itself is gone. `door` is where it was asked, `pause` the
    seconds until the first re-check.
    """

    provider: str
    model: str
    status: int
    code: str = ""
    excerpt: bytes | str = b""
    door: str = ""
    pause: float = FIRST_PAUSE


@dataclass(frozen=True, slots=True)
class Retired:
    """A provider or backend, and one model of it or ALL. `recheck_at` None: only an operator brings it back."""

    provider: str
    model: str
    first_seen: float
    last_seen: float
    count: int
    status: int
    code: str
    excerpt: str
    pause: float = FIRST_PAUSE
    recheck_at: float | None = None
    by: str = "answer"
    door: str = ""  # where it was seen, so that the re-check asks there

    def covers(self, provider: str, model: str) -> bool:
        return self.provider == provider and self.model in {ALL, model}

    def due(self, now: float) -> bool:
        return self.recheck_at is not None and now >= self.recheck_at

    def told(self, now: float) -> str:
        """The reason a plan gives for leaving it out."""
        what = "provider" if self.model == ALL else f"model {self.model}"
        by = self.by if self.by != "answer" else f"{self.status} {self.code}".strip()
        again = "until an operator brings it back" if self.recheck_at is None else _until(self.recheck_at - now)
        return f"{what} of {self.provider} is retired ({by}, seen {self.count} times), {again}"

    def record(self) -> dict[str, Any]:
        """As it is stored; `from_record` reads it back."""
        return asdict(self)


def from_record(record: Mapping[str, Any]) -> Retired:
    """A stored fact. Unknown fields of a newer version are left out; raises TypeError when one of ours is missing."""
    return Retired(**{key: value for key, value in record.items() if key in Retired.__dataclass_fields__})


def confirm(known: Retired | None, sighting: Sighting, now: float) -> tuple[Retired, bool]:
    """The fact after one more sighting, and whether it is new (one alert)."""
    excerpt = shortened(sighting.excerpt)
    if known is None:
        named = (sighting.provider, sighting.model, now, now, 1, sighting.status, sighting.code, excerpt)
        return Retired(*named, sighting.pause, now + sighting.pause, door=sighting.door), True
    seen = replace(
        known, last_seen=now, count=known.count + 1, status=sighting.status, code=sighting.code, excerpt=excerpt
    )
    if known.due(now):
        pause = min(LONGEST_PAUSE, max(sighting.pause, known.pause * 2))
        seen = replace(seen, pause=pause, recheck_at=now + pause)
    return seen, False


def rechecked(known: Retired, verdict: Verdict, now: float) -> Retired | None:
    """The fact after a re-check that did not say "retired" again (that is a sighting: `confirm`). None: it is undone."""
    if verdict is Verdict.ANSWER:
        return None
    return known if known.recheck_at is None else replace(known, recheck_at=now + known.pause)


def by_operator(provider: str, model: str, who: str, now: float) -> Retired:
    """Retired by a person: no re-check."""
    return Retired(provider, model, now, now, 1, 0, "", "", recheck_at=None, by=f"operator {who}".strip())


def merged(one: Retired, other: Retired) -> Retired:
    """Two pictures of one fact after a time apart: the later sighting with the longer memory. A person's word stands."""
    late, early = (one, other) if one.last_seen >= other.last_seen else (other, one)
    if early.recheck_at is None and late.recheck_at is not None:
        late, early = early, late
    first = min(one.first_seen, other.first_seen)
    last = max(one.last_seen, other.last_seen)
    return replace(late, first_seen=first, last_seen=last, count=max(one.count, other.count))


def shortened(text: bytes | str) -> str:
    """At most EXCERPT bytes of UTF-8, one line, no control characters."""
    whole = text if isinstance(text, str) else text[: EXCERPT * 4].decode("utf-8", "replace")
    line = " ".join("".join(char if char.isprintable() else " " for char in whole[: EXCERPT * 4]).split())
    return line.encode("utf-8", "replace")[:EXCERPT].decode("utf-8", "ignore")


# --- adaptive fallback ------------------------------------------------------------------------------------------------


class Failures:
    """Failed requests per provider and model in hourly heaps, the last 24 of them."""

    __slots__ = ("_heaps",)

    def __init__(self) -> None:
        self._heaps: dict[str, dict[int, Counter[str]]] = {}

    def note(self, provider: str, model: str, now: float) -> None:
        hour = int(now // 3600)
        heaps = self._heaps.setdefault(provider, {})
        for old in [when for when in heaps if when <= hour - DAY_HOURS]:
            del heaps[old]
        heap = heaps.setdefault(hour, Counter())
        if model in heap or len(heap) < NAMES:
            heap[model] += 1

    def grouped(self, provider: str, now: float) -> list[tuple[str, int]]:
        """Models and their failed requests within the last 24 h, the most first."""
        since = int(now // 3600) - DAY_HOURS
        total: Counter[str] = Counter()
        for hour, heap in self._heaps.get(provider, {}).items():
            if hour > since:
                total.update(heap)
        return sorted(total.items(), key=lambda item: (-item[1], item[0]))


@dataclass(frozen=True, slots=True)
class Redirect:
    """Requests for `model` go to `target`, because `provider` retired with `failed` requests in its last day."""

    model: str
    target: str
    provider: str
    failed: int


def redirects(
    provider: str, groups: Iterable[tuple[str, int]], usable: Callable[[str], str | None]
) -> tuple[Redirect, ...]:
    """One redirect per failed model that has somewhere to go. `usable`: first usable target for a model, or None."""
    found = ((model, usable(model), failed) for model, failed in groups)
    return tuple(Redirect(model, to, provider, failed) for model, to, failed in found if to and to != model)


def resolved(model: str, known: Mapping[str, Redirect]) -> str:
    """Where requests for `model` go in the end; a circle leads nowhere and leaves the name as it is."""
    seen = {model}
    at = model
    while (step := known.get(at)) is not None:
        at = step.target
        if at in seen:
            return model
        seen.add(at)
    return at


def _until(seconds: float) -> str:
    return f"next look in {max(0.0, seconds) / 60:.0f} min"
