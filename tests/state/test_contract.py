"""What every store must do, over SQLite and a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from autohedge.state.contract import StateLost, Store
from tests.state.helpers import PATIENCE, opened, run
from tests.support.fair import Watch

Make = Callable[[], Store]


async def poll(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            if await check():
                return
            await asyncio.sleep(0.01)


async def take(messages: AsyncIterator[str], number: int) -> list[str]:
    async with asyncio.timeout(PATIENCE):
        return [await anext(messages) for _ in range(number)]


def test_a_loss_says_its_reason() -> None:
    assert (StateLost("x").reason, str(StateLost("x"))) == ("x", "x")


@pytest.mark.parametrize("value", ["", "x", '{"a": "ä\\n\u2028"}', "\x00", "x" * 1_000_000])
def test_what_is_put_is_got(make: Make, value: str) -> None:
    """Any text, byte for byte, also over a second store of the same place."""

    async def main() -> None:
        store, other = make(), make()
        async with opened(store, other):
            assert await store.get("k:ä") is None
            await store.put("k:ä", "before")
            await store.put("k:ä", value)
            assert await other.get("k:ä") == value
            await other.delete("k:ä")
            await other.delete("k:ä")
            assert await store.get("k:ä") is None

    run(main())


def test_many_are_put_with_one_question(make: Make) -> None:
    """Each with its own time to live; of a key that stands twice the last counts; none at all is no question too many."""

    async def main() -> None:
        store, other = make(), make()
        async with opened(store, other):
            await store.put("d", "before")
            await store.put_all([])
            await store.put_all([("a", "1", None), ("b", "2", 60), ("c", "3", 0.01), ("a", "4", 60), ("d", "5", 0)])

            async def ended() -> bool:
                return await other.get("c") is None

            await poll(ended)
            assert await other.scan("") == {"a": "4", "b": "2"}

    run(main())


def test_a_time_to_live_ends(make: Make) -> None:
    """A later put replaces it, also by none; what is already over is gone."""

    async def main() -> None:
        store = make()
        async with opened(store):
            for key in "abc":
                await store.put(key, "1", 0.05)
            await store.put("b", "2")
            await store.put("c", "3", 60)
            await store.put("d", "4")
            await store.put("d", "5", 0)
            assert await store.get("d") is None

            async def ended() -> bool:
                return await store.get("a") is None

            await poll(ended)
            assert await store.scan("") == {"b": "2", "c": "3"}

    run(main())


def test_a_scan_takes_prefixes_literally(make: Make) -> None:
    """Stars, brackets and percent signs in a model's name are no pattern; many keys come in full."""

    async def main() -> None:
        store = make()
        async with opened(store):
            keys = ["a*b:1", "a*b:2", "aXb:1", "[a]:1", "a:1", "%:1", "x:1", "_:1", "a?:1", "\\:1", "a^-]:1"]
            for key in keys:
                await store.put(key, key)
            for prefix in ("a*b:", "[a]", "%", "_", "a?", "\\", "a^-]", "a", "", "nothing"):
                assert await store.scan(prefix) == {key: key for key in keys if key.startswith(prefix)}, prefix
            for number in range(1200):
                await store.put(f"many:{number}", str(number))
            assert await store.scan("many:") == {f"many:{number}": str(number) for number in range(1200)}

    run(main())


def test_a_lease_has_one_holder(make: Make) -> None:
    """Taken, extended by its holder, refused to others, free after its release or its time."""

    async def main() -> None:
        store, other = make(), make()
        async with opened(store, other):
            assert await store.lease("l", "a", 60)
            assert await store.lease("l", "a", 60)
            assert not await other.lease("l", "b", 60)
            assert await other.get("l") == "a"
            await other.release("l", "b")
            assert not await other.lease("l", "b", 60)
            await store.release("l", "a")
            assert await other.lease("l", "b", 0.05)
            assert not await store.lease("l", "a", 60)

            async def free() -> bool:
                return await store.lease("l", "a", 60)

            await poll(free)
            await store.put("value", "a value is no lease")
            assert not await store.lease("value", "a", 60)

    run(main())


def test_of_many_that_want_a_lease_one_gets_it(make: Make) -> None:
    """Four stores, forty askers at once."""

    async def main() -> None:
        stores = [make() for _ in range(4)]
        async with opened(*stores):
            asked = [stores[number % 4].lease("l", f"holder {number}", 60) for number in range(40)]
            assert sum(await asyncio.gather(*asked)) == 1

    run(main())


def test_counters_lose_nothing(make: Make) -> None:
    """Two stores count at once; a counter can be read, and can go down."""

    async def main() -> None:
        store, other = make(), make()
        async with opened(store, other):
            totals = await asyncio.gather(*(one.count("c", 2) for one in (store, other) for _ in range(50)))
            assert sorted(totals) == list(range(2, 202, 2))
            assert await other.count("c", -50) == 150
            assert await store.get("c") == "150"
            await store.put("text", "no number")
            with pytest.raises(ValueError, match="number"):
                await store.count("text", 1)

    run(main())


def test_a_counter_s_time_starts_with_its_first_count(make: Make) -> None:
    """Later counts do not keep it alive; after its end it starts at zero."""

    async def main() -> None:
        store = make()
        async with opened(store):

            async def fresh() -> bool:
                return await store.count("c", 1, 0.3) == 1

            assert await fresh()
            assert await store.count("c", 1, 60) == 2
            await poll(fresh)

    run(main())


def test_watchers_hear_what_is_published(make: Make) -> None:
    """From entering on, their topic only, in order, the publisher too; after leaving nothing is left open."""

    async def main() -> None:
        store, other = make(), make()
        async with opened(store, other):
            await store.publish("t", "too early")
            async with store.watch("t") as mine, other.watch("t") as theirs, other.watch("u") as different:
                await store.publish("t", "1")
                await other.publish("u", "else")
                await other.publish("t", "2")
                assert await take(mine, 2) == await take(theirs, 2) == ["1", "2"]
                assert await take(different, 1) == ["else"]
                await store.publish("t", "3")
                assert await take(mine, 1) == ["3"]

    run(main())


def test_a_message_comes_within_a_second(make: Make) -> None:
    """Ten in a row, each published when the one before was heard."""

    async def main() -> None:
        store, other = make(), make()
        async with opened(store, other), store.watch("t") as messages:
            for number in range(10):
                await other.publish("t", str(number))
                watch = Watch()
                async with asyncio.timeout(PATIENCE):
                    assert await anext(messages) == str(number)
                assert watch.seconds < 1

    run(main())


def test_a_closed_store_is_lost(make: Make) -> None:
    """Closing twice is closing once; a watcher ends with the reason."""

    async def main() -> None:
        store = make()
        await store.put("a", "b")
        async with store.watch("t") as messages:
            await store.close()
            await store.close()
            with pytest.raises(StateLost):
                await take(messages, 1)
        for verb in (store.get("a"), store.put("a", "b"), store.publish("t", "m")):
            with pytest.raises(StateLost, match="closed"):
                await verb
        with pytest.raises(StateLost, match="closed"):
            async with store.watch("t"):
                pass

    run(main())
