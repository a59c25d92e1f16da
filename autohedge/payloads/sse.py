"""Reading a stream BESIDE the relay: server-sent events are watched as they pass, and their bytes are never changed.

Rules
- Events end at a blank line; lines end with LF or CRLF. A chunk may end anywhere, inside a character too (B83): what is known
  depends on the bytes, not on how they were cut.
- After the first content an event is parsed only when a search in it finds what could be an end or an error.
- A stream that repeats one event, byte for byte, says one thing again and again (T88). Texts are not read for that; a chunk of
  several events counts where all of them are the same.
- An event over `CARRY` bytes is not kept: its beginning is, and its end is searched as it passes.
- What follows the last blank line is looked at as if one stood there, since some servers end a stream without it.

It must not know: candidates, budgets, who reads the stream. `error_event` and `ModelRewriter` write for the relay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autohedge.core.problems import Detail
from autohedge.core.types import Door
from autohedge.payloads.span import model_span
from autohedge.payloads.sse_verdict import BOM, Marks, Needles, fields, judge, quiet

CARRY = 1 << 20  # bytes of one event that are kept
START = 4 << 10  # bytes of a larger one that are kept
GLANCE = 64 << 10  # bytes of an event without its end that are looked at
OVERLAP = 64  # longer than every needle
SPEAKING = frozenset({Door.CHAT, Door.COMPLETIONS})
FRAME = 4  # events around the text: role, end, usage, [DONE]
MOSTLY = 0.8  # share of a stream's events; the others tell a new time, or came together

BLANK = re.compile(rb"\n\r?\n")
BLANKS = re.compile(rb"(\n\r?\n)")
REASON = re.compile(rb'finish_reason"\s*:\s*"(?!error")\w+"')
KIND = re.compile(rb'"type"\s*:\s*"(response\.\w+|error)"')
ERROR = re.compile(rb'\s*\{\s*"(error"\s*:\s*["{]|object"\s*:\s*"error")')


@dataclass(slots=True)
class _Giant:
    """An event too large to keep."""

    start: bytes
    tail: bytes = b""
    ended: bool = False

    def note(self, window: bytes) -> None:
        self.ended = self.ended or REASON.search(window) is not None
        self.tail = window[-OVERLAP:]


class StreamWatch:
    """Watches one stream of `door`. `events` counts complete events that have data; comments are none (B85)."""

    carry = CARRY

    def __init__(self, door: Door) -> None:
        self.events = 0
        self._door = door
        self._needles = Needles(door)
        self._marks = Marks()
        self._pending = bytearray()  # of an event whose end has not come
        self._giant: _Giant | None = None
        self._glanced: Marks | None = None
        self._last = b""  # the latest usual event
        self._same = 0  # how many of them were the same as the one before

    @property
    def content(self) -> bool:
        """Whether something for the reader came."""
        return self._marks.content or self._glance().content

    @property
    def finished(self) -> bool:
        """Whether the stream came to its proper end. Never after an error."""
        return self._glance().finished

    @property
    def error(self) -> bytes | None:
        """Data of the first error event; the first bytes of it when it is very large."""
        return self._glance().error

    @property
    def at_boundary(self) -> bool:
        """Whether the bytes so far end with an event's end, so that an event of ours may follow."""
        return not self._pending and self._giant is None

    def hollow(self, repeats: int) -> str:
        """What a stream lacked that came to its proper end, "" for nothing: text at all, or any but one and the same piece of it,
        at least `repeats` times (0 never).
        """
        if self._door not in SPEAKING or not self.finished:
            return ""
        if not self._glance().spoken:
            return "an empty answer"
        seen = self._same + 2  # the first content, and the first of the usual chunks
        same = 0 < repeats <= seen and seen >= MOSTLY * (self.events - FRAME)
        return "one piece of text again and again" if same else ""

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes, as they came."""
        if self._marks.content and not self._pending and self._giant is None and chunk.endswith(b"\n\n"):
            # The usual chunk: whole events of one kind. It is enough to search and to count.
            count = _uniform(chunk)
            if count and quiet(self._needles, chunk):
                self.events += count
                if count > 1:
                    self._several(chunk, count)
                elif chunk == self._last:
                    self._same += 1
                else:
                    self._last = chunk
                return
        self._take(chunk)

    def _take(self, chunk: bytes) -> None:
        if self._giant is not None:
            rest = self._pass(self._giant, chunk)
            if rest is None:
                return
            chunk = rest
        self._glanced = None
        pending = self._pending
        start = max(0, len(pending) - 2)
        pending += chunk
        at = 0
        while True:
            at = _skip_blank(pending, at)
            blank = BLANK.search(pending, max(at, start))
            if blank is None:
                break
            self._event(bytes(pending[at : blank.start()]))
            at = blank.end()
        del pending[:at]
        if len(pending) > self.carry + 4:  # with room for the blank line of one that is just small enough
            self._giant = _Giant(bytes(pending[: self._start]))
            self._giant.note(bytes(pending))
            pending.clear()

    @property
    def _start(self) -> int:
        return min(START, self.carry)

    def _event(self, block: bytes) -> None:
        if len(block) > self.carry:
            giant = _Giant(block[: self._start])
            giant.note(block)
            self._judge_giant(giant)
        elif self._marks.content and quiet(self._needles, block):
            self.events += block.startswith(b"data:") or fields(block)[1] is not None
            self._several(block + b"\n\n", 1)
        else:
            self.events += judge(self._door, block, self._marks)

    def _several(self, chunk: bytes, count: int) -> None:
        """Note how many events of a chunk repeat the one before them; where they differ among each other, none does."""
        one = chunk[: len(chunk) // count]
        alike = one * count == chunk
        if alike:
            self._same += count if one == self._last else count - 1
        self._last = one if alike else b""

    def _pass(self, giant: _Giant, chunk: bytes) -> bytes | None:
        """Search on in an event too large to keep; what follows its end, or None."""
        window = giant.tail + chunk
        blank = BLANK.search(window, max(0, len(giant.tail) - 2))
        if blank is None:
            giant.note(window)
            return None
        giant.note(window[: blank.start()])
        self._giant = None
        self._judge_giant(giant)
        return window[blank.end() :]

    def _judge_giant(self, giant: _Giant) -> None:
        """So large an event is content, unless its beginning says that it is an error. Anthropic's are never ends."""
        name, data = fields(giant.start)
        if data is None:
            return
        self.events += 1
        found = KIND.search(data)
        kind = found[1] if found and self._door is Door.RESPONSES else b""
        if name == b"error" or kind in {b"response.failed", b"error"} or ERROR.match(data):
            self._marks.fail(data)
            return
        self._marks.content = self._marks.spoken = True
        if kind in {b"response.completed", b"response.incomplete"} or giant.ended:
            self._marks.end()

    def _glance(self) -> Marks:
        """The marks as they would be if the stream ended here."""
        size = len(self._pending)
        if not size or size > GLANCE:
            return self._marks
        if self._glanced is None:
            self._glanced = replace(self._marks)
            judge(self._door, bytes(self._pending), self._glanced, whole=False)
        return self._glanced


def _skip_blank(data: bytearray, at: int) -> int:
    """Where the next event begins: behind blank lines. A CR at the very end stays, since its LF may follow."""
    end = len(data)
    while at < end and (data[at] == 10 or (data[at] == 13 and at + 1 < end)):
        at += 1
    return at


def _uniform(chunk: bytes) -> int:
    """How many events a chunk surely holds that ends with a blank line; 0 when that cannot be told by counting."""
    if chunk.startswith(b"data:"):
        if chunk.find(b"\n") == len(chunk) - 2:
            return 1
        ends = chunk.count(b"\n\n")
        return ends if ends == chunk.count(b"\n\ndata:") + 1 and b"\r" not in chunk else 0
    if chunk.startswith(b"event:"):
        line = chunk.find(b"\n") + 1
        return int(chunk.startswith(b"data:", line) and chunk.find(b"\n", line) == len(chunk) - 2)
    return 0


def error_event(door: Door, message: str, code: str, details: Sequence[Detail] = ()) -> bytes:
    """The event that tells a reader that the stream broke off, in the door's own form. It stands at an event boundary.

    Responses: openai-python raises only for an "error" key, other clients read the flat form of the reference; it has both.
    """
    kind = "api_error" if door is Door.MESSAGES else "server_error"
    error: dict[str, object] = {"message": message, "type": kind, "param": None, "code": code}
    if details:
        error["details"] = [detail.shown() for detail in details]
    if door is Door.MESSAGES:
        return _named({"type": "error", "error": error})
    if door is Door.RESPONSES:
        return _named({"type": "error", "code": code, "message": message, "param": None, "error": error})
    return b"data: " + _json({"error": error}) + b"\n\n"


def _named(body: dict[str, object]) -> bytes:
    return b"event: error\ndata: " + _json(body) + b"\n\n"


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


class ModelRewriter:
    """Replaces the model's name in the events of a stream by the one that the client asked for.

    Only the top-level "model" of an event with one line of data, when it is a string; every other byte stays. An event is
    held until it is complete; one over `CARRY` bytes passes as it is.
    """

    carry = CARRY

    def __init__(self, name: str) -> None:
        self._value = json.dumps(name).encode("ascii")
        self._held = bytearray()
        self._tail: bytes | None = None  # the last bytes that passed of an event too large to hold

    def feed(self, chunk: bytes) -> bytes:
        """Take the next bytes; give those that may go on."""
        passed = b""
        if self._tail is not None:
            window = self._tail + chunk
            blank = BLANK.search(window)
            if blank is None:
                self._tail = window[-2:]
                return chunk
            passed, chunk = window[len(self._tail) : blank.end()], window[blank.end() :]
            self._tail = None
        held = self._held
        start = max(0, len(held) - 2)
        held += chunk
        end = 0
        for blank in BLANK.finditer(held, start):
            end = blank.end()
        ready = bytes(held[:end])
        del held[:end]
        if len(held) > self.carry:
            passed += self._renamed(ready) + held
            self._tail = bytes(held[-2:])
            held.clear()
            return passed
        return passed + self._renamed(ready)

    def flush(self) -> bytes:
        """What is still held, at the end of the stream."""
        rest = bytes(self._held)
        self._held.clear()
        return self._renamed(rest)

    def _renamed(self, ready: bytes) -> bytes:
        if b'"model"' not in ready:
            return ready
        return b"".join(self._event(part) if b'"model"' in part else part for part in BLANKS.split(ready))

    def _event(self, block: bytes) -> bytes:
        start = len(BOM) if block.startswith(BOM) else 0
        if not block.startswith(b"data:", start):
            start = block.find(b"\ndata:") + 1
        if not block.startswith(b"data:", start) or b"\ndata:" in block[start:]:
            return block
        start += 5
        end = block.find(b"\n", start)
        data = block[start : end if end >= 0 else len(block)]
        span = model_span(data)
        if span is None or not data.startswith(b'"', span[0]):
            return block
        return block[: start + span[0]] + self._value + block[start + span[1] :]
