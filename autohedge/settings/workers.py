"""Workers of the System One door: those that stand in the file, and what may be registered beside them at run time.

What it decides: the shape of a worker, which is the same in eidex's `workers` list and in the body of POST /workers, and the
defaults of its fields.

It must not know: what is forbidden to register (rules/reach.py), where registered ones are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from autohedge.core.types import Address
from autohedge.settings.addresses import parse_address
from autohedge.settings.scalars import Flag, Many, NotNegative, told
from autohedge.settings.section import Section

REGULAR = "regular"


def place_of(url: str) -> Address:
    """Where a worker listens. Raises ValueError: unlike a backend's host, a worker's URL has its scheme."""
    if "://" not in url:
        raise ValueError("must be a URL with http:// or https://")
    return parse_address(url)


def _url(text: str) -> str:
    return str(place_of(text))


def _type(value: object) -> object:
    if value != REGULAR:
        raise ValueError(f'must be "{REGULAR}", not {told(value)}; other kinds of workers do not exist here')
    return value


def _network(text: str) -> str:
    try:
        network = ip_network(text.strip(), strict=False)
    except ValueError:
        raise ValueError(f"{told(text)} must be a network such as 10.0.0.0/8 or an address") from None
    return str(network)


class Worker(Section):
    """One decision server, as eidex writes it."""

    url: Annotated[str, AfterValidator(_url)] = Field(
        description="http(s)://host:port of it; slashes at the end are cut."
    )
    model_id: Annotated[str, Field(max_length=512)] = Field(
        default="", description="The model it serves; empty is a wildcard that serves any."
    )
    worker_type: Annotated[str, BeforeValidator(_type)] = Field(
        default=REGULAR, description="regular; there is no other."
    )
    priority: NotNegative = Field(default=50, description="Kept and told, used by no policy (as in eidex).")
    labels: Mapping[str, str] = Field(default={}, description="Free words, told in GET /workers.")

    @property
    def address(self) -> Address:
        return place_of(self.url)


class Workers(Section):
    """A list in its place (eidex) means `static`."""

    static: Many[Worker] = Field(default=(), description="Workers of this file; written as a list under workers.")
    persist: Flag = Field(
        default=True, description="Whether registered workers outlive a restart; false forgets them, as eidex does."
    )
    open: Flag = Field(
        default=False,
        description="true lets anybody list, register and remove workers as long as there is no admin.token; true in eidex's mode.",
    )
    allow: Many[Annotated[str, AfterValidator(_network)]] = Field(
        default=(),
        description="Networks that a worker may be registered in; empty is any. Link-local, metadata and multicast addresses "
        "are refused in any case.",
    )

    @property
    def exposed(self) -> bool:
        """Whether anybody may register anything."""
        return self.open and not self.allow

    @property
    def networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        return tuple(ip_network(text) for text in self.allow)
