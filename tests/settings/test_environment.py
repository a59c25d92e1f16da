"""The environment over the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from autohedge.settings.checking import data
from autohedge.settings.document import Node, parse
from autohedge.settings.environment import overlaid
from autohedge.settings.migrate import get, migrated


def over(env: Mapping[str, str], text: str = "") -> tuple[Node, list[str]]:
    root, _ = parse(text, "c.yaml")
    return overlaid(migrated(root)[0], env)


@pytest.mark.parametrize(
    ("env", "tree"),
    [
        ({"AUTOHEDGE_SERVER_LISTEN": ":1"}, {"server": {"listen": ":1"}}),
        ({"AUTOHEDGE_TIMEOUTS_FIRST_BYTE": "1s"}, {"timeouts": {"first_byte": "1s"}}),
        (
            {"AUTOHEDGE_SERVER_CORS_ORIGINS": "https://a, ,https://b"},
            {"server": {"cors": {"origins": ["https://a", "https://b"]}}},
        ),
        ({"AUTOHEDGE_SERVER_LISTEN": ""}, None),
        ({"AUTOHEDGE_SERVER_LISTEN": "  "}, None),
        ({"AUTOHEDGE_DATA": "/x", "AUTOHEDGE_CONFIG": "/y", "PATH": "/z"}, None),
        ({"REDIS_URL": "redis://h"}, {"state": {"url": "redis://h"}}),
        ({"REDIS_URL": ""}, None),
        ({"AUTOHEDGE_REDIS_URL": "redis://h"}, {"state": {"url": "redis://h"}}),
    ],
)
def test_a_variable_stands_at_its_path(env: dict[str, str], tree: Any) -> None:
    """AUTOHEDGE_ and the path; lists with commas; empty is not set; what others read is left alone."""
    root, warnings = over(env)
    assert (data(root), warnings) == (tree, [])


def test_a_variable_stands_over_the_file_and_says_so() -> None:
    """Its neighbours stay."""
    root, _ = over({"AUTOHEDGE_SERVER_LISTEN": ":1"}, "server: {listen: ':2', workers: 3}")
    assert data(root) == {"server": {"listen": ":1", "workers": "3"}}
    listen = get(root, ("server", "listen"))
    assert listen is not None
    assert (listen.origin, listen.line) == ("environment AUTOHEDGE_SERVER_LISTEN", None)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("AUTOHEDGE_SERVER_LISTN", "; did you mean AUTOHEDGE_SERVER_LISTEN?"),
        ("AUTOHEDGE_TIMEOUT_TOTAL", "; did you mean AUTOHEDGE_TIMEOUTS_TOTAL?"),
    ],
)
def test_an_unknown_variable_is_a_warning_with_the_nearest(name: str, hint: str) -> None:
    """Not an error: orchestrators put in variables of their own."""
    assert over({name: "x"})[1] == [f"unknown environment variable {name}{hint}"]


def test_the_warning_does_not_tell_the_value() -> None:
    """It may be a key under a wrong name."""
    assert "hidden" not in over({"AUTOHEDGE_API_KEY": "hidden"})[1][0]


@pytest.mark.parametrize(
    ("env", "text", "url", "warned"),
    [
        ({"REDIS_URL": "redis://e"}, "redis_url: redis://f", "redis://e", True),
        ({"REDIS_URL": "redis://u:pw@f:6379"}, "redis_url: redis://f/0", "redis://u:pw@f:6379", False),
        ({"REDIS_URL": "redis://e"}, "state: {url: redis://f}", "redis://e", True),
        ({"AUTOHEDGE_STATE_URL": "redis://s", "REDIS_URL": "redis://e"}, "redis_url: redis://f", "redis://s", True),
        ({"AUTOHEDGE_STATE_URL": "redis://s", "AUTOHEDGE_REDIS_URL": "redis://a"}, "", "redis://s", False),
        ({"AUTOHEDGE_STATE_URL": "redis://s"}, "redis_url: redis://f", "redis://s", False),
    ],
)
def test_which_redis_wins(env: dict[str, str], text: str, url: str, warned: bool) -> None:
    """The article gives REDIS_URL and redis_url with different hosts: the environment wins, and the operator is told."""
    root, warnings = over(env, text)
    assert data(root) == {"state": {"url": url}}
    assert bool(warnings) is warned
    assert "pw" not in str(warnings)
