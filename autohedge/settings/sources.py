"""Settings of the sources: where backends are looked for beside `upstream_registry`.

It must not know: how a source looks.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from autohedge.settings.durations import Duration
from autohedge.settings.scalars import AtLeastOne, PositiveDuration, one_of
from autohedge.settings.section import Section
from autohedge.settings.swarm import Docker, Swarm

FamilyName = Annotated[str, one_of("auto", "ipv4", "ipv6", "both")]


class FileSource(Section):
    path: str = Field(default="", description="Endpoints file to follow; empty is off.")
    interval: PositiveDuration = Field(default=Duration.of("2s"), description="How often the file is looked at.")


class DnsSource(Section):
    """How names are asked, for every backend with `resolve: true`. Cadence of bge-router."""

    interval: PositiveDuration = Field(default=Duration.of("30s"), description="How often every name is asked.")
    timeout: PositiveDuration = Field(default=Duration.of("5s"), description="How long one answer is waited for.")
    confirm: AtLeastOne = Field(
        default=3, description="Answers in a row without an address until it is given up; they come 2 s apart."
    )
    family: FamilyName = Field(default="auto", description="auto (IPv4, else IPv6), ipv4, ipv6 or both.")


class Sources(Section):
    file: FileSource = Field(default=FileSource(), description="Backends from an endpoints file.")
    dns: DnsSource = Field(default=DnsSource(), description="Backends behind names.")
    swarm: Swarm = Field(default=Swarm(), description="Backends from the services of a Docker Swarm.")
    docker: Docker = Field(default=Docker(), description="Backends from the containers of one Docker engine.")
