"""AutoHedge in this process: the House as app.py builds it, behind real sockets, with sample engines in the same loop.

    async def main() -> None:
        async with house(PAIR, one=SampleEngine("vllm"), two=SampleEngine("vllm")) as edge:
            edge.one.set_faults("B04")
            answer = await edge.chat()

The configuration is YAML as an operator writes it, read by `settings.load`; `${ONE}` stands for the URL of the engine `one`.
"""

from __future__ import annotations

import asyncio
import json
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import httpx
import uvloop

from autohedge.app import House
from autohedge.core.types import Candidate
from autohedge.engine.sample import SampleEngine
from autohedge.settings.load import load
from autohedge.wire.pool import Pool
from autohedge.wire.trust import trusted
from tests.support.fair import Watch
from tests.support.ports import free_port

T = TypeVar("T")
CHAT = "/v1/chat/completions"
PATIENCE = 60.0  # seconds that a test waits for what must come; nobody waits so long where all is well
FIRST_LOOK = 20.0  # as long as that an engine may take to introduce itself before AutoHedge serves without it
HELLO: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hello there"}]}

# The waits that faults run into are short, the others are never met; the order of the figures is that of the defaults.
TIMES = "timeouts: {connect: 5s, first_byte: 1s, loading: 30s, stall: 800ms, total: 60s, hold: 3s}\n"
SERVER = 'server: {listen: "127.0.0.1:0", grace: 1s}\n'
ALONE = SERVER + TIMES + 'upstream_registry:\n  alone: {hosts: ["${ONE}"]}\n'
APART = SERVER + TIMES + 'upstream_registry:\n  first: {host: "${ONE}", priority: 1}\n  second: {host: "${TWO}"}\n'
UNHURRIED = SERVER + 'upstream_registry:\n  pair: {hosts: ["${ONE}", "${TWO}"]}\n'  # the times of the defaults
PAIR = SERVER + TIMES + 'upstream_registry:\n  pair: {hosts: ["${ONE}", "${TWO}"]}\n'


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine on the loop that AutoHedge runs on."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


@dataclass
class Heard:
    """One whole answer as it came. `cut`: it broke off, visibly. `first`, `last`: seconds to the first and last piece;
    `took` is `last` without what a busy machine added.
    """

    status: int
    headers: httpx.Headers
    body: bytes = b""
    cut: bool = False
    first: float = 0.0
    last: float = 0.0
    took: float = 0.0

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        return self.json["error"]

    @property
    def events(self) -> list[bytes]:
        """The events of a stream, without the blank lines between them."""
        return [event for event in self.body.split(b"\n\n") if event]

    @property
    def errors(self) -> list[Any]:
        """What stands under "error" in the events of a stream."""
        found = [_object(event.partition(b"data:")[2]).get("error") for event in self.events]
        return [error for error in found if error]

    @property
    def text(self) -> str:
        """The content of a chat stream."""
        choices = [
            one for event in self.events for one in _object(event.partition(b"data:")[2]).get("choices") or () if one
        ]
        return "".join((choice.get("delta") or {}).get("content") or "" for choice in choices)

    @property
    def backend(self) -> str:
        return str(self.headers.get("x-autohedge-backend", ""))

    @property
    def attempts(self) -> int:
        return int(self.headers.get("x-autohedge-attempts", "0"))


def _object(data: bytes) -> dict[str, Any]:
    try:
        obj = json.loads(data)
    except ValueError:
        return {}
    return obj if isinstance(obj, dict) else {}


@dataclass
class Edge:
    """AutoHedge, its engines and a client. `one` and `two` are the engines of that name."""

    house: House
    url: str
    client: httpx.AsyncClient
    engines: Mapping[str, SampleEngine]
    life: asyncio.Task[int]  # House.run; its result is the exit code

    @property
    def one(self) -> SampleEngine:
        return self.engines["one"]

    @property
    def two(self) -> SampleEngine:
        return self.engines["two"]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def work(self) -> dict[str, int]:
        """How many chats each engine received."""
        return {name: engine.received[CHAT] for name, engine in self.engines.items()}

    # --- asking -----------------------------------------------------------------------------------------------------

    async def post(self, body: Any = None, path: str = CHAT, headers: Mapping[str, str] | None = None) -> Heard:
        """Send a body (an object, or bytes as they are) and hear the whole answer, its bytes untouched."""
        content = body if isinstance(body, bytes) else json.dumps(HELLO if body is None else body).encode()
        watch = Watch()
        sent = {"content-type": "application/json", **(headers or {})}
        async with self.client.stream("POST", self.url + path, content=content, headers=sent) as answer:
            heard = Heard(answer.status_code, answer.headers)
            try:
                async for piece in answer.aiter_raw():
                    heard.first = heard.first or watch.wall
                    heard.body += piece
            except httpx.RemoteProtocolError:
                heard.cut = True
            heard.last, heard.took = watch.wall, watch.seconds
        return heard

    async def chat(self, **fields: Any) -> Heard:
        return await self.post(HELLO | fields)

    async def stream(self, **fields: Any) -> Heard:
        return await self.post(HELLO | {"stream": True} | fields)

    async def served(self) -> None:
        """Ask until a chat is answered well."""
        async with asyncio.timeout(PATIENCE):
            while (await self.chat()).status != 200:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.05)

    async def get(self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> httpx.Response:
        return await self.client.request(method, self.url + path, headers=headers)

    async def raw(self, data: bytes) -> bytes:
        """Send bytes on a connection of their own; everything that comes until AutoHedge closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            async with asyncio.timeout(PATIENCE):
                return await reader.read()
        finally:
            writer.close()

    # --- looking inside ---------------------------------------------------------------------------------------------

    def verdicts(self) -> list[str]:
        """Of all attempts so far, one per attempt, sorted."""
        table = self.house.meters.counters["autohedge_attempts_total"]
        return sorted(str(verdict) for (_, _, verdict), number in table.items() for _ in range(number))

    def candidate(self, number: int = 0, model: str = "m") -> Candidate:
        return self.house.registry.snapshot.routes[model].candidates[number]

    def state(self, number: int = 0, model: str = "m") -> str:
        """The breaker of one candidate."""
        return self.house.health.entry(self.candidate(number, model), self.house.clock()).breaker.state.value

    def pool(self, number: int = 0) -> Pool:
        return self.house.pools.of(self.candidate(number))

    @property
    def busy(self) -> int:
        """Seats that are taken."""
        return sum(replica.seat.in_flight for replica in self.house.registry.snapshot.replicas.values())


@asynccontextmanager
async def house(
    config: str, path: Path | None = None, env: Mapping[str, str] | None = None, **engines: SampleEngine
) -> AsyncIterator[Edge]:
    """Start the engines and an AutoHedge in front of them. With `path`, the configuration is a file that is followed."""
    data = tempfile.TemporaryDirectory(prefix="autohedge-test-")  # its state: no two tests share a retirement
    given = (
        {"AUTOHEDGE_DATA": data.name, "AUTOHEDGE_PROBE_ENABLED": "false"}
        | {name.upper(): await started(engine) for name, engine in engines.items()}
        | dict(env or {})
    )
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    if path is not None:
        path.write_text(config)  # noqa: ASYNC240 - nothing else runs yet
    loaded = load("house.yaml", given, lambda _: config)
    made = House(loaded.settings, None if path is None else str(path), given)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    impatient = mock.patch("uvicorn.server.asyncio", _Impatient())
    impatient.start()
    life = asyncio.get_running_loop().create_task(made.run(ready.set_result))
    with mock.patch("autohedge.app.FIRST_LOOK", FIRST_LOOK):
        await asyncio.wait((life, ready), return_when=asyncio.FIRST_COMPLETED)
    try:
        if life.done():
            life.result()
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        async with httpx.AsyncClient(timeout=PATIENCE, limits=limits, trust_env=False, verify=trusted()) as client:
            yield Edge(made, await ready, client, engines, life)
    finally:
        made.stop()
        await asyncio.gather(*(engine.stop() for engine in engines.values()))
        await life
        impatient.stop()
        for number, handler in handlers.items():
            signal.signal(number, handler)
        data.cleanup()


async def started(engine: SampleEngine) -> str:
    """Start it on a port that it finds free again when it was stopped."""
    if not engine.port:
        engine.port = free_port(engine.host)
    return await engine.start()


class _Impatient:
    """asyncio for uvicorn: it looks whether it should stop every 5 ms, not every 100; a hundred tests wait for that."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.005))


async def eventually(true: Callable[[], bool]) -> float:
    """Wait for something that happens elsewhere. Fails when it does not happen, but not where the machine has other work; returns
    the seconds that it took without that work.
    """
    watch = Watch()
    while not true():
        assert watch.wall < PATIENCE, "it did not happen in time"
        await asyncio.sleep(0.002)
    return watch.seconds


def vllm(**settings: Any) -> SampleEngine:
    return SampleEngine("vllm", model="m", **settings)


def body_of(size: int) -> bytes:
    """A chat body of about `size` bytes, nearly all of it one string."""
    text = "word " * (size // 5)
    return json.dumps(HELLO | {"messages": [{"role": "user", "content": text}]}).encode()


@asynccontextmanager
async def alone(*faults: str, kind: str = "vllm", config: str = ALONE, **settings: Any) -> AsyncIterator[Edge]:
    """One engine, with these faults from the first request on."""
    async with house(config, one=SampleEngine(kind, model="m", **settings)) as edge:
        edge.one.set_faults(*faults)
        yield edge


@asynccontextmanager
async def pair(*faults: str, kind: str = "vllm", config: str = PAIR, **settings: Any) -> AsyncIterator[Edge]:
    """Two engines of one kind; the first one, which is asked first, has these faults."""
    one, two = (SampleEngine(kind, model="m", **settings) for _ in range(2))
    async with house(config, one=one, two=two) as edge:
        edge.one.set_faults(*faults)
        yield edge
