"""YAML with lines: what is readable, and what every key and value still knows."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.settings.document import Node, parse
from autohedge.settings.errors import ConfigErrors
from autohedge.settings.scalars import Broken, Plain


def child(node: Node, *path: str | int) -> Node:
    for part in path:
        if isinstance(part, int):
            assert isinstance(node.value, tuple)
            node = node.value[part]
        else:
            assert isinstance(node.value, Mapping)
            node = node.value[part]
    return node


def tree(text: str) -> Node:
    root, errors = parse(text, "/etc/x/config.yaml")
    assert errors == []
    return root


def test_every_value_knows_line_path_and_origin() -> None:
    """Lines count from 1; a list or mapping is where its key stands; the origin has no folder in it."""
    root = tree("a:\n  b:\n    - x\n    -\n      c: y\n'q/r':\n  z\n")
    assert (child(root, "a").line, child(root, "a", "b").line) == (1, 2)
    assert (child(root, "a", "b", 0).line, child(root, "a", "b", 0).path) == (3, "a.b[0]")
    assert (child(root, "a", "b", 1, "c").line, child(root, "a", "b", 1, "c").path) == (5, "a.b[1].c")
    assert (child(root, "q/r").line, child(root, "q/r").path) == (7, '["q/r"]')
    assert child(root, "a", "b", 0).origin == "config.yaml line 3"


@pytest.mark.parametrize(
    "text", ["0", "5", "1:30", "off", "no", "2023-05-15", "1_000", "010", "1e3", "=", "0x1F", ".inf"]
)
def test_yaml_traps_stay_text(text: str) -> None:
    """YAML 1.1 would make numbers, 90, booleans and dates of these; here the field decides."""
    value = child(tree(f"a: {text}"), "a").value
    assert value == text
    assert isinstance(value, Plain)


@pytest.mark.parametrize("text", ['"5"', "'5'", "|-\n  5", ">-\n  5"])
def test_quoted_text_is_text(text: str) -> None:
    """Quotes and blocks are the operator's word that it is text."""
    assert type(child(tree(f"a: {text}"), "a").value) is str


@pytest.mark.parametrize("text", ["", "~", "null", "Null", "NULL", "# only a comment"])
def test_an_empty_value_is_none(text: str) -> None:
    """The quoted ones are text, these are nothing."""
    assert child(tree(f"a: {text}"), "a").value is None


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "\ufeff"])
def test_an_empty_file_is_an_empty_tree(text: str) -> None:
    """Defaults hold then."""
    assert tree(text).value in (None, "")


def test_editors_of_windows_change_nothing() -> None:
    """A byte order mark is no key, and CR LF is one line end."""
    root = tree("\ufeffa: 1\r\nb:\r\n- 2\r\n")
    assert (child(root, "a").value, child(root, "b", 0).line) == ("1", 3)


def test_a_key_that_stands_twice_is_an_error_with_both_lines() -> None:
    """YAML parsers let the last one win, and nobody sees it; the first stays so that its own mistakes are told too."""
    root, errors = parse("a:\n  b: 1\n\n  b:\n    2\na: 3\n", "c.yaml")
    assert [(e.line, e.path, e.message) for e in errors] == [
        (4, "a.b", 'the key "b" stands twice, first in line 2'),
        (6, "a", 'the key "a" stands twice, first in line 1'),
    ]
    assert child(root, "a", "b").value == "1"


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("a: [1\nb: 2\n", 2, "cannot be parsed as YAML"),
        ("a:\n\tb: 1\n", 2, "cannot be parsed as YAML"),
        ("a: b: c\n", 1, "mapping values are not allowed"),
        ("a: *nobody\n", 1, "undefined alias"),
        ("a: 1\n---\nb: 2\n", 2, "single document"),
        ("a: 1\nb: \x00\n", 2, "special characters"),
        ("a: {b: ${X}}\n", 1, 'write "${...}" in quotes'),
        ("[" * 5000, None, "nested too deep"),
    ],
)
def test_what_is_no_yaml_is_told_with_its_line(text: str, line: int | None, part: str) -> None:
    """Table B, B8: the error says parse, the file and the line."""
    with pytest.raises(ConfigErrors) as caught:
        parse(text, "c.yaml")
    assert [error.line for error in caught.value.errors] == [line]
    assert part in str(caught.value)
    assert str(caught.value).startswith("c.yaml")


def test_a_syntax_error_does_not_quote_the_line() -> None:
    """The line may hold a key."""
    with pytest.raises(ConfigErrors) as caught:
        parse("api_key: sk-secret: x\n", "c.yaml")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("a: !Ref x", 1, "tag !Ref"),
        ("a: !!python/name:os.system ''", 1, "python/name"),
        ("a: &x\n  b: *x\n", 2, "contains itself"),
        ("? [a, b]\n: c\n", 1, "a key must be text"),
        ("a: " + "[" * 60 + "]" * 60, 1, "nested too deep"),
        ("<<: 5\na: 1", 1, '"<<" needs a mapping'),
    ],
)
def test_what_yaml_can_and_a_configuration_must_not(text: str, line: int, part: str) -> None:
    """Tags, knots and depth are errors with a line, and the rest of the file is still read."""
    _, errors = parse(text, "c.yaml")
    assert [error.line for error in errors] == [line]
    assert part in errors[0].message


def test_a_refused_value_is_broken_and_not_absent() -> None:
    """So that no "is required" follows from it."""
    root, _ = parse("a: !Ref x", "c.yaml")
    assert isinstance(child(root, "a").value, Broken)


def test_aliases_that_explode_are_refused() -> None:
    """Nine times nine times nine ... of one list."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 8)]
    _, errors = parse("\n".join(lines), "c.yaml")
    assert "too many values" in errors[0].message


def test_merge_keys_work_and_own_keys_win() -> None:
    """`<<` with one mapping or a list of them; the earlier of the list wins."""
    root = tree("x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz:\n  <<: [*x, *y]\n  a: 0\n")
    got = child(root, "z").value
    assert isinstance(got, Mapping)
    assert {key: node.value for key, node in got.items()} == {"a": "0", "b": "1", "c": "2"}


def test_a_node_does_not_print_its_value() -> None:
    """It may be a key."""
    assert "secret" not in repr(Node("secret", 1, "a"))


@given(st.text(max_size=60))
def test_any_text_is_a_tree_or_config_errors(text: str) -> None:
    """No other exception leaves, whatever the file holds."""
    with contextlib.suppress(ConfigErrors):
        parse(text, "c.yaml")
