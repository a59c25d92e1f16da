"""What stands behind AutoHedge in the configuration: backends, rungs of the chain, and rules for model names.

What it decides: the shape of `upstream_registry`, `fallback_chain` and `models`, and what a backend entry means as a
`BackendSpec`. The article's file is the smallest legal form: `host` and `model_limits`.

It must not know: how a chain is walked, or what an engine answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from autohedge.core.types import NOTHING, Address, BackendSpec, Fact, Kind, Limits, Rank
from autohedge.settings.addresses import DEFAULT_PORT, parse_address, parse_endpoint
from autohedge.settings.nearest import did_you_mean
from autohedge.settings.scalars import (
    SPELLINGS,
    AtLeastOne,
    Credential,
    Flag,
    Many,
    Name,
    NotNegative,
    Provider,
    kind_of,
    told,
)
from autohedge.settings.section import Section
from autohedge.settings.systemone import DecisionLimits

OLLAMA_PORT = 11434
PEERS = ("swarm", "static")  # rungs that mean backends we already know


def _address(text: str) -> str:
    parse_address(text)
    return text.strip()


def _backend_name(text: str) -> str:
    if not text or "@" in text or any(char.isspace() or not char.isprintable() for char in text):
        raise ValueError(f'a backend name has no blanks and no "@", unlike {told(text)}')
    return text


def _rung_provider(value: object) -> str:
    text = value.lower() if isinstance(value, str) else ""
    if text in PEERS:
        return text
    known = [*PEERS, *Kind]
    if text not in {*known, *SPELLINGS}:
        raise ValueError(f"unknown provider {told(value)}{did_you_mean(text, known)}")
    return kind_of(text).value


def _off_is_empty(value: object) -> object:
    return () if value is False or (isinstance(value, str) and value.lower() in {"off", "false", "no"}) else value


HostText = Annotated[str, AfterValidator(_address)]
BackendName = Annotated[str, AfterValidator(_backend_name)]
RungProvider = Annotated[str, BeforeValidator(_rung_provider)]


def one_spelling(models: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    """`model` or `models`; for sections that take either."""
    if models and info.data.get("model"):
        raise ValueError("give model or models, not both")
    return models


class ModelLimits(DecisionLimits):
    """What the operator says about a backend's models; what the engine says later stands over it."""

    max_tokens: AtLeastOne | None = Field(
        default=None, description="Largest max_tokens that a request may ask for, in tokens."
    )
    max_input_length: AtLeastOne | None = Field(default=None, description="Longest prompt, in tokens.")
    max_model_len: AtLeastOne | None = Field(default=None, description="Prompt and answer together, in tokens.")

    def hints(self, source: Callable[[str], str]) -> Limits:
        """The limits with their origin; `source` gives the sentence for a key."""

        def fact(key: str, value: int | None) -> Fact[int] | None:
            return None if value is None else Fact(value, source(key), Rank.CONFIG)

        return Limits(
            context=fact("max_model_len", self.max_model_len),
            max_input=fact("max_input_length", self.max_input_length),
            max_output=fact("max_tokens", self.max_tokens),
            counts=self.counted(source) or NOTHING,
        )


class Backend(Section):
    """One entry of `upstream_registry`: a logical service with one or more replicas."""

    provider: Provider = Field(default=Kind.AUTO, description="The engine behind it; auto asks the engine.")
    host: HostText | None = Field(
        default=None,
        description="host, host:port or URL of the only replica; port 8000 (Ollama 11434, Azure https) when absent.",
    )
    hosts: Many[HostText] = Field(default=(), validate_default=True, description="Several replicas, instead of host.")
    resolve: Flag = Field(
        default=False, description="Every address behind the host's name is a replica of its own (sources.dns)."
    )
    model: Name | None = Field(default=None, description="The one model it serves; absent: the engine is asked.")
    models: Many[Name] = Field(default=(), description="Several models, instead of model.")
    aliases: Mapping[Name, Name] = Field(default={}, description="Public model name to the name that the engine knows.")
    model_limits: ModelLimits = Field(
        default=ModelLimits(), description="Limits that hold until the engine tells its own."
    )
    api_key: Credential | None = Field(
        default=None, description="Its own credential; replaces the client's Authorization."
    )
    external: Flag = Field(
        default=False, description="A paid or foreign service: never probed with inference, no client keys."
    )
    concurrency: AtLeastOne | None = Field(default=None, description="Requests in flight per replica; absent: no cap.")
    pool: str = Field(default="", description="Name of the pool that it belongs to, for hedging between pools.")
    priority: NotNegative = Field(default=50, description="Lower is tried first.")
    weight: AtLeastOne = Field(
        default=1, description="Requests in flight that a replica gets for each one of its equals with weight 1."
    )
    deployment: str = Field(default="", description="Azure: name of the deployment.")
    api_version: str = Field(default="", description="Azure: value of api-version.")
    labels: Mapping[Name, str] = Field(default={}, description="Free words for status pages and metrics.")

    @field_validator("hosts")
    @classmethod
    def _one_place(cls, hosts: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if "host" not in info.data:  # it has its own error
            return hosts
        if info.data["host"] is None and not hosts:
            raise ValueError("host or hosts is required")
        if info.data["host"] is not None and hosts:
            raise ValueError("give host or hosts, not both")
        return hosts

    _one_spelling = field_validator("models")(one_spelling)

    @field_validator("resolve")
    @classmethod
    def _plain_names(cls, resolve: bool, info: ValidationInfo) -> bool:
        texts = (info.data.get("host"), *info.data.get("hosts", ()))
        if resolve and (info.data.get("provider") is Kind.AZURE or any(t and parse_address(t).tls for t in texts)):
            raise ValueError(
                "resolve is for http only: a certificate belongs to the name, not to the address behind it"
            )
        return resolve

    @field_validator("external")
    @classmethod
    def _external_by_url(cls, external: bool, info: ValidationInfo) -> bool:
        bare = [text for text in (info.data.get("host"), *info.data.get("hosts", ())) if text and "://" not in text]
        if external and bare and info.data.get("provider") is not Kind.AZURE:
            raise ValueError(f'an external backend needs a URL with http:// or https://, not "{bare[0]}"')
        return external

    @property
    def places(self) -> tuple[Address, ...]:
        """Every address as written, the provider's port put in; may hold one twice."""
        port = default_port(self.provider)
        azure = self.provider is Kind.AZURE
        texts = (self.host,) if self.host else self.hosts
        return tuple(parse_address(text, 443 if azure else port, tls=azure) for text in texts)

    def spec(self, name: str, source: str, origin: Callable[[str], str]) -> BackendSpec:
        """The entry as `source` declares it; `origin` tells where a dotted key of the entry stands."""
        params = {"deployment": self.deployment, "api_version": self.api_version}
        return BackendSpec(
            name=name,
            kind=self.provider,
            addresses=tuple(dict.fromkeys(self.places)),
            models=tuple(dict.fromkeys((self.model,) if self.model else self.models)),
            aliases=self.aliases,
            hints=self.model_limits.hints(lambda key: f"model_limits.{key} in {origin(f'model_limits.{key}')}"),
            key=self.api_key,
            external=self.external or self.provider is Kind.AZURE,
            concurrency=self.concurrency,
            pool=self.pool,
            priority=self.priority,
            weight=self.weight,
            origins=(source,),
            labels=self.labels,
            params={key: value for key, value in params.items() if value},
        )


class Rung(Section):
    """One step of a fallback chain."""

    provider: RungProvider = Field(description="swarm or static (backends known here), or the provider to speak to.")
    name: str = Field(default="", description="What logs and metrics call this rung.")
    model: Name | None = Field(default=None, description="The one model to ask for.")
    models: Many[Name] = Field(default=(), description="Several models or backends, tried in order.")
    endpoint: Annotated[str, AfterValidator(parse_endpoint)] | None = Field(
        default=None, validate_default=True, description="Full URL of an external API."
    )
    api_key: Credential | None = Field(default=None, description="Credential for the endpoint.")
    api_version: str = Field(default="", description="Azure: value of api-version.")
    deployment: str = Field(default="", description="Azure: name of the deployment.")

    _one_spelling = field_validator("models")(one_spelling)

    @field_validator("endpoint")
    @classmethod
    def _somewhere(cls, endpoint: str | None, info: ValidationInfo) -> str | None:
        broken = "model" not in info.data or "models" not in info.data  # has its own error
        if not (endpoint or broken or info.data["model"] or info.data["models"]):
            raise ValueError("a rung needs model, models or endpoint")
        return endpoint

    @property
    def names(self) -> tuple[str, ...]:
        """The models to ask for, in order; () means the model of the request."""
        return (self.model,) if self.model else self.models


class StaticModel(Section):
    """One entry of eidex's `models` list: what GET /v1/models tells beside the discovered models."""

    id: Name = Field(description="Model name.")
    created: NotNegative = Field(default=0, description="Unix time.")
    owned_by: str = Field(default="sglang", description="Owner as told to clients.")
    root: str | None = Field(default=None, description="Base model; absent: the id.")
    parent: str | None = Field(default=None, description="Parent model.")
    max_model_len: AtLeastOne | None = Field(default=None, description="Context length; absent: not told.")


class ModelRule(Section):
    """What holds for one public model name."""

    fallback: Annotated[Many[Rung] | None, BeforeValidator(_off_is_empty)] = Field(
        default=None, description="off, or a chain of its own; absent: the common fallback_chain."
    )
    aliases: Many[Name] = Field(default=(), description="Other names that clients may use for it.")


def default_port(kind: Kind) -> int:
    """The port of a host without one."""
    return OLLAMA_PORT if kind is Kind.OLLAMA else DEFAULT_PORT


def claimed_twice(models: Mapping[str, ModelRule]) -> str | None:
    """The first name that two models claim, as a sentence, or None."""
    owner = {name: name for name in models}
    for name, rule in models.items():
        for alias in rule.aliases:
            if owner.setdefault(alias, name) != name or alias == name:
                return f'"{alias}" is an alias of "{name}", and already stands for "{owner[alias]}"'
    return None
