"""Who asked to be left alone for a while: Retry-After, kept per (replica, model) and obeyed by every plan.

Rules
- A replica that cools down is tried last, after all that do not; it is never out: a lone busy replica still serves whom it can.
- The later of two deadlines stands (B35). `MOST` bounds what a server may ask for.
- All workers obey what one was told.

Times are epoch seconds. It must not know: statuses, plans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from autohedge.core.types import Candidate

PREFIX = "cooling:"
MOST = 600.0  # seconds
KEPT = 10_000  # entries


class Book(Protocol):
    """What is needed of the shared state."""

    def put_soon(self, key: str, value: Mapping[str, Any], ttl: float | None = None) -> None: ...

    def on_change(self, prefix: str, callback: Callable[[str, Mapping[str, Any] | None], object]) -> None: ...


class Cooling:
    def __init__(self, book: Book) -> None:
        self._book = book
        self._until: dict[str, float] = {}
        book.on_change(PREFIX, self._heard)

    def note(self, candidate: Candidate, seconds: float, now: float) -> None:
        """`candidate` asked for `seconds` of peace."""
        until = now + min(max(seconds, 0.0), MOST)
        key = _key(candidate)
        if until > max(now, self._until.get(key, 0.0)):
            self._keep(key, until, now)
            self._book.put_soon(PREFIX + key, {"until": until}, until - now)

    def left(self, candidate: Candidate, now: float) -> float:
        """Seconds of peace that are left; 0 for nearly everybody."""
        if not self._until:
            return 0.0
        key = _key(candidate)
        left = self._until.get(key, 0.0) - now
        if left <= 0:
            self._until.pop(key, None)
            return 0.0
        return left

    def _keep(self, key: str, until: float, now: float) -> None:
        if len(self._until) >= KEPT:
            self._until = {name: at for name, at in self._until.items() if at > now}
        self._until[key] = until

    def _heard(self, key: str, value: Mapping[str, Any] | None) -> None:
        until = value.get("until") if value is not None else None
        name = key.removeprefix(PREFIX)
        if isinstance(until, int | float):
            self._until[name] = max(float(until), self._until.get(name, 0.0))


def _key(candidate: Candidate) -> str:
    return f"{candidate.replica.id}|{candidate.served}"
