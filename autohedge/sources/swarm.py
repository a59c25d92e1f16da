"""The services of a Docker Swarm, looked at once a second and when the engine tells of a change.

Rules
- The lists are the truth; events only say when to look. There is no event for a task, so the poll never stops.
- One thread asks and works out the picture, another one reads events. Nothing of either happens on the event loop.
- A look that fails in any part is Blind with one sentence; the last picture stays. That includes a network that does not
  exist, and the answers of an engine that is stopping, of a worker, of a swarm without a leader.
- After an event the next look comes within `DEBOUNCE`; a stream that ended and came back is an event, since something may have
  been missed. While a task is about to run, the next look comes after `SOON` seconds, unless there are too many tasks for
  that: a new replica is wanted at once. While blind, a look is worth while every `RETRY` seconds: it is one request.

It must not know: what makes a service a backend (rules/swarm.py), how Docker's failures read (docker_errors.py).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from autohedge.core.types import Blind, Seen, Sweep
from autohedge.rules.swarm import Reader, Wanted
from autohedge.rules.tasks import begins, network_id
from autohedge.settings.swarm import Swarm
from autohedge.sources.docker_api import DockerApi, Place
from autohedge.sources.docker_errors import ApiError
from autohedge.sources.own_thread import OwnThread

LOGGER = logging.getLogger(__name__)
DEBOUNCE = 0.08  # seconds; a change of a service is told in several events
RETRY = 5.0  # seconds
SOON = 0.3  # seconds
FEW = 500  # tasks that may be listed every `SOON` seconds
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0  # seconds until an event stream that ended is opened anew
EVENTS = {"type": ["service", "node"]}
OVERLAYS = {"scope": ["swarm"], "driver": ["overlay"]}


def wanted_of(settings: Swarm) -> Wanted:
    """What the rules need to know of the settings."""
    return Wanted(
        network=settings.network,
        labelled_only=settings.labelled_only,
        shared=frozenset(settings.shared_models),
        model_env=settings.env.model,
        window_env=settings.env.max_model_len,
        port_env=settings.env.port,
    )


class SwarmSource:
    """Follows the Swarm that `settings` name. `close` ends its threads."""

    def __init__(self, settings: Swarm, name: str = "swarm") -> None:
        self.name = name
        self._network = settings.network
        tls = settings.tls
        place = Place(settings.host, float(settings.timeout), tls.ca, tls.cert, tls.key)
        self._api = DockerApi(place)
        self._reader = Reader(wanted_of(settings))
        self._thread = OwnThread(f"{name} poll")
        self._listener = Listener(place, f"{name} events")
        self._changed = asyncio.Event()
        self._blind = False
        self._starting = False

    async def look(self) -> Sweep:
        """The picture of now, or why there is none."""
        self._listener.start(self._changed)
        self._changed.clear()
        sweep = await self._thread.run(self._sweep)
        self._blind = isinstance(sweep, Blind)
        return sweep

    async def hint(self) -> None:
        """Wait for an event of the engine; while blind, no longer than `RETRY`, while a task begins, no longer than `SOON`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(RETRY if self._blind else SOON if self._starting else None):
                await self._changed.wait()
                await asyncio.sleep(DEBOUNCE)

    def close(self) -> None:
        self._listener.stop()
        self._thread.stop()

    def _sweep(self) -> Sweep:
        """One look, on the thread."""
        try:
            network = network_id(self._api.list("/networks", {"name": [self._network], **OVERLAYS}), self._network)
            if network is None:
                return Blind(f"the swarm has no overlay network called {self._network} (sources.swarm.network)")
            return self._read(network)
        except ApiError as error:
            return Blind(str(error))
        except ValueError as error:
            return Blind(f"the Docker API's list of networks cannot be read: {error}")

    def _read(self, network: str) -> Seen:
        services = self._api.list("/services")
        tasks = self._api.list("/tasks", {"desired-state": ["running"]})
        nodes = self._api.list("/nodes")
        return self._reader.look(network, services, self._noted(tasks), nodes)

    def _noted(self, tasks: Iterable[Any]) -> Iterator[Any]:
        """The same tasks; when they are through, it is known whether one of them begins."""
        number, beginning = 0, False
        for task in tasks:
            number += 1
            beginning = beginning or begins(task)
            yield task
        self._starting = beginning and number <= FEW


class Listener:
    """The thread that reads events: it tells every piece of the stream, and that the stream stands (again)."""

    def __init__(self, place: Place, name: str) -> None:
        self._api = DockerApi(place)
        self._name = name
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, changed: asyncio.Event) -> None:
        """Set `changed` on the running loop whenever something may have changed; does nothing the second time."""
        if self._thread is not None:
            return
        loop = asyncio.get_running_loop()

        def tell() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(changed.set)

        self._thread = threading.Thread(target=self._listen, args=(tell,), name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._api.close()

    def _listen(self, tell: Callable[[], None]) -> None:
        pause = FIRST_PAUSE
        while not self._stopped.is_set():
            try:
                for _ in self._api.events(EVENTS):
                    pause = FIRST_PAUSE
                    tell()
                    if self._stopped.is_set():
                        return
            except ApiError:
                pass  # the poll tells why
            except Exception:
                if not self._stopped.is_set():  # a stream that is closed while it is opened fails in odd ways
                    LOGGER.exception("the events of %s cannot be read", self._name)
            finally:
                self._api.close()
            self._stopped.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
