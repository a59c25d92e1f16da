"""All mistakes at once, as a terminal shows them."""

from __future__ import annotations

import pytest

from autohedge.settings.errors import ConfigError, ConfigErrors, dotted


def test_errors_are_listed_one_a_line_in_the_order_of_the_file() -> None:
    """The contract: "config.yaml:12: server.listen: ..."; what has no line comes last; nothing is told twice."""
    late, early = ConfigError(12, "server.listen", "no host"), ConfigError(2, "", "not YAML")
    env = ConfigError(None, "server.workers", "must be a number")
    errors = ConfigErrors("config.yaml", [env, late, early, late])
    assert errors.errors == (early, late, env)
    assert str(errors).splitlines() == [
        "config.yaml:2: not YAML",
        "config.yaml:12: server.listen: no host",
        "server.workers: must be a number",
    ]


def test_a_whole_file_has_a_name_and_no_line() -> None:
    """Table B, B8: a missing file."""
    assert str(ConfigErrors("c.yaml", [ConfigError(None, "", "cannot read")])) == "c.yaml: cannot read"


@pytest.mark.parametrize(
    ("path", "part", "text"), [("", "a", "a"), ("a", "b-c", "a.b-c"), ("a", 0, "a[0]"), ("a", "x.y", 'a["x.y"]')]
)
def test_a_path_is_spelled_so_that_dots_in_names_do_not_mislead(path: str, part: str | int, text: str) -> None:
    """Model names hold dots and slashes."""
    assert dotted(path, part) == text
