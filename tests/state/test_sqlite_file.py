"""The SQLite file: made, repaired, refused; never another program's."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from autohedge.state import sqlite_file
from autohedge.state.contract import StateLost
from autohedge.state.sqlite_file import identity, is_busy, opened, reason_of


def use(path: Path) -> list[tuple[str, str]]:
    """Open the file, put a row, and return all rows."""
    db, seen = opened(path)
    assert seen == identity(path)
    db.execute("INSERT OR REPLACE INTO kept VALUES ('k', 'v', NULL)")
    rows = db.execute("SELECT key, value FROM kept ORDER BY key").fetchall()
    db.close()
    return rows


def test_a_missing_folder_is_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "state.db"
    assert use(path) == [("k", "v")]
    assert use(path) == [("k", "v")]


def test_it_is_in_wal_mode(tmp_path: Path) -> None:
    """So that readers never wait for writers, and kill -9 costs nothing."""
    db, _ = opened(tmp_path / "state.db")
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert db.execute("PRAGMA synchronous").fetchone() == (1,)
    db.close()


def garbage(path: Path) -> None:
    path.write_bytes(b"this is no database" * 100)


def header_only(path: Path) -> None:
    use(path)
    path.write_bytes(path.read_bytes()[:60])


def torn_page(path: Path) -> None:
    db, _ = opened(path)
    db.executemany("INSERT INTO kept VALUES (?, ?, NULL)", [(f"key {n}", "x" * 500) for n in range(200)])
    db.close()
    body = bytearray(path.read_bytes())
    body[3 * 4096 : 12 * 4096] = os.urandom(9 * 4096)
    path.write_bytes(body)


@pytest.mark.parametrize("spoil", [garbage, header_only, torn_page])
def test_a_broken_file_is_put_aside(spoil: object, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Renamed, not deleted, with one warning; the new file works."""
    assert callable(spoil)
    path = tmp_path / "state.db"
    spoil(path)
    broken = path.read_bytes()
    assert use(path) == [("k", "v")]
    assert (tmp_path / "state.db.broken-1").read_bytes() == broken
    assert [record.getMessage() for record in caplog.records] == [
        f"the state file {path} is broken: it is now state.db.broken-1, and a new, empty one is made"
    ]


def test_an_earlier_broken_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    for number in (1, 2):
        garbage(path)
        use(path)
        assert (tmp_path / f"state.db.broken-{number}").exists()


def test_the_journal_goes_with_its_file(tmp_path: Path) -> None:
    """A journal of the old file beside the new one would break that one, too."""
    path = tmp_path / "state.db"
    for suffix in ("", "-wal", "-shm"):
        path.with_name(f"state.db{suffix}").write_text(suffix)
    sqlite_file._put_aside(path)
    found = {each.name: each.read_text() for each in tmp_path.iterdir()}
    assert found == {"state.db.broken-1": "", "state.db.broken-1-wal": "-wal", "state.db.broken-1-shm": "-shm"}


def test_workers_that_start_together_repair_once(tmp_path: Path) -> None:
    """The second must not put aside what the first has just made."""
    path = tmp_path / "state.db"
    garbage(path)
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(use, [path] * 8)) == [[("k", "v")]] * 8
    assert [found.name for found in sorted(tmp_path.glob("*broken*"))] == ["state.db.broken-1"]


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    """An operator's slip in state.url."""
    path = tmp_path / "grafana.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE dashboards (id INTEGER)")
    db.commit()
    db.close()
    before = path.read_bytes()
    with pytest.raises(StateLost, match="another program"):
        opened(path)
    assert path.read_bytes() == before


def test_the_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    db, _ = opened(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StateLost, match="newer"):
        opened(path)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/proc/autohedge/state.db", "the folder of the state file cannot be used"),
        ("file/state.db", "the folder of the state file cannot be used"),
        ("folder", "the state file cannot be opened"),
    ],
)
def test_what_cannot_be_opened_is_told_without_its_path(path: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StateLost) as caught:
        opened(tmp_path / path)
    assert caught.value.reason.startswith(reason)
    assert str(tmp_path) not in caught.value.reason


def test_a_read_only_folder_is_told() -> None:
    """In a process of its own that is not root: to root nothing is read-only."""
    code = (
        "import os, sys; from pathlib import Path; from autohedge.state.sqlite_file import opened\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "try: opened(Path(sys.argv[1]))\n"
        "except Exception as error: print(repr(error))"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.db"
        opened(path)[0].close()
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        said = subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True)
        Path(folder).chmod(0o755)
    assert said.stdout == "StateLost('the folder of the state file is read-only')\n"


def test_a_stuck_repair_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen worker holds the lock."""
    monkeypatch.setattr(sqlite_file, "BUSY", 0.05)
    with (tmp_path / "state.db.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StateLost, match="busy"):
            opened(tmp_path / "state.db")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (sqlite3.SQLITE_READONLY_DBMOVED, "read-only"),
        (sqlite3.SQLITE_FULL, "full"),
        (sqlite3.SQLITE_IOERR_WRITE, "disk"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "busy"),
        (sqlite3.SQLITE_MISUSE, "SQLite error 21"),
    ],
)
def test_errors_are_told_by_their_code(code: int, text: str) -> None:
    """SQLite's own words may hold paths; extended codes count as their kind."""
    error = sqlite3.OperationalError("/secret/path")
    error.sqlite_errorcode = code
    assert text in reason_of(error)
    assert "secret" not in reason_of(error)
    assert is_busy(error) is ("busy" in text)


def test_an_error_without_a_code_is_told() -> None:
    assert reason_of(sqlite3.ProgrammingError("x")) == "the state file fails (SQLite error 0)"
