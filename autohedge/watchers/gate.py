"""The gate at the start: closed until what `startup.require` asks for answers, or until `max_wait` is over.

Rules
- A replica is there when its probes or live traffic say so; where nobody probes, when it told the learner its models.
- Evidence is looked at four times a second; every `PING` seconds what is still missing is asked again.
- Once open it stays open. When time is up it opens as well: what is there serves, and the log names what is not.

It must not know: how a request is refused meanwhile, how anything is asked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from autohedge.core.types import Snapshot
from autohedge.memory.health import Health
from autohedge.memory.registry import Registry
from autohedge.rules.startup import Require, Upstream, missing
from autohedge.settings.health import Startup

LOGGER = logging.getLogger(__name__)
PING = 5.0  # seconds
LOOK = 0.25


class Gate:
    """`silent` gives the reason of each replica that taught nothing (the learner's `silent`); `poke` has a replica asked and
    probed again.
    """

    def __init__(
        self,
        registry: Registry,
        health: Health,
        startup: Startup,
        *,
        silent: Callable[[], Mapping[str, str]] = dict,
        poke: Callable[[str], None] = lambda _replica: None,
    ) -> None:
        self._registry = registry
        self._health = health
        self._require = Require(startup.require)
        self._max_wait = startup.max_wait
        self._silent = silent
        self._poke = poke
        self.missing: list[str] = []
        self.open = self._require is Require.NONE or not startup.max_wait

    async def run(self) -> None:
        """Wait until the gate is open; returns then."""
        loop = asyncio.get_running_loop()
        began = pinged = loop.time()
        while not self.open:
            now = loop.time()
            self.missing = self._lacking(now)
            if not self.missing:
                LOGGER.info("startup: open after %.1f s, require %s is met", now - began, self._require.value)
                self.open = True
            elif now - began >= self._max_wait:
                LOGGER.warning("startup: open after %.0f s although missing: %s", now - began, "; ".join(self.missing))
                self.missing = []
                self.open = True
            else:
                if now - pinged >= PING:
                    pinged = now
                    self._ping()
                await asyncio.sleep(min(LOOK, began + self._max_wait - now))

    def _lacking(self, now: float) -> list[str]:
        snapshot = self._registry.snapshot
        self._health.settle(snapshot, now)
        silent = self._silent()
        upstreams = []
        for backend in snapshot.backends.values():
            replicas = [replica.id for replica in snapshot.replicas.values() if replica.backend == backend.name]
            reasons = [self._absent(replica, snapshot, silent) for replica in replicas]
            absent = "" if "" in reasons else "; ".join(dict.fromkeys(reasons[:3])) or "no replica"
            upstreams.append(Upstream(backend.name, absent, backend.external))
        return missing(self._require, upstreams)

    def _absent(self, replica: str, snapshot: Snapshot, silent: Mapping[str, str]) -> str:
        """Why a replica is not there, "" when it is."""
        seen = self._health.reachable(replica)
        if seen:
            return ""
        lesson = snapshot.lessons.get(replica)
        heard = lesson is not None and not lesson.failed
        if seen is None and heard and not self._health.awaits(replica):
            return ""
        return self._health.why(replica) or silent.get(replica, "") or ("not probed yet" if heard else "not asked yet")

    def _ping(self) -> None:
        for replica in self._registry.snapshot.replicas:
            if not self._health.reachable(replica):
                self._poke(replica)
