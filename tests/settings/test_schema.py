"""The settings as data: documentation and environment variables are computed, so they cannot lie."""

from __future__ import annotations

import pytest

from autohedge.core.types import Kind, Secret
from autohedge.settings.document import Node, parse
from autohedge.settings.durations import Duration
from autohedge.settings.model import Settings
from autohedge.settings.schema import below, documented, leaves, settings_of, shown, variables


def test_every_setting_is_described() -> None:
    """A setting without a sentence is not finished; a sentence ends."""
    for row in documented():
        assert row.description.endswith("."), row
        assert row.type, row


def test_paths_and_variables_are_unique() -> None:
    """Two settings in one variable would be a coin toss."""
    rows = documented()
    assert len({row.path for row in rows}) == len(rows)
    names = [row.env for row in rows if row.env]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("path", "row"),
    [
        ("server.listen", ("text", '"0.0.0.0:8000"', "AUTOHEDGE_SERVER_LISTEN")),
        ("timeouts.first_byte", ("duration", "30s", "AUTOHEDGE_TIMEOUTS_FIRST_BYTE")),
        ("server.cors.methods", ("list of text", '["GET", "POST"]', "AUTOHEDGE_SERVER_CORS_METHODS")),
        ("failover.budget_ratio", ("number", "0.2", "AUTOHEDGE_FAILOVER_BUDGET_RATIO")),
        ("upstream_registry.<name>.provider", ("provider", "auto", "")),
        ("upstream_registry.<name>.api_key", ("secret", "null", "")),
        ("upstream_registry.<name>.labels", ("mapping to text", "{}", "")),
        ("fallback_chain[].provider", ("text", "", "")),
        ("models.<name>.fallback[].model", ("text", "null", "")),
        ("redis_url", ("text", "", "REDIS_URL")),
    ],
)
def test_a_row_of_the_documentation(path: str, row: tuple[str, str, str]) -> None:
    """Type, default and variable in words; entries that the operator names have no variable."""
    found = next(each for each in documented() if each.path == path)
    assert (found.type, found.default, found.env) == row


def test_every_default_that_is_documented_reads_back() -> None:
    """The documentation's default, written into a file, is the default."""
    lines = [f"{row.path}: {row.default}" for row in documented() if row.env.startswith("AUTOHEDGE_")]
    for line in lines:
        _, errors = parse(line, "c.yaml")
        assert not errors, line
    assert len(lines) == len(variables())


def test_leaves_are_every_value_once() -> None:
    """One leaf per setting with defaults; lists of words and empty mappings are one value."""
    found = dict(leaves(Settings()))
    assert found["server.cors.methods"] == ("GET", "POST")
    assert found["upstream_registry"] == {}
    assert len(found) == len(list(leaves(Settings())))
    tree = {
        "upstream_registry": {"a.b": {"host": "h", "labels": {"x": "y"}}},
        "fallback_chain": [{"provider": "swarm", "model": "m"}],
    }
    found = dict(leaves(Settings.model_validate(tree)))
    assert found['upstream_registry["a.b"].labels.x'] == "y"
    assert found["fallback_chain[0].model"] == "m"


def test_a_place_that_does_not_exist_is_none() -> None:
    """Paths come from files."""
    assert below(Settings, "nope") is None
    assert below(str, 0) is None
    assert below(below(Settings, "fallback_chain"), 0) is not None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (5, "5"),
        (0.5, "0.5"),
        (Duration(90), "1m30s"),
        (Kind.OPENAI, "openai-compatible"),
        (Secret("hidden"), '"***"'),
        ("a: b", '"a: b"'),
        ((), "[]"),
        (("a", "b"), '["a", "b"]'),
        ({}, "{}"),
    ],
)
def test_a_value_is_shown_as_yaml(value: object, text: str) -> None:
    """Secrets apart, it reads back."""
    assert shown(value) == text


@pytest.mark.parametrize("text", ["", "a\nb", 'q"', "\\", "\u2028", "\U0001f600", "münchen", "x" * 300, "#", "off"])
def test_any_text_shown_reads_back(text: str) -> None:
    """Also line separators and emoji; always in one line."""
    line = f"a: {shown(text)}"
    assert "\n" not in line
    root, _ = parse(line, "c.yaml")
    assert isinstance(root.value, dict)
    node = root.value["a"]
    assert isinstance(node, Node)
    assert node.value == text


def test_settings_of_a_section_keep_the_order_of_the_classes() -> None:
    """The documentation reads like the file."""
    assert [setting.shown for setting in settings_of(Settings)][:3] == [
        "server.listen",
        "server.max_body_bytes",
        "server.access_log",
    ]
