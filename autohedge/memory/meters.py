"""What the data path counts: plain dicts and lists on the event loop, no locks, no library.

Rules
- One increment costs well under a microsecond: a tuple, a dict. Everything that formats happens at scrape time, in
  `exposition.py`.
- Labels are bounded. A model that the snapshot does not know is "other" (a client could invent names for ever); from
  `SETS` label sets on, whatever is new in that metric is "other" altogether. No label holds anything else that a client wrote.
- Counters only grow. Several processes are summed from their `dump`s into a fresh `Meters`; a dump is plain JSON.

It must not know: prometheus_client, who scrapes, how dumps travel between processes.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

from autohedge.core.types import Attempt, Seat

SETS = 200
OTHER = "other"
Labels = tuple[str | int, ...]

# Seconds. Own time is counted in microseconds, an engine's first token in tenths, an answer in seconds to minutes.
OWN = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
LONG = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
PATH = 256  # characters of a field's path that are looked at; the rest is what a client put there

REQUESTS = "autohedge_requests_total"
PROBLEMS = "autohedge_problems_total"
REJECTS = "autohedge_rejects_total"
ATTEMPTS = "autohedge_attempts_total"
PROBES = "autohedge_probes_total"
FAILOVERS = "autohedge_failovers_total"
HEDGES = "autohedge_hedges_total"
CHUNKS = "autohedge_stream_chunks_total"
AFFINITY = "autohedge_affinity_total"
FIRST_BYTE = "autohedge_first_byte_seconds"
OVERHEAD = "autohedge_overhead_seconds"
DURATION = "autohedge_duration_seconds"

COUNTERS: Mapping[str, tuple[str, ...]] = {
    REQUESTS: ("door", "model", "status", "backend"),
    PROBLEMS: ("code",),
    REJECTS: ("code", "param", "model"),
    ATTEMPTS: ("backend", "model", "verdict"),
    PROBES: ("backend", "model", "verdict"),
    FAILOVERS: (),
    HEDGES: ("event",),
    CHUNKS: (),
    AFFINITY: ("backend", "replica", "result"),
}
HISTOGRAMS: Mapping[str, tuple[tuple[str, ...], tuple[float, ...]]] = {
    FIRST_BYTE: (("backend",), LONG),
    OVERHEAD: (("door",), OWN),
    DURATION: (("door",), LONG),
}


class Told(Protocol):
    """What `ended` reads of a call."""

    @property
    def asked(self) -> str: ...
    @property
    def attempts(self) -> Sequence[Attempt]: ...


class _Everything:
    def __contains__(self, name: object) -> bool:
        return True


EVERYTHING = _Everything()


class Meters:
    """The counters of one process. `known` gives the model names of the current snapshot.

    `in_flight` and `queued` are gauges that their owners move; `seats` is filled by `dump` and `merge` only.
    """

    def __init__(self, known: Callable[[], Container[str]] = lambda: EVERYTHING) -> None:
        self._known = known
        self.in_flight = 0
        self.queued = 0
        self.seats: dict[str, int] = {}  # requests in flight by replica id
        self.counters: dict[str, dict[Labels, int]] = {name: {} for name in COUNTERS}
        self.histograms: dict[str, dict[Labels, list[float]]] = {name: {} for name in HISTOGRAMS}
        self._requests = self.counters[REQUESTS]
        self._attempts = self.counters[ATTEMPTS]
        self._first_byte = self.histograms[FIRST_BYTE]
        self._overhead = self.histograms[OVERHEAD]
        self._duration = self.histograms[DURATION]

    # --- the way of one request ---------------------------------------------------------------------------------------

    def began(self) -> None:
        """A request came in."""
        self.in_flight += 1

    def ended(self, door: str, call: Told | None, status: int, code: str, elapsed: float) -> None:
        """A request is over. `elapsed` is seconds since it came; `call` is None when it was refused before it was read.

        Our own time is `elapsed` without the span from the first attempt's start to the last one's end.
        """
        self.in_flight -= 1
        model, backend, own = "", "", elapsed
        if call is not None:
            model, attempts = call.asked, call.attempts
            if attempts:
                last = attempts[-1]
                backend = last.candidate.backend.name
                end = last.ended or last.started
                if len(attempts) > 1:
                    end = max(attempt.ended or attempt.started for attempt in attempts)
                own -= end - attempts[0].started
        self.request(door, model, status, backend)
        if code:
            self._count(PROBLEMS, (code,))
        labels = (door,)
        row = self._duration.get(labels) or self._row(DURATION, labels)
        row[bisect_left(LONG, elapsed)] += 1
        row[-1] += elapsed
        row = self._overhead.get(labels) or self._row(OVERHEAD, labels)
        own = max(own, 0.0)
        row[bisect_left(OWN, own)] += 1
        row[-1] += own

    def request(self, door: str, model: str, status: int, backend: str) -> None:
        """One answered request; `model` as the client asked for it, "" when unknown."""
        table, labels = self._requests, (door, model, status, backend)
        if labels in table:
            table[labels] += 1
        else:
            self._count(REQUESTS, (door, self._name(model), status, backend))

    def reject(self, code: str, param: str | None, model: str) -> None:
        """One finding of a request that was refused before any engine saw it."""
        self._count(REJECTS, (code, rule(param), self._name(model)))

    def attempt(self, backend: str, model: str, verdict: str) -> None:
        """One judged attempt; `model` as the engine knows it."""
        table, labels = self._attempts, (backend, model, verdict)
        if labels in table:
            table[labels] += 1
        else:
            self._count(ATTEMPTS, labels)

    def probe(self, backend: str, model: str, verdict: str) -> None:
        """One judged probe."""
        self._count(PROBES, (backend, model, verdict))

    def failover(self, times: int = 1) -> None:
        """Next attempts because one ended badly."""
        self._count(FAILOVERS, (), times)

    def hedge(self, event: str) -> None:
        """fired, won, lost, or why it was not fired; one of a closed list."""
        self._count(HEDGES, (event,))

    def chunks(self, number: int) -> None:
        """Events of streams that were passed on."""
        self._count(CHUNKS, (), number)

    def affinity(self, backend: str, replica: str, result: str) -> None:
        """One request that has an order by its content: which replica it went to, and why to that one."""
        self._count(AFFINITY, (backend, replica, result))

    def first_byte(self, backend: str, seconds: float) -> None:
        """From the start of an attempt to the first byte of its answer."""
        labels = (backend,)
        row = self._first_byte.get(labels) or self._row(FIRST_BYTE, labels)
        row[bisect_left(LONG, seconds)] += 1
        row[-1] += seconds

    # --- between processes --------------------------------------------------------------------------------------------

    def dump(self, seats: Iterable[tuple[str, Seat]] = ()) -> dict[str, Any]:
        """Everything as plain JSON; `seats` are those of the replicas, by id."""
        return {
            "counters": {name: [[*labels, n] for labels, n in table.items()] for name, table in self.counters.items()},
            "histograms": {
                name: [[list(labels), list(row)] for labels, row in table.items()]
                for name, table in self.histograms.items()
            },
            "in_flight": self.in_flight,
            "queued": self.queued,
            "seats": self.seats | {name: seat.in_flight for name, seat in seats},
        }

    def merge(self, dump: Mapping[str, Any]) -> Meters:
        """Add a dump of another process, or of this one, into these meters. Returns itself."""
        for name, rows in dump["counters"].items():
            counts = self.counters[name]
            for *labels, number in rows:
                counts[tuple(labels)] = counts.get(tuple(labels), 0) + number
        for name, rows in dump["histograms"].items():
            table = self.histograms[name]
            for labels, row in rows:
                old = table.get(tuple(labels))
                table[tuple(labels)] = row if old is None else [one + two for one, two in zip(old, row, strict=True)]
        self.in_flight += dump["in_flight"]
        self.queued += dump["queued"]
        for replica, number in dump["seats"].items():
            self.seats[replica] = self.seats.get(replica, 0) + number
        return self

    # --- bounds -------------------------------------------------------------------------------------------------------

    def _name(self, model: str) -> str:
        return model if not model or model in self._known() else OTHER

    def _count(self, name: str, labels: Labels, number: int = 1) -> None:
        table = self.counters[name]
        if labels not in table:
            labels = _bounded(table, labels)
        table[labels] = table.get(labels, 0) + number

    def _row(self, name: str, labels: Labels) -> list[float]:
        table = self.histograms[name]
        labels = _bounded(table, labels)
        return table.setdefault(labels, [0] * (len(HISTOGRAMS[name][1]) + 1) + [0.0])


def _bounded(table: Mapping[Labels, object], labels: Labels) -> Labels:
    return labels if len(table) < SETS else (OTHER,) * len(labels)


_INDEX = re.compile(r"\[\d+\]")
_KEYS = re.compile(
    r"^(questions|metadata|logit_bias|assets)\..*?(\.(?:type|instructions|criteria))?(?:[.\[].*)?$", re.DOTALL
)
_PLAIN = re.compile(r"[\w.*\[\]-]{0,60}", re.ASCII)


def rule(param: str | None) -> str:
    """The path of a field without what a client put into it: messages[17].role is messages[].role."""
    return _rule((param or "")[:PATH])


@lru_cache(1024)
def _rule(param: str) -> str:
    path = _KEYS.sub(r"\1.*\2", _INDEX.sub("[]", param))
    return path if _PLAIN.fullmatch(path) else OTHER
