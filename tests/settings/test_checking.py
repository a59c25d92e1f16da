"""From a tree to a section: the sentence, the line, and what is not told."""

from __future__ import annotations

import pytest

from autohedge.core.types import Address
from autohedge.settings.checking import checked, data, doubles, walk, without
from autohedge.settings.document import Node, parse
from autohedge.settings.errors import ConfigError
from autohedge.settings.migrate import get
from autohedge.settings.model import Settings
from autohedge.settings.text import filled


def faults(text: str, env: dict[str, str] | None = None) -> list[ConfigError]:
    root, errors = parse(text, "c.yaml")
    root, missing = filled(root, env or {}, None)
    result = checked(Settings, root)
    return [*errors, *missing, *result.errors, *(error for _, error in result.unknown)]


@pytest.mark.parametrize(
    ("text", "line", "path", "message"),
    [
        ("server: 5", 1, "server", "must be a mapping, not text"),
        ("server: []", 1, "server", "must be a mapping, not a list"),
        ("upstream_registry: x", 1, "upstream_registry", "must be a mapping, not text"),
        ("fallback_chain: {a: b}", 1, "fallback_chain", "must be a list, not a mapping"),
        ("server:\n  cors:\n    origins: x", 3, "server.cors.origins", "must be a list, not text"),
        ("openai: {model_override: [x]}", 1, "openai.model_override", "must be text, not a list"),
        ('server:\n  workers: "4"', 2, "server.workers", "must be a whole number, not text"),
        ('validation: {mode: "on"}', 1, "validation.mode", "must be true or false, not text"),
        ('failover: {budget_ratio: "1"}', 1, "failover.budget_ratio", "must be a number, not text"),
        ("server: {workers: 0}", 1, "server.workers", "must be at least 1"),
        ("failover: {budget_ratio: 1e999}", 1, "failover.budget_ratio", "must be a finite number"),
        ("static_models:\n- created: 1", 2, "static_models[0].id", "is required"),
        ("static_models: [{id: ''}]", 1, "static_models[0].id", "must not be empty"),
        (f"static_models: [{{id: {'x' * 600}}}]", 1, "static_models[0].id", "must not be longer than 512 characters"),
        ("static_models: [x]", 1, "static_models[0]", "must be a mapping, not text"),
        ("timeouts:\n  total: 5", 2, "timeouts.total", 'missing unit in duration "5" (write e.g. "5s")'),
        (
            "timeouts:\n  total: 1:30",
            2,
            "timeouts.total",
            'unknown unit ":" in duration "1:30" (known: ns, us, ms, s, m, h)',
        ),
        (
            "upstream_registry:\n  a b:\n    host: h",
            2,
            'upstream_registry["a b"]',
            'a backend name has no blanks and no "@", unlike "a b"',
        ),
        ("upstream_registry:\n  a:", 2, "upstream_registry.a.hosts", "host or hosts is required"),
    ],
)
def test_a_mistake_has_a_line_a_path_and_a_sentence(text: str, line: int, path: str, message: str) -> None:
    """One row per kind of mistake; none speaks of Python."""
    assert faults(text) == [ConfigError(line, path, message)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sever: {}", 'unknown key "sever"; did you mean "server"?'),
        ("server: {acces-log: off}", 'unknown key "acces-log"; did you mean "access_log"?'),
        ("listen: x", 'unknown key "listen"; did you mean "server.listen"?'),
        ("redis_ur: x", 'unknown key "redis_ur"; did you mean "redis_url"?'),
        ("api_key: x", 'unknown key "api_key"; did you mean "upstream_registry.<name>.api_key"?'),
        ("queue: {zzz: 1}", 'unknown key "zzz" (known: size, wait)'),
        ("upstream_registry: {a: {host: h, hots: 1}}", 'unknown key "hots"; did you mean "hosts"?'),
        ("fallback_chain: [{provider: swarm, model: m, modle: 1}]", 'unknown key "modle"; did you mean "model"?'),
        ("models: {a: {fallback: [{provider: swarm, model: m, nam: 1}]}}", 'unknown key "nam"; did you mean "name"?'),
    ],
)
def test_an_unknown_key_names_the_nearest_known_one(text: str, message: str) -> None:
    """A sibling first, then the same word elsewhere, then the list."""
    assert [error.message for error in faults(text)] == [message]


def test_every_mistake_is_told_at_once() -> None:
    """Also contradictions between fields beside wrong values of the same entry."""
    text = """\
server: {workers: x, nope: 1}
upstream_registry:
  a: {host: "h:x", models: [m], model: n, weight: 0}
  b: {}
timeouts: {total: 5}
"""
    assert sorted((error.line or 0, error.path) for error in faults(text)) == [
        (1, "server.nope"),
        (1, "server.workers"),
        (3, "upstream_registry.a.host"),
        (3, "upstream_registry.a.models"),
        (3, "upstream_registry.a.weight"),
        (4, "upstream_registry.b.hosts"),
        (5, "timeouts.total"),
    ]


def test_a_value_with_an_error_gets_no_second_one() -> None:
    """A missing variable does not also make the host "required" or "no host"."""
    (only,) = faults('upstream_registry: {a: {host: "${NOPE}"}}')
    assert "NOPE" in only.message


@pytest.mark.parametrize(
    "text",
    [
        'upstream_registry: {a: {host: "${S}"}}',
        'upstream_registry: {a: {host: "x${S}", external: true}}',
        'upstream_registry: {a: {host: h, weight: "${S}"}}',
        'upstream_registry: {a: {host: h, api_key: ["${S}"]}}',
        'timeouts: {total: "${S}"}',
        'server: {access_log: "${S}"}',
        'fallback_chain: [{provider: "${S}", model: m}]',
        'models: {a: {aliases: ["${S}"]}, b: {aliases: ["${S}"]}}',
        'state: {url: "redis://h/${S}"}',
    ],
)
@pytest.mark.parametrize("secret", ["sk hidden/very:99secret", 'hid"den hidden:9"', "hidden9" * 20 + ":x"])
def test_what_was_put_in_is_not_told(text: str, secret: str) -> None:
    """A key in the wrong field would end in the log of a failed start."""
    found = faults(text, {"S": secret})
    assert found
    for error in found:
        assert "hid" not in error.message
        assert "99" not in error.message


def test_the_message_says_which_variable_held_it() -> None:
    """So that the operator knows where to look."""
    (only,) = faults('server: {workers: "${N}"}', {"N": "four"})
    assert only.message == 'must be a whole number, not "***" (from ${N})'


def test_data_is_plain_python() -> None:
    """What pydantic gets."""
    root, _ = parse("a: [b, {c: d}]\ne:", "c.yaml")
    assert data(root) == {"a": ["b", {"c": "d"}], "e": None}
    assert len(list(walk(root))) == 6


def test_keys_can_be_taken_out() -> None:
    """What lenient loading ignores."""
    root, _ = parse("a: [{b: 1, c: 2}]\nd: {e: 3}\nf: 4", "c.yaml")
    assert data(without(root, [("a", 0, "b"), ("d", "e"), ("f",)])) == {"a": [{"c": "2"}], "d": {}}


def test_an_address_that_stands_twice_is_told_with_both_places() -> None:
    """Table B, B14."""
    root, _ = parse("hosts:\n- a\n- b\n- A", "c.yaml")
    hosts = get(root, ("hosts",))
    assert isinstance(hosts, Node)
    notes = list(doubles([Address("a", 1), Address("b", 1), Address("a", 1)], hosts))
    assert notes == [ConfigError(4, "hosts[2]", "http://a:1 stands here and at hosts[0]; it counts once")]
