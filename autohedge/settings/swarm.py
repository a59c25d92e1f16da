"""What the Swarm source is told: whom to ask, which network counts, and what a service may say about itself.

What it decides: the keys of `sources.swarm` and their bounds.

It must not know: the Docker SDK, or what becomes of a service.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from autohedge.settings.addresses import split_port
from autohedge.settings.durations import Duration
from autohedge.settings.scalars import Flag, Many, Name, PositiveDuration, told
from autohedge.settings.section import Section

SOCKET = "unix:///var/run/docker.sock"
NETWORK = "autohedge-net"
EVERY = "*"  # in `shared_models`: all of them

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_SCHEMES = {"tcp", "http", "https"}


def _engine(text: str) -> str:
    """The address of a Docker API: a socket file, or host and port of a guard in front of one."""
    text = text.strip()
    scheme, sign, rest = text.partition("://")
    if scheme == "unix" and rest.startswith("/") and not rest.endswith("/"):
        return text
    if "@" in rest:
        raise ValueError("credentials inside an address are refused; use tls")
    if not sign or scheme not in _SCHEMES or split_port(rest.rstrip("/"), text)[1] is None:
        raise ValueError(f"must be unix:///path, tcp://host:port or https://host:port, not {told(text)}")
    return text.rstrip("/")


def _variable(text: str) -> str:
    if _VARIABLE.fullmatch(text) is None:
        raise ValueError(f"{told(text)} is not the name of an environment variable")
    return text


Variables = Many[Annotated[str, AfterValidator(_variable)]]


class EngineEnv(Section):
    """The only environment variables of a service that are read; no value of any is ever logged."""

    model: Variables = Field(default=("MODEL",), description="Variables that name the model.")
    max_model_len: Variables = Field(
        default=("MAX_MODEL_LEN",), description="Variables that hold the context, in tokens."
    )
    port: Variables = Field(default=(), description="Variables that hold the port the engine listens on.")

    @property
    def names(self) -> frozenset[str]:
        """Every variable that may be read."""
        return frozenset((*self.model, *self.max_model_len, *self.port))


class EngineTls(Section):
    """Files for a Docker API behind TLS; a client certificate is as good as root on that engine."""

    ca: str = Field(
        default="", description="File of the authority that signed the API's certificate; empty is the system's."
    )
    cert: str = Field(default="", description="File of our client certificate.")
    key: str = Field(default="", validate_default=True, description="File of its key.")

    @field_validator("key")
    @classmethod
    def _pair(cls, key: str, info: ValidationInfo) -> str:
        if bool(key) != bool(info.data.get("cert")):
            raise ValueError("give cert and key, or none of them")
        return key


class Engine(Section):
    """A Docker API, and which of what it lists counts."""

    enabled: Flag = Field(default=False, description="Whether backends are looked for there.")
    host: Annotated[str, AfterValidator(_engine)] = Field(
        default=SOCKET,
        description="Docker API: unix:///path, or tcp://host:port of docker-guard or a socket proxy.",
    )
    network: Name = Field(
        default=NETWORK, description="Exact name of the network on which engines are found and reached."
    )
    interval: PositiveDuration = Field(default=Duration.of("1s"), description="How often it is looked.")
    timeout: PositiveDuration = Field(default=Duration.of("4s"), description="For one answer of the Docker API.")
    labelled_only: Flag = Field(
        default=False, description="Take only what has the label autohedge.enable=true, whatever its name."
    )
    shared_models: Many[Name] = Field(
        default=(), description='Models that more than one stack or project may claim; "*" is all of them.'
    )
    env: EngineEnv = Field(default=EngineEnv(), description="Which environment variables are read.")
    tls: EngineTls = Field(default=EngineTls(), description="Client certificate for a Docker API behind TLS.")


class Swarm(Engine):
    """Backends from the services of a Docker Swarm; `host` is the API of a manager."""

    member: Flag = Field(
        default=False,
        description="Look at the network as any node sees it, for where no manager can be asked: names and addresses only.",
    )
    labels: Mapping[Name, Mapping[Name, str]] = Field(
        default={}, description="With member: labels by full service name, for those that cannot be read."
    )


class Docker(Engine):
    """Backends from the containers of one Docker engine, Compose's among them."""
