"""Many open streams at once through AutoHedge (acceptance 7): all complete, no byte lost, memory bounded, latency told.

Each chunk carries the time at which its engine wrote it, so the way of every chunk is measured, first to the engines directly
and then through AutoHedge. Engines, AutoHedge and the reader share one machine: the difference holds their contention too.
The full size (1,000 streams, 10,000 chunks a second) runs with AUTOHEDGE_HEAVY=1.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

import pytest
import uvloop

from tests.support.fair import slowness
from tests.support.processes import Child, edge, ending

HEAVY = os.environ.get("AUTOHEDGE_HEAVY") == "1"
STREAMS, PACE, SECONDS = (1000, 10, 10) if HEAVY else (200, 10, 3)
CONFIG = """
server: {{listen: "127.0.0.1:0"}}
upstream_registry:
  ticking: {{hosts: ["{one}", "{two}"], provider: openai-compatible}}
"""
MIB = 1 << 20
STAMP = re.compile(rb'"content":"(\d+)"')
CRC = re.compile(rb'"content":"crc (\d+)"')


@dataclass(slots=True)
class Read:
    """What one stream brought: the way of each chunk in milliseconds, and how it ended."""

    delays: list[float] = field(default_factory=list)
    status: bytes = b""
    whole: bool = False


class Reader(asyncio.Protocol):
    """One stream on a connection of its own, read with as little work as possible."""

    def __init__(self, request: bytes, done: asyncio.Future[Read]) -> None:
        self._request = request
        self._done = done
        self._read = Read()
        self._text = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        for stamp in STAMP.findall(data):
            self._read.delays.append((now - int(stamp)) / 1e6)
        self._text += data
        if self._text.endswith(b"\r\n0\r\n\r\n"):
            self._transport.close()

    def connection_lost(self, _exc: Exception | None) -> None:
        head, _, body = bytes(self._text).partition(b"\r\n\r\n")
        self._read.status = head[9:12]
        events = _unchunked(body)
        last = events.rfind(b"data: {")
        crc = CRC.search(events, max(last, 0))
        self._read.whole = (
            crc is not None and zlib.crc32(events[:last]) == int(crc[1]) and events.endswith(b"[DONE]\n\n")
        )
        if not self._done.done():
            self._done.set_result(self._read)


def _unchunked(body: bytes) -> bytes:
    pieces, at = [], 0
    while (line := body.find(b"\r\n", at)) >= 0 and (size := int(body[at:line], 16)):
        pieces.append(body[line + 2 : line + 2 + size])
        at = line + 4 + size
    return b"".join(pieces)


async def read_all(ports: list[int], streams: int) -> list[Read]:
    """Open `streams` streams within a second, spread over `ports`, and read all to their end."""
    body = json.dumps({
        "model": "tick", "stream": True, "max_tokens": PACE * SECONDS, "seed": PACE, "messages": [{"role": "user", "content": "a"}],
    }).encode()  # fmt: skip
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
    loop = asyncio.get_running_loop()
    waiting = []
    for number in range(streams):
        done: asyncio.Future[Read] = loop.create_future()
        await loop.create_connection(partial(Reader, head + body, done), "127.0.0.1", ports[number % len(ports)])
        waiting.append(done)
        await asyncio.sleep(1 / streams)
    async with asyncio.timeout(100):
        return await asyncio.gather(*waiting)


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[int(len(values) * share)]


def told(name: str, reads: list[Read]) -> tuple[float, float]:
    delays = [delay for read in reads for delay in read.delays]
    p50, p99 = percentile(delays, 0.5), percentile(delays, 0.99)
    print(
        f"{name}: {len(reads)} streams, {len(delays)} chunks, P50 {p50:.2f} ms, P99 {p99:.2f} ms, most {max(delays):.1f} ms"
    )
    return p50, p99


@pytest.fixture
def files() -> Iterator[None]:
    """Room for a thousand connections on both sides; children inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8192 if hard == resource.RLIM_INFINITY else min(8192, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def most_held(pid: int) -> int:
    """Bytes of memory at the worst moment of a process."""
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0]) * 1024


def cpu_seconds(pid: int) -> float:
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


@pytest.mark.usefixtures("files")
def test_many_open_streams(tmp_path: Path) -> None:
    """All complete and byte-exact; under 250 MiB; the added P50 and P99 per chunk stand in the output."""
    one, two = (Child(["tests.e2e.habits.ticking"], "READY ") for _ in range(2))
    with ending(one, two):
        front = edge(CONFIG.format(one=one.url, two=two.url), tmp_path)
        with ending(front), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            direct = runner.run(read_all([one.port, two.port], STREAMS))
            spent = cpu_seconds(front.process.pid)
            began = time.monotonic()
            through = runner.run(read_all([front.port], STREAMS))
            took = time.monotonic() - began
            spent = cpu_seconds(front.process.pid) - spent
            held = most_held(front.process.pid)
        output = front.output()
    p50, p99 = told("direct", direct)
    q50, q99 = told("through AutoHedge", through)
    chunks = sum(len(read.delays) for read in through)
    print(
        f"added per chunk: P50 {q50 - p50:+.2f} ms, P99 {q99 - p99:+.2f} ms; {chunks / took:.0f} chunks/s in {took:.1f} s"
    )
    print(
        f"AutoHedge: {held / MIB:.0f} MiB at most, {spent / chunks * 1e6:.0f} us of CPU per chunk, {spent / took:.0%} of a core"
    )
    for reads in (direct, through):
        assert len(reads) == STREAMS
        assert {read.status for read in reads} == {b"200"}
        assert all(read.whole for read in reads)
        assert all(len(read.delays) == PACE * SECONDS - 1 for read in reads)
    assert held < 250 * MIB
    assert "Traceback" not in output
    assert spent < 60 * slowness()
