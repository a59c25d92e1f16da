"""After the commit: bytes as they came, and a cut answer that cannot be taken for a whole one."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any, cast

import pytest

from autohedge.attempt import Opened
from autohedge.call import Call, Out
from autohedge.core.types import Attempt, Door, Failure, Outcome
from autohedge.payloads.sse import ModelRewriter, StreamWatch
from autohedge.stream import pour
from autohedge.wire.answer import Answer
from autohedge.wire.server import AbortResponse
from tests.support.played import Played, candidate
from tests.support.vtime import run

pytestmark = pytest.mark.sources

EVENT = b'data: {"model":"m","choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'
END = b'data: {"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
ERROR = b'data: {"error":{"message":"x","type":"t","param":null,"code":500}}\n\n'


class Client:
    """Takes what is sent, each piece after `slow` seconds."""

    def __init__(self, slow: float = 0.0) -> None:
        self.slow = slow
        self.got: list[bytes] = []
        self.ended = False

    async def send(self, message: MutableMapping[str, Any]) -> None:
        await asyncio.sleep(self.slow)
        self.got.append(message["body"])
        self.ended = not message["more_body"]


def poured(
    *rest: bytes | float | Failure, first: bytes = EVENT, door: Door = Door.CHAT, stream: bool = True, **more: Any
) -> tuple[bytes, Outcome]:
    """Pour an answer whose `first` piece is read; what the client got, and the outcome."""
    outcome = Outcome(status=200, streamed=stream)
    opened = Opened(
        Attempt(candidate(), 0.0, outcome=outcome), lambda _replica: None, cast("Answer", Played(*rest)), 200
    )
    opened.pieces = [first]
    if stream:
        opened.watch = StreamWatch(door)
        opened.watch.feed(first)
    client = Client(more.get("slow", 0.0))
    call = Call(door, "/", b"", [], [], b"", "", b"", 0.0, more.get("total", 300.0))
    rewriter = ModelRewriter(more["name"]) if "name" in more else None
    out = Out(client.send)

    async def main() -> None:
        await pour(call, opened, out, lambda: asyncio.get_running_loop().time(), rewriter)

    run(main())
    assert client.ended
    assert outcome.committed
    return b"".join(client.got), outcome


@pytest.mark.parametrize(
    "rest",
    [
        (EVENT, END, DONE),
        (EVENT + END + DONE,),
        (END,),
        (END[:20], END[20:]),
        (END + DONE[:-1],),
        (b": c\n\n", 5.0, END),
    ],
    ids=["pieces", "lump", "no done (B89)", "split", "no last line", "comment"],
)
def test_a_whole_stream_passes_untouched(rest: tuple[bytes | float, ...]) -> None:
    got, outcome = poured(*rest)
    assert got == EVENT + b"".join(piece for piece in rest if isinstance(piece, bytes))
    assert outcome.finished
    assert outcome.failure is None


@pytest.mark.parametrize(
    ("rest", "reason", "failure"),
    [
        ((EVENT,), "without a finish_reason", None),
        ((EVENT, Failure.CUT), "body cut short", Failure.CUT),
        ((EVENT, Failure.RESET), "connection reset", Failure.RESET),
        ((60.0,), "stalled between chunks", Failure.STALLED),
        ((END, Failure.CUT), "body cut short", Failure.CUT),
    ],
    ids=["B71", "B82", "B80", "B02", "cut behind the end"],
)
def test_a_cut_stream_ends_with_an_error_event(
    rest: tuple[bytes | float | Failure, ...], reason: str, failure: Failure | None
) -> None:
    """B71, B80, B82: in-band, no [DONE] anywhere, also not inside of the message."""
    got, outcome = poured(*rest)
    assert got.startswith(EVENT)
    tail = got[got.rindex(b"data: ") :]
    assert tail.startswith(b'data: {"error":{"message":"the backend')
    assert reason.encode() in tail
    assert b"[DONE]" not in got
    assert outcome.failure is failure


def test_half_an_event_is_closed_first() -> None:
    """B82: what has left cannot be taken back; a blank line keeps the error from being glued to it."""
    got, _ = poured(END[:30], Failure.CUT)
    assert got.split(b"\n\n")[-3] == END[:30]
    assert got.split(b"\n\n")[-2].startswith(b'data: {"error"')


@pytest.mark.parametrize(
    ("rest", "added"),
    [((ERROR, DONE), b""), ((ERROR,), b""), ((ERROR[:-2],), b"\n\n")],
    ids=["B26", "B68", "unfinished"],
)
def test_an_error_of_the_engine_s_own_is_enough(rest: tuple[bytes, ...], added: bytes) -> None:
    """B26, B67, B68: passed as it is and counted; nothing of ours behind it, but the blank line that it needs to be read."""
    got, outcome = poured(*rest)
    assert got == EVENT + b"".join(rest) + added
    assert not outcome.finished
    assert b'"code":500' in outcome.excerpt


@pytest.mark.parametrize(("door", "named"), [(Door.CHAT, False), (Door.MESSAGES, True), (Door.RESPONSES, True)])
def test_each_door_has_its_own_error_event(door: Door, named: bool) -> None:
    got, _ = poured(Failure.CUT, first=b": hello\n\n", door=door)
    assert (b"event: error\n" in got) is named


def test_a_cut_plain_body_is_aborted() -> None:
    """A33: an honest cut, no short 200."""
    with pytest.raises(AbortResponse):
        poured(b"more", Failure.CUT, first=b"{", stream=False)


def test_a_whole_plain_body_is_finished() -> None:
    got, outcome = poured(b"more", first=b"{", stream=False)
    assert got == b"{more"
    assert outcome.finished


@pytest.mark.parametrize("stream", [True, False])
def test_the_time_for_the_whole_request_ends_it(stream: bool) -> None:
    """Design 5: neither an endless engine nor a slow client goes on for ever; it is nobody's failure."""
    rest = [piece for _ in range(1000) for piece in (1.0, EVENT)]
    if stream:
        got, outcome = poured(*rest, total=10.0)
        assert b"time for the whole request" in got
        assert outcome.failure is Failure.DEADLINE
        got, outcome = poured(*[EVENT] * 1000, total=10.0, slow=1.0)
        assert outcome.failure is Failure.DEADLINE
        assert len(got) < 15 * len(EVENT)
    else:
        with pytest.raises(AbortResponse):
            poured(*rest, total=10.0, stream=False)


def test_a_name_is_rewritten_in_every_event_and_nothing_is_kept_back() -> None:
    """`model_override`: what the rewriter still holds leaves before our own words."""
    got, _ = poured(END, DONE, name="shown")
    assert got == (EVENT + END + DONE).replace(b'"model":"m"', b'"model":"shown"')
    got, _ = poured(END[:30], Failure.CUT, name="shown")
    assert END[:30] + b'\n\ndata: {"error"' in got
