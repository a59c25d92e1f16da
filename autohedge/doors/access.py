"""The gate of the data path: which caller this is, whether it may come in, and whether it comes too often.

Modes (`auth.mode`)
- off       anybody; nothing is looked at
- bearer    one of `auth.tokens`, in Authorization, api-key (Azure clients) or x-api-key (Anthropic clients)
- services  X-Service-ID names the caller (the AutoHedge article, 5.2); its token comes in the same headers

Rules
- `admit` is synchronous and answers at once. Where a token must be verified elsewhere (`auth.verify_url`) and that was not
  done in the last `FRESH` seconds, it says so in `Admittance.unverified`, and the edge awaits `verify`.
- A service with a token and a verify_url must please both.
- A verifier that does not answer makes no caller a stranger: its last yes holds for `STALE` seconds more. Without one the
  answer is 503, not 401: nobody knows.
- The rate is taken only from whom we know, so a stranger cannot use up a service's rate.
- A credential that was meant for AutoHedge goes no further: `strip` says that `CREDENTIALS` must not reach an engine.

It must not know: ASGI, doors, engines.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from autohedge.core.problems import Problem, TooManyRequests, Unauthorized, Unavailable
from autohedge.core.types import Secret
from autohedge.providers.base import Question
from autohedge.rules.access import Bucket, digest_of, hashed, which
from autohedge.settings.people import Auth, place_of
from autohedge.watchers.asking import Asking

LOGGER = logging.getLogger("autohedge.auth")
FRESH = 60.0  # seconds that a yes of the verifier holds
REFUSED = 10.0  # seconds that its no holds
UNKNOWN = 1.0  # seconds before one that did not answer is asked again
STALE = 600.0  # seconds that its last yes holds while it does not answer
REMEMBERED = 10_000  # answers of the verifier
PATIENCE = 5.0  # seconds for one question to the verifier
SHOWN = 64  # characters of a service's name in a message

# Headers that carry a credential or an identity for AutoHedge.
CREDENTIALS = frozenset({b"authorization", b"api-key", b"x-api-key", b"x-service-id"})
ASKING = ((b"www-authenticate", b"Bearer"),)

# (service, token) -> True: accepted, False: not accepted, None: no answer, or none that says either.
Verifier = Callable[[str, bytes], Awaitable[bool | None]]
Key = tuple[str, bytes]  # service, and the digest of its token


class Admittance(NamedTuple):
    """`caller` is "" where nobody asks who calls. `unverified`: not let in before `Gatekeeper.verify` has said so."""

    caller: str
    strip: bool
    unverified: bool = False


ANYBODY = Admittance("", strip=False)


@dataclass(slots=True)
class _Service:
    digest: bytes | None
    bucket: Bucket | None


@dataclass(frozen=True, slots=True)
class _Answer:
    """What the verifier said last, and until when that holds. `yes_at` is the time of its last yes."""

    accepted: bool | None
    until: float
    yes_at: float = float("-inf")


class Gatekeeper:
    """Made anew when the settings of `auth` change. `clock` is the process's monotonic clock in seconds. Raises ValueError
    when there is a verify_url and nobody to ask it: a gate that skips a question stands open.
    """

    def __init__(self, auth: Auth, clock: Callable[[], float], verifier: Verifier | None = None) -> None:
        if auth.mode == "services" and auth.verify_url is not None and verifier is None:
            raise ValueError("auth.verify_url needs a verifier")
        self._mode = auth.mode
        self._clock = clock
        self._verifier = verifier if auth.mode == "services" else None
        self._tokens = [digest_of(token.reveal()) for token in auth.tokens]
        self._services = {
            name: _Service(
                None if one.token is None else digest_of(one.token.reveal()),
                Bucket(one.rate, one.burst) if one.rate else None,
            )
            for name, one in auth.services.items()
        }
        self._answers: dict[Key, _Answer] = {}
        self._asking: dict[Key, asyncio.Lock] = {}

    def admit(self, headers: Mapping[bytes, bytes], now: float) -> Admittance:
        """Who calls. `headers` have lower-case names. Raises Unauthorized, and TooManyRequests over the caller's rate."""
        if self._mode == "off":
            return ANYBODY
        if self._mode == "bearer":
            place = which(hashed(_presented(headers, "")), self._tokens)
            if place is None:
                raise _stranger("the token is not accepted")
            return Admittance(f"token {place + 1}", strip=True)
        return self._service(headers, now)

    async def verify(self, headers: Mapping[bytes, bytes]) -> Admittance:
        """Ask the verifier about a caller that `admit` left unverified. Raises also Unavailable when nobody knows."""
        assert self._verifier is not None
        name = _name_of(headers)
        token = _presented(headers, f"of service {_shown(name)} ")
        key = (name, hashed(token))
        lock = self._asking.setdefault(key, asyncio.Lock())
        try:
            async with lock:  # one question for all that wait for the same answer
                if self._fresh(key, self._clock()) is None:
                    self._keep(key, await self._verifier(name, token), self._clock())
        finally:
            if not lock.locked():
                self._asking.pop(key, None)
        return self._judged(key, self._clock())

    def _service(self, headers: Mapping[bytes, bytes], now: float) -> Admittance:
        name = _name_of(headers)
        service = self._services.get(name)
        if service is None:
            raise _stranger(f"service {_shown(name)} is not known")
        digest = hashed(_presented(headers, f"of service {_shown(name)} "))
        if service.digest is not None and which(digest, (service.digest,)) is None:
            raise _stranger(f"the token of service {_shown(name)} is not accepted")
        if self._verifier is not None:
            key = (name, digest)
            if self._fresh(key, now) is None:
                return Admittance(name, strip=True, unverified=True)
            return self._judged(key, now)
        return self._counted(name, now)

    def _judged(self, key: Key, now: float) -> Admittance:
        """What the verifier's latest answer means for this request."""
        answer = self._answers[key]
        if answer.accepted is None and now >= answer.yes_at + FRESH + STALE:
            # not a 401: the token may be good
            raise Unavailable(
                f"whether the token of service {_shown(key[0])} is accepted cannot be verified now", retry_after=1
            )
        if answer.accepted is False:
            raise _stranger(f"the token of service {_shown(key[0])} is not accepted")
        return self._counted(key[0], now)

    def _counted(self, name: str, now: float) -> Admittance:
        bucket = self._services[name].bucket
        wait = bucket.take(now) if bucket is not None else 0.0
        if bucket is not None and wait:
            raise TooManyRequests(
                f"service {_shown(name)} is over its rate of {bucket.rate:g} requests/s (burst {bucket.burst})",
                retry_after=ceil(wait),
            )
        return Admittance(name, strip=True)

    def _fresh(self, key: Key, now: float) -> _Answer | None:
        answer = self._answers.get(key)
        return answer if answer is not None and now < answer.until else None

    def _keep(self, key: Key, accepted: bool | None, now: float) -> None:
        """Remember an answer; the oldest goes first, so that guessed tokens cost no memory."""
        before = self._answers.pop(key, None)
        if accepted is None:
            LOGGER.warning("auth.verify_url did not say whether the token of service %s is accepted", _shown(key[0]))
        holds = UNKNOWN if accepted is None else FRESH if accepted else REFUSED
        yes_at = now if accepted else before.yes_at if before is not None and accepted is None else float("-inf")
        self._answers[key] = _Answer(accepted, now + holds, yes_at)
        while len(self._answers) > REMEMBERED:
            del self._answers[next(iter(self._answers))]


def verifier(asking: Asking, url: str) -> Verifier:
    """Ask `url` with X-Service-ID and Authorization: 2xx is a yes, 401 and 403 are a no, all else is no answer."""
    address, path = place_of(url)
    question = Question(path)

    async def ask(service: str, token: bytes) -> bool | None:
        headers = ((b"x-service-id", service.encode("latin-1")), (b"authorization", b"Bearer " + token))
        reply = await asking(address, question, headers, PATIENCE)
        if 200 <= reply.status < 300:
            return True
        return False if reply.status in (401, 403) else None

    return ask


def bearer(value: bytes) -> bytes:
    """The token in an Authorization header. RFC 9110: the scheme's case does not matter, blanks may repeat.

    Raises Unauthorized for another form; the article's own sentence, so that a stray blank is found at once.
    """
    scheme, _, token = value.strip().partition(b" ")
    token = token.strip()
    if scheme.lower() != b"bearer" or not token or b" " in token:
        raise Unauthorized(
            "Invalid Bearer token format: expected 'Authorization: Bearer <token>'",
            code="invalid_token_format",
            headers=ASKING,
        )
    return token


def accepted(value: bytes | None, known: Secret) -> bool:
    """Whether an Authorization header carries the one known token. Raises Unauthorized for another form."""
    return value is not None and which(hashed(bearer(value)), (digest_of(known.reveal()),)) is not None


def _presented(headers: Mapping[bytes, bytes], whose: str) -> bytes:
    """The token a caller presents; `whose` stands in the 401 of one who presents none."""
    value = headers.get(b"authorization")
    if value is not None:
        return bearer(value)
    token = headers.get(b"api-key") or headers.get(b"x-api-key")
    if not token:
        raise _stranger(f"the token {whose}is missing: expected 'Authorization: Bearer <token>'")
    return token.strip()


def _name_of(headers: Mapping[bytes, bytes]) -> str:
    name = headers.get(b"x-service-id", b"").decode("latin-1").strip()
    if not name:
        raise _stranger("X-Service-ID is missing")
    return name


def _shown(name: str) -> str:
    return f"{name[:SHOWN]!r}"


def _stranger(message: str) -> Problem:
    return Unauthorized(message, headers=ASKING)
