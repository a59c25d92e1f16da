"""Commands of the machine, run to their end: what they print, or an error that shows their last words."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 120.0
LAST_WORDS = 3000  # characters of a failed command's output that its error shows


class CommandError(RuntimeError):
    """A command that did not end with 0."""

    def __init__(self, words: Sequence[str], code: int, output: str) -> None:
        super().__init__(f"{' '.join(words)} ended with {code}:\n{output[-LAST_WORDS:]}")
        self.code, self.output = code, output


def run(
    *words: str,
    timeout: float = PATIENCE,
    env: Mapping[str, str] | None = None,
    given: str | None = None,
    cwd: Path | None = None,
) -> str:
    """Run a command; its standard output without the last newline. Raises CommandError."""
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        env={**os.environ, **(env or {})},
        input=given,
        cwd=cwd,
        stdin=subprocess.DEVNULL if given is None else None,
    )
    if done.returncode:
        raise CommandError(words, done.returncode, done.stdout + done.stderr)
    return done.stdout.rstrip("\n")


def tried(*words: str, timeout: float = PATIENCE) -> bool:
    """Run a command that may fail; whether it ended with 0."""
    try:
        run(*words, timeout=timeout)
    except (CommandError, subprocess.TimeoutExpired, FileNotFoundError):
        return False
    return True


def until(look: Callable[[], T], within: float = 30.0, every: float = 0.05, what: str = "") -> T:
    """Look until something true is seen, and return it. Raises TimeoutError with what was seen last."""
    end = time.monotonic() + within
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > end:
            raise TimeoutError(f"not within {within} s: {what or look}; last seen: {seen!r}")
        time.sleep(every)
