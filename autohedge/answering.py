"""What the client gets: which of the attempts answers, its headers, and the Problem when none does.

Rules
- Headers are the engine's end-to-end ones and ours; ours name the backend, the model at that engine and the attempts.
- When every candidate failed, SDKs are told not to try again: the whole chain was tried already.
- A Problem lists the attempts by backend, verdict and reason. It never holds an address.

It must not know: how attempts are made, ASGI.
"""

from __future__ import annotations

from functools import lru_cache

from autohedge.attempt import Opened
from autohedge.call import Call, Header
from autohedge.core.problems import DeadlineExceeded, Detail, Gone, Problem, Unavailable, UpstreamFailed, by_status
from autohedge.core.types import Failure, Verdict
from autohedge.payloads.span import model_span, with_model
from autohedge.wire.heads import HOP_BY_HOP, end_to_end

# An answer that comes after a whole chain was tried must not be tried again by an SDK (openai-python obeys this header).
NO_RETRY = ((b"x-should-retry", b"false"),)
# Set by us on every answer, so an engine's own are left out (another AutoHedge may stand behind this one).
OURS = HOP_BY_HOP | frozenset(
    {
        b"content-length",
        b"x-request-id",
        b"x-autohedge-backend",
        b"x-autohedge-model",
        b"x-autohedge-attempts",
        b"x-autohedge-rung",
        b"x-autohedge-warning",
        b"x-should-retry",
    }
)
# At the System One door this header says that the error is ours (eidex), so a worker's own is left out.
OURS_OF_DECISIONS = OURS | {b"x-smg-error-code"}
WAITING = frozenset({Verdict.BUSY, Verdict.LOADING})


def nothing_worked(call: Call) -> Problem:
    """The Problem for a call that no candidate answered: what was tried, without a single address."""
    details = []
    timeouts = 0
    for attempt in call.attempts:
        outcome, judgement = attempt.outcome, attempt.judgement
        assert outcome is not None
        assert judgement is not None
        timeouts += outcome.failure in (
            Failure.DEADLINE,
            Failure.SHARE,
            Failure.FIRST_BYTE_TIMEOUT,
            Failure.CONNECT_TIMEOUT,
            Failure.STALLED,
            Failure.VANISHED,
        )
        message = f"{attempt.candidate.backend.name}: {judgement.reason or judgement.verdict}"
        details.append(Detail(None, judgement.verdict.value, message, outcome.status or None))
    if not details:
        return Unavailable(f"no backend can serve model {call.asked} now", retry_after=1, headers=NO_RETRY)
    tail = f"{len(details)} attempt{'s' if len(details) > 1 else ''}, last: {details[-1].message}"
    if all(attempt.judgement is not None and attempt.judgement.verdict is Verdict.RETIRED for attempt in call.attempts):
        message = f"model {call.asked} was retired by its provider and has nowhere to go ({tail})"
        return Gone(message, details=details, headers=NO_RETRY)
    if timeouts == len(details):
        return DeadlineExceeded(
            f"no backend of model {call.asked} answered in time ({tail})",
            details=details,
            retry_after=1,
            headers=NO_RETRY,
        )
    if all(attempt.judgement is not None and attempt.judgement.verdict in WAITING for attempt in call.attempts):
        return Unavailable(
            f"every backend of model {call.asked} is busy or loading ({tail})",
            details=details,
            retry_after=1,
            headers=NO_RETRY,
        )
    return UpstreamFailed(
        f"every backend of model {call.asked} failed ({tail})", details=details, retry_after=1, headers=NO_RETRY
    )


def refusal_of(won: Opened, status: int, body: bytes) -> bytes:
    """An engine's refusal as a caller can read it: the JSON that came, also out of the event that held it (B44).

    Raises a Problem of that status in the place of a page of HTML, which some proxy before the engine wrote (B104).
    """
    if won.watch is not None and won.watch.error is not None:
        won.headers = [pair for pair in won.headers if pair[0] != b"content-type"]
        won.headers.append((b"content-type", b"application/json"))
        won.fields = dict(won.headers)
        return won.watch.error
    if body.lstrip()[:1] == b"<":
        name = won.attempt.candidate.backend.name
        raise by_status(status)(f"backend {name} refused the request with status {status} and a page of HTML")
    return body


def renamed(body: bytes, name: str) -> bytes:
    """`body` with its top-level "model" string replaced; anything else, or a body without one, stays as it is."""
    span = model_span(body) if body[:1] == b"{" else None
    if span is None or body[span[0] : span[0] + 1] != b'"':
        return body
    return with_model(body, name)


def answer_headers(call: Call, won: Opened, *, sized: bool = False) -> list[Header]:
    """The engine's end-to-end headers and ours, none about the connection. `sized`: with the length that the engine said."""
    headers = end_to_end(won.headers, won.fields, OURS_OF_DECISIONS if call.decides else OURS)
    if sized:
        headers += [pair for pair in won.headers if pair[0] == b"content-length"]
    candidate = won.attempt.candidate
    headers.append((b"x-request-id", call.id))
    headers += _named(candidate.backend.name, candidate.served or call.asked, len(call.attempts))
    if candidate.rung:
        headers.append((b"x-autohedge-rung", b"%d" % candidate.rung))
    if call.warning:
        headers.append((b"x-autohedge-warning", call.warning))
    if not won.won:
        headers += NO_RETRY
        if won.status in (429, 503) and not any(name == b"retry-after" for name, _ in headers):
            headers.append((b"retry-after", b"1"))
    return headers


@lru_cache(4096)
def _named(backend: str, model: str, attempts: int) -> tuple[Header, ...]:
    """Who answered, at which attempt."""
    return (
        (b"x-autohedge-backend", _word(backend)),
        (b"x-autohedge-model", _word(model)),
        (b"x-autohedge-attempts", b"%d" % attempts),
    )


def _word(text: str) -> bytes:
    """A name as a header value: what is not printable ASCII becomes "?", so that no name can end its line."""
    return "".join(char if " " <= char <= "~" else "?" for char in text).encode("ascii")
