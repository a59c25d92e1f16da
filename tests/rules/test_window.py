"""The window judge: the article's 70 % over the last ten, bounded by count, age and recency."""

from __future__ import annotations

import pytest

from autohedge.rules.standing import Via
from autohedge.rules.window import Pace, Window


def fed(outcomes: str, window: Window | None = None, via: Via = Via.DEEP) -> tuple[Window, float]:
    """A window after one outcome per second: S for success, F for failure."""
    window = window or Window()
    for at, outcome in enumerate(outcomes):
        window.note(outcome == "S", via, float(at))
    return window, float(len(outcomes))


@pytest.mark.parametrize(
    ("outcomes", "reason"),
    [
        ("SSSSSSSFFF", ""),  # 7/10 is not below 0.70
        ("SSSSSSFSFF", ""),  # so are these
        ("SSSSSFFSFF", "6/10 succeeded"),
        ("FFFFSSSSSS", ""),  # past and over: the last two succeeded
        ("SSSSFFFFSF", ""),  # the last two must both have failed
        ("FFFF", ""),  # four are not evidence enough
        ("FFFFF", "0/5 succeeded"),
        ("SSSFF", "3/5 succeeded"),
        ("SSSSSFFFFFFFFFF", "0/10 succeeded"),  # older than ten do not count
    ],
)
def test_opens_below_seventy_percent_with_the_last_two_failed(outcomes: str, reason: str) -> None:
    """The article's rule and facts 7.1: ratio, minimum, recency and count."""
    window, now = fed(outcomes)
    assert window.sick(now) == reason


def test_old_outcomes_fall_out_by_age() -> None:
    """Failures of two minutes ago say nothing about now (4.3.2)."""
    window, _ = fed("FFFFF")
    assert window.sick(4.0)
    assert window.sick(124.5) == ""
    assert window.told(200.0) == "no evidence"


def test_three_live_attempts_in_a_row_are_enough() -> None:
    """vllm#39863 (B01): callers' own requests need no fourth victim; a success between starts the row again."""
    window, now = fed("SSSSSSSFFF", via=Via.LIVE)
    assert window.sick(now) == "7/10 succeeded, the last 3 live attempts failed"
    window, now = fed("SSSSSSFFSF", via=Via.LIVE)
    assert window.sick(now) == ""


def test_lost_probes_do_not_make_a_live_row() -> None:
    """Three lost probes in a row happen every few days at 3 % loss."""
    window, now = fed("SSSSSSS")
    for ok, via in ((False, Via.LIVE), (False, Via.DEEP), (False, Via.LIVE)):
        window.note(ok, via, now)
    assert window.sick(now) == ""


def test_the_live_row_can_be_switched_off() -> None:
    """`row` 0 leaves the ratio alone."""
    window, now = fed("SSSSSSSFFF", Window(row=0), via=Via.LIVE)
    assert window.sick(now) == ""


def test_light_probes_are_never_counted() -> None:
    """B08: SGLang's /health is 503 under a long prefill while requests are answered."""
    window, now = fed("FFFFFFFFFF", via=Via.LIGHT)
    assert window.sick(now) == ""
    assert window.failures(now) == 0


def test_a_lower_bar_opens_later() -> None:
    """`min_success` 0.4 needs seven failures of ten."""
    assert fed("SSSSFFFFFF", Window(min_success=0.4))[0].sick(10.0) == ""
    assert fed("SSSFFFFFFF", Window(min_success=0.4))[0].sick(10.0) == "3/10 succeeded"


def test_evidence_tells_its_age() -> None:
    """The admin sees which outcome is how old."""
    window, _ = fed("SF")
    assert window.evidence(5.0) == [
        {"ok": True, "via": "probe", "age_s": 5.0},
        {"ok": False, "via": "probe", "age_s": 4.0},
    ]
    window.clear()
    assert window.evidence(5.0) == []


def test_slow_first_bytes_are_a_rate_of_their_own() -> None:
    """4.3.3 and 7.1, slow rule: 80 % of at least five late first bytes; without a limit nothing is slow."""
    pace = Pace(1.0)
    assert [pace.note(2.0) for _ in range(5)] == [False, False, False, False, True]
    assert pace.note(0.5) is True  # 5 of 6
    assert pace.note(0.5) is False  # 5 of 7
    assert not any(Pace().note(99.0) for _ in range(10))
    pace.clear()
    assert pace.note(2.0) is False
