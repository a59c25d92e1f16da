"""The words of health: their order is a promise that plan and pool build on."""

from __future__ import annotations

from autohedge.core.types import Verdict
from autohedge.rules.standing import ALIVE, Tier


def test_tiers_rank_known_good_before_unknown_before_everything_that_is_barred() -> None:
    """A rung uses GOOD to UNKNOWN; LOADING and RATIO wait for the end of the chain; OUT is last."""
    assert sorted(Tier) == [
        Tier.GOOD,
        Tier.SLOW,
        Tier.RAMPING,
        Tier.UNKNOWN,
        Tier.LOADING,
        Tier.RATIO,
        Tier.OUT,
    ]


def test_alive_verdicts_are_neither_for_nor_against() -> None:
    """A sign of life is not an answer and not a failure (4.3.1)."""
    assert not ALIVE & {Verdict.ANSWER, Verdict.SICK, Verdict.DEAD, Verdict.LOADING, Verdict.MISCONFIGURED}
