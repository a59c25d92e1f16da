"""Where a body is examined: here, or in a helper process when parsing it would hold up every other request.

Rules
- Nearly all bodies are read on the spot: a task switch costs more than a 1 KB parse.
- A body whose structure would hold the interpreter for more than `PATIENCE` seconds, or that must be decompressed first
  and is large, goes to one helper process, started when the first such body comes.
- A helper that died is replaced once per body; the body is then read here, late but served.

It must not know: what the findings mean.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor

from autohedge.call import Call
from autohedge.core.types import Kind
from autohedge.payloads.reading import Bounds, Examined, Reading, cost, examine, examine_all

PATIENCE = 0.03  # seconds of parsing on the event loop; a 32 MiB image takes 24 ms
COMPRESSED_HERE = 1 << 16  # bytes of compressed body that are decoded on the spot


class Examiner:
    """`kinds` names the provider kinds of the current snapshot, for which a helper process must prepare findings."""

    def __init__(self, bounds: Bounds, kinds: Callable[[], frozenset[Kind]]) -> None:
        self._bounds = bounds
        self._kinds = kinds
        self._helper: ProcessPoolExecutor | None = None

    async def read(self, call: Call) -> Reading | Examined:
        """Bytes to what the checks need; raises Problem for a body that nobody could read."""
        raw = call.body
        if cost(raw) > PATIENCE or (call.encoding and len(raw) > COMPRESSED_HERE):
            return await self._elsewhere(call)
        return examine(call.door, raw, call.encoding, self._bounds)

    async def _elsewhere(self, call: Call) -> Reading | Examined:
        if self._helper is None:
            self._helper = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        job = (call.door, call.body, call.encoding, self._bounds, self._kinds())
        try:
            return await asyncio.get_running_loop().run_in_executor(self._helper, examine_all, *job)
        except BrokenExecutor:
            self.close()
            return examine(call.door, call.body, call.encoding, self._bounds)

    def close(self) -> None:
        if self._helper is not None:
            self._helper.shutdown(wait=False, cancel_futures=True)
            self._helper = None
