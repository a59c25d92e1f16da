"""The backends that stand in the configuration: known at once, changed only by a reload.

It must not know: YAML, files, signals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from autohedge.core.types import BackendSpec, Seen


class StaticSource:
    """`backends` as the settings declare them."""

    def __init__(self, backends: Iterable[BackendSpec], name: str = "static") -> None:
        self.name = name
        self._seen = Seen(tuple(backends))
        self._changed = asyncio.Event()

    def reload(self, backends: Iterable[BackendSpec]) -> None:
        """Take over the backends of a new configuration; the next look shows them."""
        self._seen = Seen(tuple(backends))
        self._changed.set()

    async def look(self) -> Seen:
        self._changed.clear()
        return self._seen

    async def hint(self) -> None:
        await self._changed.wait()
