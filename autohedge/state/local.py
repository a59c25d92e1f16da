"""The local picture: everything that is remembered, in memory, and what of it the store has not got yet.

Rules
- Reading and writing never wait and never fail. What a request needs is here.
- The last value of a key wins; the store gets only that one. So 50 writes a second to ten keys are ten writes waiting.
- At most `MOST` keys: then the one that came first goes. Memory stays flat however long the store is away.
- A writing is never older than what it replaces, so a host with a slow clock can still undo what a fast one wrote.
- A deletion is remembered as long as the fact would have lived, at most a day.

It must not know: stores, sockets, tasks, the clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from autohedge.state.entry import Entry, Merge, Value, entry, resolved

MOST = 10_000  # keys, and as many counters
GRAVE = 86_400.0  # seconds that a deletion is remembered
TICK = 1e-6  # seconds


@dataclass(slots=True)
class Sum:
    """What a counter has to grow by, and its time to live in seconds."""

    by: int
    ttl: float | None


class Picture:
    """`merges` gives the merge of a kind of fact by the prefix of its keys; the longest prefix counts."""

    def __init__(self, merges: Mapping[str, Merge], most: int = MOST) -> None:
        self._merges = dict(sorted(merges.items(), key=lambda item: -len(item[0])))
        self._most = most
        self.entries: dict[str, Entry] = {}
        self.unsent: dict[str, Entry] = {}
        self.sums: dict[str, Sum] = {}
        self.dropped = 0  # keys and counters that found no room

    def get(self, key: str, now: float) -> Value | None:
        """The value under `key`; None when there is none, or its time is over. Not to be changed by the caller."""
        held = self.entries.get(key)
        return None if held is None or held.over(now) else held.value

    def under(self, prefix: str, now: float) -> dict[str, Value]:
        """All values whose keys begin with `prefix`."""
        held = [(key, held) for key, held in self.entries.items() if key.startswith(prefix)]
        return {key: held.value for key, held in held if held.value is not None and not held.over(now)}

    def put(self, key: str, value: Value | None, ttl: float | None, now: float) -> None:
        """Set `key` here and note it for the store; None deletes. Raises what `entry` raises."""
        key.encode()  # a lone surrogate is a ValueError here and not in the store
        before = self.entries.get(key)
        at = now if before is None else max(now, before.at + TICK)
        if value is None:
            ttl = GRAVE if before is None or before.until is None else min(GRAVE, max(1.0, before.until - now))
        self._set(key, entry(value, at, None if ttl is None else now + ttl))
        self.unsent[key] = self.entries[key]

    def add(self, key: str, by: int, ttl: float | None) -> None:
        """Let a counter grow."""
        held = self.sums.get(key)
        if held is not None:
            held.by += by
        elif len(self.sums) < self._most:
            self.sums[key] = Sum(by, ttl)
        else:
            self.dropped += 1

    def take(self, key: str, theirs: Entry) -> bool:
        """Take in what the store or another worker has under `key`. True when a reader sees something else now.

        Where ours says more, it goes (back) to the store.
        """
        ours = self.entries.get(key)
        best = theirs if ours is None else resolved(ours, theirs, self._merge(key))
        if best.text == theirs.text:
            self.unsent.pop(key, None)
        self._set(key, best)
        if best.text != theirs.text:
            self.unsent[key] = best
        return best.value != (None if ours is None else ours.value)

    def lacking(self, remote: Iterable[str]) -> None:
        """Note for the store every fact that is not among its keys: it was emptied, or never had it."""
        there = set(remote)
        self.unsent.update((key, held) for key, held in self.entries.items() if key not in there)

    def sent(self, key: str, held: Entry) -> None:
        """The store has `held`; a later writing of the same key still waits."""
        if self.unsent.get(key) is held:
            del self.unsent[key]

    def counted(self, key: str, by: int) -> None:
        """The store has counted `by`; what was added meanwhile still waits."""
        held = self.sums[key]
        held.by -= by
        if not held.by:
            del self.sums[key]

    def over(self, now: float) -> list[str]:
        """Forget every fact whose time is over; returns the keys that a reader misses now."""
        gone = [key for key, held in self.entries.items() if held.over(now)]
        seen = [key for key in gone if self.entries[key].value is not None]
        for key in gone:
            del self.entries[key]
            self.unsent.pop(key, None)
        return seen

    def _set(self, key: str, held: Entry) -> None:
        if key not in self.entries and len(self.entries) >= self._most:
            first = next(islice(self.entries, 1))
            del self.entries[first]
            self.unsent.pop(first, None)
            self.dropped += 1
        self.entries[key] = held

    def _merge(self, key: str) -> Merge | None:
        return next((merge for prefix, merge in self._merges.items() if key.startswith(prefix)), None)
