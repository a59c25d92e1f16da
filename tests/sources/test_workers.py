"""Which workers there are: those of the file and the registered ones, here and at the other processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import pytest

from autohedge.core.types import Address, Seen
from autohedge.settings.workers import Worker
from autohedge.sources.workers import MOST, RENEWED, Full, Registered, Taken, WorkersSource


class Store:
    """A shared state that several sources look into; what one writes the others hear."""

    def __init__(self) -> None:
        self.kept: dict[str, Mapping[str, Any]] = {}
        self.lives: dict[str, list[float | None]] = {}
        self.hearers: list[Callable[[str, Mapping[str, Any] | None], object]] = []

    def put_soon(self, key: str, value: Mapping[str, Any], ttl: float | None = None) -> None:
        self.kept[key] = dict(value)
        self.lives.setdefault(key, []).append(ttl)

    def delete_soon(self, key: str) -> None:
        self.kept.pop(key, None)

    def under(self, prefix: str) -> dict[str, Mapping[str, Any]]:
        return {key: value for key, value in self.kept.items() if key.startswith(prefix)}

    def on_change(self, prefix: str, callback: Callable[[str, Mapping[str, Any] | None], object]) -> None:
        del prefix
        self.hearers.append(callback)


def source(store: Store, boot: str = "boot", *static: Worker, persist: bool = True) -> WorkersSource:
    made = WorkersSource(store, boot, lambda: 1000.0)
    made.reload(static, persist=persist)
    return made


def urls(source: WorkersSource) -> list[str]:
    return [worker.url for worker in source.all()]


ONE = Registered(Address("w1", 8000), "dex")
ANY = Registered(Address("w2", 8000), labels={"zone": "a"})
FIXED = Worker(url="http://w0:8000", model_id="dex")


def test_an_id_is_a_uuid_that_follows_from_the_url() -> None:
    """Every process and every start gives a worker the same id."""
    assert str(UUID(ONE.id)) == ONE.id
    assert ONE.id == Registered(Address("w1", 8000), "other").id
    assert ONE.id != ANY.id


def test_a_worker_is_a_backend_with_one_address_and_exact_names() -> None:
    spec = ONE.spec()
    assert (spec.addresses, spec.models, spec.exact, spec.takes_any) == ((ONE.address,), ("dex",), True, False)
    assert "w1" not in spec.name
    assert spec.priority == 50
    wild = ANY.spec()
    assert (wild.models, wild.exact, wild.takes_any, wild.labels) == ((), True, True, {"zone": "a"})


def test_a_place_that_came_over_http_is_guarded_and_one_of_the_file_is_not() -> None:
    """Whoever connects to it looks where its name leads."""
    store = Store()
    source(store).add(ONE)
    kept = source(store, "again", FIXED).seen().backends
    assert [spec.addresses[0].guarded for spec in kept] == [False, True]


def test_there_is_an_end_of_registering() -> None:
    store = Store()
    store.kept = {f"worker:{number}": {} for number in range(MOST)}
    with pytest.raises(Full):
        source(store).add(ONE)


def test_those_of_the_file_come_first_and_registered_ones_by_url() -> None:
    made = source(Store(), "boot", Worker(url="http://z"), Worker(url="http://a"))
    made.add(ANY)
    made.add(ONE)
    assert urls(made) == ["http://z", "http://a", "http://w1:8000", "http://w2:8000"]


def test_every_change_is_told_at_once() -> None:
    """The next request may go there: no look has to come first."""
    told: list[int] = []
    made = source(Store())
    made.swept = lambda name, seen: told.append(len(seen.backends)) if name == "workers" else None
    made.add(ONE)
    made.add(ANY)
    made.remove(ONE.id)
    assert told == [1, 2, 1]


def test_the_same_again_changes_nothing_and_other_fields_are_taken() -> None:
    made = source(Store(), "boot", FIXED)
    made.add(ONE)
    assert made.add(Registered(Address("w1", 8000), "dex")).id == ONE.id
    assert made.add(Registered(FIXED.address, "dex")).fixed
    for other in (Registered(ONE.address, "other"), Registered(FIXED.address)):
        with pytest.raises(Taken):
            made.add(other)
    assert len(made.all()) == 2


def test_a_registered_worker_survives_a_restart() -> None:
    store = Store()
    source(store, "first").add(ONE)
    again = source(store, "second")
    assert again.get(ONE.id) == ONE
    assert again.remove(ONE.id)
    assert not again.remove(ONE.id)
    assert urls(source(store, "third")) == []


def test_without_persistence_it_ends_with_its_start_but_all_processes_know_it() -> None:
    """eidex: after a restart the file holds again; several processes of one start share theirs."""
    store = Store()
    source(store, "first", persist=False).add(ONE)
    assert urls(source(store, "first", persist=False)) == [ONE.url]
    assert urls(source(store, "second", persist=False)) == []
    assert urls(source(store, "second")) == []


def test_what_was_kept_is_not_taken_up_when_persistence_is_off() -> None:
    store = Store()
    source(store, "first").add(ONE)
    assert urls(source(store, "second", persist=False)) == []


def test_a_worker_of_the_file_stays_away_until_the_next_start() -> None:
    store = Store()
    made = source(store, "first", FIXED)
    assert made.remove(Registered.of(FIXED, fixed=True).id)
    assert urls(made) == []
    assert urls(source(store, "first", FIXED)) == []
    assert urls(source(store, "second", FIXED)) == [FIXED.url]
    made.add(Registered(FIXED.address, "dex"))
    assert urls(made) == [FIXED.url]
    assert made.all()[0].fixed


def test_a_removed_one_may_come_back_with_other_fields() -> None:
    made = source(Store(), "boot", FIXED)
    made.remove(made.all()[0].id)
    made.add(Registered(FIXED.address, "new"))
    assert [worker.model_id for worker in made.all()] == ["new"]


def test_a_reload_takes_over_the_list_of_the_file() -> None:
    made = source(Store(), "boot", FIXED)
    made.add(ONE)
    made.reload([Worker(url="http://new")], persist=True)
    assert urls(made) == ["http://new", ONE.url]


def test_the_first_of_two_with_one_url_counts() -> None:
    made = source(Store(), "boot", Worker(url="http://w", model_id="a"), Worker(url="http://w/", model_id="b"))
    assert [worker.model_id for worker in made.all()] == ["a"]


def test_what_is_no_worker_in_the_state_is_ignored() -> None:
    store = Store()
    store.kept["worker:x"] = {"url": "nowhere"}
    store.kept["worker:y"] = {"url": 5, "labels": 7}
    assert urls(source(store)) == []


def test_what_others_register_is_told_once_for_all_that_comes_together() -> None:
    async def main() -> list[int]:
        told: list[int] = []
        store = Store()
        here, there = source(store), source(store)
        here.swept = lambda _name, seen: told.append(len(seen.backends))
        there.add(ONE)
        there.add(ANY)
        for worker in (ONE, ANY):
            store.hearers[0](f"worker:{worker.id}", {})
        await asyncio.sleep(0)
        return told

    assert asyncio.run(main()) == [2]


def test_it_is_a_source_that_hints_after_a_reload() -> None:
    async def main() -> Seen:
        made = source(Store())
        await made.look()
        made.reload([FIXED], persist=True)
        await asyncio.wait_for(made.hint(), 30)
        return await made.look()

    assert [spec.models for spec in asyncio.run(main()).backends] == [("dex",)]


def test_what_belongs_to_one_start_is_renewed_while_it_lasts() -> None:
    """A removal of days ago still holds; after the end it runs out by itself."""
    clock = [0.0]
    store = Store()
    made = WorkersSource(store, "boot", lambda: clock[0])
    made.reload([], persist=False)
    made.add(ONE)
    asyncio.run(made.look())
    clock[0] = RENEWED
    asyncio.run(made.look())
    (lives,) = store.lives.values()
    assert len(lives) == 2
    assert all(lives)
