"""One learned figure and what it is worth. All others take these words from `types.py`, where the rest of them stands.

They are kept apart because a generic class cannot be compiled ahead of time by mypyc, and the other words can.

It must not know: what the figure says.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar

T = TypeVar("T")


class Rank(IntEnum):
    """How much a learned figure is worth; a higher rank wins (facts: engine > arguments > env and labels > config)."""

    KIND = 0  # what this kind of server takes unless somebody knows better
    CONFIG = 1
    LABEL = 2
    ENV = 3
    ARGS = 4
    ENGINE = 5
    ERROR = 6


@dataclass(frozen=True, slots=True)
class Fact(Generic[T]):
    """One learned figure and where it came from. `at` is epoch seconds; `source` reads after "(" in a sentence."""

    value: T
    source: str
    rank: Rank
    at: float = 0.0

    def told(self, now: float) -> str:
        """The figure's origin as a reader of a 400 sees it: "max_model_len, read from /v1/models 12 s ago"."""
        if self.rank < Rank.ENGINE or not self.at:
            return self.source
        return f"{self.source} {max(0, round(now - self.at))} s ago"
