"""After the commit: pour an answer to the client, bytes untouched, and never let a cut one look complete.

Rules
- Each piece goes on as it came; the client's pace is the engine's pace (a slow client pauses the engine's socket).
- When the engine fails after the commit, a stream gets an in-band error event and no [DONE]; a plain body is aborted so
  that the client sees a cut, not a short answer.
- A stream that ends without [DONE] or finish_reason is not complete (Ollama swallows a dead runner that way, B71).

It must not know: candidates, retries, the registry.
"""

from __future__ import annotations

from collections.abc import Callable

from autohedge.attempt import Opened, bound, failed
from autohedge.call import Call, Out
from autohedge.core.types import Failure, Outcome
from autohedge.payloads.sse import ModelRewriter, error_event
from autohedge.wire.errors import WireError
from autohedge.wire.server import AbortResponse


async def pour(
    call: Call, opened: Opened, out: Out, clock: Callable[[], float], rewriter: ModelRewriter | None
) -> None:
    """Send the pieces already read and then the rest. Fills the attempt's outcome; raises AbortResponse for a cut plain body."""
    outcome, watch = opened.attempt.outcome, opened.watch
    assert outcome is not None
    outcome.committed = True
    outcome.failure = await _flow(call, opened, out, clock, rewriter)
    tail = rewriter.flush() if rewriter is not None else b""
    if watch is None:
        outcome.finished = outcome.failure is None
        if not outcome.finished:
            raise AbortResponse
    else:
        outcome.finished = watch.finished and watch.error is None
        outcome.hollow = watch.hollow(outcome.repeats or 0)
        if watch.error is not None:
            outcome.excerpt = watch.error
            tail += b"" if watch.at_boundary else b"\n\n"  # an event without its end is none to a reader
        elif not watch.finished or outcome.failure is not None:
            tail += _epilogue(call, outcome, at_boundary=watch.at_boundary)
    await out.write(tail, more=False)


async def _flow(
    call: Call, opened: Opened, out: Out, clock: Callable[[], float], rewriter: ModelRewriter | None
) -> Failure | None:
    """Everything the engine sends, as it comes. Returns how the transport failed, None at the proper end."""
    answer, watch = opened.answer, opened.watch
    assert answer is not None
    for piece in opened.pieces:
        await _send(out, piece, rewriter)
    try:
        while piece := await answer.read():
            if watch is not None:
                watch.feed(piece)
            await _send(out, piece, rewriter)
            bound(answer, call.deadline, clock)
    except WireError as error:
        return failed(error, call, clock, call.deadline)
    return None


async def _send(out: Out, piece: bytes, rewriter: ModelRewriter | None) -> None:
    if rewriter is not None:
        piece = rewriter.feed(piece)
    if piece:
        await out.write(piece)


def _epilogue(call: Call, outcome: Outcome, *, at_boundary: bool) -> bytes:
    """The in-band error that tells the reader of a stream that it was cut. No "[DONE]" stands in it: some search for that."""
    reason = outcome.failure.value if outcome.failure is not None else "it ended without a finish_reason"
    event = error_event(
        call.door, f"the backend's stream broke off: {reason}; the answer is incomplete", "upstream_failed"
    )
    return event if at_boundary else b"\n\n" + event
