"""Which sources look for backends, and that each of them is looked at for ever.

What it decides: the sources that a configuration asks for, their names, and their precedence where two report one endpoint.

It must not know: what becomes of a sweep (`swept` is given in), requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from autohedge.core.types import BackendSpec, Sweep
from autohedge.fallback import chains
from autohedge.settings.endpoints import parse as parse_endpoints
from autohedge.settings.model import Settings
from autohedge.sources.contract import Source
from autohedge.sources.file import FileSource
from autohedge.sources.static import StaticSource
from autohedge.sources.watch import watch

STATIC, FILE = "static", "file"
ORDER = (STATIC, FILE)  # the first that reports an endpoint has the first word about it
STEADY = 60.0  # seconds between looks at what tells its changes by itself

Swept = Callable[[str, Sweep], object]
ReadFile = Callable[[str], str]


class Discovery:
    """The sources of `settings`; `run` looks at them all until cancelled, and every sweep goes to `swept`."""

    def __init__(self, settings: Settings, env: Mapping[str, str], read_file: ReadFile, swept: Swept) -> None:
        self._swept = swept
        self._static = StaticSource(declared(settings), STATIC)
        self._watched: list[tuple[Source, float]] = [(self._static, STEADY)]
        file = settings.sources.file
        if file.path:
            parse = partial(parse_endpoints, file=file.path, env=env, read_file=read_file)
            self._watched.append((FileSource(file.path, parse, file.interval, FILE), file.interval))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for source, interval in self._watched:
                group.create_task(watch(source, interval, self._swept))

    def reload(self, settings: Settings) -> None:
        """Take over the backends of a new configuration; other sources take a restart to change."""
        self._static.reload(declared(settings))


def declared(settings: Settings) -> tuple[BackendSpec, ...]:
    """Every backend of the configuration: the registry's, and those that only a fallback chain names."""
    return (*settings.backends(), *chains(settings).backends)
