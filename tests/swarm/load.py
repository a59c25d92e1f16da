"""Callers: so many requests a second, plain ones and streams, each on a real socket, from a thread of their own.

- Every answer must be whole: status 200, its framing at its end, and a stream with its `[DONE]`. Everything else is a failure,
  kept with the moment and the reason.
- An answer tells which replica gave it: the sample engine's name is the first word of what it says.
- Callers that keep a connection look before they use it again whether it was closed, as client libraries do.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import httptools

SPEAKER = re.compile(rb'"content": ?" ?([^" ]+)')
PATIENCE = 20.0  # seconds for one answer


@dataclass(frozen=True, slots=True)
class Heard:
    """One request and what became of it. `fault` is "" when all was well; `speaker` the replica, where it is known."""

    at: float
    took: float
    stream: bool
    fault: str = ""
    speaker: str = ""
    model: str = ""
    kept: bool = False  # on a connection that had served before


@dataclass(slots=True)
class Report:
    heard: list[Heard] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        return [
            f"{'stream' if one.stream else 'plain'} at {one.at:.2f} after {one.took:.2f} s: {one.fault}"
            for one in self.heard
            if one.fault
        ]

    @property
    def slowest(self) -> Heard:
        """The plain request that took longest."""
        return max((one for one in self.heard if not one.stream), key=lambda one: one.took)

    @property
    def speakers(self) -> Counter[str]:
        return Counter(one.speaker for one in self.heard if one.speaker)

    def first(self, speaker: str) -> float | None:
        """When the first answer of a replica had come back, at the earliest."""
        times = [one.at for one in self.heard if one.speaker == speaker]
        return min(times, default=None)

    def last(self, speaker: str) -> float | None:
        """When the last request that a replica answered was sent."""
        return max((one.at for one in self.heard if one.speaker == speaker), default=None)

    def well(self) -> None:
        """Raises AssertionError with the first failures, when there are any."""
        faults = self.faults
        assert not faults, f"{self}\n" + "\n".join(faults[:20])

    def __str__(self) -> str:
        took = sorted(one.took for one in self.heard if not one.stream) or [0.0]
        streams = sum(one.stream for one in self.heard)
        return (
            f"{len(self.heard)} requests ({streams} streams), {len(self.faults)} failed; plain ones took "
            f"{1000 * took[len(took) // 2]:.0f} ms in the middle, {1000 * took[-1]:.0f} ms at most"
        )


class Load:
    """`with Load(targets) as load: ...` sends until the block ends, then waits for what is under way. `targets` are host:port
    of the doors, taken in turn; `choose` may say at each request which ones are open.
    """

    def __init__(
        self,
        targets: Sequence[str],
        *,
        rate: float = 40.0,
        streams: float = 0.2,
        models: Sequence[str] = ("sample",),
        choose: Callable[[], Sequence[str]] | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self.report = Report()
        self.models = list(models)
        self._choose = choose or (lambda: targets)
        self._rate, self._streams, self._patience = rate, streams, patience
        self._ended = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="load")
        self._kept: dict[str, list[_Wire]] = {}
        self._sent = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    async def _run(self) -> None:
        begun = time.monotonic()
        async with asyncio.TaskGroup() as group:
            while not self._ended.is_set():
                self._sent += 1
                group.create_task(self._one(self._sent))
                await asyncio.sleep(max(0.0, begun + self._sent / self._rate - time.monotonic()))
        for wire in (wire for kept in self._kept.values() for wire in kept):
            wire.close()

    async def _one(self, number: int) -> None:
        doors = self._choose()
        at, begun = time.time(), time.monotonic()
        stream = self._streams > 0 and number % round(1 / self._streams) == 0
        model = self.models[number % len(self.models)]
        if not doors:
            self.report.heard.append(Heard(at, 0.0, stream, "no door is open"))
            return
        door = doors[number % len(doors)]
        kept = number % 2 == 0 and not stream
        wire, fault = None, ""
        try:
            async with asyncio.timeout(self._patience):
                wire = await self._wire(door, kept)
                again = wire.served > 0
                await wire.ask(model, stream)
                fault = wire.fault(stream)
        except TimeoutError:
            fault = f"no end after {self._patience} s"
        except (OSError, httptools.HttpParserError) as error:
            fault = f"{type(error).__name__}: {error}"
        speaker = wire.speaker if wire is not None else ""
        took = time.monotonic() - begun
        self.report.heard.append(Heard(at, took, stream, fault, speaker, model, kept and wire is not None and again))
        if wire is not None:
            if kept and not fault and wire.stays:
                self._kept.setdefault(door, []).append(wire)
            else:
                wire.close()

    async def _wire(self, door: str, kept: bool) -> _Wire:
        idle = self._kept.get(door, [])
        while kept and idle:
            wire = idle.pop()
            if wire.open:
                return wire
            wire.close()
        host, _, port = door.rpartition(":")
        _, wire = await asyncio.get_running_loop().create_connection(_Wire, host, int(port))
        return wire


class _Wire(asyncio.Protocol):
    """One connection of a caller."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._body = bytearray()
        self.open = False
        self.stays = False
        self.served = 0

    async def ask(self, model: str, stream: bool) -> None:
        body = {"model": model, "messages": [{"role": "user", "content": "hello"}], "stream": stream}
        if not stream:
            body["max_tokens"] = 3
        text = json.dumps(body).encode()
        self._done = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._body.clear()
        assert self._transport is not None
        self._transport.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: edge\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%s" % (len(text), text)
        )
        await self._done
        self.served += 1

    def fault(self, stream: bool) -> str:
        if self._parser.get_status_code() != 200:
            return f"{self._parser.get_status_code()}: {bytes(self._body[:300]).decode(errors='replace')}"
        if stream and not self._body.rstrip().endswith(b"data: [DONE]"):
            return f"a stream that ends with {bytes(self._body[-200:]).decode(errors='replace')}"
        return "" if self.speaker else f"an answer without content: {bytes(self._body[:200]).decode(errors='replace')}"

    @property
    def speaker(self) -> str:
        found = SPEAKER.search(self._body)
        return found[1].decode() if found else ""

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio and httptools --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self.open = transport, True

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            if not self._done.done():
                self._done.set_exception(error)

    def eof_received(self) -> None:
        self.open = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        if not self._done.done():
            self._done.set_exception(exc or ConnectionResetError(f"closed after {len(self._body)} bytes"))

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.stays = self._parser.should_keep_alive()
        if not self._done.done():
            self._done.set_result(None)
