"""Failover: who is tried next when an attempt ended badly, and when to stop.

Rules
- A failed attempt starts the next candidate at once. Where those that are left are all at their cap, the request waits for
  one of them, unless it may not try again anyway.
- A client's own fault (400, 422 and relatives) is an answer: it is never tried elsewhere.
- At most `attempts` per request. A refused connection is not counted (unless `attempts` is 1, no failover): it took no time,
  and when several replicas go at once (a scale-in, a lost machine) the one that stays is worth another look.
- A retry that may have cost an engine work takes a token of the retry budget (20 % of requests + 1/s), so an outage does not
  double the load; a refused connection costs nobody anything and takes none.
- When all fail, the most telling answer of an engine is kept for the client; see `best`.

It must not know: HTTP, payloads, or where the candidates came from.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from autohedge.attempt import Opened
from autohedge.call import Call
from autohedge.core.types import Admitted, Candidate, Failure, Verdict

Try = Callable[[Call, Candidate, int], Awaitable[Opened]]

FREE = frozenset({Failure.REFUSED, Failure.UNREACHABLE, Failure.CONNECT_TIMEOUT, Failure.TLS})
# What a caller learns most from, first. MISCONFIGURED is missing: a 401 of our own key is no business of the caller.
TELLING = (Verdict.CAPABILITY, Verdict.BUSY, Verdict.RETIRED, Verdict.LOADING, Verdict.SICK, Verdict.DEAD)


class Offers(Protocol):
    """Whom a request may try. `full` is not empty where some only lack a seat; `seat` waits for one of those."""

    @property
    def full(self) -> Sequence[Candidate]: ...

    def __next__(self) -> Admitted: ...

    async def seat(self) -> Admitted | None: ...


async def race(call: Call, offers: Offers, attempt: Try, attempts: int, may_retry: Callable[[], bool]) -> list[Opened]:
    """Try candidates in order until one wins. The last entry of the result is the winner if it `won`; empty when there
    was no candidate at all.
    """
    tried: list[Opened] = []
    while True:
        offer = next(offers, None)
        if offer is None and not (tried and offers.full):
            break
        if tried:
            if attempts == 1 or sum(not _was_refused(one) for one in tried) >= attempts:
                break
            if not _was_free(tried[-1]) and not may_retry():
                break
        offer = offer or await offers.seat()
        if offer is None:
            break
        opened = await attempt(call, offer.candidate, offer.stamp)
        tried.append(opened)
        if opened.won:
            break
        outcome = opened.attempt.outcome
        if outcome is not None and outcome.failure is Failure.DEADLINE:
            break
    return tried


def _is_json(pieces: Sequence[bytes]) -> bool:
    return bool(pieces) and pieces[0].lstrip()[:1] in (b"{", b"[")


def _speaks(opened: Opened) -> bool:
    return _is_json(opened.pieces) or (opened.status < 500 and not any(opened.pieces))


def _was_refused(opened: Opened) -> bool:
    outcome = opened.attempt.outcome
    return outcome is not None and outcome.failure is Failure.REFUSED


def _was_free(opened: Opened) -> bool:
    """Whether the failed attempt cost no engine any work."""
    outcome, judgement = opened.attempt.outcome, opened.attempt.judgement
    if outcome is not None and outcome.failure is not None:
        return outcome.failure in FREE
    return judgement is not None and judgement.verdict not in (Verdict.SICK, Verdict.DEAD)


def best(tried: Sequence[Opened]) -> Opened | None:
    """The failed attempt whose answer the client should see: one where an engine answered with a whole error, in JSON. A
    page of HTML (a proxy before the engine) or a bare text tells a caller less than our own list of attempts (A40). A 4xx
    without a body tells by its status alone (llama.cpp's 415 for a Content-Encoding, TGI's 401).
    """
    spoken = [opened for opened in tried if opened.whole and opened.status >= 400 and _speaks(opened)]
    for verdict in TELLING:
        for opened in spoken:
            judgement = opened.attempt.judgement
            if judgement is not None and judgement.verdict is verdict:
                return opened
    return None
