"""Where a body is examined: here, or in a helper process when parsing it would hold up every other request.

Rules
- Nearly all bodies are read on the spot: a task switch costs more than a 1 KB parse.
- A body whose structure would hold the interpreter for more than `PATIENCE` seconds, or that must be decompressed first
  and is large, goes to one helper process. It is started when the first such body comes, by a thread: that takes a tenth of
  a second.
- A helper that died is replaced, once per body. A body over which two of them died is refused: this process is not to be
  the third.
- The helper ends with this process, also when that was killed: it watches it, since its own pipe would never tell.

It must not know: what the findings mean.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor

from autohedge.call import Call
from autohedge.core.problems import InternalError
from autohedge.core.types import Kind
from autohedge.parent import watch_parent
from autohedge.payloads.reading import SMALL, Bounds, Examined, Reading, cost, examine, examine_all
from autohedge.payloads.systemone_body import json_part
from autohedge.rules.keys import note_key
from autohedge.settings.model import Settings

PATIENCE = 0.03  # seconds of parsing on the event loop; a 32 MiB image takes 24 ms
COMPRESSED_HERE = 1 << 16  # bytes of compressed body that are decoded on the spot


class Examiner:
    """`kinds` names the provider kinds of the current snapshot, for which a helper process must prepare findings."""

    def __init__(self, bounds: Bounds, kinds: Callable[[], frozenset[Kind]]) -> None:
        self.bounds = bounds  # replaced on reload
        self._kinds = kinds
        self._helper: ProcessPoolExecutor | None = None

    def here(self, call: Call) -> Reading | None:
        """Bytes to what the checks need, on the spot; None when that would take too long. Raises Problem for a body that
        nobody could read.
        """
        raw = call.body
        read = json_part(raw, call.media) if call.media and not call.encoding and len(raw) > SMALL else raw
        if cost(read) > PATIENCE or (call.encoding and len(raw) > COMPRESSED_HERE):
            return None
        return examine(call.door, raw, call.encoding, self.bounds, call.media)

    async def elsewhere(self, call: Call) -> Examined:
        """The same in the helper process. Raises InternalError when it died over this body, twice."""
        for _ in range(2):
            helper = self._helper
            if helper is None:
                spawn = multiprocessing.get_context("spawn")
                helper = self._helper = ProcessPoolExecutor(1, mp_context=spawn, initializer=watch_parent)
            try:
                return await asyncio.wrap_future(await asyncio.to_thread(self._handed, helper, call))
            except BrokenExecutor:
                if self._helper is helper:
                    self.close()
        raise InternalError("the body could not be examined: the process that reads large bodies ended over it")

    def _handed(self, helper: ProcessPoolExecutor, call: Call) -> Future[Examined]:
        how = call.encoding, call.media
        return helper.submit(examine_all, call.door, call.body, how, self.bounds, self._kinds(), note_key)

    def close(self) -> None:
        if self._helper is not None:
            self._helper.shutdown(wait=False, cancel_futures=True)
            self._helper = None


def bounds_of(settings: Settings) -> Bounds:
    """How far bodies are looked into."""
    validation, door = settings.validation, settings.systemone
    return Bounds(
        validation.max_decoded_bytes,
        validation.schema_depth,
        decision_depth=door.max_depth,
        decisions=door.validate,
    )
