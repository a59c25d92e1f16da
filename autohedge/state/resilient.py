"""Shared state that is always there: the local picture in front, a store behind it, and the way back when the store was lost.

What each caller may use
  a request   get_local, under, put_soon, delete_soon, count_soon: no wait, no failure, whatever the store does
  a watcher   lease, release, ready, flushed, refresh, totals: at most some seconds; so does who changed what must outlive a
              kill -9, or wants to know what another process was told a moment ago
  the app     run, close

Rules (design, decision 8)
- Writes go to memory first and to the store as soon as it takes them: the last value per key, in the order of their first
  writing, then one message to the other workers.
- Lost: `lost` is the reason, everything goes on with the local picture, and a new connection is tried after 0.5 s, 1 s ... 10 s.
- On return both pictures are merged by `entry.resolved`: what the store has is taken in, what it lacks or has older is written
  to it. So an emptied Redis is filled again, and a worker that was cut off learns what happened.
- Each subscription starts before the first reading, so that nothing falls between the two; every 5 min all is read again.
- A store that is emptied while we are connected says nothing of it. So each process leaves a mark there and looks for it every
  second: where it is gone, all is read and written again.
- A counter that was being written when the store was lost may be counted twice, never forgotten.
- The store's keys belong to AutoHedge: a fact that somebody else removes there comes back. Removing is `delete_soon`.

Everything here runs on one event loop. It must not know: what is kept, Redis, SQLite.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from autohedge.state.contract import StateLost, Store
from autohedge.state.entry import Entry, Merge, Value, read
from autohedge.state.local import Picture

LOGGER = logging.getLogger(__name__)
TOPIC = "changes"
MARK = "mark:"  # and the name of a process: no fact, its value means nothing
BATCH = 100  # facts per message, and entries taken in without letting others run
ANSWER = 1.0  # seconds that the last writes get when the process ends
WRITTEN = 1.0  # seconds that what must not be forgotten gets to be written, before somebody is told that it holds

Changed = Callable[[str, Value | None], object]


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds: first and longest wait before a new connection, between two batches, between two full readings and tidyings, and
    between two looks for our mark.
    """

    first: float = 0.5
    longest: float = 10.0
    gap: float = 0.05
    reread: float = 300.0
    tidy: float = 5.0
    glance: float = 1.0


class Shared:
    """`name` is unique among all workers and replicas; `clock` gives epoch seconds; `merges` see `local.Picture`."""

    def __init__(
        self,
        store: Store,
        name: str,
        clock: Callable[[], float],
        merges: Mapping[str, Merge] | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.lost = ""
        self.lost_since: float | None = None
        self._store = store
        self._name = name
        self._mark = MARK + name
        self._clock = clock
        self._pace = pace or Pace()
        self._wait = self._pace.first
        self._picture = Picture(merges or {})
        self._dropped = 0
        self._callbacks: list[tuple[str, Changed]] = []
        self._hearers: list[Callable[[str], object]] = []
        self._ready = asyncio.Event()
        self._wake = asyncio.Event()
        self._quiet = asyncio.Event()
        self._quiet.set()

    # --- for requests -------------------------------------------------------------------------------------------------

    def get_local(self, key: str) -> Value | None:
        """The value under `key` as far as known here; None when there is none. Not to be changed."""
        return self._picture.get(key, self._clock())

    def under(self, prefix: str) -> dict[str, Value]:
        """All values whose keys begin with `prefix`, as far as known here."""
        return self._picture.under(prefix, self._clock())

    def put_soon(self, key: str, value: Value, ttl: float | None = None) -> None:
        """Set `key` here at once and in the store soon. `value` is JSON data and is copied; `ttl` is seconds.

        What is no JSON is a mistake of ours that must not cost a request: it is logged and not kept.
        """
        self._put(key, value, ttl)

    def delete_soon(self, key: str) -> None:
        """Remove `key` here at once and in the store soon."""
        self._put(key, None, None)

    def count_soon(self, key: str, by: int = 1, ttl: float | None = None) -> None:
        """Let a counter of the store grow; the time to live starts with the first count."""
        self._picture.add(key, by, ttl)
        self._stir()

    def on_change(self, prefix: str, callback: Changed) -> None:
        """Call `callback(key, value)` for what is there now and whatever changes other than by `put_soon` of this process.

        The value is None when the key was removed or its time is over.
        """
        self._callbacks.append((prefix, callback))
        for key, value in self.under(prefix).items():
            _told(callback, key, value)

    def on_lost(self, callback: Callable[[str], object]) -> None:
        """Call `callback(reason)` once when the store is lost, and with "" when it is back."""
        self._hearers.append(callback)

    # --- for watchers -------------------------------------------------------------------------------------------------

    async def ready(self, patience: float) -> bool:
        """Wait until everything was read for the first time, at most `patience` seconds. False: go on without."""
        return await _within(patience, self._ready)

    async def flushed(self, patience: float = WRITTEN) -> bool:
        """Wait until the store has every write, at most `patience` seconds; False at once while it is lost."""
        return not self.lost and await _within(patience, self._quiet)

    async def refresh(self, key: str) -> None:
        """Take in what the store has under `key` now; a message about it may be on the way still. Not while it is lost."""
        if self.lost:
            return
        with suppress(StateLost, TimeoutError):
            async with asyncio.timeout(WRITTEN):
                text = await self._store.get(key)
            found = None if text is None else read(text)
            if found is not None and not found.over(self._clock()):
                self._take_in([(key, found)])
                self._stir()

    async def lease(self, key: str, seconds: float) -> bool:
        """Take or extend a lease. True while the store is lost: each worker then does the work, rather than none."""
        if not self.lost:
            with suppress(StateLost):
                return await self._store.lease(key, self._name, seconds)
        return True

    async def release(self, key: str) -> None:
        """Give a lease back; it runs out by itself where that fails."""
        if not self.lost:
            with suppress(StateLost):
                await self._store.release(key, self._name)

    async def totals(self, prefix: str) -> dict[str, int]:
        """Counters whose keys begin with `prefix`, over all workers, with what still waits here. Raises StateLost."""
        found = await self._store.scan(prefix)
        totals = {key: int(text) for key, text in found.items() if text.removeprefix("-").isdecimal()}
        for key, held in self._picture.sums.items():
            if key.startswith(prefix):
                totals[key] = totals.get(key, 0) + held.by
        return totals

    # --- for the app --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """All input and output, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_tidy())
            group.create_task(self._keep_connected())

    async def close(self) -> None:
        """Give the last writes to the store if it is there, and close it. Call it when `run` has ended."""
        if not self.lost:
            with suppress(StateLost, TimeoutError):
                async with asyncio.timeout(ANSWER):
                    await self._send()
        if waiting := len(self._picture.unsent):
            LOGGER.warning("%d facts were not written to the state store before the end", waiting)
        await self._store.close()

    # --- the connection -----------------------------------------------------------------------------------------------

    async def _keep_connected(self) -> None:
        while True:
            try:
                await self._connected()
            except* StateLost as group:
                self._lose(_first(group))
            except* Exception:
                LOGGER.exception("a fault of AutoHedge while it kept its state")
                self._lose("a fault of AutoHedge; see its log")
            await asyncio.sleep(self._wait)
            self._wait = min(self._pace.longest, self._wait * 2)

    async def _connected(self) -> None:
        async with self._store.watch(TOPIC) as messages:
            await self._leave_mark()
            await self._reread()
            await self._send()
            self._found()
            await _until_one_fails(self._listen(messages), self._keep_sending(), self._keep_rereading())

    def _lose(self, reason: str) -> None:
        if reason != self.lost:
            LOGGER.warning("state is lost, the local picture goes on: %s", reason)
        first = not self.lost
        self.lost = reason
        if first:
            self.lost_since = self._clock()
            self._tell()

    def _found(self) -> None:
        self._wait = self._pace.first
        self._ready.set()
        if self.lost_since is not None:
            LOGGER.warning("state is back after %.1f s and merged", self._clock() - self.lost_since)
            self.lost = ""
            self.lost_since = None
            self._tell()

    def _tell(self) -> None:
        for hearer in self._hearers:
            _told(hearer, self.lost)

    # --- reading ------------------------------------------------------------------------------------------------------

    async def _reread(self) -> None:
        """Take in all that the store has, and note what it lacks."""
        now = self._clock()
        found = ((key, read(text)) for key, text in (await self._store.scan("")).items())
        there: list[str] = []
        while part := list(islice(found, BATCH)):
            facts = [(key, held) for key, held in part if held is not None]
            there.extend(key for key, _ in facts)
            self._take_in((key, held) for key, held in facts if not held.over(now))
            await asyncio.sleep(0)
        self._picture.lacking(there)
        self._stir()

    async def _keep_rereading(self) -> None:
        looks = max(1, round(self._pace.reread / self._pace.glance))
        while True:
            for _ in range(looks):
                await asyncio.sleep(self._pace.glance)
                if await self._store.get(self._mark) is None:
                    LOGGER.warning("the state store was emptied; it is written again")
                    break
            await self._leave_mark()
            await self._reread()

    async def _leave_mark(self) -> None:
        await self._store.put(self._mark, "", 2 * self._pace.reread)

    async def _listen(self, messages: AsyncIterator[str]) -> None:
        async for message in messages:
            self._take_in(_facts(message, self._name))
            self._stir()

    def _take_in(self, facts: Iterable[tuple[str, Entry]]) -> None:
        self._notify([key for key, held in facts if self._picture.take(key, held)])

    def _notify(self, keys: list[str]) -> None:
        for key in keys:
            value = self.get_local(key)
            for prefix, callback in self._callbacks:
                if key.startswith(prefix):
                    _told(callback, key, value)

    async def _keep_tidy(self) -> None:
        while True:
            await asyncio.sleep(self._pace.tidy)
            self._notify(self._picture.over(self._clock()))
            if self._picture.dropped != self._dropped:
                self._dropped = self._picture.dropped
                LOGGER.warning("the local state is full: %d of its oldest facts were forgotten so far", self._dropped)

    # --- writing ------------------------------------------------------------------------------------------------------

    def _put(self, key: str, value: Value | None, ttl: float | None) -> None:
        try:
            self._picture.put(key, value, ttl, self._clock())
        except (TypeError, ValueError, RecursionError):
            LOGGER.exception("a fact that is no JSON was not kept")
        self._stir()

    def _stir(self) -> None:
        """Let the sender look, where something waits."""
        if self._picture.unsent or self._picture.sums:
            self._quiet.clear()
            self._wake.set()

    async def _keep_sending(self) -> None:
        while True:
            await self._wake.wait()
            await self._send()
            await asyncio.sleep(self._pace.gap)

    async def _send(self) -> None:
        """Write what waits now. What comes meanwhile waits for the next time, so that a busy key is written once per gap."""
        self._wake.clear()
        keys = iter(list(self._picture.unsent))
        while part := list(islice(keys, BATCH)):
            await self._send_facts([(key, self._picture.unsent[key]) for key in part if key in self._picture.unsent])
        for key, held in list(self._picture.sums.items()):
            by = held.by
            try:
                await self._store.count(key, by, held.ttl)
            except ValueError:
                LOGGER.warning("a counter was dropped: its key holds no number")
            self._picture.counted(key, by)
        if self._picture.unsent or self._picture.sums:
            self._wake.set()
        else:
            self._quiet.set()

    async def _send_facts(self, facts: list[tuple[str, Entry]]) -> None:
        """The message comes last: a fact counts as sent when the others were told, too."""
        if facts:
            now = self._clock()
            await self._store.put_all(
                [(key, held.text, None if held.until is None else held.until - now) for key, held in facts]
            )
            told = {"from": self._name, "facts": {key: held.text for key, held in facts}}
            await self._store.publish(TOPIC, json.dumps(told))
        for key, held in facts:
            self._picture.sent(key, held)


def _facts(message: str, name: str) -> list[tuple[str, Entry]]:
    """The facts in a message of another worker; our own, and what is no such message, hold none."""
    try:
        told = json.loads(message)
        if told["from"] == name:
            return []
        facts = [(key, read(text)) for key, text in told["facts"].items()]
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return []
    return [(key, held) for key, held in facts if held is not None]


def _told(callback: Callable[..., object], *what: object) -> None:
    try:
        callback(*what)
    except Exception:
        LOGGER.exception("a change of the shared state could not be taken in")


async def _within(patience: float, event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(patience):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def _until_one_fails(*works: Coroutine[Any, Any, None]) -> None:
    """Run them. Not by a task group: one that is cancelled while a task of it fails forgets the cancel (Python before 3.13), and
    who connects again for ever would never end.
    """
    tasks = [asyncio.get_running_loop().create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


def _first(group: BaseExceptionGroup[StateLost]) -> str:
    """The reason of the first loss in a group of them."""
    lost = group.exceptions[0]
    return _first(lost) if isinstance(lost, BaseExceptionGroup) else lost.reason
