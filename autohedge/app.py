"""Where the house is built and wired: the only place that makes parts, reads clocks and draws random numbers.

One task group owns every background task; when one of them fails, the process says so and ends. Reload (SIGHUP, or a
changed file) builds new settings first and swaps them in as a whole; a file that does not load leaves everything as it was.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import random
import secrets
import signal
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import uvloop
from prometheus_client import ProcessCollector

from autohedge import __version__
from autohedge.attempt import Attempter
from autohedge.core.types import Candidate, Door, Judgement, Kind, Outcome, Sweep
from autohedge.discovery import ORDER, WORKERS, Discovery, Told
from autohedge.doors.access import Gatekeeper, verifier
from autohedge.doors.access_log import AccessLog, to_stdout
from autohedge.doors.admin import AdminWorld, admin_routes
from autohedge.doors.edge import Edge
from autohedge.doors.status import Standing, status_app
from autohedge.doors.workers import workers_routes
from autohedge.examiner import Examiner, bounds_of
from autohedge.fallback import chains
from autohedge.listening import Server, server_config, tell_ready
from autohedge.memory.affinity import Affinity
from autohedge.memory.cooling import Cooling
from autohedge.memory.exposition import View, exposition
from autohedge.memory.health import Health
from autohedge.memory.meters import Meters
from autohedge.memory.registry import Registry
from autohedge.memory.retired import MERGES, News, Retirements
from autohedge.memory.tuning import rules_of
from autohedge.parent import end_with_parent
from autohedge.pools import Pools
from autohedge.relay import Relay
from autohedge.reloading import follow, read_again, read_file, unheard
from autohedge.rules.budget import RetryBudget
from autohedge.rules.probes import Probed
from autohedge.rules.reach import may_connect
from autohedge.rules.retirement import Retired
from autohedge.rules.standing import Transition
from autohedge.settings.effective import render
from autohedge.settings.load import ConfigErrors, load
from autohedge.settings.model import Settings
from autohedge.sharing import Sharing
from autohedge.sources.workers import WorkersSource
from autohedge.speaking import Speaker
from autohedge.state.opening import open_store
from autohedge.state.resilient import Shared
from autohedge.tools import Tools
from autohedge.waiting import WaitingRoom
from autohedge.watchers.alerting import Alerting, channels
from autohedge.watchers.asking import Asker
from autohedge.watchers.gate import Gate
from autohedge.watchers.learning import Learner, Pace
from autohedge.watchers.means import Hooks, Means
from autohedge.watchers.probers import Probers
from autohedge.watchers.rechecking import Rechecker
from autohedge.wire.binding import listen
from autohedge.wire.outbox import Outbox
from autohedge.workers import BOOT, PARENT, WORKER

LOGGER = logging.getLogger("autohedge")
FIRST_LOOK = 0.7  # seconds before serving in which engines may introduce themselves
Ready = Callable[[str], None]


def run(settings: Settings, config: str | None, env: Mapping[str, str], on_ready: Ready | None = None) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code: 1 when the port is taken."""
    to_stdout()
    if WORKER in env:
        end_with_parent(int(env[PARENT]), signal.SIGTERM)
    house = House(settings, config, env)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(house.run(on_ready or _announce))


def _announce(url: str) -> None:
    LOGGER.info("AutoHedge %s listens on %s", __version__, url)


class House:
    """All parts of one process. `run` is its life."""

    def __init__(self, settings: Settings, config: str | None, env: Mapping[str, str]) -> None:
        self.config = config
        self.env = env
        self.settings = settings
        self.registry = Registry(ORDER)
        self.meters = Meters(lambda: self.registry.snapshot.routes)
        self.standing = Standing(__version__)
        self.outbox = Outbox()
        timeouts = settings.timeouts
        self.pools = Pools(timeouts.connect, timeouts.acknowledge, self._may_connect, self.outbox)
        self._settled = -1  # the snapshot that all parts have settled to
        self._counter = itertools.count(1)
        self._prefix = secrets.token_hex(8)
        self.boot = env.get(BOOT) or self._prefix  # this start of the service; its processes share it

    def new_id(self) -> bytes:
        """A request id: unique per process by its prefix, cheap by its counter."""
        return f"{self._prefix}-{next(self._counter):x}".encode()

    async def run(self, on_ready: Ready) -> int:
        self.clock = time.monotonic  # not loop.time: uvloop's has steps of a millisecond
        try:
            listener = listen(self.settings.server.bind, shared=WORKER in self.env)
        except OSError as error:
            LOGGER.error("cannot listen on %s: %s", self.settings.server.listen, error.strerror)
            return 1
        async with Asker(self.settings.learning.timeout, guard=self._may_connect) as asker:
            self._wire(asker)
            _calm_collector()
            self.server = server = Server(
                server_config(self.edge, self.settings, self.outbox), self._drain, self.settings.server.drain
            )
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._ended)
            try:
                async with asyncio.TaskGroup() as group:
                    watchers = group.create_task(self._watch())
                    await self._first_look()
                    group.create_task(tell_ready(server, listener.getsockname(), on_ready))
                    await server.serve([listener])
                    watchers.cancel()
            finally:
                self.tools.examiner.close()
                self.pools.keep_only({})
                await self.shared.close()
        return 0

    def _drain(self) -> None:
        """From now on `/readiness` says 503 to those who still have a connection."""
        self.standing.draining = True

    def stop(self) -> None:
        """Take no new connection, let running requests end within `server.grace`, then leave `run`."""
        self._drain()
        self.server.should_exit = True

    def _ended(self, _number: int, _frame: object) -> None:
        """A signal before the server listens to them; and once more when all is done, since uvicorn raises it again."""
        self.stop()

    # --- wiring -----------------------------------------------------------------------------------------------------

    def _wire(self, asker: Asker) -> None:
        self.asker = asker
        settings = self.settings
        state = settings.state
        store = open_store(state.url, state.prefix, Path(self.env.get("AUTOHEDGE_DATA") or "."), time.time)
        host = socket.gethostname()
        self.shared = Shared(store, f"{host}-{self._prefix}", time.time, MERGES)
        sends = channels(settings.alerts, asker, time.time, host)
        self.alerting = Alerting(settings.alerts, sends, time.time, host, self.shared.lease)
        self.speaker = Speaker(self.alerting, time.time)
        self.shared.on_lost(self.speaker.state)
        self.retirements = Retirements(self.shared, time.time, self._retirement)
        self.room = WaitingRoom(settings.queue.size)
        self.workers = WorkersSource(self.shared, self.boot, time.time, WORKERS)
        told = Told(self._swept, self._source_gone)
        self.discovery = Discovery(settings, self.env, read_file, told, self.workers)
        rules = rules_of(settings, self._has_spare, self._yields)
        self.health = Health(random.random, None, self._health_changed, rules)
        self.sharing = Sharing(self.shared, self.health, self.clock, time.time)
        if WORKER in self.env:
            self.sharing.count(f"{host}:{self.env[WORKER]}", self._counted)
        pace = Pace(settings.learning.interval, settings.learning.parallel, settings.timeouts.count)
        self.learner = Learner(self.registry, asker, time.time, pace)
        barred = self.retirements.reason_against
        hooks = Hooks(self.sharing.may_probe, self._probed, self.learner.poke, self.room.freed, self._gone, barred)
        self.probers = Probers(Means(self.registry, self.health, asker, random.random, hooks), settings)
        silent, startup = (lambda: self.learner.silent), settings.startup
        self.rechecker = Rechecker(self.retirements, self.registry, asker, time.time, lambda: self.sharing.leads)
        self.gate = Gate(self.registry, self.health, startup, silent=silent, poke=self._ask_again)
        self.sharing.waits = lambda: not self.gate.open
        self.tools = Tools(
            settings=settings,
            chains=chains(settings),
            registry=self.registry,
            health=self.health,
            examiner=Examiner(bounds_of(settings), self._kinds),
            learner=self.learner,
            attempter=Attempter(
                self.pools.of, self.clock, settings.timeouts, self.room.freed, settings.probe.degenerate
            ),
            room=self.room,
            retries=RetryBudget(settings.failover.budget_ratio, settings.failover.budget_rate),
            meters=self.meters,
            retirements=self.retirements,
            cooling=Cooling(self.shared),
            shared=self.shared,
            affinity=Affinity(),
            exhausted=self.speaker.exhausted,
            clock=self.clock,
            wall=time.time,
        )
        management = status_app(self.tools, self.standing, self._scrape, self.new_id)
        self.relay = Relay(self.tools)
        mark = f"autohedge-{self.boot}".encode()
        self.edge = Edge(self.relay, management, AccessLog(settings.server.access_log), self.new_id, mark)
        self.edge.gate = self.standing.gate = self.gate
        self.edge.keeper = self._keeper(settings)
        world = AdminWorld(self.reload, self._effective, self.sharing.force, lambda: {"lost": self.alerting.lost})
        management.include_router(admin_routes(self.tools, world))
        management.include_router(workers_routes(self.tools, self.workers, self.sharing.others_counted))

    def _may_connect(self, address: str) -> bool:
        """Whether a worker that was registered over HTTP may be there."""
        return may_connect(address, self.settings.workers.networks)

    def _kinds(self) -> frozenset[Kind]:
        return frozenset(candidate.kind for candidate in self.registry.snapshot.everybody())

    def _health_changed(self, candidate: Candidate, transition: Transition) -> None:
        self.speaker.health(candidate, transition)
        self.sharing.changed(candidate, transition)

    def _retirement(self, fact: Retired, news: News) -> None:
        self.speaker.retirement(fact, news)
        if news is News.HEARD:
            self.relay.adapt(fact)

    def _keeper(self, settings: Settings) -> Gatekeeper:
        url = settings.auth.verify_url
        return Gatekeeper(settings.auth, self.clock, verifier(self.asker, url) if url else None)

    def _effective(self) -> str:
        return render(load(self.config, self.env, read_file))

    def _yields(self) -> float:
        return self.sharing.yields()

    def _has_spare(self, candidate: Candidate) -> bool:
        return self.tools.chains.spares(candidate)

    def _probed(self, candidate: Candidate, probe: Probed) -> None:
        self.meters.probe(candidate.backend.name, candidate.served, probe.verdict)
        self.sharing.probed(candidate, probe)

    def _gone(self, candidate: Candidate, judgement: Judgement, outcome: Outcome, door: Door) -> None:
        self.relay.gone(candidate, judgement, outcome, door)

    def _ask_again(self, replica: str) -> None:
        self.learner.poke(replica)
        self.probers.poke(replica)

    def _scrape(self) -> bytes:
        snapshot = self.registry.snapshot
        meters = Meters().merge(self._counted())
        for other in self.sharing.others_counted():
            meters.merge(other)
        return exposition(View(meters, snapshot, time.time(), __version__), [ProcessCollector(registry=None)])

    def _counted(self) -> dict[str, Any]:
        return self.meters.dump((name, replica.seat) for name, replica in self.registry.snapshot.replicas.items())

    async def _first_look(self) -> None:
        """Let every engine that answers at once be heard before the first request is; connections wait in the backlog."""
        until = self.clock() + FIRST_LOOK
        await self.shared.ready(FIRST_LOOK)
        while self.clock() < until:
            await asyncio.sleep(0.01)
            snapshot = self.registry.snapshot
            if snapshot.sources.keys() >= self.discovery.names and all(
                name in snapshot.lessons or name in self.learner.silent for name in snapshot.replicas
            ):
                return

    # --- background -------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Every background task of the process: sources, learning, the configuration file."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.shared.run())
            group.create_task(self.sharing.run())
            group.create_task(self.alerting.run())
            group.create_task(self.rechecker.run())
            group.create_task(self.probers.run())
            group.create_task(self.gate.run())
            group.create_task(self.discovery.run())
            group.create_task(self.learner.run())
            if self.config is not None:
                group.create_task(follow(self.config, self.reload))

    def _swept(self, name: str, sweep: Sweep) -> None:
        events = self.registry.apply(name, sweep, time.time())
        self.speaker.discovery(name, sweep, events, self.registry.snapshot)
        self._settle()

    def _source_gone(self, name: str) -> None:
        self.registry.forget(name)
        self._settle()

    def _settle(self) -> None:
        """Whatever belonged to replicas that vanished goes; those that came are asked at once."""
        if self.registry.snapshot.version == self._settled:
            return
        self._settled = self.registry.snapshot.version
        replicas = self.registry.snapshot.replicas
        self.pools.keep_only(replicas)
        self.health.keep_only(replicas)
        self.tools.attempter.forget()
        self.health.settle(self.registry.snapshot, self.clock())
        self.learner.wake()
        self.probers.wake()

    def reload(self) -> tuple[str, ...]:
        """Load the configuration again; returns why it was not taken over, () when it was."""
        try:
            loaded = load(self.config, self.env, read_again(self.config))
        except ConfigErrors as errors:
            LOGGER.warning("the changed configuration is wrong, the old one goes on:\n%s", errors)
            return tuple(str(error) for error in errors.errors)
        for warning in loaded.warnings:
            LOGGER.warning("%s", warning)
        new, old = loaded.settings, self.settings
        if new == old:
            return ()
        for name in unheard(old, new):
            LOGGER.warning("%s takes a restart to change", name)
        self.settings = self.tools.settings = new
        self.tools.chains = chains(new)
        self.tools.attempter.timeouts, self.tools.attempter.repeats = new.timeouts, new.probe.degenerate
        self.tools.examiner.bounds = bounds_of(new)
        self.room.size = new.queue.size
        self.probers.reload(new)
        self.edge.log = AccessLog(new.server.access_log)
        if new.auth != old.auth:
            self.edge.keeper = self._keeper(new)
        self.discovery.reload(new)
        LOGGER.info("the configuration was taken over")
        return ()


def _calm_collector() -> None:
    """What was built up to here lives as long as the process: the cycle collector need not look at it again. A full
    collection among open streams took 18-125 ms; requests leave no cycles behind, so it is made rare.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
