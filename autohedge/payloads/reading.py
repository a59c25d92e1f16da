"""One body, read once: `examine` turns bytes into a `Reading`, which the checks ask what a kind of engine refuses.

Rules
- Examining raises only what no engine could serve: broken encoding, broken JSON, JSON that is no object. All else is a
  finding of some kinds, asked for when the candidates are known, and kept.
- Content-Type is not looked at: `curl -d` says form-encoded and sends JSON. The System One door alone does (multipart).
- `examine_all` does the same in another process for bodies that `cost` calls heavy: what it gives back can be pickled.

It must not know: candidates, limits, who may serve what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from autohedge.core.ask import Ask
from autohedge.core.problems import BadRequest, Detail, Problem
from autohedge.core.types import Door, Kind
from autohedge.payloads import systemone, systemone_body
from autohedge.payloads.asking import Notes, asked, weighed
from autohedge.payloads.decode import decode
from autohedge.payloads.findings import against, rules_of
from autohedge.payloads.parse import Parsed, parse
from autohedge.payloads.systemone_body import Sent

SYSTEMONE = Door.SYSTEMONE  # looked up in its enum it costs every request
SMALL = 1 << 16  # bytes of a body that cannot hold anybody up
SLICES, SLICE = 8, 1 << 15  # of a larger one, so many pieces of so many bytes are looked at
# seconds, measured on one core for parse, check and walk together
PER_BYTE = 7e-10  # of plain text
PER_WIDE = 4e-9  # and per byte of what is not ASCII
PER_ESCAPE = 1.2e-8
PER_MARK = 5e-8  # per value, string or bracket
PER_BYTE_AT_WORST = 3e-8  # nothing but brackets and commas
DIGITS = bytes.maketrans(b"123456789", b"000000000")
ASCII = bytes(range(128))
MARKS = (b'"', b"[", b"{", b"0,", b'",', b"],", b"},")  # a comma behind a letter is prose, most likely


@dataclass(frozen=True, slots=True)
class Bounds:
    """`max_decoded`: bytes of a body after Content-Encoding is undone. `schema_depth`: levels of a schema for constrained
    decoding, at most 140. `max_depth`: levels of a body, above which it is refused unread. `decision_depth`: levels that a
    System One server of unknown make is trusted with.
    """

    max_decoded: int = 64 << 20
    schema_depth: int = 64
    max_depth: int = 200_000
    decision_depth: int = 64
    decisions: bool = True  # False: whatever comes to the System One door passes, readable or not


class Reading:
    """A body that was read here. `ask.obj` is the parsed body."""

    __slots__ = ("_bounds", "_found", "_notes", "_parsed", "_sent", "ask")

    def __init__(self, ask: Ask, notes: Notes, parsed: Parsed, bounds: Bounds, sent: Sent | None = None) -> None:
        self.ask = ask
        self._notes = notes
        self._parsed = parsed
        self._bounds = bounds
        self._sent = sent
        self._found: dict[Kind, tuple[Detail, ...]] = {}

    def findings(self, kind: Kind) -> tuple[Detail, ...]:
        """What an engine of this kind refuses; empty when it takes the body."""
        found = self._found.get(kind)
        if found is None:
            if self._sent is not None:
                found = systemone.against(kind, self._parsed, self._sent, self._bounds.decision_depth)
            else:
                found = against(rules_of(self.ask.door, kind), self._parsed, self._notes, self._bounds.schema_depth)
            self._found[kind] = found
        return found


@dataclass(frozen=True, slots=True)
class Examined:
    """A body that was read in another process: the ask without the parsed body, and the findings of the known kinds."""

    ask: Ask
    found: Mapping[Kind, tuple[Detail, ...]]

    def findings(self, kind: Kind) -> tuple[Detail, ...]:
        """As `Reading.findings`; a kind that was not known then gets what every engine refuses."""
        return self.found.get(kind, self.found[Kind.AUTO])


def examine(door: Door, raw: bytes, encoding: str, bounds: Bounds, media: str = "") -> Reading:
    """Reads a body. `encoding` is the value of Content-Encoding, "" when there is none; `media` that of Content-Type, which
    only the System One door looks at.

    Raises BadRequest (invalid_encoding, invalid_json, invalid_body), Unsupported, TooLarge; nothing else.
    """
    if door is SYSTEMONE:
        return _decision(raw, encoding, bounds, media)
    if encoding:
        raw = decode(raw, encoding, bounds.max_decoded)
    parsed = parse(raw, bounds.max_depth)
    ask, notes = asked(door, parsed.obj)
    return Reading(ask, notes, parsed, bounds)


def _decision(raw: bytes, encoding: str, bounds: Bounds, media: str) -> Reading:
    try:
        return _decided(raw, encoding, bounds, media)
    except Problem:
        if bounds.decisions:
            raise
    return Reading(Ask(Door.SYSTEMONE, None), Notes(), Parsed({}), bounds, Sent())


def _decided(raw: bytes, encoding: str, bounds: Bounds, media: str) -> Reading:
    sent = systemone_body.opened(raw, encoding, media, bounds.max_decoded)
    try:
        parsed = parse(sent.text, bounds.max_depth)
    except BadRequest as problem:
        raise systemone_body.reworded(problem, sent.text) from None
    ask, notes = asked(Door.SYSTEMONE, parsed.obj)
    weighed(ask, len(sent.text))
    return Reading(ask, notes, parsed, bounds, sent)


def examine_all(
    door: Door,
    raw: bytes,
    how: tuple[str, str],
    bounds: Bounds,
    kinds: Iterable[Kind],
    note: Callable[[Ask], object] = id,
) -> Examined:
    """Reads a body and answers for every kind that may be asked about; for use in another process. `how` holds
    Content-Encoding and Content-Type; `note` may write into the ask what follows from the body, which does not come back.
    Raises as `examine`.
    """
    reading = examine(door, raw, how[0], bounds, how[1])
    note(reading.ask)
    found = {kind: reading.findings(kind) for kind in {Kind.AUTO, *kinds}}
    return Examined(replace(reading.ask, obj=None), found)


def cost(raw: bytes) -> float:
    """About how many seconds reading the body would hold the interpreter.

    Of a large body some slices are looked at, so the estimate itself stays under 3 ms whatever the size.
    """
    size = len(raw)
    if size <= SMALL:
        return size * PER_BYTE_AT_WORST
    if size > SLICES * SLICE:
        apart = (size - SLICE) // (SLICES - 1)
        sample = b"".join(raw[at : at + SLICE] for at in range(0, size - SLICE + 1, apart))
    else:
        sample = raw
    times = size / len(sample)
    marks = sum(sample.translate(DIGITS).count(mark) for mark in MARKS)
    wide = len(sample.translate(None, ASCII))
    return size * PER_BYTE + times * (marks * PER_MARK + sample.count(b"\\") * PER_ESCAPE + wide * PER_WIDE)
