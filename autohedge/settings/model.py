"""Every setting of AutoHedge, with its default and its one-line description.

What it decides: the shape of the configuration. The documentation, the environment variables, the "did you mean" of
errors and the effective configuration are all computed from these classes, so a setting exists here or nowhere.

Rules: frozen, strict, no unknown keys. Durations are float seconds. Seed spellings never come here (`migrate.py`).

It must not know: YAML, files or the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PrivateAttr, field_validator

from autohedge.core.types import BackendSpec
from autohedge.settings.addresses import parse_listen, parse_state, split_port
from autohedge.settings.durations import Duration
from autohedge.settings.errors import dotted
from autohedge.settings.health import Breaker, Health, Probe, Startup
from autohedge.settings.people import Admin, Alerts, Auth
from autohedge.settings.routing import Routing
from autohedge.settings.scalars import (
    AtLeastOne,
    Flag,
    Level,
    Many,
    NotNegative,
    Number,
    PositiveDuration,
    one_of,
    told,
)
from autohedge.settings.section import Section
from autohedge.settings.sources import Sources
from autohedge.settings.systemone import SystemOne
from autohedge.settings.upstream import Backend, BackendName, ModelRule, Rung, StaticModel, claimed_twice
from autohedge.settings.workers import Workers


def _listen(text: str) -> str:
    parse_listen(text)
    return text.strip()


def _origin(text: str) -> str:
    scheme, _, place = text.partition("://")
    if text != "*" and not (scheme in {"http", "https"} and "/" not in place and split_port(place, text)):
        raise ValueError(f'{told(text)} must be "*" or an origin such as "https://app.example"')
    return text


def _state(text: str) -> str:
    return parse_state(text) if text.strip() else ""


class Cors(Section):
    origins: Many[Annotated[str, AfterValidator(_origin)]] = Field(
        default=(), description='Web origins that may call; "*" is all, [] is CORS off.'
    )
    headers: Many[str] = Field(default=("*",), description="Request headers that browsers may send.")
    methods: Many[Annotated[str, AfterValidator(str.upper)]] = Field(
        default=("GET", "POST"), description="Methods that browsers may use."
    )
    max_age: Duration = Field(default=Duration.of("10m"), description="How long a browser keeps a preflight answer.")


class Server(Section):
    listen: Annotated[str, AfterValidator(_listen)] = Field(
        default="0.0.0.0:8000", description="host:port, :port or [v6]:port to listen on; port 0 takes a free one."
    )
    max_body_bytes: AtLeastOne = Field(
        default=33_554_432, description="Largest request body, in bytes; above it is a 413."
    )
    access_log: Level = Field(
        default="off", description="off, error (5xx), warning (4xx too), info (all) or debug (with bodies)."
    )
    log_format: Annotated[str, one_of("text", "json")] = Field(
        default="text", description="Other log lines: text, or json, one object per line (eidex's mode)."
    )
    workers: AtLeastOne = Field(default=1, description="Processes that serve requests.")
    grace: Duration = Field(
        default=Duration.of("30s"), description="How long a stop waits for requests that are running."
    )
    drain: Duration = Field(
        default=Duration.of("0s"),
        description="How long a stop still takes requests while /readiness says 503, so that a load balancer hears of it first.",
    )
    cors: Cors = Field(default=Cors(), description="Calls from browsers.")

    @property
    def leave(self) -> float:
        """Seconds that a stop may take."""
        return self.drain + self.grace

    @property
    def bind(self) -> tuple[str, int]:
        """Host and port of `listen`; port 0 asks the system for a free one."""
        return parse_listen(self.listen)


class Timeouts(Section):
    """Seconds. `total` is the one budget of a request; the others cut single waits inside it."""

    connect: PositiveDuration = Field(default=Duration.of("2s"), description="Until a connection stands.")
    acknowledge: Duration = Field(
        default=Duration.of("6s"),
        description="How long an engine's machine may acknowledge nothing that TCP sends it; 0 leaves it to the other times.",
    )
    first_byte: PositiveDuration = Field(default=Duration.of("30s"), description="Until the first byte of an answer.")
    loading: PositiveDuration = Field(
        default=Duration.of("300s"), description="Until the first byte where the engine is loading the model."
    )
    stall: PositiveDuration = Field(default=Duration.of("20s"), description="Between two chunks of an answer.")
    total: PositiveDuration = Field(
        default=Duration.of("300s"), description="For the whole request, every attempt included."
    )
    reserve: Duration = Field(
        default=Duration.of("15s"),
        description="Kept back from each attempt for every rung of the fallback chain that could still come.",
    )
    hold: Duration = Field(
        default=Duration.of("30s"),
        description="How long the start of a stream is held back for its first content; 0 holds nothing.",
    )
    count: Duration = Field(
        default=Duration.of("500ms"), description="For asking an engine to count a prompt; 0 never asks."
    )
    body: PositiveDuration = Field(default=Duration.of("60s"), description="Until the client has sent its body.")


class Failover(Section):
    attempts: AtLeastOne = Field(default=3, description="Attempts per request, the first one included.")
    budget_ratio: Number = Field(default=0.2, description="Failovers allowed per request of the recent past.")
    budget_rate: Number = Field(default=1.0, description="Failovers allowed per second beside the ratio.")


class Queue(Section):
    size: NotNegative = Field(default=100, description="Requests that may wait for a free replica; 0 is no queue.")
    wait: Duration = Field(default=Duration.of("5s"), description="Longest wait in the queue.")


class Learning(Section):
    interval: PositiveDuration = Field(
        default=Duration.of("60s"), description="How often each replica is asked for its models and limits."
    )
    timeout: PositiveDuration = Field(default=Duration.of("5s"), description="For one such question.")
    parallel: AtLeastOne = Field(default=8, description="Replicas asked at once.")


class Validation(Section):
    mode: Flag = Field(
        default=True, description="on checks requests before any engine sees them; off forwards what parses."
    )
    schema_depth: AtLeastOne = Field(default=64, description="Deepest JSON schema in a request, in levels.")
    max_decoded_bytes: AtLeastOne = Field(
        default=67_108_864, description="Largest body after gzip, br or zstd, in bytes."
    )


class OpenAI(Section):
    model_override: str = Field(
        default="",
        description='Model name in answers: "" keeps the engine\'s, "request" is the one the client asked for, else this name.',
    )


class State(Section):
    url: Annotated[str, AfterValidator(_state)] = Field(
        default="",
        repr=False,
        description="Redis that several AutoHedge share, or sqlite:////path/state.db; empty is state.db in AUTOHEDGE_DATA "
        "or the working directory.",
    )
    prefix: str = Field(default="autohedge:", description="What every key in Redis starts with.")


class Metrics(Section):
    enabled: Flag = Field(default=True, description="Whether /metrics answers.")


class Settings(Section):
    """The whole configuration. Made by `load()`; parts may be given by hand in tests."""

    also_known = ("redis_url",)  # migrate.py reads it

    server: Server = Field(default=Server(), description="The address that clients know.")
    timeouts: Timeouts = Field(default=Timeouts(), description="How long each step may take.")
    failover: Failover = Field(default=Failover(), description="Next attempts after one that ended badly.")
    queue: Queue = Field(default=Queue(), description="Waiting when every replica is at its cap.")
    learning: Learning = Field(default=Learning(), description="Asking engines what they serve.")
    probe: Probe = Field(default=Probe(), description="Asking every model for a minimal inference.")
    breaker: Breaker = Field(default=Breaker(), description="Taking sick replicas out and bringing them back.")
    health: Health = Field(default=Health(), description="Which judge decides, and eidex's two probes.")
    startup: Startup = Field(default=Startup(), description="What must answer before requests are accepted.")
    validation: Validation = Field(default=Validation(), description="Checks before any engine sees a request.")
    openai: OpenAI = Field(default=OpenAI(), description="The OpenAI-compatible door.")
    routing: Routing = Field(default=Routing(), description="The System One door: which worker, how often again.")
    systemone: SystemOne = Field(default=SystemOne(), description="Checks at the System One door.")
    upstream_registry: Mapping[BackendName, Backend] = Field(default={}, description="Backends by name.")
    sources: Sources = Field(default=Sources(), description="Where else backends come from.")
    workers: Workers = Field(default=Workers(), description="Workers of the System One door.")
    fallback_chain: Many[Rung] = Field(
        default=(), description="Where a request goes when its own backends cannot serve it."
    )
    static_models: Many[StaticModel] = Field(
        default=(), description="Entries of /v1/models that are told, not discovered; written as a list under models."
    )
    models: Mapping[str, ModelRule] = Field(default={}, description="Rules per public model name.")
    state: State = Field(default=State(), description="What outlives a restart.")
    metrics: Metrics = Field(default=Metrics(), description="Prometheus.")
    auth: Auth = Field(default=Auth(), description="Who may use the data path.")
    admin: Admin = Field(default=Admin(), description="Who may use the admin API.")
    alerts: Alerts = Field(default=Alerts(), description="What people are told by mail and webhook.")
    mode: Annotated[str, one_of("autohedge", "eidex")] = Field(
        default="autohedge",
        description="eidex: its defaults, its words for refusals, and unknown keys are a warning (settings/eidex.py).",
    )

    _origins: Mapping[str, str] = PrivateAttr(default={})

    def model_post_init(self, context: Any, /) -> None:
        """Keeps the origins that `load()` gives in the validation context, for the sources of hints."""
        if context:
            self._origins = context["origins"]

    @field_validator("models")
    @classmethod
    def _names_are_unique(cls, models: Mapping[str, ModelRule]) -> Mapping[str, ModelRule]:
        if twice := claimed_twice(models):
            raise ValueError(twice)
        return models

    @property
    def redis_url(self) -> str:
        """The article's name for `state.url`."""
        return self.state.url

    def backends(self, *, resolve: bool = False) -> tuple[BackendSpec, ...]:
        """What `upstream_registry` declares: what has fixed addresses, or with `resolve` what stands behind names. Every hint
        says in which line of which file it stands.
        """

        def spec(name: str, backend: Backend) -> BackendSpec:
            base = dotted("upstream_registry", name)

            def origin(key: str) -> str:
                return self._origins.get(f"{base}.{key}", "the configuration").partition(",")[0]

            return backend.spec(name, "static", origin)

        return tuple(spec(name, one) for name, one in self.upstream_registry.items() if one.resolve == resolve)
