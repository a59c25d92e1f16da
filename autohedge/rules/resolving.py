"""What a name's answers say about the addresses behind it.

What it decides: which addresses stay in use after the resolver spoke, and when it is worth asking again soon.

Rules
- An address that is told is in use at once.
- One that is no longer told goes after it was missing from `confirm` good answers in a row: answers may hold a part of a long
  list, and change their order (Docker's resolver tells a TTL of 600 s and is right at once; facts, swarm 2).
- "No such name" is a good answer that holds nothing. Trouble of the resolver is no answer at all and changes nothing: only
  the first may empty a pool (facts, resilience 1.4: EAI_NONAME and EAI_NODATA against EAI_AGAIN and EAI_FAIL).
- A TTL is never looked at.

It must not know: sockets, resolvers, ports, backends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from ipaddress import ip_address
from typing import NamedTuple


class Family(StrEnum):
    """Which addresses of a name are its replicas. AUTO: IPv4, and IPv6 where there is none, because a host with both would
    count as two replicas.
    """

    AUTO = "auto"
    IPV4 = "ipv4"
    IPV6 = "ipv6"
    BOTH = "both"


class Answer(NamedTuple):
    """What a resolver said of one name: addresses, maybe none; or the `trouble` that kept it from saying anything."""

    addresses: tuple[str, ...] = ()
    trouble: str = ""


def after(missing: Mapping[str, int], told: Iterable[str], confirm: int) -> dict[str, int]:
    """The addresses in use after a good answer, each with the number of good answers in a row that did not hold it."""
    now = dict.fromkeys(told, 0)
    for address, times in missing.items():
        if address not in now and times + 1 < confirm:
            now[address] = times + 1
    return now


def chosen(addresses: Sequence[str], family: Family) -> tuple[str, ...]:
    """The addresses of the family, each once, sorted: resolvers turn the order at every answer."""
    known = sorted({ip_address(address.partition("%")[0]) for address in addresses}, key=lambda one: (one.version, one))
    if family is Family.BOTH:
        return tuple(map(str, known))
    wanted = 6 if family is Family.IPV6 else 4
    of_family = tuple(str(one) for one in known if one.version == wanted)
    if family is Family.AUTO and not of_family:
        return tuple(map(str, known))
    return of_family
