"""The facade in virtual time: nothing that a request uses waits or fails, and in the end everybody knows everything."""

from __future__ import annotations

import asyncio
import json
import logging
import tracemalloc
from collections.abc import Coroutine
from typing import Any

import pytest

from autohedge.state.contract import StateLost
from autohedge.state.entry import Value, entry, read
from autohedge.state.resilient import MARK, Pace, Shared
from tests.state.fake import FakeStore, Place
from tests.state.helpers import running
from tests.support.vtime import now, run

START = 1_000_000.0  # epoch seconds at virtual 0


def clock() -> float:
    return START + now()


def share(place: Place, name: str = "me", **more: Any) -> Shared:
    return Shared(FakeStore(place), name, clock, **more)


def held(place: Place, key: str) -> Value | None:
    found = read(place.keys[key])
    assert found is not None
    return found.value


async def settle(*shared: Shared) -> None:
    """Until everything was written and heard."""
    for one in shared:
        assert await one.flushed(60)
    await asyncio.sleep(1)


def play(main: Coroutine[Any, Any, None]) -> None:
    run(main)


# --- while the store is there -----------------------------------------------------------------------------------------


def test_a_writing_can_be_read_at_once_and_is_in_the_store_soon() -> None:
    """With its time to live."""

    async def main() -> None:
        place = Place()
        me = share(place)
        async with running(me):
            assert await me.ready(5)
            me.put_soon("a:1", {"n": 1})
            me.put_soon("a:2", {"n": 2}, 60)
            assert (me.get_local("a:1"), me.under("a:")) == ({"n": 1}, {"a:1": {"n": 1}, "a:2": {"n": 2}})
            assert not place.facts
            assert await me.flushed(1)
            assert (held(place, "a:1"), held(place, "a:2")) == ({"n": 1}, {"n": 2})
            assert place.ends["a:1"] is None
            assert place.ends["a:2"] == pytest.approx(now() + 60, abs=0.1)
            await asyncio.sleep(61)
            assert me.get_local("a:2") is None

    play(main())


def test_the_first_writing_does_not_wait() -> None:
    """A retirement must be with the others within a second; the gap is for what follows."""

    async def main() -> None:
        place = Place()
        me = share(place)
        async with running(me):
            assert await me.ready(5)
            await asyncio.sleep(1)
            started = now()
            me.put_soon("k", {})
            assert await me.flushed(1)
            assert now() - started < 0.01

    play(main())


def test_a_busy_key_is_written_once_per_gap() -> None:
    """1,000 writings within a second are about 20 for the store; the last one is among them."""

    async def main() -> None:
        place = Place()
        me = share(place)
        async with running(me):
            assert await me.ready(5)
            for number in range(1000):
                me.put_soon("k", {"n": number})
                await asyncio.sleep(0.001)
            await settle(me)
            assert len(place.writes) <= 21
            assert held(place, "k") == {"n": 999}

    play(main())


def test_others_are_told() -> None:
    """Values, changes and removals; by prefix, and never what one wrote oneself."""

    async def main() -> None:
        place = Place()
        me, other = share(place), share(place, "other")
        seen: list[tuple[str, Value | None]] = []
        own: list[str] = []
        other.on_change("a:", lambda key, value: seen.append((key, value)))
        me.on_change("", lambda key, _value: own.append(key))
        async with running(me, other):
            assert await me.ready(5)
            assert await other.ready(5)
            me.put_soon("a:1", {"n": 1})
            me.put_soon("b:1", {"n": 1})
            await settle(me)
            me.put_soon("a:1", {"n": 1})
            await settle(me)
            me.put_soon("a:1", {"n": 2})
            await settle(me)
            me.delete_soon("a:1")
            await settle(me)
            assert seen == [("a:1", {"n": 1}), ("a:1", {"n": 2}), ("a:1", None)]
            assert other.under("") == {"b:1": {"n": 1}}
            assert own == []

    play(main())


@pytest.mark.parametrize("ticks", range(8))
def test_a_stop_in_the_moment_of_a_loss_is_a_stop(ticks: int) -> None:
    """The loss hid the cancel, and the process hung at its end: seen when a slow machine lost its Redis just then."""

    async def main() -> None:
        place = Place()
        me = share(place)
        task = asyncio.create_task(me.run())
        assert await me.ready(5)
        await asyncio.sleep(1)
        place.lose()
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=60)
        assert task.cancelled()
        await me.close()

    play(main())


def test_what_another_process_has_just_written_can_be_asked_for() -> None:
    """Before its message comes: a value, a removal, and nothing of what is no fact or over."""

    async def main() -> None:
        place = Place()
        me = share(place)
        seen: list[Value | None] = []
        me.on_change("k", lambda _key, value: seen.append(value))
        async with running(me):
            assert await me.ready(5)
            for number, value in enumerate(({"n": 1}, None), 1):
                place.keys["k"] = entry(value, clock() + number).text
                await me.refresh("k")
                assert (me.get_local("k"), len(seen)) == (value, number)
            assert seen == [{"n": 1}, None]
            place.keys["count"], place.keys["over"] = "5", entry({"n": 1}, clock(), clock() - 1).text
            for key in ("count", "over", "none"):
                await me.refresh(key)
                assert me.get_local(key) is None

    play(main())


def test_what_was_there_before_is_told_too() -> None:
    """A restart: what the store has is read before `ready`; a late listener hears it at once; foreign keys are no facts."""

    async def main() -> None:
        place = Place()
        place.keys = {
            "a:1": entry({"n": 1}, START - 50).text,
            "a:2": entry(None, START - 50, START + 500).text,
            "a:3": entry({}, START - 50, START - 1).text,
            "count:x": "17",
            "lease:x": "somebody",
        }
        me = share(place)
        early: list[str] = []
        late: list[str] = []
        me.on_change("a:", lambda key, _value: early.append(key))
        async with running(me):
            assert await me.ready(5)
            me.on_change("a:", lambda key, _value: late.append(key))
            assert early == late == ["a:1"]
            assert me.under("") == {"a:1": {"n": 1}}
            await settle(me)
            assert place.writes == []

    play(main())


def test_the_end_of_a_fact_is_told() -> None:
    """By its time to live, to all who listen."""

    async def main() -> None:
        place = Place()
        me = share(place)
        seen: list[tuple[str, Value | None]] = []
        me.on_change("", lambda key, value: seen.append((key, value)))
        async with running(me):
            me.put_soon("k", {}, 10)
            await asyncio.sleep(20)
            assert seen == [("k", None)]

    play(main())


def test_a_listener_that_fails_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Its fault is logged; the next listener hears."""

    async def main() -> None:
        place = Place()
        place.keys["k"] = entry({}, START).text
        me = share(place)
        seen: list[str] = []
        me.on_change("", lambda _key, _value: 1 / 0)
        me.on_change("", lambda key, _value: seen.append(key))
        async with running(me):
            assert await me.ready(5)
            assert seen == ["k"]
            assert me.lost == ""

    play(main())
    assert "ZeroDivisionError" in caplog.text


def test_what_is_no_json_costs_no_request(caplog: pytest.LogCaptureFixture) -> None:
    """It is our own mistake: logged, not kept, not raised."""

    async def main() -> None:
        me = share(Place())
        me.put_soon("k", {"a": object()})
        me.put_soon("\ud800", {})
        assert me.under("") == {}

    play(main())
    assert len(caplog.records) == 2


def test_messages_that_are_none_are_passed_over() -> None:
    """Somebody else publishes to our topic."""

    async def main() -> None:
        place = Place()
        me = share(place)
        async with running(me):
            assert await me.ready(5)
            for message in (
                "",
                "[]",
                "7",
                '{"from": "x"}',
                '{"from": "x", "facts": [1]}',
                '{"from":"x","facts":{"k":5}}',
            ):
                await FakeStore(place).publish("changes", message)
            fact = entry({"n": 1}, START).text
            await FakeStore(place).publish("changes", json.dumps({"from": "x", "facts": {"k": "7", "l": fact}}))
            await asyncio.sleep(1)
            assert me.under("") == {"l": {"n": 1}}
            assert me.lost == ""

    play(main())


def test_counters_go_up_in_the_store() -> None:
    """Over all workers; what waits here is counted in."""

    async def main() -> None:
        place = Place()
        me, other = share(place), share(place, "other")
        async with running(me, other):
            for one in (me, other, me):
                one.count_soon("count:a", 2)
            await settle(me, other)
            me.count_soon("count:a")
            me.count_soon("count:b", -3)
            assert place.facts == {"count:a": "6"}
            assert await other.totals("count:") == {"count:a": 6}
            assert await me.totals("count:") == {"count:a": 7, "count:b": -3}
            await settle(me)
            assert await other.totals("count:") == {"count:a": 7, "count:b": -3}

    play(main())


def test_a_counter_whose_key_holds_something_else_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        place = Place()
        place.keys["c"] = "text"
        me = share(place)
        async with running(me):
            me.count_soon("c")
            await settle(me)
            assert me.lost == ""

    play(main())
    assert "counter" in caplog.text


def test_one_of_several_workers_gets_a_lease() -> None:
    """It keeps it by asking again; another gets it when it was given back or ran out."""

    async def main() -> None:
        place = Place()
        me, other = share(place), share(place, "other")
        async with running(me, other):
            assert await me.lease("probe", 10)
            assert not await other.lease("probe", 10)
            assert await me.lease("probe", 10)
            await me.release("probe")
            assert await other.lease("probe", 10)
            await asyncio.sleep(11)
            assert await me.lease("probe", 10)

    play(main())


# --- when the store is lost -------------------------------------------------------------------------------------------


def test_a_loss_is_told_and_nothing_fails(caplog: pytest.LogCaptureFixture) -> None:
    """Once each: the reason, and that it is back."""
    caplog.set_level(logging.INFO)

    async def main() -> None:
        place = Place()
        me = share(place)
        heard: list[str] = []
        me.on_lost(heard.append)
        async with running(me):
            me.put_soon("k", {"n": 1})
            await settle(me)
            place.lose()
            await asyncio.sleep(1)
            assert (me.lost, heard) == ("away", ["away"])
            assert me.lost_since == pytest.approx(clock(), abs=1.1)
            me.put_soon("k", {"n": 2})
            me.put_soon("l", {"n": 3}, 300)
            me.delete_soon("m")
            me.count_soon("c", 5)
            assert me.under("") == {"k": {"n": 2}, "l": {"n": 3}}
            assert not await me.flushed(100)
            await me.refresh("l")
            with pytest.raises(StateLost):
                await me.totals("c")
            await asyncio.sleep(60)
            place.lost = ""
            await asyncio.sleep(11)
            assert (me.lost, me.lost_since, heard) == ("", None, ["away", ""])
            assert (held(place, "k"), held(place, "l"), place.keys["c"]) == ({"n": 2}, {"n": 3}, "5")

    play(main())
    texts = [record.getMessage() for record in caplog.records]
    assert texts[0] == "state is lost, the local picture goes on: away"
    assert len(texts) == 2
    assert texts[1].startswith("state is back after 6")


def test_connections_are_tried_less_and_less_often() -> None:
    """0.5, 1, 2, 4, 8, 10, 10 s; from the beginning again after a success."""

    async def main() -> None:
        place = Place()
        place.lost = "away"
        store = FakeStore(place, delay=0)
        me = Shared(store, "me", clock)
        async with running(me):
            await asyncio.sleep(40)
            gaps = [round(late - early, 3) for early, late in zip(store.tries, store.tries[1:], strict=False)]
            assert gaps == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
            place.lost = ""
            await asyncio.sleep(11)
            assert me.lost == ""
            place.lose("again")
            await asyncio.sleep(5)
            assert round(store.tries[-1] - store.tries[-2], 3) == 2.0

    play(main())


def test_a_store_that_is_not_there_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    """`ready` gives up, everything works, and what was written is there when it comes."""

    async def main() -> None:
        place = Place()
        place.lost = "not yet"
        me = share(place)
        async with running(me):
            me.put_soon("k", {"n": 1})
            assert not await me.ready(3)
            assert me.get_local("k") == {"n": 1}
            place.lost = ""
            assert await me.ready(11)
            assert held(place, "k") == {"n": 1}

    play(main())


def test_a_lease_is_granted_while_the_store_is_lost() -> None:
    """Every worker probes, rather than none."""

    async def main() -> None:
        place = Place()
        me = share(place)
        async with running(me):
            assert await me.ready(5)
            place.lose()
            assert await me.lease("probe", 10)
            await asyncio.sleep(1)
            assert me.lost
            started = now()
            assert await me.lease("probe", 10)
            await me.release("probe")
            assert now() == started

    play(main())


def test_a_store_that_takes_no_writes_is_lost_until_it_does() -> None:
    """A Redis that is full or a replica: reading works, and yet it must not look well in between."""

    async def main() -> None:
        place = Place()
        me = share(place)
        heard: list[str] = []
        me.on_lost(heard.append)
        async with running(me):
            assert await me.ready(5)
            place.refuses = "full"
            me.put_soon("k", {})
            await asyncio.sleep(30)
            assert heard == ["full"]
            place.refuses = ""
            await asyncio.sleep(11)
            assert heard == ["full", ""]
            assert held(place, "k") == {}

    play(main())


def test_two_that_were_cut_off_agree_afterwards() -> None:
    """The later writing wins on both sides, also a deletion; what only one has, both get."""

    async def main() -> None:
        place = Place()
        me, other = share(place), share(place, "other")
        async with running(me, other):
            for key in ("both", "removed", "kept"):
                me.put_soon(key, {"by": "me", "n": 0})
            await settle(me)
            assert other.get_local("removed") is not None
            place.lose()
            await asyncio.sleep(1)
            me.put_soon("both", {"by": "me", "n": 1})
            me.put_soon("removed", {"by": "me", "n": 1})
            me.put_soon("mine", {"by": "me"})
            await asyncio.sleep(1)
            other.put_soon("both", {"by": "other", "n": 2})
            other.delete_soon("removed")
            other.put_soon("theirs", {"by": "other"})
            await asyncio.sleep(60)
            place.lost = ""
            await asyncio.sleep(12)
            await settle(me, other)
            expected = {
                "both": {"by": "other", "n": 2},
                "kept": {"by": "me", "n": 0},
                "mine": {"by": "me"},
                "theirs": {"by": "other"},
            }
            assert me.under("") == other.under("") == expected
            assert held(place, "removed") is None

    play(main())


def test_conflicts_are_merged_where_a_merge_is_given() -> None:
    """Two workers saw the same 410 while they were apart: no count is lost."""

    def most(late: Value, early: Value) -> Value:
        return {"count": max(late["count"], early["count"]), "text": late["text"]}

    async def main() -> None:
        place = Place()
        me = share(place, merges={"r:": most})
        other = share(place, "other", merges={"r:": most})
        async with running(me, other):
            place.lose()
            await asyncio.sleep(1)
            me.put_soon("r:1", {"count": 7, "text": "early"})
            await asyncio.sleep(1)
            other.put_soon("r:1", {"count": 3, "text": "late"})
            place.lost = ""
            await asyncio.sleep(12)
            await settle(me, other)
            assert me.get_local("r:1") == other.get_local("r:1") == held(place, "r:1") == {"count": 7, "text": "late"}
            written = len(place.writes)
            await asyncio.sleep(60)
            assert len(place.writes) == written

    play(main())


def test_an_emptied_store_is_filled_again() -> None:
    """Redis restarted without its data; also when nobody noticed (FLUSHALL while we are connected): the mark is gone as well."""

    async def main() -> None:
        place = Place()
        me = share(place)
        async with running(me):
            me.put_soon("k", {"n": 1})
            await settle(me)
            place.lose()
            place.empty()
            place.lost = ""
            await asyncio.sleep(2)
            assert held(place, "k") == {"n": 1}
            place.empty()
            await asyncio.sleep(1.2)
            assert held(place, "k") == {"n": 1}
            del place.keys["k"]  # one fact alone is missed by the regular reading
            await asyncio.sleep(Pace().reread + 2)
            assert held(place, "k") == {"n": 1}

    play(main())


def test_each_process_has_its_own_mark() -> None:
    """One that finds the store emptied fills it and leaves its mark; the others must not take that for theirs."""

    async def main() -> None:
        place = Place()
        me, other = share(place), share(place, "other")
        async with running(me, other):
            me.put_soon("of me", {"n": 1}, 60)
            other.put_soon("of other", {"n": 2}, 60)
            await settle(me, other)
            for _ in range(3):
                place.empty()
                await asyncio.sleep(1.2)
                assert set(place.facts) == {"of me", "of other"}
            await asyncio.sleep(3 * Pace().reread)
            assert {key for key in place.keys if key.startswith(MARK)} == {MARK + "me", MARK + "other"}

    play(main())


def test_memory_is_flat_while_the_store_is_lost() -> None:
    """50 writings a second for five minutes: to ten keys, and to ever new ones that end after a minute."""

    async def main() -> None:
        place = Place()
        place.lost = "away"
        me = share(place)
        async with running(me):
            sizes = []
            tracemalloc.start()
            for number in range(7_500):
                me.put_soon(f"hot {number % 10}", {"n": number})
                me.put_soon(f"new {number}", {"n": number}, 60)
                await asyncio.sleep(0.04)
                if number % 1500 == 1499:
                    sizes.append(tracemalloc.get_traced_memory()[0])
            tracemalloc.stop()
            assert max(sizes[2:]) < sizes[1] * 1.1
            assert len(me._picture.unsent) < 25 * 66 + 10

    play(main())


def test_a_full_picture_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        place = Place()
        me = share(place)
        me._picture._most = 2
        async with running(me):
            for key in "abcd":
                me.put_soon(key, {})
            await asyncio.sleep(60)

    play(main())
    assert [record.getMessage() for record in caplog.records] == [
        "the local state is full: 2 of its oldest facts were forgotten so far"
    ]


def test_a_fault_of_our_own_is_logged_and_tried_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task does not die silently; the state counts as lost meanwhile."""

    async def main() -> None:
        place = Place()
        me = share(place)
        with monkeypatch.context() as patch:
            patch.setattr(me._picture, "lacking", lambda _there: 1 / 0)
            async with running(me):
                await asyncio.sleep(2)
                assert "fault" in me.lost
                patch.undo()
                await asyncio.sleep(10)
                assert me.lost == ""

    play(main())
    assert "ZeroDivisionError" in caplog.text


# --- the end ----------------------------------------------------------------------------------------------------------


def test_the_last_writings_are_given_to_the_store_at_the_end() -> None:
    async def main() -> None:
        place = Place()
        me = share(place)
        async with running(me):
            assert await me.ready(5)
            me.put_soon("k", {"n": 1})
        assert held(place, "k") == {"n": 1}
        assert isinstance(me._store, FakeStore)
        assert me._store.closed

    play(main())


def test_the_end_does_not_wait_for_a_lost_store(caplog: pytest.LogCaptureFixture) -> None:
    """It tells what was not written."""

    async def main() -> None:
        place = Place()
        me = share(place)
        async with running(me):
            assert await me.ready(5)
            place.lose()
            await asyncio.sleep(1)
            me.put_soon("k", {"n": 1})
            started = now()
        assert now() == started

    play(main())
    assert "1 facts were not written" in caplog.text
