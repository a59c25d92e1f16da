"""The words of AutoHedge: every noun that more than one room uses, and nothing that acts.

Rules of this file
- It imports nothing of the project but `fact.py`, and nothing that can wait, read a clock or touch a socket.
- Everything is frozen, except `Seat`: the one pair of counters that live traffic moves.
- Unknown is a value of its own (`None`): not checked, never 0.

It must not know: HTTP, YAML, Docker, Redis, or how any engine spells its answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from autohedge.core.fact import Fact, Rank  # noqa: F401  all others take them from here

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Kind(StrEnum):
    """A provider: a kind of counterpart and how to speak to it. `AUTO` is recognised by asking."""

    AUTO = "auto"
    OPENAI = "openai-compatible"
    VLLM = "vllm"
    SGLANG = "sglang"
    OLLAMA = "ollama"
    TGI = "tgi"
    LLAMACPP = "llamacpp"
    AZURE = "azure"
    SYSTEMONE = "systemone"  # of unknown make
    TYPESAFE = "typesafe"


class Door(StrEnum):
    """The API through which a request came; it picks the schema, the upstream path and the envelope."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"
    RESPONSES = "responses"
    MESSAGES = "messages"
    RERANK = "rerank"
    SPARSE = "sparse-embeddings"
    BOTH = "embeddings-both"
    SYSTEMONE = "systemone"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a model on a backend accepts, in tokens. `abilities` says yes or no to a `Door` value or to
    "tools", "vision", "response_format"; what is absent is unknown and is not checked.
    """

    context: Fact[int] | None = None  # prompt and answer together
    max_input: Fact[int] | None = None  # the prompt alone
    max_output: Fact[int] | None = None  # largest explicit max_tokens
    abilities: Mapping[str, Fact[bool]] = field(default_factory=lambda: NOTHING)
    counts: Mapping[str, Fact[int]] = field(default_factory=lambda: NOTHING)  # System One; names as in `model_limits`


UNKNOWN_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Address:
    """Where one replica listens. `prefix` is put before every path of the engine ("" or "/base", no trailing slash).

    `tenant` is who lives there, where a source can tell (a Swarm task): another tenant at the same place is another replica.
    """

    host: str
    port: int
    tls: bool = False
    prefix: str = ""
    tenant: str = ""
    guarded: bool = field(default=False, compare=False)  # given over HTTP: who connects looks where its name leads

    @property
    def authority(self) -> str:
        """`host:port` as it stands in a Host header; IPv6 in brackets, the scheme's own port left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.authority}{self.prefix}"


class Secret:
    """A credential that never prints itself; `reveal()` is called only where it is put on the wire."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret('***')"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


@dataclass(frozen=True, slots=True)
class BackendSpec:
    """One logical service as a source declares it: before anybody asked the engine.

    `models` are names the source vouches for (label, env, config); empty means "ask the engine".
    `by_args` says that some of `models` are what the engine was told to call its model: one that lists none is another engine.
    `aliases` maps a public name to the name that the engine knows. `key` is the backend's own credential: when set, it
    replaces the client's Authorization; when not, the client's header passes, unless the backend is `external`.
    """

    name: str
    kind: Kind = Kind.AUTO
    addresses: tuple[Address, ...] = ()
    models: tuple[str, ...] = ()
    exact: bool = (
        False  # serves the declared models under these very names, and neither its own name nor what its engine lists
    )
    by_args: bool = False
    stack: str = ""  # who deployed it, where a source tells: a model of two stacks belongs to the first
    shares: tuple[str, ...] = ()  # models that it may serve beside another stack; "*" is all of them
    takes_any: bool = False  # answers for whatever model is asked: eidex's worker without a model_id
    aliases: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    hints: Limits = UNKNOWN_LIMITS
    key: Secret | None = None
    external: bool = False
    listed: bool = True  # False: reached through a rung of the fallback chain only
    concurrency: int | None = None  # requests in flight per replica; None is no cap of ours
    pool: str = ""
    priority: int = 50
    weight: int = 1
    origins: tuple[str, ...] = ()  # names of the sources that report it
    labels: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    params: Mapping[str, str] = field(default_factory=lambda: NOTHING)  # azure: deployment, api_version


@dataclass(frozen=True, slots=True)
class Seen:
    """A complete look: these backends exist, and no others. `notes` tell what was ignored and why."""

    backends: tuple[BackendSpec, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Blind:
    """The source could not look. Blind never removes anything."""

    reason: str


Sweep = Seen | Blind


@dataclass(frozen=True, slots=True)
class Appeared:
    spec: BackendSpec


@dataclass(frozen=True, slots=True)
class Changed:
    old: BackendSpec
    new: BackendSpec


@dataclass(frozen=True, slots=True)
class Vanished:
    spec: BackendSpec


DiscoveryEvent = Appeared | Changed | Vanished


@dataclass(frozen=True, slots=True)
class LearnedModel:
    """One model that a replica says it serves. `id` is the name to send; `names` are all names it answers to."""

    id: str
    names: tuple[str, ...] = ()
    limits: Limits = UNKNOWN_LIMITS
    owned_by: str = ""


@dataclass(frozen=True, slots=True)
class Lesson:
    """What one replica told us at `at` (epoch seconds). `failed` is the reason when it did not answer (then keep the old), `mute`
    that it is well and will not tell: it wants a key that we have not, or it is no engine.
    """

    kind: Kind
    models: tuple[LearnedModel, ...] = ()
    at: float = 0.0
    failed: str = ""
    slots: int | None = None  # requests the engine works on at once, where it says so
    mute: bool = False


class Seat:
    """Live counters of one replica: moved by the way of a request only, on the event loop only."""

    __slots__ = ("cap", "in_flight", "last", "promised")

    def __init__(self, cap: int | None = None) -> None:
        self.cap = cap
        self.in_flight = 0
        self.promised = 0  # freed places that a waiter was woken for and has not taken yet
        self.last = 0  # turn number of the latest request: ties go to the one that waited longest

    @property
    def free(self) -> bool:
        return self.cap is None or self.in_flight + self.promised < self.cap


@dataclass(frozen=True, slots=True, eq=False)
class Replica:
    """One address of a backend (one Swarm task). Identity, not value: breaker and seat belong to it across snapshots."""

    id: str  # "backend@host:port", stable while the address is; with "#" and the tenant where a source tells it
    backend: str
    address: Address
    seat: Seat


@dataclass(frozen=True, slots=True)
class Candidate:
    """One place that could serve a model: what the plan orders and an attempt tries."""

    replica: Replica
    backend: BackendSpec
    kind: Kind
    served: str  # the model name this engine knows; "" when the engine takes any
    limits: Limits
    rung: int = 0
    known: bool = True  # False: declared, but the engine has not confirmed it yet


class Admitted(NamedTuple):
    """A candidate that may be tried now, with its breaker's stamp of that moment."""

    candidate: Candidate
    stamp: int


@dataclass(frozen=True, slots=True)
class Route:
    """Everything a snapshot knows of one public model name."""

    model: str
    candidates: tuple[Candidate, ...]
    kinds: frozenset[Kind]  # of the candidates and the spare ones
    owned_by: str = "autohedge"
    room: int = 0  # tokens, prompt and answer together, that surely fit every candidate
    lacking: frozenset[str] = frozenset()  # abilities that some candidate is known not to have
    spare: tuple[Candidate, ...] = ()  # wildcards, asked only where no candidate can be


@dataclass(frozen=True, slots=True)
class SourceView:
    """State of one source: when it last saw, and why it is blind if it is."""

    name: str
    seen_at: float = 0.0
    blind: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The frozen picture of the world: built by the registry, held by one request from start to end."""

    version: int = 0
    routes: Mapping[str, Route] = field(default_factory=lambda: NOTHING)
    backends: Mapping[str, BackendSpec] = field(default_factory=lambda: NOTHING)
    replicas: Mapping[str, Replica] = field(default_factory=lambda: NOTHING)
    lessons: Mapping[str, Lesson] = field(default_factory=lambda: NOTHING)  # by replica id
    sources: Mapping[str, SourceView] = field(default_factory=lambda: NOTHING)
    wild: tuple[Candidate, ...] = ()  # one of each replica that answers for any model

    def everybody(self) -> Iterator[Candidate]:
        """Every candidate, as often as routes and wildcards name it."""
        for route in self.routes.values():
            yield from route.candidates
        yield from self.wild


class Failure(StrEnum):
    """How the transport failed; the only vocabulary that leaves the wire room."""

    REFUSED = "connection refused"
    UNREACHABLE = "address unreachable"
    TLS = "TLS handshake failed"
    CONNECT_TIMEOUT = "connect timed out"
    RESET = "connection reset"
    SILENT = "closed before the first byte"
    FIRST_BYTE_TIMEOUT = "no first byte in time"
    STALLED = "stalled between chunks"
    VANISHED = "its machine acknowledges nothing any more"
    CUT = "body cut short"
    MALFORMED = "not valid HTTP"
    TOO_BIG = "head too big"
    DEADLINE = "time for the whole request used up"
    SHARE = "its share of the request's time used up; the rest is for the rungs after it"


@dataclass(slots=True)
class Outcome:
    """Raw facts of one attempt or probe, as the judge reads them.

    `status` is 0 when no head came. `excerpt` is the start of an error body, of the first event, or of a plain 200 body.
    `finished` says that the answer came to its proper end ([DONE], finish_reason, full body). `own_key`: the credential
    sent was the backend's, not the client's. `left`: the client went away, or a hedge was lost. `repeats`: how often one
    character must stand alone to be no answer, 0 never; None: what an answer holds is not looked at. `hollow` says what a
    stream lacked although it came to its proper end.
    """

    failure: Failure | None = None
    status: int = 0
    content_type: str = ""
    excerpt: bytes = b""
    retry_after: float | None = None  # seconds
    streamed: bool = False
    committed: bool = False
    finished: bool = False
    own_key: bool = False
    left: bool = False
    repeats: int | None = 8
    hollow: str = ""


class Verdict(StrEnum):
    """The one judgement of an outcome. Only SICK and DEAD count against a breaker; only ANSWER counts for it."""

    ANSWER = "answer"
    CLIENT_FAULT = "client_fault"
    CAPABILITY = "capability"
    BUSY = "busy"
    LOADING = "loading"
    MISCONFIGURED = "misconfigured"
    SICK = "sick"
    DEAD = "dead"
    RETIRED = "retired"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict with the sentence that explains it, and what else the answer taught."""

    verdict: Verdict
    reason: str = ""
    status: int = 0  # the status a caller should see when it differs from the engine's (200 with an error inside)
    retry_after: float | None = None
    certain: bool = False  # the engine's own obituary: opens a breaker at once
    absent: bool = False  # the backend says that it does not know the model itself, not only a path
    teaches: Mapping[str, int] = field(
        default_factory=lambda: NOTHING
    )  # limits named by an error text: context, max_output


@dataclass(slots=True)
class Attempt:
    """One try of one candidate. Times are loop seconds."""

    candidate: Candidate
    started: float
    stamp: int = 0  # breaker generation at admission; late results of an earlier one are ignored
    hedge: bool = False
    first_byte: float | None = None
    ended: float | None = None
    outcome: Outcome | None = None
    judgement: Judgement | None = None
