"""The sample engine: an LLM server of any kind, in this process, for tests, the bench and the demonstration.

It speaks the dialect of its kind, counts what it gets, and fails on order (faults.py). It is the other side of the
table: it shares no code with the providers that read its answers.

    engine = SampleEngine(Kind.VLLM, model="qwen", context=400, faults=["B26=2"])
    url = await engine.start()
    ...
    engine.set_faults("hang:times=1")
    await engine.stop()

Over HTTP: GET /_engine tells the counters; PUT /_engine with a JSON list of faults replaces the faults.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from autohedge.core.types import Kind
from autohedge.engine.acts.scene import Scene
from autohedge.engine.dialects import DIALECTS
from autohedge.engine.dialects.base import Route
from autohedge.engine.faults import BY_NAME, Fault, order
from autohedge.engine.messages import Answer, Request, plain
from autohedge.engine.render import opening
from autohedge.engine.server import Connection
from autohedge.engine.state import State
from autohedge.engine.text import NATURAL

CONTROL = "/_engine"
LAST_WORDS = 0.05  # seconds a dying engine has to send its 500
ROUNDS = 4  # of the loop, until a connection that came in the moment of the stop is made, aborted and its socket closed


@dataclass(eq=False)
class SampleEngine:
    """One engine. `slots` bounds the answers worked on at once (fixed at the start; TGI refuses more, all others let them
    wait in silence). `pace` in tokens per second (0: at once), `latency` in seconds, `context` in tokens; `name` is the first
    word of every answer (default "kind@port"). `start` and `stop` may be repeated: the port stays.
    """

    kind: Kind | str
    model: str = "sample-model"
    context: int = 4096
    name: str = ""
    key: str | None = None
    pace: float = 0.0
    latency: float = 0.0
    slots: int | None = None
    words: int = NATURAL
    host: str = "127.0.0.1"
    port: int = 0
    faults: Sequence[str] = ()
    state: State = field(init=False)
    connections: set[Connection] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        kind = Kind(self.kind)
        if kind not in DIALECTS:
            raise ValueError(f"there is no sample engine of kind {kind}")
        self.state = State(kind, self.model, self.name, self.context, self.key, slots=self.slots, words=self.words)
        self.state.pace, self.state.latency = self.pace, self.latency
        self.dialect = DIALECTS[kind](self.state)
        self._texts: tuple[str, ...] = ()
        self._faults: list[Fault] = []
        self._early: list[Fault] = []
        self._server: asyncio.Server | None = None
        self._dying = False
        self._timer: asyncio.TimerHandle | None = None
        self._reopening: asyncio.Task[None] | None = None
        self._seats = asyncio.Semaphore(self.slots) if self.slots else None
        self.set_faults(*self.faults)

    # --- life -------------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def start(self) -> str:
        """Listen; returns the URL. Faults with a time begin now."""
        self._dying = False
        self.state.now = asyncio.get_running_loop().time
        self.state.die = self._die
        await self._listen()
        if not self.state.name:
            self.state.name = f"{self.state.kind}@{self.port}"
        self.set_faults(*self._texts)
        return self.url

    @property
    def listening(self) -> bool:
        """Whether connections are taken."""
        return self._server is not None

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self, loop), self.host, self.port, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]

    async def drain(self, within: float) -> None:
        """End as an HTTP server does that is asked to: no new connections, idle ones close, answers in progress are finished
        for as long as `within` seconds allow; then `stop`.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + within
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self.connections):
            connection.leave()
        while self.connections and loop.time() < end:  # noqa: ASYNC110 - a set has no event, and this is the end
            await asyncio.sleep(0.01)
        await self.stop()

    async def stop(self) -> None:
        """Stop at once: the listener closes, connections and work are dropped."""
        for pending in (self._timer, self._reopening):
            if pending is not None:
                pending.cancel()
        await asyncio.gather(*self._close(), return_exceptions=True)
        for _ in range(ROUNDS):
            await asyncio.sleep(0)

    def _close(self) -> list[asyncio.Task[None]]:
        """Close the listener and drop all connections; returns the work that is being cancelled."""
        if self._server is not None:
            self._server.close()
            self._server = None
        dropped = [connection.drop() for connection in list(self.connections)]
        return [task for task in dropped if task is not None]

    def _die(self, seconds: float | None) -> None:
        """The process goes: nothing listens, all connections end; with `seconds` it is back after them."""
        if self._dying:
            return
        self._dying = True
        loop = asyncio.get_running_loop()
        loop.call_later(LAST_WORDS, self._close)
        if seconds is not None:
            self._timer = loop.call_later(LAST_WORDS + seconds, self._reopen)

    def _reopen(self) -> None:
        """A new process: the fault that killed the old one is gone, the others are not."""
        self._dying = False
        self.set_faults(*(text for text in self._texts if order(text).row is not BY_NAME["engine-dead"]))
        self._reopening = asyncio.get_running_loop().create_task(self._listen())

    # --- faults and counters ----------------------------------------------------------------------------------------

    def set_faults(self, *texts: str) -> None:
        """Replace the faults; without any, the engine is well again. Raises ValueError."""
        now = self.state.now()
        faults = [order(text, now) for text in texts]
        state = self.state
        state.frozen = state.wedged = False
        state.loaded_until = state.idle = None
        for fault in faults:
            if fault.row.start is not None:
                fault.row.start(state, fault.arg)
        self._texts = texts
        self._faults = [fault for fault in faults if not fault.row.early]
        self._early = [fault for fault in faults if fault.row.early]

    @property
    def received(self) -> Counter[str]:
        """Requests by path."""
        return self.state.received

    @property
    def completed(self) -> Counter[str]:
        """Answers sent to their proper end, by path."""
        return self.state.completed

    @property
    def cancelled(self) -> Counter[str]:
        """Answers in progress whose client left, by path."""
        return self.state.cancelled

    @property
    def requests(self) -> list[Request]:
        """The last requests (256 at most), whole: `head`, `body`, `headers`, `json()`."""
        return list(self.state.requests)

    @property
    def last_request(self) -> Request | None:
        return self.state.last_request

    # --- what a connection asks for ---------------------------------------------------------------------------------

    def at_head(self, request: Request) -> Answer | None:
        """An answer that does not wait for the body, or None."""
        if not self._early or request.path == CONTROL:
            return None
        answer = self._changed(request, self._find(request), self._early)
        if answer is not None:
            self.state.keep(request)
        return answer

    def handle(self, request: Request) -> Answer:
        """The answer to a whole request."""
        if request.path == CONTROL:
            return self._control(request)
        self.state.keep(request)
        route = self._find(request)
        state = self.state
        if (
            not self.dialect.queues
            and request.on == "work"
            and state.slots is not None
            and state.running >= state.slots
        ):
            return self.dialect.overloaded(request)
        answer = self._changed(request, route, self._faults) if self._faults else None
        return answer if answer is not None else self.dialect.answer(request, route)

    def _find(self, request: Request) -> Route | None:
        route = self.dialect.route(request)
        if route is not None:
            request.on = route.on
        return route

    def _changed(self, request: Request, route: Route | None, faults: list[Fault]) -> Answer | None:
        """What the faults make of the answer; None when none of them takes the request."""
        now = self.state.now()
        scene = Scene(request, self.state, self.dialect, route)
        for fault in faults:
            if fault.takes(request, now):
                scene.arg, scene.turn, scene.age = fault.arg, fault.turn, now - fault.set_at
                scene.given = fault.row.act(scene)
        return scene.given

    def head_of(self, answer: Answer) -> bytes:
        return opening(answer, self.dialect.server, self.state.name, self.dialect.json_type)

    async def seat(self) -> None:
        """Wait for a slot. Whoever got one must `stand` up."""
        if self._seats is not None:
            self.state.waiting += 1
            try:
                await self._seats.acquire()
            finally:
                self.state.waiting -= 1
        self.state.running += 1

    def stand(self) -> None:
        self.state.running -= 1
        if self._seats is not None:
            self._seats.release()

    def _control(self, request: Request) -> Answer:
        """The engine's own page."""
        if request.method in ("PUT", "POST"):
            try:
                self.set_faults(*request.json())
            except (ValueError, TypeError, AttributeError) as error:
                return plain({"error": str(error)}, 400)
        state = self.state
        counts = {"received": state.received, "completed": state.completed, "cancelled": state.cancelled}
        now = {
            "running": state.running,
            "waiting": state.waiting,
            "connections": state.connections,
            "loads": state.loads,
        }
        return plain(
            {"name": state.name, "kind": state.kind, "model": state.model, "faults": self._texts, **counts, **now}
        )
