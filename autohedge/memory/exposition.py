"""The text of /metrics: what the meters counted and what the snapshot shows, made when somebody scrapes.

Rules
- `METRICS` names every metric with its help; nothing is exposed that is not in it, the documentation is made from it.
- Gauges are read from the snapshot at scrape time: requests in flight by replica, places by model, age and sight of each
  source. A source that never saw has no age, but it is blind.
- Process metrics (RSS, open files) come from collectors that are passed in: they read /proc, which nobody does here.

It must not know: sockets, how dumps of other processes arrive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from autohedge.core.types import Snapshot
from autohedge.memory import meters
from autohedge.memory.meters import COUNTERS, HISTOGRAMS, Meters

METRICS = {
    meters.REQUESTS: "Requests answered, by door, model as the client asked for it, status and the backend that answered.",
    meters.PROBLEMS: "Errors that AutoHedge answered itself, by code.",
    meters.REJECTS: "Findings of requests that were refused before any engine saw them, by code, field and model.",
    meters.ATTEMPTS: "Attempts by backend, model as the engine knows it, and verdict.",
    meters.PROBES: "Probes by backend, model and verdict.",
    meters.FAILOVERS: "Next attempts because one ended badly.",
    meters.HEDGES: "Second attempts because the first was slow, by event: fired, won, lost or why it was not fired.",
    meters.CHUNKS: "Events of streams that were passed on.",
    meters.AFFINITY: "Requests that belong to a replica by their content (the ring), by the replica that answered and why: home (its own), "
    "spill (home was too busy), skip (home could not be asked), failover, none (no content to go by).",
    meters.FIRST_BYTE: "Seconds from the start of an attempt to the first byte of its answer, by backend.",
    meters.OVERHEAD: "Seconds of a request that were not spent on attempts: our own work, waiting for a free replica.",
    meters.DURATION: "Seconds of a whole request.",
    "autohedge_in_flight": "Requests that are being served now.",
    "autohedge_queued": "Requests that wait for a free replica now.",
    "autohedge_replica_in_flight": "Attempts that a replica works on now.",
    "autohedge_model_candidates": "Replicas that could serve a model, as the snapshot knows them.",
    "autohedge_source_age_seconds": "Seconds since a source last saw completely.",
    "autohedge_source_blind": "1 while a source cannot look, else 0.",
    "autohedge_snapshot_version": "Number of the current picture of the world; it grows with every change.",
    "autohedge_build_info": "1, with the version as label.",
}


@dataclass(frozen=True, slots=True)
class View:
    """What one scrape shows: meters of all processes together, one snapshot, the time (epoch seconds), our version."""

    meters: Meters
    snapshot: Snapshot
    now: float
    version: str


class Scraped(Collector):
    """A `View` as prometheus_client reads it."""

    def __init__(self, view: View) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        yield from _counters(self._view.meters)
        yield from _histograms(self._view.meters)
        yield from _gauges(self._view)


def exposition(view: View, others: Iterable[Collector] = ()) -> bytes:
    """The body of /metrics in the text format 0.0.4. `others` are further collectors, such as that of the process."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Scraped(view))
    for other in others:
        registry.register(other)
    return generate_latest(registry)


def _counters(counted: Meters) -> Iterator[Metric]:
    for name, labels in COUNTERS.items():
        family = CounterMetricFamily(name, METRICS[name], labels=labels)
        for values, number in counted.counters[name].items():
            family.add_metric([str(value) for value in values], number)
        if not labels and not family.samples:
            family.add_metric([], 0)
        yield family


def _histograms(counted: Meters) -> Iterator[Metric]:
    for name, (labels, bounds) in HISTOGRAMS.items():
        family = HistogramMetricFamily(name, METRICS[name], labels=labels)
        edges = [*map(str, bounds), "+Inf"]
        for values, row in counted.histograms[name].items():
            buckets = list(zip(edges, accumulate(row[:-1]), strict=True))
            family.add_metric([str(value) for value in values], buckets, sum_value=row[-1])
        yield family


def _gauge(name: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, METRICS[name], labels=labels)


def _gauges(view: View) -> Iterator[Metric]:
    snapshot = view.snapshot
    for name, number in (
        ("autohedge_in_flight", view.meters.in_flight),
        ("autohedge_queued", view.meters.queued),
        ("autohedge_snapshot_version", snapshot.version),
    ):
        yield GaugeMetricFamily(name, METRICS[name], value=number)
    busy = _gauge("autohedge_replica_in_flight", "backend", "replica")
    for replica in snapshot.replicas.values():
        busy.add_metric([replica.backend, replica.id], view.meters.seats.get(replica.id, replica.seat.in_flight))
    yield busy
    places = _gauge("autohedge_model_candidates", "model")
    for model, route in snapshot.routes.items():
        places.add_metric([model], len(route.candidates))
    yield places
    age, blind = _gauge("autohedge_source_age_seconds", "source"), _gauge("autohedge_source_blind", "source")
    for name, source in snapshot.sources.items():
        if source.seen_at:
            age.add_metric([name], max(0.0, view.now - source.seen_at))
        blind.add_metric([name], 1 if source.blind else 0)
    yield age
    yield blind
    build = _gauge("autohedge_build_info", "version")
    build.add_metric([view.version], 1)
    yield build
