"""The text of /metrics."""

from __future__ import annotations

import pytest
from prometheus_client import ProcessCollector
from prometheus_client.parser import text_string_to_metric_families

from autohedge.core.types import Blind, Verdict
from autohedge.memory.exposition import METRICS, View, exposition
from autohedge.memory.meters import COUNTERS, HISTOGRAMS, Meters
from autohedge.memory.registry import Registry
from tests.support.world import backend, seen


def scraped(view: View) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text = exposition(view).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def filled() -> View:
    registry = Registry()
    registry.apply("static", seen(backend("b", "t1", "t2", models=("m",))), 100.0)
    registry.apply("swarm", Blind("docker.sock: refused"), 100.0)
    registry.snapshot.replicas["b@t1:8000"].seat.in_flight = 4
    meters = Meters()
    meters.request("chat", 'm"\n\\', 200, "b")
    meters.attempt("b", "m", Verdict.SICK)
    meters.first_byte("b", 0.2)
    meters.first_byte("b", 400.0)
    meters.queued = 1
    return View(Meters().merge(meters.dump()), registry.snapshot, 112.0, "1.2.3")


def test_what_a_scrape_shows() -> None:
    """Counters, histograms, and the state of replicas, models and sources, readable by the official parser."""
    values = scraped(filled())

    def value(name: str, **labels: str) -> float | None:
        return values.get((name, frozenset(labels.items())))

    assert value("autohedge_requests_total", door="chat", model='m"\n\\', status="200", backend="b") == 1
    assert value("autohedge_attempts_total", backend="b", model="m", verdict="sick") == 1
    assert value("autohedge_failovers_total") == 0
    assert value("autohedge_first_byte_seconds_bucket", backend="b", le="0.1") == 0
    assert value("autohedge_first_byte_seconds_bucket", backend="b", le="0.25") == 1
    assert value("autohedge_first_byte_seconds_bucket", backend="b", le="300.0") == 1
    assert value("autohedge_first_byte_seconds_bucket", backend="b", le="+Inf") == 2
    assert value("autohedge_first_byte_seconds_sum", backend="b") == pytest.approx(400.2)
    assert value("autohedge_first_byte_seconds_count", backend="b") == 2
    assert value("autohedge_replica_in_flight", backend="b", replica="b@t1:8000") == 4
    assert value("autohedge_replica_in_flight", backend="b", replica="b@t2:8000") == 0
    assert value("autohedge_model_candidates", model="m") == 2
    assert value("autohedge_source_age_seconds", source="static") == 12
    assert value("autohedge_source_blind", source="static") == 0
    assert value("autohedge_source_blind", source="swarm") == 1
    assert value("autohedge_source_age_seconds", source="swarm") is None
    assert value("autohedge_queued") == 1
    assert value("autohedge_build_info", version="1.2.3") == 1


def test_every_metric_is_in_the_table() -> None:
    """METRICS is the list of what is exposed: nothing more, nothing less, each with a help that is a sentence."""
    families = text_string_to_metric_families(exposition(filled()).decode())
    shown = {family.name + ("_total" if family.type == "counter" else "") for family in families}
    assert shown == set(METRICS)
    assert set(COUNTERS) | set(HISTOGRAMS) <= set(METRICS)
    assert all(text.endswith(".") and name.startswith("autohedge_") for name, text in METRICS.items())


def test_the_process_is_shown_by_a_collector_that_is_passed_in() -> None:
    """RSS and open files come beside our own metrics."""
    view = filled()
    text = exposition(view, [ProcessCollector(registry=None)]).decode()
    assert "process_resident_memory_bytes" in text
    assert "process_open_fds" in text
    assert "process_" not in exposition(view).decode()


def test_seats_of_all_workers_are_shown() -> None:
    """The figure of the summed dumps counts, where there is one."""
    view = filled()
    view.meters.seats["b@t1:8000"] = 9
    values = scraped(view)
    labels = frozenset({("backend", "b"), ("replica", "b@t1:8000")})
    assert values["autohedge_replica_in_flight", labels] == 9
