"""What people hear: one log line and one alert per change that matters, never one per request.

It must not know: how mail is sent, what a plan is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from autohedge.core.types import Appeared, Blind, Candidate, Changed, DiscoveryEvent, Snapshot, Sweep
from autohedge.memory.retired import News
from autohedge.rules import alerts
from autohedge.rules.retirement import Retired
from autohedge.rules.standing import Transition
from autohedge.watchers.alerting import Alerting

LOGGER = logging.getLogger("autohedge")


class Speaker:
    """`wall` gives epoch seconds."""

    def __init__(self, alerting: Alerting, wall: Callable[[], float]) -> None:
        self._alerting = alerting
        self._wall = wall

    def health(self, candidate: Candidate, moved: Transition) -> None:
        changed = {"worker": str(candidate.replica.address), "old": moved.old, "new": moved.new, "reason": moved.reason}
        LOGGER.warning(
            "worker health changed: %s, model %s: %s -> %s (%s)",
            *(candidate.replica.id, candidate.served or "not told yet", moved.old, moved.new, moved.reason),
            extra={"fields": {"msg": "worker health changed", "model": candidate.served, **changed}},
        )
        self._alerting.tell(*alerts.moved(candidate, moved, self._wall()))

    def retirement(self, fact: Retired, news: News) -> None:
        now = self._wall()
        LOGGER.warning("retired (%s): %s, model %s: %s", news.value, fact.provider, fact.model, fact.told(now))
        if news is not News.HEARD:
            self._alerting.tell(alerts.retired(fact, news is News.SEEN, now))

    def exhausted(self, model: str, why: str) -> None:
        """Nobody could answer for a model; alone in this list it comes with each such request, so it is no log line."""
        self._alerting.tell(alerts.exhausted(model, why, self._wall()))

    def state(self, lost: str) -> None:
        """The shared state was lost, or with "" is back; the store's own log line says more."""
        self._alerting.tell(alerts.state(lost, self._wall()))

    def discovery(self, name: str, sweep: Sweep, events: list[DiscoveryEvent], snapshot: Snapshot) -> None:
        for event in events:
            LOGGER.info("discovery: %s", told(event))
        blind = sweep.reason if isinstance(sweep, Blind) else ""
        self._alerting.tell(alerts.source(name, blind, self._wall()))
        self._alerting.keep_only(alerts.living(snapshot))


def told(event: DiscoveryEvent) -> str:
    """A discovery event as one line of the log: names and counts, no address."""
    if isinstance(event, Changed):
        return f"backend {event.new.name} changed, {len(event.new.addresses)} replicas"
    spec = event.spec
    verb = "appeared" if isinstance(event, Appeared) else "vanished"
    return f"backend {spec.name} {verb}, {len(spec.addresses)} replicas, from {', '.join(spec.origins) or 'nowhere'}"
