"""The streak judge: eidex's two probes with their own streaks."""

from __future__ import annotations

import pytest

from autohedge.rules.standing import Via
from autohedge.rules.streak import Streak


@pytest.mark.parametrize(
    ("outcomes", "healthy"),
    [
        ("F", True),
        ("FF", False),
        ("FSF", True),  # the success between starts the streak again
        ("FFS", True),
        ("FFF", False),
        ("FFSF", True),  # both streaks start again at a change
        ("FFSFF", False),
    ],
)
def test_two_down_one_up(outcomes: str, healthy: bool) -> None:
    """Vectors of systemone facts 8.13 with down 2, up 1."""
    streak = Streak()
    for at, outcome in enumerate(outcomes):
        streak.note(outcome == "S", Via.LIGHT, float(at))
    assert (streak.sick(9.0) == "") is healthy


def test_each_probe_has_its_own_streak() -> None:
    """8.12: a light success every 5 s must not wipe out the deep failure of every 60 s."""
    streak = Streak()
    for at in range(2):
        streak.note(False, Via.DEEP, at * 60.0)
        for tick in range(11):
            streak.note(True, Via.LIGHT, at * 60.0 + 5.0 * tick)
    assert streak.sick(120.0) == "deep probe failed 2 times in a row"


def test_well_only_while_neither_probe_is_down() -> None:
    """Light back up does not help while deep is down."""
    streak = Streak()
    for via in (Via.LIGHT, Via.DEEP):
        for _ in range(2):
            streak.note(False, via, 0.0)
    streak.note(True, Via.LIGHT, 1.0)
    assert streak.sick(1.0)
    assert streak.told(1.0) == "deep probe failed 2 times in a row"
    streak.note(True, Via.DEEP, 2.0)
    assert streak.told(2.0) == "neither probe is down"


LIGHT, DEEP = Via.LIGHT, Via.DEEP


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((DEEP, LIGHT, LIGHT), (LIGHT, DEEP)),  # an outage that the light probe saw first
        ((LIGHT, DEEP, DEEP), (DEEP, LIGHT)),
        ((LIGHT, LIGHT, DEEP), (LIGHT, DEEP)),  # the other one failed while the worker was down already
        ((DEEP, DEEP, LIGHT), (DEEP, LIGHT)),
    ],
)
def test_a_failure_of_before_an_outage_is_not_the_first_of_two_after_it(
    before: tuple[Via, ...], after: tuple[Via, Via]
) -> None:
    """Seed 000: every change of a worker's state starts the streaks again, or it would flap on a mixed one."""
    streak = Streak()
    for via in before:
        streak.note(False, via, 0.0)
    assert streak.sick(0.0)
    back, other = after
    streak.note(True, back, 1.0)
    assert not streak.sick(1.0)
    streak.note(False, other, 2.0)
    assert not streak.sick(2.0)
    streak.note(False, other, 3.0)
    assert streak.sick(3.0)


def test_live_traffic_is_no_evidence() -> None:
    """Seed 000: eidex fails over on a bad answer, but only probes move a worker's health."""
    streak = Streak()
    for _ in range(9):
        streak.note(False, Via.LIVE, 0.0)
    assert streak.sick(0.0) == ""
    assert streak.evidence(0.0) == []


def test_more_ups_can_be_asked_for() -> None:
    """`up` 3 needs three successes in a row."""
    streak = Streak(down=1, up=3)
    streak.note(False, Via.DEEP, 0.0)
    for outcome in "SSFSS":
        streak.note(outcome == "S", Via.DEEP, 1.0)
    assert streak.sick(1.0)
    streak.note(True, Via.DEEP, 2.0)
    assert not streak.sick(2.0)


def test_evidence_and_clear() -> None:
    """The admin sees the last result of each probe and its age; a new task starts without any."""
    streak = Streak()
    streak.note(False, Via.DEEP, 1.0)
    assert streak.evidence(3.0) == [{"ok": False, "via": "deep", "age_s": 2.0, "down": False}]
    assert streak.failures(3.0) == 1
    streak.clear()
    assert streak.evidence(3.0) == []
