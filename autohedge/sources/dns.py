"""Backends behind names: every address of a name is a replica.

Rules
- Names are asked anew on every look; nothing is kept by TTL. What an answer means is decided by rules/resolving.py.
- While an address is missing and not yet given up, the next look comes after `RETRY` seconds, not after a whole interval.
- One name in trouble makes this backend's source Blind with the reason; other backends have sources of their own.
- The resolver runs on a thread of this source and has `patience` seconds: a name that the system does not know may hold it for
  10 s (facts, swarm 2). While a question hangs no other is asked, so that threads do not pile up.

It must not know: what stands behind an address, other sources.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from ipaddress import ip_address

from autohedge.core.types import Address, BackendSpec, Blind, Seen, Sweep
from autohedge.rules.resolving import Answer, Family, after, chosen

RETRY = 2.0  # seconds until a missing address is looked for again

Resolve = Callable[[str], Answer]
NO_SUCH_NAME = frozenset(
    {socket.EAI_NONAME, socket.EAI_NODATA} if hasattr(socket, "EAI_NODATA") else {socket.EAI_NONAME}
)


def resolved(name: str) -> Answer:
    """Ask the system's resolver (files, DNS, Docker's own); blocks. "No such name" is an answer, anything else trouble."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return Answer() if error.errno in NO_SUCH_NAME else Answer(trouble=str(error.strerror or error))
    except (OSError, UnicodeError) as error:
        return Answer(trouble=str(error))
    return Answer(tuple(str(each[4][0]) for each in found))


@dataclass(frozen=True, slots=True)
class Asking:
    """How names are asked. `confirm`: good answers in a row without an address until it goes; `patience` is seconds."""

    family: Family = Family.AUTO
    confirm: int = 3
    patience: float = 5.0
    resolve: Resolve = resolved


class DnsSource:
    """The backend `spec`, whose addresses hold names; a literal address stands for itself."""

    def __init__(self, spec: BackendSpec, asking: Asking) -> None:
        self.name = named(spec)
        self.spec = replace(spec, origins=(self.name,))
        self._asking = asking
        self._missing: dict[str, dict[str, int]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=self.name)
        self._question: Future[Answer] | None = None

    async def look(self) -> Sweep:
        """Every address behind the names now, or which name cannot be told and why."""
        places: list[Address] = []
        notes: list[str] = []
        for address in self.spec.addresses:
            if _is_literal(address.host):
                places.append(address)
                continue
            answer = await self._ask(address.host)
            if answer.trouble:
                return Blind(f"{address.host}: {answer.trouble}")
            told = chosen(answer.addresses, self._asking.family)
            known = after(self._missing.get(address.host, {}), told, self._asking.confirm)
            self._missing[address.host] = known
            if not known:
                notes.append(f"{address.host} has no addresses")
            places.extend(replace(address, host=host) for host in sorted(known, key=ip_address))
        return Seen((replace(self.spec, addresses=tuple(dict.fromkeys(places))),), tuple(notes))

    async def hint(self) -> None:
        """Soon while an address is missing; never otherwise."""
        while not any(times for known in self._missing.values() for times in known.values()):
            await asyncio.Event().wait()
        await asyncio.sleep(RETRY)

    async def _ask(self, name: str) -> Answer:
        if self._question is not None and not self._question.done():
            return Answer(trouble=f"the resolver has not answered for {self._asking.patience:g} s and more")
        self._question = self._thread.submit(self._asking.resolve, name)
        try:
            async with asyncio.timeout(self._asking.patience):
                return await asyncio.wrap_future(self._question)
        except TimeoutError:
            return Answer(trouble=f"the resolver did not answer within {self._asking.patience:g} s")

    def close(self) -> None:
        """Ask nothing more; a question that hangs is left to end by itself."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def named(spec: BackendSpec) -> str:
    """What the source of this backend is called."""
    return f"dns:{spec.name}"


def _is_literal(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
