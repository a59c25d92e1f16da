"""The backends of a file that is edited while we run: AIBrix's endpoints list, or our own shape.

Rules
- The file is read again on every look; it is parsed only when its content changed.
- A file that is missing, cannot be read, is no UTF-8, is over `LIMIT`, or has a mistake in it makes the source Blind with the
  reason, so the last good content stays in force (B26). AIBrix reads its file once and never again.
- `hint` looks at the file's stamp every `interval` seconds; an editor that replaces the file is seen as well.
- Reading happens on a thread: a file on a network disk that hangs must not hold up requests.

It must not know: how a file is parsed (`parse` is given in).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from autohedge.core.types import Blind, Seen, Sweep
from autohedge.settings.errors import ConfigErrors

LIMIT = 8 << 20  # bytes

Parse = Callable[[str], Seen]
Stamp = tuple[int, int, int]


class FileSource:
    """Follows `path`. `parse` turns its text into backends; it raises ConfigErrors or ValueError for a file with mistakes.

    `interval` is seconds between two looks at the file's stamp.
    """

    def __init__(self, path: str, parse: Parse, interval: float = 2.0, name: str = "file") -> None:
        self.name = name
        self._path = Path(path)
        self._parse = parse
        self._interval = interval
        self._stamp: Stamp | None = None
        self._content: bytes | None = None
        self._sweep: Sweep = Blind("not read yet")

    async def look(self) -> Sweep:
        """The file's backends, or why they cannot be told."""
        try:
            self._stamp, content = await asyncio.to_thread(_read, self._path)
        except OSError as error:
            self._stamp = self._content = None
            return Blind(f"cannot read {self._path}: {error.strerror or error}")
        if content != self._content:
            self._sweep = self._parsed(content)
            self._content = content
        return self._sweep

    async def hint(self) -> None:
        """Wait until the file's stamp is another one than at the last look."""
        while True:
            await asyncio.sleep(self._interval)
            try:
                stamp: Stamp | None = await asyncio.to_thread(_stamp, self._path)
            except OSError:
                stamp = None
            if stamp != self._stamp:
                return

    def _parsed(self, content: bytes) -> Sweep:
        if len(content) > LIMIT:
            return Blind(f"{self._path} is over {LIMIT >> 20} MiB")
        try:
            return self._parse(content.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            return Blind(f"{self._path} is not UTF-8 (byte {error.start})")
        except (ConfigErrors, ValueError) as error:
            return Blind(str(error) or f"{self._path} cannot be parsed")


def _stamp(path: Path) -> Stamp:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _read(path: Path) -> tuple[Stamp, bytes]:
    """Stamp first: a change while we read is then seen as one more change."""
    stamp = _stamp(path)
    with path.open("rb") as file:
        return stamp, file.read(LIMIT + 1)
