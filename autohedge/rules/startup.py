"""The gate at the start: which backends must answer before requests are accepted, and which of them do not.

Rules (the AutoHedge article 5.2)
- A backend is there when one of its replicas is.
- External backends are not waited for, unless there is nothing else: a foreign service that is up is no reason to accept
  requests, and one that is down is none to refuse them.
- Knowing no backend at all is not enough for `all` and `any`.

It must not know: what proves that a replica is there, clocks, sockets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Require(StrEnum):
    ALL = "all"
    ANY = "any"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Upstream:
    """One backend: `absent` says why none of its replicas is there, "" when one is."""

    name: str
    absent: str = ""
    external: bool = False


def missing(require: Require, upstreams: Sequence[Upstream]) -> list[str]:
    """What is still missing, one sentence each; [] opens the gate."""
    if require is Require.NONE:
        return []
    if not upstreams:
        return ["no backend is known yet"]
    waited = [one for one in upstreams if not one.external]
    absent = [one for one in waited if one.absent]
    if require is Require.ANY and len(absent) < len(waited):
        return []
    return [f"{one.name}: {one.absent}" for one in absent]
