"""What one sample engine is and what happened to it: its settings, its counters, its requests.

Settings may be changed while it runs (tests do). Times are loop seconds.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from autohedge.core.types import Kind
from autohedge.engine.messages import Request
from autohedge.engine.text import NATURAL

KEPT, KEPT_BYTES = 256, 1 << 26  # requests remembered, and bytes of their bodies


@dataclass(slots=True)
class State:
    """`pace` is tokens per second (0: at once), `latency` seconds before the first byte of a work answer, `slots` the
    answers worked on at once (None: any number), `words` the natural length of an answer, `dimensions` of a vector.
    """

    kind: Kind
    model: str = "sample-model"
    name: str = ""
    context: int = 4096
    key: str | None = None
    pace: float = 0.0
    latency: float = 0.0
    slots: int | None = None
    words: int = NATURAL
    dimensions: int = 64

    received: Counter[str] = field(default_factory=Counter)  # by path
    completed: Counter[str] = field(default_factory=Counter)
    cancelled: Counter[str] = field(default_factory=Counter)
    cancel_times: list[tuple[str, float]] = field(
        default_factory=list
    )  # path, seconds from arrival until the client left
    requests: deque[Request] = field(default_factory=deque)
    held: int = 0  # bytes of the bodies in `requests`
    connections: int = 0  # accepted since the start
    running: int = 0
    waiting: int = 0
    serial: int = 0  # numbers the answers
    generated: int = 0  # tokens sent, for the metrics

    idle: float | None = None  # seconds after which an idle connection is closed (B92)
    frozen: bool = False  # B02: every later work request is silent
    wedged: bool = False  # B20: everything in progress stops for ever
    loads: int = 0  # times a cold model was loaded
    loaded_until: float | None = None  # None: loaded for ever; 0: not loaded
    now: Callable[[], float] = lambda: 0.0
    die: Callable[[float | None], None] = lambda _: None  # close the listener; reopen after so many seconds, or never

    @property
    def last_request(self) -> Request | None:
        """The last one that is no mere question about the engine: those come at any time."""
        return next((one for one in reversed(self.requests) if one.method != "GET"), None)

    @property
    def gap(self) -> float:
        """Seconds from one token to the next."""
        return 1 / self.pace if self.pace > 0 else 0.0

    @property
    def loaded(self) -> bool:
        return self.loaded_until is None or self.now() < self.loaded_until

    def keep(self, request: Request) -> None:
        """Remember a request; the oldest go when there are too many, or too many bytes of them."""
        self.received[request.path] += 1
        self.requests.append(request)
        self.held += len(request.body)
        while len(self.requests) > KEPT or (self.held > KEPT_BYTES and len(self.requests) > 1):
            self.held -= len(self.requests.popleft().body)

    def next_id(self, prefix: str) -> str:
        """A new id: unique within this engine, the same on every run."""
        self.serial += 1
        return f"{prefix}{self.serial:016x}"
