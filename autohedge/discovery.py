"""Which sources look for backends, and that each of them is looked at for ever.

What it decides: the sources that a configuration asks for, their names, and their precedence where two report one endpoint.

It must not know: what becomes of a sweep, requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from autohedge.core.types import BackendSpec, Sweep
from autohedge.fallback import chains
from autohedge.rules.resolving import Family
from autohedge.settings.endpoints import parse as parse_endpoints
from autohedge.settings.model import Settings
from autohedge.sources.contract import Source
from autohedge.sources.dns import Asking, DnsSource, named
from autohedge.sources.file import FileSource
from autohedge.sources.static import StaticSource
from autohedge.sources.watch import watch
from autohedge.sources.workers import WorkersSource

STATIC, FILE, WORKERS, SWARM, DOCKER = "static", "file", "workers", "swarm", "docker"
ORDER = (STATIC, FILE, WORKERS, SWARM, DOCKER)  # the first that reports an endpoint has the first word about it
STEADY = 60.0  # seconds between looks at what tells its changes by itself

ReadFile = Callable[[str], str]


class Told(NamedTuple):
    """Who is told what: every sweep with its source's name, and the name of a source that a reload took away."""

    swept: Callable[[str, Sweep], object]
    gone: Callable[[str], object]


class Watched(NamedTuple):
    """A source, the seconds between its looks, and what ends that which it has running beside the loop."""

    source: Source
    interval: float
    close: Callable[[], None] = lambda: None


def elsewhere(settings: Settings, env: Mapping[str, str], read_file: ReadFile) -> list[Watched]:
    """The sources that look outside of the configuration and of this process."""
    found: list[Watched] = []
    file, swarm, docker = settings.sources.file, settings.sources.swarm, settings.sources.docker
    if file.path:
        parse = partial(parse_endpoints, file=file.path, env=env, read_file=read_file)
        found.append(Watched(FileSource(file.path, parse, file.interval, FILE), file.interval))
    # Docker's SDK takes 100 ms and 6 MB: only those who use it pay for it.
    if swarm.enabled:
        from autohedge.sources.swarm import swarm_source  # noqa: PLC0415

        source = swarm_source(swarm, SWARM)
        found.append(Watched(source, swarm.interval, source.close))
    if docker.enabled:
        from autohedge.sources.docker import docker_source  # noqa: PLC0415

        source = docker_source(docker, DOCKER)
        found.append(Watched(source, docker.interval, source.close))
    return found


def asking_of(settings: Settings) -> Asking:
    """How names are asked."""
    dns = settings.sources.dns
    return Asking(Family(dns.family), dns.confirm, dns.timeout)


class Discovery:
    """The sources of `settings`; `run` looks at them all until cancelled, and tells of every sweep. `workers` is made by
    whoever registers at it.
    """

    def __init__(
        self, settings: Settings, env: Mapping[str, str], read_file: ReadFile, told: Told, workers: WorkersSource
    ) -> None:
        self._told = told
        self._static = StaticSource(declared(settings), STATIC)
        self._workers = workers
        workers.swept = told.swept
        workers.reload(settings.workers.static, persist=settings.workers.persist)
        self._watched = [Watched(self._static, STEADY), Watched(workers, STEADY), *elsewhere(settings, env, read_file)]
        self._asking = asking_of(settings)
        self._every = settings.sources.dns.interval
        self._behind_names = settings.backends(resolve=True)
        self._reloaded = asyncio.Event()

    @property
    def names(self) -> set[str]:
        """Every source that will tell something."""
        return {watched.source.name for watched in self._watched} | set(map(named, self._behind_names))

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for watched in self._watched:
                    group.create_task(watch(watched.source, watched.interval, self._told.swept))
                await self._follow_names(group)
        finally:
            for watched in self._watched:
                watched.close()

    def reload(self, settings: Settings) -> None:
        """Take over the backends of a new configuration; the section `sources` takes a restart to change."""
        self._static.reload(declared(settings))
        self._workers.reload(settings.workers.static, persist=settings.workers.persist)
        self._behind_names = settings.backends(resolve=True)
        self._reloaded.set()

    async def _follow_names(self, group: asyncio.TaskGroup) -> None:
        """One source for each backend behind names: started, and ended, as the configuration names it."""
        running: dict[str, tuple[DnsSource, BackendSpec, asyncio.Task[None]]] = {}
        while True:
            self._reloaded.clear()
            wanted = {spec.name: spec for spec in self._behind_names}
            for name, (source, spec, task) in list(running.items()):
                if wanted.get(name) != spec:
                    task.cancel()
                    source.close()
                    del running[name]
                    if name not in wanted:
                        self._told.gone(source.name)
            for name, spec in wanted.items():
                if name not in running:
                    source = DnsSource(spec, self._asking)
                    task = group.create_task(watch(source, self._every, self._told.swept))
                    running[name] = (source, spec, task)
            await self._reloaded.wait()


def declared(settings: Settings) -> tuple[BackendSpec, ...]:
    """Every backend of the configuration: the registry's, and those that only a fallback chain names."""
    return (*settings.backends(), *chains(settings).backends)
