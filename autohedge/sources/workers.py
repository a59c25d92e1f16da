"""Workers of the System One door: those of the file, and those that were registered at run time.

Rules
- The id of a worker follows from its URL, so every process and replica gives it the same one, before and after a restart. One
  URL is one worker: registering the same again changes nothing, other fields for it are `Taken`.
- Registered ones lie in the shared state and are known everywhere as soon as it tells. With `persist: false` they belong to
  this start of the service (`boot`, which its processes share) and are forgotten with it.
- A worker of the file that is removed stays away until the next start (eidex), or until it is registered again.
- A worker is well and may be asked at once (optimistic start): every change is told in the moment it is made.

It must not know: HTTP, who may register, how the shared state is kept, health.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Protocol
from uuid import NAMESPACE_URL, uuid5

from autohedge.core.types import NOTHING, Address, BackendSpec, Seen
from autohedge.settings.workers import REGULAR, Worker, place_of

KEY = "worker:"
MOST = 1000  # registered workers: what lies in the shared state has an end
LIFE, RENEWED = 172_800.0, 43_200.0  # seconds that what belongs to one start is kept, and how often that is renewed

Sweep = Callable[[str, Seen], object]


class Keeper(Protocol):
    """What is needed of the shared state."""

    def put_soon(self, key: str, value: Mapping[str, Any], ttl: float | None = None) -> None: ...
    def delete_soon(self, key: str) -> None: ...
    def under(self, prefix: str) -> Mapping[str, Mapping[str, Any]]: ...
    def on_change(self, prefix: str, callback: Callable[[str, Mapping[str, Any] | None], object]) -> None: ...


def guarded(address: Address) -> Address:
    """A place that somebody said over HTTP."""
    return replace(address, guarded=True)


class Full(Exception):  # noqa: N818 - as Taken
    """There are as many registered workers as there may be."""


class Taken(Exception):  # noqa: N818 - a word of the contract, not a fault
    """A worker with this URL exists and has other fields."""


@dataclass(frozen=True, slots=True)
class Registered:
    """One worker. `id` follows from the URL. `fixed`: it stands in the file."""

    address: Address
    model_id: str = ""
    worker_type: str = REGULAR
    priority: int = 50
    labels: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    fixed: bool = False

    @property
    def url(self) -> str:
        return str(self.address)

    @property
    def id(self) -> str:
        return _id_of(self.url)

    @property
    def name(self) -> str:
        """What logs, metrics and headers call it: no address is told outside."""
        return f"worker-{self.id[:8]}"

    @property
    def fields(self) -> dict[str, Any]:
        """What somebody said of it, as JSON keeps it."""
        return {
            "url": self.url,
            "model_id": self.model_id,
            "worker_type": self.worker_type,
            "priority": self.priority,
            "labels": dict(self.labels),
        }

    @classmethod
    def of(cls, worker: Worker, *, fixed: bool) -> Registered:
        return cls(worker.address, worker.model_id, worker.worker_type, worker.priority, worker.labels, fixed)

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Registered | None:
        """The worker that the state keeps, None for something else."""
        try:
            labels = MappingProxyType({str(key): str(one) for key, one in value["labels"].items()})
            address = _place_of(value["url"])
            return cls(address, str(value["model_id"]), str(value["worker_type"]), int(value["priority"]), labels)
        except (KeyError, TypeError, ValueError, AttributeError):
            return None

    def spec(self) -> BackendSpec:
        return BackendSpec(
            self.name,
            addresses=(self.address,),
            models=(self.model_id,) if self.model_id else (),
            exact=True,
            takes_any=not self.model_id,
            labels=self.labels,
        )


class WorkersSource:
    """`boot` names this start of the service; `clock` gives epoch seconds. `swept` hears every change at once, when set."""

    def __init__(self, keeper: Keeper, boot: str, clock: Callable[[], float], name: str = "workers") -> None:
        self.name = name
        self.swept: Sweep = lambda _name, _seen: None
        self._keeper = keeper
        self._boot = boot
        self._clock = clock
        self._persist = True
        self._fixed: dict[str, Registered] = {}
        self._renewed = clock()
        self._stirred = False
        self._changed = asyncio.Event()
        keeper.on_change(KEY, self._heard)

    def reload(self, static: Iterable[Worker], *, persist: bool) -> None:
        """Take over the workers of a configuration."""
        self._persist = persist
        workers = (Registered.of(worker, fixed=True) for worker in static)
        self._fixed = {worker.id: worker for worker in reversed(list(workers))}  # of two with one URL the first counts
        self._changed.set()

    # --- the contract of a source -------------------------------------------------------------------------------------

    async def look(self) -> Seen:
        self._changed.clear()
        self._renew()
        return self.seen()

    async def hint(self) -> None:
        await self._changed.wait()

    def seen(self) -> Seen:
        return Seen(tuple(worker.spec() for worker in self.all()))

    # --- for the door -------------------------------------------------------------------------------------------------

    def all(self) -> list[Registered]:
        """Every worker: those of the file as they stand there, then the registered ones by URL."""
        kept = {key.removeprefix(KEY): value for key, value in self._kept().items()}
        found = {name: worker for name, worker in reversed(self._fixed.items()) if name not in kept}
        read = [worker for value in kept.values() if (worker := Registered.read(value)) is not None]
        found |= {worker.id: worker for worker in sorted(read, key=lambda worker: worker.url)}
        return list(found.values())

    def get(self, name: str) -> Registered | None:
        return next((worker for worker in self.all() if worker.id == name), None)

    def add(self, worker: Registered) -> Registered:
        """Register one; the same again changes nothing. Raises Taken and Full."""
        there = self.get(worker.id)
        if there is not None:
            if there.fields != worker.fields:
                raise Taken
            return there
        if len(self._kept()) >= MOST:
            raise Full
        fixed = self._fixed.get(worker.id)
        if fixed is not None and fixed.fields == worker.fields:
            self._keeper.delete_soon(KEY + worker.id)  # its removal
        else:
            self._put(worker.id, worker.fields, mine=not self._persist)
        self._tell()
        return worker

    def remove(self, name: str) -> bool:
        """Forget one; False when there is none. What it is answering now ends in peace."""
        if self.get(name) is None:
            return False
        if name in self._fixed:
            self._put(name, {"removed": True}, mine=True)
        else:
            self._keeper.delete_soon(KEY + name)
        self._tell()
        return True

    # --- inside -------------------------------------------------------------------------------------------------------

    def _kept(self) -> dict[str, Mapping[str, Any]]:
        """What the shared state says that holds for this start of the service."""
        lasting = (None, self._boot) if self._persist else (self._boot,)
        return {key: value for key, value in self._keeper.under(KEY).items() if value.get("boot") in lasting}

    def _put(self, name: str, value: Mapping[str, Any], *, mine: bool) -> None:
        if mine:
            self._keeper.put_soon(KEY + name, {**value, "boot": self._boot}, LIFE)
        else:
            self._keeper.put_soon(KEY + name, value)

    def _renew(self) -> None:
        """What belongs to this start is kept as long as it lasts."""
        if self._clock() - self._renewed >= RENEWED:
            self._renewed = self._clock()
            for key, value in self._kept().items():
                if "boot" in value:
                    self._keeper.put_soon(key, value, LIFE)

    def _heard(self, _key: str, _value: Mapping[str, Any] | None) -> None:
        """Another process changed something; one look for all that comes at once."""
        if not self._stirred:
            self._stirred = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        self._stirred = False
        self.swept(self.name, self.seen())


# A list of a thousand workers is read at every question and every change: what a URL means is worked out once.


@lru_cache(4096)
def _id_of(url: str) -> str:
    return str(uuid5(NAMESPACE_URL, url))


@lru_cache(4096)
def _place_of(url: str) -> Address:
    return guarded(place_of(url))
