"""One Docker API followed: a look when the time has come or the engine tells of a change, on threads of our own.

Rules
- The lists are the truth; events only say when to look.
- One thread asks and works out the picture, another one reads events. Nothing of either happens on the event loop.
- A look that fails in any part is Blind with one sentence; the last picture stays.
- After an event the next look comes within `DEBOUNCE`; a stream that ended and came back is an event, since something may have
  been missed. While something is about to run, the next look comes after `SOON` seconds: a new replica is wanted at once.
  While blind, a look is worth while every `RETRY` seconds: it is one request.

It must not know: what is asked and what it means (`survey` is given in), how Docker's failures read (docker_errors.py).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from autohedge.core.types import Blind, Sweep
from autohedge.settings.swarm import Engine
from autohedge.sources.docker_api import DockerApi, Place
from autohedge.sources.docker_errors import ApiError
from autohedge.sources.own_thread import OwnThread

LOGGER = logging.getLogger(__name__)
DEBOUNCE = 0.08  # seconds; a change of a service is told in several events
RETRY = 5.0  # seconds
SOON = 0.3  # seconds
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0  # seconds until an event stream that ended is opened anew


class View(NamedTuple):
    """One look; `beginning` says that something is about to run."""

    sweep: Sweep
    beginning: bool = False


Survey = Callable[[DockerApi], View]  # raises ApiError, and ValueError for what has not Docker's shape
Events = Mapping[str, Sequence[str]]


class EngineSource:
    """Follows the API that `settings` name by one `survey` after the other. `events` filters what is listened to. `close` ends its
    threads.
    """

    def __init__(self, settings: Engine, name: str, survey: Survey, events: Events) -> None:
        self.name = name
        tls = settings.tls
        place = Place(settings.host, float(settings.timeout), tls.ca, tls.cert, tls.key)
        self._api = DockerApi(place)
        self._survey = survey
        self._thread = OwnThread(f"{name} poll")
        self._listener = Listener(place, f"{name} events", events)
        self._changed = asyncio.Event()
        self._blind = False
        self._beginning = False

    async def look(self) -> Sweep:
        """The picture of now, or why there is none."""
        self._listener.start(self._changed)
        self._changed.clear()
        sweep, self._beginning = await self._thread.run(self._view)
        self._blind = isinstance(sweep, Blind)
        return sweep

    async def hint(self) -> None:
        """Wait for an event of the engine; while blind, no longer than `RETRY`, while something begins, no longer than `SOON`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(RETRY if self._blind else SOON if self._beginning else None):
                await self._changed.wait()
                await asyncio.sleep(DEBOUNCE)

    def close(self) -> None:
        self._listener.stop()
        self._thread.stop()

    def _view(self) -> View:
        """One look, on the thread."""
        try:
            return self._survey(self._api)
        except ApiError as error:
            return View(Blind(str(error)))
        except ValueError as error:
            return View(Blind(f"an answer of the Docker API cannot be read: {error}"))


class Listener:
    """The thread that reads events: it tells every piece of the stream, and that the stream stands (again)."""

    def __init__(self, place: Place, name: str, events: Events) -> None:
        self._api = DockerApi(place)
        self._events = events
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
                for _ in self._api.events(self._events):
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
