"""The configuration file, when it is loaded again, and which of its settings only count at the start.

Rules: on SIGHUP, and when the text of the file changed; the text is what counts, not its date. What becomes of the new text
is the caller's business.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

from autohedge.settings.model import Settings

POLL = 1.0  # seconds between looks at the file

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
            if text_of(path) == text:
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


def text_of(path: str) -> str | None:
    try:
        return read_file(path)
    except (OSError, UnicodeDecodeError):
        return None
