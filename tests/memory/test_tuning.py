"""Settings become rules."""

from __future__ import annotations

from typing import Any

import pytest

from autohedge.core.types import Verdict
from autohedge.memory.health import Health
from autohedge.memory.tuning import rules_of
from autohedge.rules.breaker import DEFAULT
from autohedge.rules.pool import DEFAULT as POOL
from autohedge.rules.standing import Tier, Via
from autohedge.rules.streak import Streak
from autohedge.rules.window import Window
from autohedge.settings.model import Settings
from tests.memory.patients import candidate

ONE, CLOUD = candidate(), candidate("cloud", external=True)


def settings(**tree: Any) -> Settings:
    return Settings.model_validate(tree)


def test_the_defaults_are_those_of_the_rules() -> None:
    """Two places, one set of numbers."""
    rules = rules_of(Settings())
    assert rules.options == DEFAULT
    assert rules.pool == POOL
    window, usual = rules.judge(), Window()
    assert isinstance(window, Window)
    for name in ("max_age", "least", "min_success", "row"):
        assert getattr(window, name) == getattr(usual, name)


def test_numbers_arrive() -> None:
    """Each where it belongs."""
    tree = {
        "window": 20,
        "min_success": 0.4,
        "open": "5s",
        "cap": "60s",
        "close_after": 3,
        "slow": "2s",
        "max_ejected": 0.3,
    }
    rules = rules_of(settings(breaker=tree, probe={"timeout": "4s"}))
    options = rules.options
    assert (options.opens, options.cap, options.close_after, options.slow, options.lease) == (5.0, 60.0, 3, 2.0, 12.0)
    assert rules.pool.share == 0.3
    window = rules.judge()
    assert isinstance(window, Window)
    assert window.min_success == 0.4


@pytest.mark.parametrize(
    ("tree", "probed", "external"),
    [
        ({}, True, False),
        ({"probe": {"external": True}}, True, True),
        ({"probe": {"enabled": False, "external": True}}, False, False),
        ({"probe": {"enabled": False}, "health": {"judge": "streak"}}, True, False),
    ],
)
def test_who_is_probed(tree: dict[str, Any], probed: bool, external: bool) -> None:
    """External providers cost money (B19)."""
    health = Health(lambda: 0.5, rules=rules_of(settings(**tree)))
    assert health.entry(ONE, 0.0).breaker.options.probed is probed
    assert health.entry(CLOUD, 0.0).breaker.options.probed is external


def test_the_streak_judge_decides_alone() -> None:
    """Seed 000: two failures of one probe and it is out, live traffic and the pool notwithstanding; one success and it is back,
    without a ramp. What nobody pings is judged by live traffic.
    """
    health = Health(lambda: 0.99, rules=rules_of(settings(health={"judge": "streak"})))
    breaker = health.entry(ONE, 0.0).breaker
    assert isinstance(breaker.judge, Streak)
    assert isinstance(health.entry(CLOUD, 0.0).breaker.judge, Window)
    for second in range(5):
        breaker.record(breaker.stamp, Verdict.DEAD, float(second))
    assert health.look(ONE, 5.0).tier is Tier.GOOD
    for at in (6.0, 7.0):
        breaker.record(breaker.stamp, Verdict.SICK, at, via=Via.DEEP)
    assert not health.look(ONE, 8.0).allowed
    breaker.record(breaker.stamp, Verdict.ANSWER, 9.0, via=Via.DEEP)
    assert health.look(ONE, 9.1).tier is Tier.GOOD


def test_another_rung_can_be_named() -> None:
    """Whoever knows the chain says whether it could take over."""
    assert rules_of(Settings(), lambda one: one is ONE).spare(ONE)
    assert not rules_of(Settings()).spare(ONE)
