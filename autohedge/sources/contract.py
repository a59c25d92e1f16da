"""The contract of a source: one place that knows which backends exist.

Rules
- `look` is one complete sweep: `Seen` with everything that exists, or `Blind` with the reason why that cannot be told.
  Half a look is Blind. It keeps nothing of earlier looks for the picture: keeping is the registry's work.
- `hint` returns when another look may be worth while, and may wait for ever. It may be cancelled at any time; a change that
  comes while nobody waits must still end the next wait.
- Names of sources are unique; a backend's origins are made of them.

It must not know: the registry, other sources, what a model is asked.
"""

from __future__ import annotations

from typing import Protocol

from autohedge.core.types import Sweep


class Source(Protocol):
    @property
    def name(self) -> str: ...

    async def look(self) -> Sweep:
        """Everything that exists now, or why it cannot be told."""

    async def hint(self) -> None:
        """Wait until something may have changed."""
