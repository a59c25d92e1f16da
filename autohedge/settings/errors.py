"""The one exception of the settings: every mistake of a configuration at once, each with its line.

Rules
- An error never quotes a value that came from `${...}`: it may be a credential.
- `str()` is made for a terminal: "config.yaml:12: server.listen: ...", one error a line, in the order of the file.

It must not know: how the mistakes were found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def dotted(path: str, part: str | int) -> str:
    """`path` with one more step: "a.b", "a[0]", or 'a["x/y.z"]' where the key is not a bare word."""
    if isinstance(part, int):
        return f"{path}[{part}]"
    if not _BARE.fullmatch(part):
        return f'{path}["{part}"]'
    return f"{path}.{part}" if path else part


@dataclass(frozen=True, slots=True)
class ConfigError:
    """One mistake. `line` is None when it is not in the file; `path` is the key as the operator wrote it, "" for the whole file."""

    line: int | None
    path: str
    message: str


class ConfigErrors(Exception):  # noqa: N818 - it is many
    """Why a configuration cannot be used. `file` is its name as it was given, "" when there is no file."""

    def __init__(self, file: str, errors: Iterable[ConfigError]) -> None:
        self.file = file
        self.errors = tuple(sorted(set(errors), key=lambda e: (e.line is None, e.line or 0, e.path, e.message)))
        super().__init__("\n".join(self._shown(error) for error in self.errors))

    def _shown(self, error: ConfigError) -> str:
        place = f"{self.file}:{error.line}" if error.line is not None else self.file if not error.path else ""
        return ": ".join(part for part in (place, error.path, error.message) if part)
