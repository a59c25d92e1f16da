"""SQLite: time by the clock given, many processes, kill -9, files that vanish, and an event loop that never waits."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from autohedge.state import sqlite
from autohedge.state.contract import StateLost
from autohedge.state.sqlite import SqliteStore
from tests.state.helpers import Clock, opened, run
from tests.support.processes import Child, ending


def test_times_follow_the_clock_given(tmp_path: Path) -> None:
    """Values, leases and counters end together with it, and a restart changes nothing."""

    async def main() -> None:
        clock = Clock()
        store = SqliteStore(tmp_path / "state.db", clock)
        async with opened(store):
            await store.put("k", "v", 10)
            await store.count("c", 5, 10)
            assert await store.lease("l", "a", 10)
        again = SqliteStore(tmp_path / "state.db", clock)
        async with opened(again):
            clock.now += 9.9
            assert (await again.get("k"), await again.count("c", 1)) == ("v", 6)
            assert not await again.lease("l", "b", 10)
            clock.now += 0.1
            assert await again.get("k") is None
            assert await again.scan("") == {}
            assert await again.count("c", 1) == 1
            assert await again.lease("l", "b", 10)

    run(main())


def test_what_is_over_leaves_the_file(tmp_path: Path) -> None:
    """Cool-downs come and go all day."""

    async def main() -> None:
        clock = Clock()
        store = SqliteStore(tmp_path / "state.db", clock)
        async with opened(store):
            for number in range(50):
                await store.put(f"k{number}", "v", 1)
            clock.now += sqlite.TIDY
            await store.put("last", "v")
        with sqlite3.connect(tmp_path / "state.db") as db:
            assert db.execute("SELECT key FROM kept").fetchall() == [("last",)]
        db.close()

    run(main())


def test_the_loop_never_waits_for_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process keeps the write lock: the verb fails in time, and the loop turned all the while."""
    monkeypatch.setattr("autohedge.state.sqlite_file.BUSY", 1.0)

    async def main() -> None:
        store = SqliteStore(tmp_path / "state.db", time.time)
        async with opened(store):
            await store.put("k", "v")
            other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            turns = 0

            async def turn() -> None:
                nonlocal turns
                while True:
                    await asyncio.sleep(0.001)
                    turns += 1

            turning = asyncio.create_task(turn())
            with pytest.raises(StateLost, match="busy"):
                await store.put("k", "w")
            turning.cancel()
            assert turns > 20
            assert await store.get("k") == "v"
            other.execute("ROLLBACK")
            other.close()
            await store.put("k", "w")
            assert await store.get("k") == "w"

    run(main())


def test_a_disk_that_hangs_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what was given up while waiting for its turn is not written later."""

    async def main() -> None:
        store = SqliteStore(tmp_path / "state.db", time.time)
        async with opened(store):
            await store.put("k", "v")
            monkeypatch.setattr(sqlite, "PATIENCE", 0.05)
            store._thread.submit(time.sleep, 0.3)
            with pytest.raises(StateLost, match="does not answer"):
                await store.put("k", "w")
            monkeypatch.setattr(sqlite, "PATIENCE", 3)
            assert await store.get("k") == "v"

    run(main())


@pytest.mark.parametrize("way", ["deleted", "replaced"])
def test_a_file_that_is_taken_away_is_noticed(way: str, tmp_path: Path) -> None:
    """The next verb is lost, so that everything is written anew; a watcher ends, it would wait for ever."""

    async def main() -> None:
        path = tmp_path / "state.db"
        store = SqliteStore(path, time.time)
        async with opened(store), store.watch("t") as messages:
            for number in range(3):
                await store.publish("t", str(number))
                assert await anext(messages) == str(number)
            path.unlink()
            if way == "replaced":
                other = SqliteStore(path, time.time)
                await other.put("k", "theirs")
                await other.close()
            with pytest.raises(StateLost, match="taken away or replaced"):
                await store.get("k")
            assert await store.get("k") == (None if way == "deleted" else "theirs")
            with pytest.raises(StateLost, match="anew"):
                await anext(messages)

    run(main())


def test_a_file_that_breaks_while_it_is_used_is_replaced(tmp_path: Path) -> None:
    """Lost once, then a new file; the broken one is put aside."""

    async def main() -> None:
        path = tmp_path / "state.db"
        store = SqliteStore(path, time.time)
        async with opened(store):
            for number in range(500):
                await store.put(f"k{number}", "x" * 400)
            assert store._db is not None
            await store._do(lambda db: db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())
            await store._do(lambda db: db.execute("PRAGMA cache_size = 0").fetchall())
            with path.open("r+b") as file:
                file.seek(4096)
                file.write(b"\xff" * 200_000)

            async def read_all() -> None:
                for number in range(500):
                    await store.get(f"k{number}")

            with pytest.raises(StateLost, match="broken"):
                await read_all()
            await store.put("k", "v")
            assert await store.scan("") == {"k": "v"}
        assert (tmp_path / "state.db.broken-1").exists()

    run(main())


def test_a_read_only_file_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store = SqliteStore(tmp_path / "state.db", time.time)
        async with opened(store):
            await store.put("k", "v")
            await store._do(lambda db: db.execute("PRAGMA query_only = 1"))
            with pytest.raises(StateLost, match="read-only"):
                await store.put("k", "w")

    run(main())
    assert caplog.text == ""


def test_a_file_that_cannot_be_opened_is_told_once_with_its_path(caplog: pytest.LogCaptureFixture) -> None:
    """In the log, for the operator; the reason itself may be shown to anybody."""

    async def main() -> None:
        store = SqliteStore(Path("/proc/autohedge/state.db"), time.time)
        async with opened(store):
            for _ in range(3):
                with pytest.raises(StateLost) as caught:
                    await store.get("k")
                assert "/proc" not in caught.value.reason

    run(main())
    assert len(caplog.records) == 1
    assert "/proc/autohedge/state.db" in caplog.text


def test_who_slept_too_long_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of messages is bounded; a watcher that missed some must read everything again."""
    monkeypatch.setattr(sqlite, "KEPT", 3)

    async def main() -> None:
        store = SqliteStore(tmp_path / "state.db", time.time)
        async with opened(store), store.watch("t") as messages:
            for number in range(10):
                await store.publish("t", str(number))
            with pytest.raises(StateLost, match="missed"):
                await anext(messages)
            assert await store._do(lambda db: db.execute("SELECT count(*) FROM told").fetchone()) == (3,)

    run(main())


def test_many_messages_come_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when exactly one part is full."""
    monkeypatch.setattr(sqlite, "READ", 4)
    monkeypatch.setattr(sqlite, "POLL", 0.01)

    async def main() -> None:
        store = SqliteStore(tmp_path / "state.db", time.time)
        async with opened(store), store.watch("t") as messages:
            for number in range(12):
                await store.publish("t", str(number))
            async with asyncio.timeout(60):
                assert [await anext(messages) for _ in range(12)] == [str(number) for number in range(12)]

    run(main())


def test_kill_9_right_after_a_write_loses_nothing(tmp_path: Path) -> None:
    """WAL: what was committed is there, and the next process opens the file without repair."""
    child = Child(["tests.state.worker", "", str(tmp_path), "killed", "writes"], "READY ")
    with ending(child):
        child.send(signal.SIGKILL)
        child.process.wait()

    async def main() -> None:
        store = SqliteStore(tmp_path / "state.db", time.time)
        async with opened(store):
            assert '"value":{"by":"killed"}' in (await store.get("retired:p:*") or "")

    run(main())
    assert not list(tmp_path.glob("*broken*"))
