"""The probers that the configuration asks for, as one thing to run.

  health.judge: window   real inference, and the engines' own health paths where `probe.light_interval` is set
  health.judge: streak   eidex's two pings and nothing else

It must not know: how a probe is made.
"""

from __future__ import annotations

import asyncio

from autohedge.rules.standing import Via
from autohedge.settings.model import Settings
from autohedge.watchers.means import Means
from autohedge.watchers.pinging import Pinger, Round
from autohedge.watchers.probing import Prober


class Probers:
    """Made once; `reload` takes over what may change while it runs."""

    def __init__(self, means: Means, settings: Settings) -> None:
        self._means = means
        probe, health = settings.probe, settings.health
        self.prober = Prober(means, probe) if probe.enabled and health.judge == "window" else None
        rounds: list[Round] = []
        if health.judge == "streak":
            rounds = [
                Round(via, interval, health.health_timeout, path, decides=True, external=probe.external)
                for via, interval, path in (
                    (Via.LIGHT, health.health_check_interval, health.health_endpoint),
                    (Via.DEEP, health.health_gen_check_interval, health.health_gen_endpoint),
                )
                if interval
            ]
        elif probe.light_interval:
            rounds = [
                Round(Via.LIGHT, probe.light_interval, probe.timeout, jitter=probe.jitter, external=probe.external)
            ]
        self.pingers = [Pinger(means, one) for one in rounds]

    def wake(self) -> None:
        """The registry may have new replicas."""
        for one in self._all():
            one.wake()

    def poke(self, replica: str) -> None:
        """Probe this replica now."""
        if self.prober is not None:
            self.prober.poke(replica)

    def reload(self, settings: Settings) -> None:
        """Take over new numbers of the `probe` section; another judge takes a restart."""
        if self.prober is not None:
            self.prober.settings = settings.probe

    async def run(self) -> None:
        """Run them all; ends only when cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._means.pulse.run(), name="pulse")
            for one in self._all():
                group.create_task(one.run())

    def _all(self) -> list[Prober | Pinger]:
        return [*([] if self.prober is None else [self.prober]), *self.pingers]
