"""Who may call, and how often: comparing tokens without telling their content by time, and a token bucket per caller.

Rules
- A known token is kept as its SHA-256 alone, whichever way it was configured. What a caller presents is hashed and compared
  with `hmac.compare_digest`; with several known tokens all are compared, so the time says nothing of the place.
- The form of a token is not judged (the AutoHedge article, 5.2: a rule for the length of keys locked out a good one).
- A bucket holds `burst` requests and is refilled with `rate` per second. What it refuses it does not count, so a caller
  that hammers still gets its rate.

Times are seconds of one monotonic clock. It must not know: headers, settings, who is called what.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from math import ceil

from autohedge.settings.people import HASHED

SLACK = 1e-6  # seconds that rounding may take from a caller who waited exactly as long as it was told


def digest_of(configured: str) -> bytes:
    """The SHA-256 of a token that is written as it is, or as "sha256:" and the hex digest. Raises ValueError for bad hex."""
    if configured.startswith(HASHED):
        return bytes.fromhex(configured.removeprefix(HASHED))
    return hashed(configured.encode())


def hashed(presented: bytes) -> bytes:
    """The SHA-256 of what a caller presents."""
    return hashlib.sha256(presented).digest()


def which(digest: bytes, known: Iterable[bytes]) -> int | None:
    """The place of a digest among the known ones; None when it is none of them."""
    found = None
    for place, one in enumerate(known):
        if hmac.compare_digest(digest, one):
            found = place
    return found


class Bucket:
    """`rate` is requests per second and positive; `burst` is requests at once, 0 for as many as one second of rate."""

    __slots__ = ("_ahead", "_full_at", "_gap", "burst", "rate")

    def __init__(self, rate: float, burst: int = 0) -> None:
        self.rate = rate
        self.burst = burst or max(1, ceil(rate))
        self._gap = 1 / rate
        self._ahead = (self.burst - 1) * self._gap  # how far the refill may lie in the future for one more request
        self._full_at = float("-inf")  # when the bucket will be full again (GCRA: one number instead of two)

    def take(self, now: float) -> float:
        """Take one request: 0.0 when it is granted, else the seconds after which one would be."""
        wait = self._full_at - now - self._ahead
        if wait > SLACK:
            return wait
        self._full_at = max(self._full_at, now) + self._gap
        return 0.0
