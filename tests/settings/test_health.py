"""The sections of semantic health: defaults, seeds' keys, and what makes no sense."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from autohedge.settings.load import load_text
from autohedge.settings.model import Settings


def read(text: str, env: dict[str, str] | None = None) -> Settings:
    return load_text(text, "c.yaml", env or {}, str).settings


def test_the_defaults_are_the_design_s_numbers() -> None:
    """Design 5, the article's window, eidex's health section."""
    settings = Settings()
    probe, breaker, health, startup = settings.probe, settings.breaker, settings.health, settings.startup
    assert (probe.enabled, probe.interval, probe.doubtful_interval, probe.timeout) == (True, 10.0, 3.0, 10.0)
    assert (probe.tokens, probe.parallel, probe.external, probe.light_interval, probe.jitter) == (
        16,
        8,
        False,
        0.0,
        0.2,
    )
    assert (breaker.window, breaker.max_age, breaker.min_samples, breaker.min_success) == (10, 120.0, 5, 0.7)
    assert (breaker.open, breaker.cap, breaker.close_after, breaker.grace, breaker.slow) == (
        15.0,
        300.0,
        2,
        600.0,
        None,
    )
    assert (breaker.live_row, breaker.hard, breaker.recheck, breaker.max_ejected) == (3, 2, 60.0, 0.5)
    assert (health.judge, health.health_endpoint, health.health_gen_endpoint) == (
        "window",
        "/health",
        "/health_generate",
    )
    assert (health.health_check_interval, health.health_gen_check_interval, health.health_timeout) == (5.0, 60.0, 2.0)
    assert (health.health_checks_down, health.health_checks_up) == (2, 1)
    assert (startup.require, startup.max_wait) == ("none", 60.0)


def test_the_file_of_eidex_loads() -> None:
    """Seed 000, its health section as it stands."""
    settings = read(
        """\
health:
  judge: streak
  health_endpoint: "/health"
  health_gen_endpoint: "/health_generate"
  health_check_interval: "5s"
  health_gen_check_interval: "0"
  health_timeout: "2s"
  health_checks_down: 3
  health_checks_up: 2
"""
    )
    assert settings.health.judge == "streak"
    assert settings.health.health_gen_check_interval == 0.0
    assert (settings.health.health_checks_down, settings.health.health_checks_up) == (3, 2)


def test_words_without_quotes_and_from_the_environment() -> None:
    """`none` is a word here, not nothing; any case."""
    settings = read("startup: {require: none}\nbreaker: {slow: 800ms}", {"AUTOHEDGE_HEALTH_JUDGE": "Streak"})
    assert (settings.startup.require, settings.health.judge, settings.breaker.slow) == ("none", "streak", 0.8)
    assert read("startup: {require: ALL, max_wait: 0}").startup.require == "all"


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"health": {"health_check_interval": "0", "health_gen_check_interval": 0}}, "one probe must be active"),
        ({"health": {"judge": "oracle"}}, "must be one of window, streak"),
        ({"health": {"health_endpoint": "health"}}, "must be a path"),
        ({"health": {"health_timeout": "0"}}, "longer than 0"),
        ({"health": {"health_check_interval": "-5s"}}, "negative"),
        ({"startup": {"require": "some"}}, "must be one of all, any, none"),
        ({"probe": {"interval": 0}}, "longer than 0"),
        ({"probe": {"tokens": 0}}, "greater than or equal to 1"),
        ({"probe": {"jitter": 1.0}}, "less than or equal to 0.9"),
        ({"breaker": {"min_success": 1.5}}, "less than or equal to 1"),
        ({"breaker": {"window": 4}}, "min_samples (5) is more than the window holds (4)"),
        ({"breaker": {"cap": "10s"}}, "cap (10s) is shorter than open (15s)"),
        ({"breaker": {"window": 1, "min_samples": 1}}, "greater than or equal to 2"),
    ],
)
def test_what_makes_no_sense_is_refused(tree: dict[str, Any], message: str) -> None:
    """One wrong value each; eidex refuses two probes that are both off."""
    with pytest.raises(ValidationError) as error:
        Settings.model_validate(tree)
    assert message in str(error.value)
