"""Durations are Go's: every vector that was run against real Go (facts 9), and the round trip."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from autohedge.settings.durations import Duration, parse, spelled

S = 10**9

VALID = [
    ("0", 0),
    ("+0", 0),
    ("-0", 0),
    ("0s", 0),
    ("0m", 0),
    ("5s", 5 * S),
    ("60s", 60 * S),
    ("300s", 300 * S),
    ("1h30m", 5400 * S),
    ("1.5h", 5400 * S),
    (".5s", S // 2),
    ("1.s", S),
    ("100ms", 100_000_000),
    ("250us", 250_000),
    ("250\u00b5s", 250_000),
    ("250\u03bcs", 250_000),
    ("1m0.5s", 60_500_000_000),
    ("1h1h", 7200 * S),
    ("3s2h", 7203 * S),
    ("-1.5h", -5400 * S),
    ("+5s", 5 * S),
    ("00005s", 5 * S),
    ("1.9ns", 1),
    ("0.0000000001s", 0),
    ("-9223372036854775808ns", -(2**63)),
    ("9223372036854775807ns", 2**63 - 1),
    ("2562047h47m16.854775807s", 2**63 - 1),
    ("0.3333333333333333333h", 1200 * S),
    ("0.9223372036854775807123h", 3_320_413_933_267),
]

INVALID = [
    ("", "invalid duration"),
    ("5", 'missing unit in duration "5"'),
    ("5 s", 'unknown unit " s" in duration'),
    (" 5s", "invalid"),
    ("5s ", 'unknown unit "s "'),
    *((text, "invalid duration") for text in ("s", ".s", "-", "+", "-.s", "ns", "nan", "infs", "--5s", "+-5s")),
    *((f"{text}", "unknown unit") for text in ("1d", "1w", "5S", "5M", "1H", "5sec", "5ss")),
    ("1e3s", 'unknown unit "e"'),
    ("0x5s", 'unknown unit "x"'),
    ("1,5s", 'unknown unit ","'),
    ("1h 30m", 'unknown unit "h "'),
    ("1.2.3s", "missing unit"),
    ("1m.5", "missing unit"),
    ("1us1", "missing unit"),
    ("9223372036854775808ns", "invalid"),
    ("2562048h", "invalid"),
    ("3000000h", "invalid"),
    ("99999999999999999999999999s", "invalid"),
    ("9223372036854775807ns1ns", "invalid"),
    ("-9223372036854775808ns1ns", "invalid"),
    ("\uff15s", "invalid"),
]


@pytest.mark.parametrize(("text", "nanoseconds"), VALID)
def test_go_reads_it_and_so_do_we(text: str, nanoseconds: int) -> None:
    """Every valid vector of facts 9 gives the nanoseconds that Go gave."""
    assert parse(text) == nanoseconds


@pytest.mark.parametrize(("text", "reason"), INVALID)
def test_go_refuses_it_and_so_do_we(text: str, reason: str) -> None:
    """Every invalid vector of facts 9 is refused with Go's reason."""
    with pytest.raises(ValueError, match="duration") as caught:
        parse(text)
    assert reason in str(caught.value)


def test_a_bare_number_is_told_what_to_write() -> None:
    """Facts 9: only 0 may stand without a unit; the error shows the number with one."""
    with pytest.raises(ValueError, match="missing") as caught:
        parse("5")
    assert str(caught.value) == 'missing unit in duration "5" (write e.g. "5s")'


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1100, "1.1\u00b5s"),
        (2_200_000, "2.2ms"),
        (3_300_000_000, "3.3s"),
        (300 * S, "5m0s"),
        (245 * S, "4m5s"),
        (245_001_000_000, "4m5.001s"),
        (18_367_001_000_000, "5h6m7.001s"),
        (-5400 * S, "-1h30m0s"),
        (2**63 - 1, "2562047h47m16.854775807s"),
        (-(2**63), "-2562047h47m16.854775808s"),
    ],
)
def test_a_duration_is_spelled_as_go_prints_it(nanoseconds: int, text: str) -> None:
    """Go's String(): the smallest unit below a second, hours and minutes above."""
    assert spelled(nanoseconds) == text


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_what_is_spelled_reads_back(nanoseconds: int) -> None:
    """Round trip over the whole range; Go's float fraction must not lose a nanosecond here."""
    assert parse(spelled(nanoseconds)) == nanoseconds


@given(st.text(alphabet="0123456789.+-nuµμmsh eE", max_size=12))
def test_any_text_is_a_duration_or_a_value_error(text: str) -> None:
    """No other exception, and never a result outside 64 bits."""
    try:
        nanoseconds = parse(text)
    except ValueError:
        return
    assert -(2**63) <= nanoseconds < 2**63


class Holder(BaseModel):
    wait: Duration


def test_a_field_gives_float_seconds() -> None:
    """The pydantic type reads Go's text and the number 0, and is a float."""
    assert Holder.model_validate({"wait": "1m0.5s"}).wait == 60.5
    assert Holder.model_validate({"wait": 0}).wait == 0.0
    assert Holder(wait=Duration(2)).wait == 2.0
    assert str(Duration(300)) == "5m0s"


@pytest.mark.parametrize("value", [5, 5.0, True, None, [], "-5s", "5"])
def test_a_field_refuses_what_has_no_unit_or_is_negative(value: object) -> None:
    """Facts 8 item 15 and facts 9: bare numbers and negative durations make no sense in a setting."""
    with pytest.raises(ValidationError):
        Holder.model_validate({"wait": value})
