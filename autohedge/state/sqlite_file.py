"""The SQLite file itself: opening it, telling whose it is, and putting a broken one aside.

Rules
- A missing folder and a missing file are made.
- A broken file is renamed to `<name>.broken-<number>` with a warning, and a new one takes its place: what was in it is lost to
  AutoHedge, not to people. The database of another program is never touched.
- Workers start at the same moment: one of them repairs while the others wait (a lock on `<name>.lock`), or the second
  would put aside what the first has just made.
- WAL with synchronous=NORMAL: what was committed survives kill -9; only a power cut may take the last moments.

It must not know: what is kept, the event loop. Everything here blocks and runs on the store's own thread.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autohedge.state.contract import StateLost

LOGGER = logging.getLogger(__name__)
BUSY = 1.0  # seconds that one statement waits for the writers of other processes
OURS = 0x41484447  # "AHDG": SQLite's application_id of our files
VERSION = 1

_TABLES = (
    "CREATE TABLE IF NOT EXISTS kept (key TEXT PRIMARY KEY, value TEXT NOT NULL, until REAL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS kept_until ON kept (until) WHERE until IS NOT NULL",
    "CREATE TABLE IF NOT EXISTS told (number INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, message TEXT NOT NULL)",
    f"PRAGMA application_id = {OURS}",
    f"PRAGMA user_version = {VERSION}",
)
_BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_REASONS = {
    sqlite3.SQLITE_READONLY: "the state file or its folder is read-only",
    sqlite3.SQLITE_CANTOPEN: "the state file cannot be opened",
    sqlite3.SQLITE_PERM: "the state file may not be opened",
    sqlite3.SQLITE_FULL: "the disk of the state file is full",
    sqlite3.SQLITE_BUSY: "the state file is busy",
    sqlite3.SQLITE_LOCKED: "the state file is busy",
    sqlite3.SQLITE_IOERR: "the disk of the state file fails",
    sqlite3.SQLITE_CORRUPT: "the state file is broken",
    sqlite3.SQLITE_NOTADB: "the state file is broken",
}


def reason_of(error: sqlite3.Error) -> str:
    """What SQLite's error means, without paths and statements."""
    code = _primary(error)
    return _REASONS.get(code, f"the state file fails (SQLite error {code})")


def is_busy(error: sqlite3.Error) -> bool:
    """Whether only another writer was in the way, so that the connection is as good as before."""
    return _primary(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def _primary(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def identity(path: Path) -> tuple[int, int] | None:
    """Which file stands at `path`, None when there is none: a file that was put aside keeps its open connections."""
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_dev, seen.st_ino


def opened(path: Path) -> tuple[sqlite3.Connection, tuple[int, int] | None]:
    """A connection to a sound file with our tables, and the file's identity. Raises StateLost."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(path.with_name(f"{path.name}.lock")):
            return _sound(path), identity(path)
    except OSError as error:
        why = "is read-only" if isinstance(error, PermissionError) else f"cannot be used ({error.strerror})"
        raise StateLost(f"the folder of the state file {why}") from None
    except sqlite3.Error as error:
        raise StateLost(reason_of(error)) from None


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Be the only process that opens the file. Waits up to BUSY seconds."""
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        for _ in range(round(BUSY / 0.01)):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01)
        else:
            raise StateLost("the state file is busy: another process is opening it")
        yield
    finally:
        os.close(handle)


def _sound(path: Path) -> sqlite3.Connection:
    try:
        return _connected(path)
    except sqlite3.DatabaseError as error:
        if _primary(error) not in _BROKEN:
            raise
    _put_aside(path)
    return _connected(path)


def _connected(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=BUSY, isolation_level=None)
    try:
        _check_owner(db)
        mode = db.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":  # a network file system
            LOGGER.warning("the state file %s cannot use WAL (%s): workers may wait for each other", path, mode)
        db.execute("PRAGMA synchronous=NORMAL")
        found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise _broken(found)
        db.execute("BEGIN IMMEDIATE")
        for statement in _TABLES:
            db.execute(statement)
        db.execute("COMMIT")
    except BaseException:
        db.close()
        raise
    return db


def _check_owner(db: sqlite3.Connection) -> None:
    """Before anything is written: an operator's slip must not cost another program its database."""
    (owner,) = db.execute("PRAGMA application_id").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if tables and owner != OURS:
        raise StateLost("the state file is the database of another program")
    if owner == OURS and version > VERSION:
        raise StateLost("the state file was written by a newer AutoHedge")


def _broken(found: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(found)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _put_aside(path: Path) -> None:
    """Rename the file with its journal, so that a person can look at it."""
    number = 1
    while (aside := path.with_name(f"{path.name}.broken-{number}")).exists():
        number += 1
    for suffix in ("", "-wal", "-shm"):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(aside.with_name(aside.name + suffix))
    LOGGER.warning("the state file %s is broken: it is now %s, and a new, empty one is made", path, aside.name)
