"""One attempt: send a call to one candidate and decide whether its answer may be committed.

Rules
- Nothing reaches the client here. An answer is opened far enough to know that it is one: a stream up to its first content
  event, a plain body whole (up to `PLAIN_HOLD`), an error body whole.
- A win without a judgement is provisional: the stream's end decides (stream.py); everything else is judged here, once.
- The seat of a replica is taken when the attempt starts. Whoever ends the attempt gives it back with `close`.
- The body is forwarded as it came; only `model` changes, as a byte span, when the engine knows the model by another name. A
  compressed body is forwarded without its compression then.
- At the System One door (eidex) a worker's answer is the answer whatever it says, but for a failure of transport and 502, 503,
  504; the verdict is kept for the breaker alone. Eidex has no keys: where ours is refused, that is no business of the caller. Its body is held whole, because a name in it may change. `Call.patience` is the
  time of one attempt there, and a worker that outlasts it failed.
- No wait outlasts the time of the whole request, nor, before the commit, this attempt's share of it (rules/budget.py). When
  that time ends a wait, it says nothing about the engine (B37).

It must not know: other candidates, the chain, the client's connection.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from autohedge.call import Call, Header
from autohedge.core.types import Attempt, Candidate, Door, Failure, Kind, Outcome, Replica, Verdict
from autohedge.payloads.decode import decode
from autohedge.payloads.span import with_model
from autohedge.payloads.sse import StreamWatch
from autohedge.providers import DIALECTS
from autohedge.providers.openai import authorize_messages
from autohedge.rules.budget import share
from autohedge.rules.verdicts import judge
from autohedge.settings.model import Timeouts
from autohedge.wire.answer import Answer
from autohedge.wire.errors import WireError
from autohedge.wire.heads import header_lines
from autohedge.wire.pool import Pool

PLAIN_HOLD = 1 << 20  # a plain answer up to here is complete before the commit, so a cut one still fails over
DECISION_HOLD = 1 << 25  # the same at the System One door
PREAMBLE_HOLD = 1 << 16  # bytes of a stream that may pass before its first content event
EXCERPT = 1 << 16
UNPACKED_HERE = 1 << 14  # compressed bytes that are decoded on the spot
WON = frozenset({Verdict.ANSWER, Verdict.CLIENT_FAULT})
ELSEWHERE = frozenset({502, 503, 504})  # a worker's word for "not me", at the System One door
OURS = frozenset({Verdict.MISCONFIGURED, Verdict.RETIRED})  # about our account at a provider, not about the request
STARTS = 10_000  # beginnings of heads that are remembered
NEARLY = 0.01  # seconds by which a timer may be early
WAITS = frozenset({Failure.CONNECT_TIMEOUT, Failure.FIRST_BYTE_TIMEOUT, Failure.STALLED, Failure.DEADLINE})

# Credentials of the client: kept for backends inside the house, never sent to an external provider.
CREDENTIALS = frozenset({b"authorization", b"api-key", b"x-api-key"})
# What an external provider may see of the client's headers; everything else could hold a second secret (facts 00b).
EXTERNAL_HEADERS = frozenset(
    {
        b"accept",
        b"accept-encoding",
        b"anthropic-beta",
        b"anthropic-version",
        b"content-encoding",
        b"content-type",
        b"idempotency-key",
        b"openai-beta",
        b"traceparent",
        b"tracestate",
        b"user-agent",
        b"x-request-id",
    }
)
LOADERS = frozenset({Kind.OLLAMA})  # engines that load a model when it is first asked for
HEEDLESS = frozenset({Kind.SGLANG, Kind.LLAMACPP})  # engines that do not look at the name in a decision
STRICT = frozenset({Kind.VLLM, Kind.OLLAMA})  # and those that decide under their own name only
# Engines that serve a body without a model name; others get the name put in.
NAMELESS = frozenset({Kind.LLAMACPP, Kind.VLLM, Kind.AZURE, Kind.SYSTEMONE})


@dataclass(slots=True)
class Opened:
    """An attempt whose answer has begun. `pieces` is the body read so far, `whole` says that it is all of it."""

    attempt: Attempt
    freed: Callable[[Replica], None]
    answer: Answer | None = None
    status: int = 0
    headers: Sequence[Header] = ()
    fields: Mapping[bytes, bytes] = field(default_factory=dict)  # `headers` by name, the last one of repeated ones
    pieces: list[bytes] = field(default_factory=list)
    whole: bool = False
    watch: StreamWatch | None = None
    until: float = 0.0  # when its share of the request's time ends
    won: bool = True  # it may go to the client: an answer, a client's own fault, or a stream that has begun well
    closed: bool = False

    def close(self) -> None:
        """Give the connection and the seat back. Idempotent, never waits: safe after a cancel at any point."""
        if self.closed:
            return
        self.closed = True
        if self.answer is not None:
            self.answer.release()
        replica = self.attempt.candidate.replica
        replica.seat.in_flight -= 1
        self.freed(replica)


class Attempter:
    """Makes attempts. `pool_of` gives the connections of a replica, `clock` is the loop's, `freed` hears of every seat
    that is given back. `repeats` is as in `Outcome`.
    """

    def __init__(
        self,
        pool_of: Callable[[Candidate], Pool],
        clock: Callable[[], float],
        timeouts: Timeouts,
        freed: Callable[[Replica], None],
        repeats: int = 8,
    ) -> None:
        self._pool_of = pool_of
        self._clock = clock
        self.timeouts = timeouts
        self.repeats = repeats
        self._freed = freed
        self.retired: Callable[[Call, Attempt], Awaitable[None]] = _nobody_listens  # set by who tells
        self._turn = 0
        self._starts: dict[tuple[str, str, str, str], tuple[bytes, bytes]] = {}

    async def __call__(self, call: Call, candidate: Candidate, stamp: int) -> Opened:
        """Try `candidate`. Always returns; `Opened.won` tells. Only a cancel passes through, after giving everything back."""
        seat = candidate.replica.seat
        seat.in_flight += 1
        seat.last = self._turn = self._turn + 1
        attempt = Attempt(candidate, self._clock(), stamp)
        opened = Opened(attempt, self._freed)
        backend = candidate.backend
        outcome = attempt.outcome = Outcome()
        outcome.own_key = backend.external or backend.key is not None
        outcome.repeats = self.repeats
        try:
            await self._open(call, opened, outcome)
        except WireError as error:
            outcome.failure = failed(error, call, self._clock, opened.until)
        except BaseException:  # a cancel, or a fault of our own: neither says anything about the engine
            outcome.left = True
            attempt.ended = self._clock()
            attempt.judgement = judge(outcome, DIALECTS[candidate.kind])
            call.attempts.append(attempt)
            opened.close()
            raise
        call.attempts.append(attempt)
        if outcome.failure is not None or opened.whole or not opened.pieces or opened.status >= 300:
            judgement = attempt.judgement = judge(outcome, DIALECTS[candidate.kind])
            opened.won = _settles(outcome, judgement.verdict) if call.decides else judgement.verdict in WON
            if not opened.won:
                attempt.ended = self._clock()
                opened.close()
                if judgement.verdict is Verdict.RETIRED or judgement.absent:
                    await self.retired(call, attempt)
        return opened

    async def _open(self, call: Call, opened: Opened, outcome: Outcome) -> None:
        attempt, timeouts = opened.attempt, self.timeouts
        candidate = attempt.candidate
        opened.until = until = (
            call.deadline if candidate.rung >= call.rungs or call.decides else self._share(call, attempt)
        )
        budget = until - attempt.started
        if budget <= 0:
            outcome.failure = Failure.DEADLINE
            return
        patience, stall = self._waits(call, candidate)
        rename = _renames(call, candidate)
        if rename and call.encoding:
            await _unpack(call)
        body = with_model(call.body, candidate.served) if rename else call.body
        answer = opened.answer = await self._pool_of(candidate).exchange(
            self._head(call, candidate, len(body)), body, first_byte=min(patience, budget), stall=stall
        )
        attempt.first_byte = self._clock()
        if not answer.ended:
            bound(answer, until, self._clock)
        status = outcome.status = opened.status = answer.status
        opened.headers, opened.fields = answer.headers, answer.fields
        content_type = outcome.content_type = answer.fields.get(b"content-type", b"").decode("latin-1").lower()
        if b"retry-after" in answer.fields:
            outcome.retry_after = _seconds(answer.fields[b"retry-after"])
        outcome.streamed = status < 300 and content_type.startswith("text/event-stream") and not call.decides
        if not outcome.streamed:
            if answer.ended:  # as usual: the whole answer came with its head
                opened.whole = outcome.finished = True
                outcome.excerpt = piece = answer.take()
                if piece:
                    opened.pieces.append(piece)
            else:
                await self._gather(call, opened, outcome, answer)
        elif _encoded(answer.fields):  # nobody can look into it (B95): its first bytes are the commit
            opened.pieces.append(await answer.read())
            opened.whole = not opened.pieces[0]
        else:
            await self._preamble(call, opened, outcome, answer)
        if until < call.deadline:  # whatever follows is after the commit
            answer.stall = min(timeouts.stall, max(0.0, call.deadline - self._clock()))

    def _waits(self, call: Call, candidate: Candidate) -> tuple[float, float]:
        """Until the first byte, and between two pieces."""
        timeouts = self.timeouts
        if call.patience is not None:
            return call.patience, call.patience
        return timeouts.loading if candidate.kind in LOADERS else timeouts.first_byte, timeouts.stall

    def _share(self, call: Call, attempt: Attempt) -> float:
        """Until when the rung at hand may keep the request from those after it."""
        after = min(call.rungs - attempt.candidate.rung, call.tries - 1 - len(call.attempts))
        return attempt.started + share(call.deadline - attempt.started, self.timeouts.reserve, max(0, after))

    def forget(self) -> None:
        """Backends may have changed: make the beginnings of heads anew."""
        self._starts.clear()

    def _head(self, call: Call, candidate: Candidate, length: int) -> bytes:
        starts = self._starts
        key = (candidate.replica.id, candidate.kind, call.door, candidate.served)
        start = starts.get(key)
        if start is None:
            if len(starts) >= STARTS:
                starts.clear()
            start = starts[key] = _start_of(call, candidate)
        path, host = start
        if call.query:
            path += (b"&" if b"?" in path else b"?") + call.query
        return b"%b%b%bcontent-length: %d\r\n\r\n" % (path, host, _fields_for(call, candidate), length)

    async def _preamble(self, call: Call, opened: Opened, outcome: Outcome, answer: Answer) -> None:
        """Read a stream up to its first content event (B77, B79: preambles are no answer yet), bounded in bytes and time."""
        watch = opened.watch = StreamWatch(call.door)
        size = 0
        patience = self._clock() + self.timeouts.hold
        while not (watch.content or watch.error or watch.finished):
            piece = await answer.read()
            if not piece:
                opened.whole = True
                break
            opened.pieces.append(piece)
            size += len(piece)
            watch.feed(piece)
            if size > PREAMBLE_HOLD or self._clock() >= patience:
                break
            bound(answer, opened.until, self._clock)
        outcome.finished = watch.finished and watch.content
        if watch.error is not None:
            outcome.excerpt = watch.error[:EXCERPT]
            opened.whole = True  # judged now: nothing after an error event makes it an answer
        elif watch.finished and not watch.content:
            opened.whole = True  # [DONE] alone is as empty as nothing at all
        elif opened.whole and not watch.events:
            outcome.excerpt = b"".join(opened.pieces)[:EXCERPT]

    async def _gather(self, call: Call, opened: Opened, outcome: Outcome, answer: Answer) -> None:
        """Read a plain body whole, or stop after `PLAIN_HOLD` and let the rest be streamed."""
        size = 0
        pieces = opened.pieces
        hold = DECISION_HOLD if call.decides else PLAIN_HOLD
        ends = None if call.patience is None else opened.attempt.started + call.patience
        while size <= hold:
            piece = await answer.read()
            if not piece:
                opened.whole = outcome.finished = True
                break
            pieces.append(piece)
            size += len(piece)
            bound(answer, opened.until, self._clock)
            if ends is not None and not answer.ended:
                answer.stall = min(answer.stall, ends - self._clock())
                if answer.stall <= 0:
                    raise WireError(Failure.STALLED, sent=True)
        outcome.excerpt = pieces[0] if len(pieces) == 1 else b"".join(pieces)[:EXCERPT]


async def _nobody_listens(_call: Call, _attempt: Attempt) -> None:
    """For attempts outside of the way of a request."""


def bound(answer: Answer, until: float, clock: Callable[[], float]) -> None:
    """Let the next wait for a piece end at `until`; raises WireError when that is over."""
    left = until - clock()
    if left < answer.stall and not answer.ended:
        if left <= 0:
            raise WireError(Failure.DEADLINE, sent=True)
        answer.stall = left


def failed(error: WireError, call: Call, clock: Callable[[], float], until: float) -> Failure:
    """How an exchange failed: a wait that our own time ended is DEADLINE or SHARE, whatever the wire calls it."""
    if error.failure in WAITS and clock() > until - NEARLY:
        return Failure.DEADLINE if until >= call.deadline else Failure.SHARE
    return error.failure


def _seconds(retry_after: bytes) -> float | None:
    """Retry-After where it is a number and no date."""
    wait = retry_after.strip()
    return float(wait) if wait.isdigit() else None


def _encoded(fields: Mapping[bytes, bytes]) -> bool:
    """Whether the body is compressed."""
    return fields.get(b"content-encoding", b"identity").strip().lower() != b"identity"


def _renames(call: Call, candidate: Candidate) -> bool:
    """Whether this engine knows the model by another name than the body says."""
    if not candidate.served or candidate.served == call.named or (call.decides and _heard_as_it_is(call, candidate)):
        return False
    nameless = candidate.kind is Kind.AZURE or (candidate.kind in NAMELESS and call.model is None)
    return not (call.named is None and nameless)


async def _unpack(call: Call) -> None:
    """Take the compression off a body that was examined already, for this attempt and all later ones: a name inside of
    compressed bytes cannot be replaced. A large one on a thread, since the codecs let the event loop run.
    """
    body, encoding = call.body, call.encoding
    small = len(body) <= UNPACKED_HERE
    call.body = (
        decode(body, encoding, sys.maxsize) if small else await asyncio.to_thread(decode, body, encoding, sys.maxsize)
    )
    call.encoding, call.lines = "", b""
    call.forwarded = [pair for pair in call.forwarded if pair[0] != b"content-encoding"]


def _heard_as_it_is(call: Call, candidate: Candidate) -> bool:
    """Whether a decision needs no other name to be heard: none was given, the engine takes any, or the operator gave it this one."""
    backend, name = candidate.backend, call.named
    if not name or candidate.rung or name in backend.aliases:
        return not name
    heedless = backend.takes_any or candidate.kind in HEEDLESS
    return heedless or (candidate.kind not in STRICT and name in backend.models)


def _settles(outcome: Outcome, verdict: Verdict) -> bool:
    """Whether an outcome is committed at the System One door."""
    if outcome.own_key and verdict in OURS:
        return False
    return outcome.failure is None and outcome.status not in ELSEWHERE


def _start_of(call: Call, candidate: Candidate) -> tuple[bytes, bytes]:
    """What every request head for this candidate and door begins with: method and path, and after the query the host."""
    backend = candidate.backend
    path = DIALECTS[candidate.kind].doors.get(call.door, call.target)
    if "{" in path:  # Azure: deployment and API version stand in the path
        params = {"deployment": candidate.served, **backend.params}
        for name, value in params.items():
            path = path.replace("{" + name + "}", quote(value, safe=""))
    address = candidate.replica.address
    target = (address.prefix + path).encode("latin-1")
    if b" " in target or b"\r" in target or b"\n" in target:
        raise ValueError("a path with a stray line break or space")
    return b"POST " + target, b" HTTP/1.1\r\nhost: " + address.authority.encode("ascii") + b"\r\n"


def _fields_for(call: Call, candidate: Candidate) -> bytes:
    """The header lines that this candidate may see: the client's own, and the backend's credential where it has one."""
    backend = candidate.backend
    if backend.external:
        headers = [pair for pair in call.forwarded if pair[0] in EXTERNAL_HEADERS]
    elif backend.key is not None:
        headers = [pair for pair in call.forwarded if pair[0] not in CREDENTIALS]
    else:
        if not call.lines:
            call.lines = header_lines(call.forwarded)
        return call.lines
    if backend.key is not None:
        if candidate.kind is Kind.OPENAI and call.door is Door.MESSAGES:
            headers += authorize_messages(backend.key, candidate.replica.address.host)
        else:
            headers += DIALECTS[candidate.kind].authorize(backend.key)
    return header_lines(headers)
