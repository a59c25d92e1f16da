"""The configuration file, when it is loaded again, and which of its settings only count at the start.

Rules: on SIGHUP, and when the text of the file changed; the text is what counts, not its date. What becomes of the new text
is the caller's business. A file that changes may be in the middle of being written: its text counts when a second look finds
it again, and a configuration with nothing in it is not taken for one that wants nothing.
"""

from __future__ import annotations

import asyncio
import errno
import signal
from collections.abc import Callable
from pathlib import Path

from autohedge.settings.model import Settings

POLL = 0.8  # seconds between looks at the file
SETTLED = 0.2  # seconds in which a new text must stay the same

# Settings that are used once, at the start.
RESTART = (
    "server.listen",
    "server.log_format",
    "server.workers",
    "server.cors",
    "server.grace",
    "server.drain",
    "timeouts.connect",
    "timeouts.acknowledge",
    "timeouts.count",
    "timeouts.body",
    "sources",
    "learning",
    "state",
    "failover.budget_ratio",
    "failover.budget_rate",
    "breaker",
    "health",
    "startup",
    "probe.enabled",
    "probe.external",
    "probe.light_interval",
    "alerts",
)


async def follow(path: str, changed: Callable[[], object]) -> None:
    """Call `changed` after each change of the file and on each SIGHUP, until cancelled."""
    hangup = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hangup.set)
    text = text_of(path)
    while True:
        try:
            async with asyncio.timeout(POLL):
                await hangup.wait()
        except TimeoutError:
            seen = text_of(path)
            if seen == text:
                continue
            await asyncio.sleep(SETTLED)
            if text_of(path) != seen:
                continue
        hangup.clear()
        text = text_of(path)
        changed()


def unheard(old: Settings, new: Settings) -> list[str]:
    """The settings that differ and take a restart."""
    return [name for name in RESTART if _at(new, name) != _at(old, name)]


def _at(settings: Settings, path: str) -> object:
    value: object = settings
    for name in path.split("."):
        value = getattr(value, name)
    return value


def read_file(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def read_again(config: str | None) -> Callable[[str], str]:
    """How files are read for a configuration that runs already. The file itself raises OSError when nothing stands in it."""

    def read(path: str) -> str:
        text = read_file(path)
        if path == config and not text.strip():
            raise OSError(errno.ENODATA, "it is empty")
        return text

    return read


def text_of(path: str) -> str | None:
    try:
        return read_file(path)
    except (OSError, UnicodeDecodeError):
        return None
