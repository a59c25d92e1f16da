"""Where a worker that somebody registers over HTTP may be: the guard against being sent to places that only we can reach.

Rules
- Never, whatever is allowed: link-local addresses (the metadata services of the clouds among them), the clouds' other metadata
  addresses, "this network", multicast, reserved and broadcast.
- An address counts as what it reaches: IPv4 inside of IPv6 (mapped, compatible, translated, 6to4, Teredo, NAT64, ISATAP) is
  that IPv4.
- Where networks are allowed, every address of a host must be in one of them.
- A host that is written as a number in another way than four decimal parts (0x7f.1, 2130706433, 0177.0.0.1) is refused: what
  looks like a name here would be an address for the resolver.
- A name is looked at when it is registered, and again whenever it is connected to: it may lead elsewhere by then.
- AutoHedge itself is no worker of its own: the request would go round in circles.

It must not know: HTTP, resolvers, who registers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Ip = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_V4 = (
    ("link-local", "169.254.0.0/16"),
    ("this network", "0.0.0.0/8"),
    ("multicast", "224.0.0.0/4"),
    ("reserved", "240.0.0.0/4"),
    ("a cloud's metadata service", "100.100.100.200/32"),
    ("a cloud's metadata service", "168.63.129.16/32"),
    ("a cloud's metadata service", "192.0.0.192/32"),
)
_V6 = (
    ("link-local", "fe80::/10"),
    ("unspecified", "::/128"),
    ("multicast", "ff00::/8"),
    ("a cloud's metadata service", "fd00:ec2::/32"),
    ("a cloud's metadata service", "fd20:ce::254/128"),
)
NEVER: tuple[tuple[str, Network], ...] = tuple((why, ip_network(text)) for why, text in (*_V4, *_V6))
_NAT64 = ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48")  # RFC 6052, and RFC 8215 for networks of one's own
_TRANSLATED = 0xFFFF0000  # ::ffff:0:a.b.c.d (RFC 2765)
_ISATAP = 0x5EFE
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")


def address_in(host: str) -> Ip | None:
    """The address that a host is, None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def disguised(host: str) -> str:
    """Why a host may not be written so, "" when it may."""
    last = host.lower().rstrip(".").rpartition(".")[2]
    if address_in(host) is None and _NUMBER.fullmatch(last):
        return "an IPv4 address is written as four decimal numbers"
    return ""


def refused(addresses: Iterable[Ip], allowed: Sequence[Network] = ()) -> str:
    """Why a host with these addresses may not be a worker, "" when it may."""
    for address in addresses:
        reached = _reached(address)
        for why, network in NEVER:
            if _within(reached, network):
                return f"its address is not allowed ({why})"
        if allowed and not any(_within(reached, network) for network in allowed):
            return "its address is outside of workers.allow"
    return ""


def may_connect(text: str, allowed: Sequence[Network] = ()) -> bool:
    """Whether a guarded place may be connected to, now that this is its address."""
    address = address_in(text.partition("%")[0])
    return address is not None and not refused([address], allowed)


def itself(host: str, port: int, bind: tuple[str, int]) -> bool:
    """Whether this is where AutoHedge itself listens, as far as the address tells."""
    address = address_in(host)
    here = host.rstrip(".") in ("localhost", bind[0]) or (address is not None and _reached(address).is_loopback)
    return here and port == bind[1]


def heard(found: Iterable[Ip], bound: str, ours: Callable[[Ip], bool]) -> bool:
    """Whether AutoHedge, which listens at `bound`, is heard at one of these addresses. `ours`: those of this machine."""
    listens = address_in(bound)
    everywhere = not bound or (listens is not None and listens.is_unspecified)
    return any(one.is_loopback or (ours(one) if everywhere else one == listens) for one in map(_reached, found))


def _within(address: Ip, network: Network) -> bool:
    return address.version == network.version and address in network


def _reached(address: Ip) -> Ip:
    """The IPv4 address inside an IPv6 one, else the address."""
    inner = _inside(address) if isinstance(address, IPv6Address) else None
    return address if inner is None else inner


def _inside(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    number = int(address)
    low = IPv4Address(number & 0xFFFFFFFF)
    if number >> 32 == _TRANSLATED or any(address in network for network in _NAT64):
        return low
    if (number >> 32) & 0xFFFF == _ISATAP and (number >> 48) & 0xFFFF in (0, 0x200):
        return low
    return low if number >> 32 == 0 and number > 1 else None  # ::a.b.c.d, but not :: and ::1
