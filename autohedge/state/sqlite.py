"""State in a SQLite file: the store where no Redis is configured. Several workers of one machine share the file.

Rules
- One thread of its own does all work with the file; the event loop never waits for a disk.
- Time to live is a column against the clock given in (epoch seconds: it must mean the same after a restart).
- One statement, or one transaction that takes the write lock first, per verb: leases and counters are atomic over processes.
- Messages are rows of a numbered table. A watcher looks every 0.2 s whether the file changed at all (`PRAGMA data_version`, a
  look at shared memory), and reads rows only then. The table keeps the last 5,000 rows: who slept longer gets `StateLost`.
- A file that was taken away or replaced under us is noticed before the next statement: `StateLost`, then a new file.

It must not know: what is kept.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from autohedge.state.contract import Put, StateLost
from autohedge.state.sqlite_file import identity, is_busy, opened, reason_of

LOGGER = logging.getLogger(__name__)
PATIENCE = 3.0  # seconds for one verb; a disk that hangs longer is lost
POLL = 0.2  # seconds between two looks for messages
KEPT = 5_000  # messages
READ = 1_000  # messages read at once
TIDY = 60.0  # seconds between two removals of what is over

T = TypeVar("T")
_ALIVE = "(until IS NULL OR until > :now)"
_DELETE = "DELETE FROM kept WHERE key = ?"
_PUT = (
    "INSERT INTO kept (key, value, until) VALUES (:key, :value, :until) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value, until = excluded.until"
)


@dataclass(slots=True)
class _Place:
    """How far a watcher has read: in which opening of the file, up to which row, and the file's stamp at that time."""

    opened: int
    seen: int
    stamp: tuple[int, int] | None = None


class SqliteStore:
    """The contract over one file. `clock` gives epoch seconds. Nothing is opened before the first verb."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "autohedge-state")
        self._closed = False
        # Only touched on the thread:
        self._db: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._opened = 0
        self._own = 0  # our own messages, which data_version does not count
        self._tidy_at = 0.0
        self._refused = ""

    # --- the verbs ----------------------------------------------------------------------------------------------------

    async def get(self, key: str) -> str | None:
        """See the contract."""
        return await self._do(lambda db: self._value(db, key))

    async def put(self, key: str, value: str, ttl: float | None = None) -> None:
        """See the contract."""
        await self.put_all([(key, value, ttl)])

    async def put_all(self, facts: Sequence[Put]) -> None:
        """See the contract."""

        def work(db: sqlite3.Connection) -> None:
            with _written(db):
                for key, value, ttl in facts:
                    if ttl is not None and ttl <= 0:
                        db.execute(_DELETE, (key,))
                    else:
                        db.execute(_PUT, {"key": key, "value": value, "until": self._until(ttl)})
            self._tidy(db)

        await self._do(work)

    async def delete(self, key: str) -> None:
        """See the contract."""
        await self._do(lambda db: db.execute(_DELETE, (key,)))

    async def scan(self, prefix: str) -> dict[str, str]:
        """See the contract."""
        question = f"SELECT key, value FROM kept WHERE substr(key, 1, length(:prefix)) = :prefix AND {_ALIVE}"  # noqa: S608
        return await self._do(
            lambda db: dict(db.execute(question, {"prefix": prefix, "now": self._clock()}).fetchall())
        )

    async def lease(self, key: str, holder: str, seconds: float) -> bool:
        """See the contract."""
        statement = f"{_PUT} WHERE kept.value = excluded.value OR kept.until <= :now"

        def work(db: sqlite3.Connection) -> bool:
            given = {"key": key, "value": holder, "until": self._until(seconds), "now": self._clock()}
            return db.execute(statement, given).rowcount == 1

        return await self._do(work)

    async def release(self, key: str, holder: str) -> None:
        """See the contract."""
        await self._do(lambda db: db.execute("DELETE FROM kept WHERE key = ? AND value = ?", (key, holder)))

    async def publish(self, topic: str, message: str) -> None:
        """See the contract."""

        def work(db: sqlite3.Connection) -> None:
            with _written(db):
                number = db.execute("INSERT INTO told (topic, message) VALUES (?, ?)", (topic, message)).lastrowid
                assert number is not None
                db.execute("DELETE FROM told WHERE number <= ?", (number - KEPT,))
            self._own += 1

        await self._do(work)

    async def count(self, key: str, by: int, ttl: float | None = None) -> int:
        """See the contract."""

        def work(db: sqlite3.Connection) -> int:
            with _written(db):
                held = db.execute(
                    f"SELECT value, until FROM kept WHERE key = :key AND {_ALIVE}",  # noqa: S608
                    {"key": key, "now": self._clock()},
                ).fetchone()
                value, until = held or ("0", None)
                total = int(value) + by
                until = self._until(ttl) if until is None else until
                db.execute(_PUT, {"key": key, "value": str(total), "until": until})
            self._tidy(db)
            return total

        return await self._do(work)

    @asynccontextmanager
    async def watch(self, topic: str) -> AsyncIterator[AsyncIterator[str]]:
        """See the contract."""
        yield self._messages(topic, await self._do(self._here))

    async def close(self) -> None:
        """See the contract."""
        if self._closed:
            return
        self._closed = True
        with suppress(TimeoutError, sqlite3.Error):
            async with asyncio.timeout(PATIENCE):
                await asyncio.get_running_loop().run_in_executor(self._thread, self._let_go)
        self._thread.shutdown(wait=False)

    # --- messages -----------------------------------------------------------------------------------------------------

    async def _messages(self, topic: str, place: _Place) -> AsyncIterator[str]:
        while True:
            await asyncio.sleep(POLL)
            for on, message in await self._do(lambda db: self._news(db, place)):
                if on == topic:
                    yield message

    def _here(self, db: sqlite3.Connection) -> _Place:
        found = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'told'").fetchone()
        return _Place(self._opened, 0 if found is None else int(found[0]))

    def _news(self, db: sqlite3.Connection, place: _Place) -> list[tuple[str, str]]:
        """Topics and messages after `place`, which moves on."""
        if place.opened != self._opened:
            raise StateLost("the state file was opened anew")
        stamp = (db.execute("PRAGMA data_version").fetchone()[0], self._own)
        if stamp == place.stamp:
            return []
        question = "SELECT number, topic, message FROM told WHERE number > ? ORDER BY number LIMIT ?"
        rows = db.execute(question, (place.seen, READ)).fetchall()
        if rows and rows[0][0] != place.seen + 1:
            raise StateLost("messages were missed: this process slept too long")
        if rows:
            place.seen = rows[-1][0]
        place.stamp = stamp if len(rows) < READ else None
        return [(topic, message) for _, topic, message in rows]

    # --- on the thread ------------------------------------------------------------------------------------------------

    async def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on the thread. A verb that was given up while waiting its turn is not run any more."""
        if self._closed:
            raise StateLost("the store is closed")
        try:
            async with asyncio.timeout(PATIENCE):
                return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, work)
        except TimeoutError:
            raise StateLost("the disk of the state file does not answer") from None

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return work(self._open())
        except sqlite3.Error as error:
            if not is_busy(error):
                self._let_go()
            raise StateLost(reason_of(error)) from None

    def _open(self) -> sqlite3.Connection:
        if self._db is not None:
            if identity(self._path) == self._identity:
                return self._db
            self._let_go()
            raise StateLost("the state file was taken away or replaced")
        try:
            self._db, self._identity = opened(self._path)
        except StateLost as lost:
            if lost.reason != self._refused:  # the path is for the log only
                LOGGER.warning("the state file %s cannot be used: %s", self._path, lost.reason)
            self._refused = lost.reason
            raise
        self._refused = ""
        self._opened += 1
        return self._db

    def _let_go(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _value(self, db: sqlite3.Connection, key: str) -> str | None:
        found = db.execute(
            f"SELECT value FROM kept WHERE key = :key AND {_ALIVE}",  # noqa: S608
            {"key": key, "now": self._clock()},
        ).fetchone()
        return None if found is None else found[0]

    def _until(self, ttl: float | None) -> float | None:
        return None if ttl is None else self._clock() + ttl

    def _tidy(self, db: sqlite3.Connection) -> None:
        now = self._clock()
        if now >= self._tidy_at:
            self._tidy_at = now + TIDY
            db.execute("DELETE FROM kept WHERE until <= ?", (now,))


@contextmanager
def _written(db: sqlite3.Connection) -> Iterator[None]:
    """One transaction that has the write lock from its start, so that nothing comes between reading and writing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # SQLite ends it by itself when the disk is full
            db.execute("ROLLBACK")
        raise
