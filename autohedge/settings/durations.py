"""Durations, written as Go writes them, because the configuration files we take over use Go's spelling.

What it decides: which texts are durations ("1h30m", "250us", "0"), and which sentence explains one that is not.

Rules (Go's `time.ParseDuration`, checked against real Go; facts 9 of the System One notes)
- One optional sign, then either "0" alone or one or more of number + unit with nothing between them.
- Units are ns, us (also with either micro sign), ms, s, m, h, case-sensitive, in any order, also repeated.
- The result must fit 64 bits of nanoseconds; what is below one nanosecond is cut off.
- A bare number other than 0 is refused: nobody can tell seconds from milliseconds afterwards.

It must not know: YAML, the environment, or what a duration is used for.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

NANOSECOND, MICROSECOND, MILLISECOND = 1, 1_000, 1_000_000
SECOND, MINUTE, HOUR = 1_000_000_000, 60_000_000_000, 3_600_000_000_000

UNITS = {
    "ns": NANOSECOND,
    "us": MICROSECOND,
    "\u00b5s": MICROSECOND,  # the micro sign
    "\u03bcs": MICROSECOND,  # the Greek letter mu
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}
_LIMIT = 2**63  # nanoseconds; the positive side ends one below it
_DIGITS = 19  # of _LIMIT
_NUMBER = re.compile(r"([0-9]*)(?:\.([0-9]*))?")
_UNIT = re.compile(r"[^.0-9]*")


def parse(text: str) -> int:
    """Nanoseconds of a Go duration; may be negative. Raises ValueError with Go's reason, quoting `text`."""
    negative = text.startswith("-")
    rest = text[1:] if text[:1] in {"-", "+"} else text
    if rest == "0":
        return 0
    if not rest:
        raise ValueError(f'invalid duration "{text}"')
    total = 0
    while rest:
        amount, rest = _term(text, rest)
        total += amount
        if total > _LIMIT:
            raise _overflow(text)
    if negative:
        return -total
    if total == _LIMIT:  # only the negative side reaches it
        raise _overflow(text)
    return total


def _term(text: str, rest: str) -> tuple[int, str]:
    """One number with its unit, in nanoseconds, and what follows it."""
    number = _NUMBER.match(rest)
    whole, fraction = (number[1], number[2] or "") if number else ("", "")
    if number is None or not (whole or fraction):
        raise ValueError(f'invalid duration "{text}"')
    digits = whole.lstrip("0") or "0"
    if len(digits) > _DIGITS or int(digits) > _LIMIT:
        raise _overflow(text)
    rest = rest[number.end() :]
    unit = _UNIT.match(rest)
    name = unit[0] if unit else ""
    if not name:
        raise ValueError(f'missing unit in duration "{text}" (write e.g. "{_suggestion(text)}")')
    if name not in UNITS:
        raise ValueError(f'unknown unit "{name}" in duration "{text}" (known: ns, us, ms, s, m, h)')
    return int(digits) * UNITS[name] + _fraction(fraction, UNITS[name]), rest[len(name) :]


def _fraction(digits: str, unit: int) -> int:
    """Go's own arithmetic on purpose: exact division would make 0.3333333333333333333h one nanosecond short of 20m."""
    value, scale = 0, 1.0
    for digit in digits:
        if value > (_LIMIT - 1) // 10 or value * 10 + int(digit) > _LIMIT:
            break
        value, scale = value * 10 + int(digit), scale * 10
    return int(float(value) * (float(unit) / scale))


def _overflow(text: str) -> ValueError:
    return ValueError(f'invalid duration "{text}": it does not fit 64 bits of nanoseconds')


def _suggestion(text: str) -> str:
    return f"{text}s" if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else "5s"


def spelled(nanoseconds: int) -> str:
    """A duration as Go prints it: "1h30m0s", "1.5s", "250us" with the micro sign, "0s"."""
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if rest == 0:
        return "0s"
    if rest < SECOND:
        name, scale = next(
            (n, s) for n, s in (("ms", MILLISECOND), ("\u00b5s", MICROSECOND), ("ns", NANOSECOND)) if rest >= s
        )
        return f"{sign}{_decimal(rest, scale)}{name}"
    hours, rest = divmod(rest, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    head = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{head}{_decimal(rest, SECOND)}s"


def _decimal(amount: int, scale: int) -> str:
    whole, fraction = divmod(amount, scale)
    digits = str(fraction).rjust(len(str(scale)) - 1, "0").rstrip("0") if fraction else ""
    return f"{whole}.{digits}" if digits else str(whole)


class Duration(float):
    """Seconds, never negative. As a pydantic field it reads a Go duration or the number 0; `str()` gives Go's spelling."""

    __slots__ = ()

    @classmethod
    def of(cls, text: str) -> Duration:
        """The duration that `text` spells. Raises ValueError; a negative one is refused, no setting has a use for it."""
        nanoseconds = parse(text)
        if nanoseconds < 0:
            raise ValueError(f'negative duration "{text}"')
        return cls(nanoseconds / SECOND)

    @property
    def nanoseconds(self) -> int:
        return round(self * SECOND)

    def __str__(self) -> str:
        return spelled(self.nanoseconds)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(cls._read)

    @classmethod
    def _read(cls, value: object) -> Duration:
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls.of(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError('must be a duration such as "5s"')  # noqa: TRY004 - pydantic collects ValueError only
        if value == 0:
            return cls(0)
        raise ValueError(f'missing unit in duration "{value}" (write e.g. "{value}s")')


def positive(value: Duration) -> Duration:
    """Refuses 0 where waiting no time at all can never work. Raises ValueError."""
    if not value:
        raise ValueError("must be longer than 0")
    return value
