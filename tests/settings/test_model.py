"""The tree of settings: defaults, and what each field takes."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from autohedge.core.types import Rank
from autohedge.settings.durations import Duration
from autohedge.settings.model import Cors, Server, Settings, State, Timeouts


def test_the_defaults_are_the_design_s_numbers() -> None:
    """Section 5 of the design, and the seeds' 32 MiB."""
    settings = Settings()
    assert settings.server.bind == ("0.0.0.0", 8000)
    assert settings.server.max_body_bytes == 32 * 2**20
    times = settings.timeouts
    assert (times.connect, times.first_byte, times.loading, times.stall, times.total) == (2.0, 30.0, 300.0, 20.0, 300.0)
    assert (times.hold, times.count, times.body, settings.server.grace) == (30.0, 0.5, 60.0, 30.0)
    assert (settings.failover.attempts, settings.failover.budget_ratio, settings.failover.budget_rate) == (3, 0.2, 1.0)
    assert (settings.queue.size, settings.queue.wait, settings.learning.interval) == (100, 5.0, 60.0)
    assert settings.validation.mode is True
    assert settings.redis_url == settings.state.url == ""


def test_parts_can_be_built_by_hand() -> None:
    """Tests of other rooms need settings without a file."""
    settings = Settings(timeouts=Timeouts(total=Duration(1)), server=Server(listen="127.0.0.1:0"))
    assert settings.timeouts.total == 1.0
    assert settings.server.bind == ("127.0.0.1", 0)


@pytest.mark.parametrize(
    "tree",
    [
        {"server": {"listen": "8000"}},
        {"server": {"workers": 0}},
        {"server": {"max_body_bytes": 0}},
        {"server": {"access_log": "loud"}},
        {"server": {"cors": {"origins": ["app.example"]}}},
        {"server": {"cors": {"origins": ["https://a/b"]}}},
        {"timeouts": {"total": "0"}},
        {"timeouts": {"hold": "-1s"}},
        {"failover": {"budget_ratio": -0.1}},
        {"queue": {"size": -1}},
        {"sources": {"file": {"interval": 0}}},
        {"state": {"url": "http://h"}},
        {"state": {"url": "sqlite:///relative.db"}},
        {"state": {"url": "redis+sentinel://h"}},
        {"upstream_registry": {"a b": {"host": "h"}}},
        {"upstream_registry": {"a@b": {"host": "h"}}},
        {"upstream_registry": {"": {"host": "h"}}},
        {"upstream_registry": {"a": {"host": "h", "weight": 0}}},
        {"models": {"a": {"aliases": ["b"]}, "b": {}}},
        {"static_models": [{"created": 1}]},
    ],
)
def test_what_makes_no_sense_is_refused(tree: dict[str, Any]) -> None:
    """One wrong value each."""
    with pytest.raises(ValidationError):
        Settings.model_validate(tree)


@pytest.mark.parametrize(
    "tree",
    [
        {"timeouts": {"hold": 0, "count": "0s"}},
        {"queue": {"size": 0, "wait": 0}},
        {"server": {"cors": {"origins": ["*", "https://a.example:8443"], "methods": ["get"]}}},
        {"server": {"access_log": "DEBUG", "listen": "[::]:80"}},
        {"openai": {"model_override": "request"}},
        {"state": {"url": " "}},
    ],
)
def test_what_switches_something_off_is_allowed(tree: dict[str, Any]) -> None:
    """Zero where zero has a meaning."""
    Settings.model_validate(tree)


def test_methods_are_upper_case() -> None:
    """They are compared with the wire."""
    assert Cors.model_validate({"methods": ["get"]}).methods == ("GET",)


@pytest.mark.parametrize("url", ["sqlite:////data/state.db", "redis+sentinel://a:1,b/main/0", "rediss://h"])
def test_state_may_live_in_a_file_or_in_redis(url: str) -> None:
    """The three families of `state.url`; empty is the file in the data folder."""
    assert Settings.model_validate({"state": {"url": url}}).state.url == url


def test_a_redis_password_does_not_print() -> None:
    """The repr of settings may end in a log."""
    settings = Settings(state=State(url="redis://u:hidden@h"))
    assert "hidden" not in repr(settings)
    assert settings.redis_url == "redis://u:hidden@h"


def test_backends_without_a_file_say_the_configuration() -> None:
    """Hints always name a source."""
    tree = {"upstream_registry": {"b": {"host": "h", "model_limits": {"max_tokens": 5}}}}
    (spec,) = Settings.model_validate(tree).backends()
    assert spec.hints.max_output is not None
    assert (spec.hints.max_output.source, spec.hints.max_output.rank) == (
        "model_limits.max_tokens in the configuration",
        Rank.CONFIG,
    )
