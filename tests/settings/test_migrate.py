"""Seed shapes into ours, with their lines."""

from __future__ import annotations

import pytest

from autohedge.settings.checking import data
from autohedge.settings.document import Node, parse
from autohedge.settings.errors import ConfigError
from autohedge.settings.migrate import get, migrated, put, same_redis


def move(text: str) -> tuple[Node, list[ConfigError]]:
    root, errors = parse(text, "c.yaml")
    assert not errors
    return migrated(root)


def test_the_article_s_redis_url_is_the_state_s_url() -> None:
    """And keeps its line and its name for errors."""
    root, errors = move("a: b\nredis_url: redis://h/0\n")
    url = get(root, ("state", "url"))
    assert url is not None
    assert (errors, url.line, url.path, url.value) == ([], 2, "redis_url", "redis://h/0")


@pytest.mark.parametrize(
    "text",
    [
        "state: {url: redis://h}\nredis_url: redis://h:6379/0",
        "state: {url: redis://h}\nredis_url:",
        "state: {url: redis://h}\nredis_url: ''",
    ],
)
def test_both_spellings_of_one_redis_are_allowed(text: str) -> None:
    """Same target, or nothing said."""
    root, errors = move(text)
    assert (data(root), errors) == ({"state": {"url": "redis://h"}}, [])


def test_two_redis_are_a_contradiction() -> None:
    """Nobody knows which one is meant."""
    _, errors = move("state: {url: redis://a}\nredis_url: redis://b")
    assert errors == [
        ConfigError(2, "redis_url", "redis_url and state.url (line 1) mean different Redis; keep one of them")
    ]


def test_an_empty_state_url_gives_way() -> None:
    """The default, written out."""
    assert data(move("state: {url: '', prefix: p}\nredis_url: redis://b")[0]) == {
        "state": {"url": "redis://b", "prefix": "p"}
    }


def test_eidex_s_list_of_models_is_static() -> None:
    """And our mapping of models stays."""
    assert data(move("models: [{id: dex}]")[0]) == {"static_models": [{"id": "dex"}]}
    assert data(move("models: {a: {}}")[0]) == {"models": {"a": {}}}


def test_an_endpoints_file_is_told_where_it_belongs() -> None:
    """AIBrix's list under `models` would give ten unknown keys."""
    root, errors = move("models:\n- name: m\n  endpoints: [h]\n")
    assert data(root) == {}
    assert [(error.line, error.path) for error in errors] == [(2, "models[0]")]
    assert "sources.file.path" in errors[0].message


def test_two_lists_of_static_models_are_a_contradiction() -> None:
    """One of them would be lost."""
    _, errors = move("models: [{id: a}]\nstatic_models: [{id: b}]")
    assert [error.line for error in errors] == [1]


@pytest.mark.parametrize("text", ["", "[]", "x", "server: {}"])
def test_other_trees_pass(text: str) -> None:
    """What is wrong with them is told by the checks."""
    root, _ = parse(text, "c.yaml")
    assert migrated(root)[1] == []
    assert data(migrated(root)[0]) == data(root)


def test_a_value_can_be_put_into_a_tree() -> None:
    """Missing mappings are made; what is no mapping stays and has its own error."""
    root, _ = parse("a: {b: 1}\nc:\nd: x", "c.yaml")
    child = Node("new")
    assert data(put(root, ("a", "e"), child)) == {"a": {"b": "1", "e": "new"}, "c": None, "d": "x"}
    assert data(put(root, ("c", "e"), child)) == {"a": {"b": "1"}, "c": {"e": "new"}, "d": "x"}
    assert data(put(root, ("d", "e"), child)) == data(root)
    assert get(root, ("a", "b", "c")) is None
    assert get(root, ("c",)) is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("redis://h", "redis://h/0", True),
        ("redis://h", "redis://g", False),
        ("redis://h:x", "redis://h:x", True),
        ("redis://h:x", "redis://h", False),
    ],
)
def test_redis_urls_are_compared_by_target(one: str, other: str, same: bool) -> None:
    """Or by text, where one is no URL."""
    assert same_redis(Node(one), Node(other)) is same
    assert not same_redis(Node(None), Node(other))
