"""What workers tell each other about health."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, cast

from autohedge.core.types import Attempt, Candidate, Failure, Judgement, Outcome, Verdict
from autohedge.memory.entry import Rules
from autohedge.memory.health import Health
from autohedge.rules.breaker import Options
from autohedge.rules.probes import Probed
from autohedge.rules.standing import State, Transition, Via, Wish
from autohedge.sharing import YIELDED, Sharing
from autohedge.state.resilient import Shared
from tests.support.desk import Desk
from tests.support.vtime import run
from tests.support.world import backend, lesson, model


class Book:
    """One shared state for several workers: a put is heard by all others."""

    def __init__(self) -> None:
        self.kept: dict[str, Mapping[str, Any]] = {}
        self.desks: list[Desktop] = []
        self.holder: object | None = None


class Desktop:
    """One worker's end of it."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.hearers: list[tuple[str, Callable[[str, Mapping[str, Any] | None], object]]] = []
        book.desks.append(self)

    def on_change(self, prefix: str, callback: Callable[[str, Mapping[str, Any] | None], object]) -> None:
        self.hearers.append((prefix, callback))
        for key, value in self.book.kept.items():
            if key.startswith(prefix):
                callback(key, value)

    def put_soon(self, key: str, value: Mapping[str, Any], ttl: float | None = None) -> None:
        self.book.kept[key] = value
        self._tell(key, value)

    def delete_soon(self, key: str) -> None:
        self.book.kept.pop(key, None)
        self._tell(key, None)

    async def lease(self, key: str, seconds: float) -> bool:
        self.book.holder = self.book.holder or self
        return self.book.holder is self

    async def release(self, key: str) -> None:
        if self.book.holder is self:
            self.book.holder = None

    def _tell(self, key: str, value: Mapping[str, Any] | None) -> None:
        for other in self.book.desks:
            for prefix, callback in other.hearers:
                if other is not self and key.startswith(prefix):
                    callback(key, value)


class Worker:
    def __init__(self, book: Book, *, probed: bool = True) -> None:
        self.desk = Desk()
        self.desk.add("a", backend("b", "one:1", "two:1"), lesson(model("m")), lesson(model("m")))
        options = Options(probed=probed)
        rules = Rules(options, unprobed=options, yields=self.yields)
        self.health = Health(lambda: 0.5, None, self._changed, rules)
        clock = lambda: self.desk.now  # noqa: E731
        self.sharing = Sharing(cast("Shared", Desktop(book)), self.health, clock, clock)
        self.health.settle(self.desk.snapshot, self.desk.now)

    def yields(self) -> float:
        return self.sharing.yields()

    def _changed(self, candidate: Candidate, moved: Transition) -> None:
        self.sharing.changed(candidate, moved)

    def state(self, number: int = 0) -> State:
        return self.health.entry(self.desk.candidates("m")[number], self.desk.now).breaker.state

    def refuse(self, times: int = 2) -> None:
        candidate = self.desk.candidates("m")[0]
        for _ in range(times):
            stamp = self.health.entry(candidate, self.desk.now).breaker.stamp
            outcome, judgement = Outcome(failure=Failure.REFUSED), Judgement(Verdict.DEAD)
            self.health.record(
                Attempt(candidate, self.desk.now, stamp, outcome=outcome, judgement=judgement), self.desk.now
            )


def test_an_opening_is_obeyed_by_all_workers() -> None:
    book = Book()
    one, two = Worker(book), Worker(book)
    one.refuse()
    assert (one.state(), two.state()) == (State.OPEN, State.OPEN)
    assert two.state(1) is State.CLOSED


def test_an_opening_survives_a_restart_until_its_first_trial() -> None:
    book = Book()
    one = Worker(book)
    one.refuse()
    again = Worker(book)
    assert again.state() is State.OPEN
    again.desk.now += 1000
    late = Worker(book)
    late.desk.now += 1000
    assert len(book.kept) == 1


def tried(workers: list[Worker], verdict: Verdict) -> int:
    """One live request at each worker now; how many reached the replica, each ending so."""
    reached = 0
    for worker in workers:
        candidate = worker.desk.candidates("m")[0]
        admission = worker.health.admit(candidate, worker.desk.now)
        if admission.allowed:
            reached += 1
            attempt = Attempt(
                candidate, worker.desk.now, admission.stamp, outcome=Outcome(), judgement=Judgement(verdict)
            )
            worker.health.record(attempt, worker.desk.now)
    return reached


def test_of_four_workers_one_has_the_live_trial() -> None:
    """Half-open by one lease, also where nobody probes (paid providers): the one that leads tries, the others hear how it ended."""
    book = Book()
    workers = [Worker(book, probed=False) for _ in range(4)]
    workers[0].sharing.leads = True
    workers[2].refuse()
    retry = [worker.health.openings(worker.desk.now)[0].left for worker in workers]
    assert max(retry) - min(retry) < 0.1

    def later(seconds: float) -> None:
        for worker in workers:
            worker.desk.now += seconds

    later(retry[0] + 1.0)
    assert tried(workers, Verdict.DEAD) == 1
    assert all(worker.health.openings(worker.desk.now)[0].left > 20 for worker in workers)
    later(2.0)
    assert tried(workers, Verdict.DEAD) == 0  # they heard that the trial failed
    later(31.0)
    assert tried(workers[:1], Verdict.ANSWER) == tried(workers[:1], Verdict.ANSWER) == 1
    assert workers[0].state() is State.CLOSED
    later(2.0)  # the others begin theirs, which now go well
    for _ in range(2):
        assert tried(workers[1:], Verdict.ANSWER) == 3
    assert {worker.state() for worker in workers} == {State.CLOSED}


def test_one_that_leads_without_traffic_keeps_nobody_from_the_trial() -> None:
    book = Book()
    workers = [Worker(book, probed=False) for _ in range(2)]
    workers[0].sharing.leads = True
    workers[1].refuse()
    workers[1].desk.now += workers[1].health.openings(workers[1].desk.now)[0].left + YIELDED - 0.1
    assert tried(workers[1:], Verdict.ANSWER) == 0
    workers[1].desk.now += 0.2
    assert tried(workers[1:], Verdict.ANSWER) == 1


def test_only_the_holder_of_the_lease_probes() -> None:
    book = Book()
    one, two = Worker(book), Worker(book)

    async def main() -> None:
        for worker in (one, two):
            worker.sharing.leads = await worker.sharing._shared.lease("prober", 6)

    run(main())
    assert one.sharing.may_probe("any")
    assert not two.sharing.may_probe("any")


def test_who_ends_leaves_the_probing_to_the_next_one_at_once() -> None:
    """E125: a restart waited for the lease of the process before it, and its first probe came an interval late."""
    book = Book()
    one, two = Worker(book), Worker(book)

    async def main() -> None:
        for worker in (one, two):
            life = asyncio.create_task(worker.sharing.run())
            await asyncio.sleep(0)
            assert worker.sharing.may_probe("any")
            life.cancel()
            with suppress(asyncio.CancelledError):
                await life

    run(main())


def test_a_process_that_has_seen_nothing_yet_probes_for_itself() -> None:
    """Its startup gate waits for evidence, and the holder of the lease probes nothing while its own traffic proves health: a
    rolling update of AutoHedge under load stood still for a minute for each task.
    """
    book = Book()
    one, two = Worker(book), Worker(book)
    one.sharing.leads = True
    two.sharing.waits = lambda: True
    assert two.sharing.may_probe("any")
    two.sharing.waits = lambda: False
    assert not two.sharing.may_probe("any")


def test_a_probe_of_one_is_evidence_for_all() -> None:
    """Four workers probe once, not four times."""
    book = Book()
    one, two = Worker(book), Worker(book)
    one.sharing.leads = True
    candidate = one.desk.candidates("m")[0]
    one.sharing.probed(candidate, Probed(candidate.replica.id, "m", Via.DEEP, Verdict.ANSWER))
    assert two.health.entry(two.desk.candidates("m")[0], two.desk.now).breaker.known


def test_an_operator_s_wish_holds_in_all_workers_and_after_a_restart() -> None:
    book = Book()
    one, two = Worker(book), Worker(book)
    replica = one.desk.candidates("m")[0].replica.id
    one.sharing.force(replica, Wish.DRAIN, None)
    late = Worker(book)
    for worker in (one, two, late):
        assert worker.health.wishes == [(replica, None, Wish.DRAIN)]
    two.sharing.force(replica, Wish.NONE, None)
    assert one.health.wishes == []


def test_what_is_no_probe_and_no_opening_is_passed_over() -> None:
    book = Book()
    worker = Worker(book)
    stranger = Desktop(book)
    for value in ({}, {"probe": "["}, {"until": "x"}, {"until": 1e12}):
        stranger.put_soon("probe:x", value)
        stranger.put_soon("opening:x", value)
    assert worker.state() is State.CLOSED
