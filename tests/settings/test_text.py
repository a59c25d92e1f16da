"""`${...}`: what is put in, what is missing, and that nothing put in is ever told."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.settings.document import Node, parse
from autohedge.settings.errors import ConfigError
from autohedge.settings.scalars import Broken, Plain
from autohedge.settings.text import filled, reason

ENV = {"HOST": "h", "N": "4", "EMPTY": ""}


def files(path: str) -> str:
    if path == "/run/secrets/x":
        return "line\r\n"
    if path == "/run/secrets/binary":
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    raise FileNotFoundError(2, "No such file or directory", path)


def fill(text: str) -> tuple[Node, list[ConfigError]]:
    return filled(Node(Plain(text), 7, "a.b", "c.yaml line 7"), ENV, files)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${HOST}", "h"),
        ("${HOST}:80${N}0", "h:8040"),
        ("${NOPE:-x:y}", "x:y"),
        ("${EMPTY:-x}", "x"),
        ("${HOST:-x}", "h"),
        ("$${HOST}", "${HOST}"),
        ("a$$b$c$", "a$b$c$"),
        ("${file:/run/secrets/x}", "line"),
        ("plain", "plain"),
    ],
)
def test_a_value_is_put_in(text: str, value: str) -> None:
    """Variables, defaults, secret files without their line end, the escape, and other dollars as they are."""
    node, errors = fill(text)
    assert (node.value, errors) == (value, [])


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("${NOPE}", "the environment variable NOPE is not set"),
        ("${EMPTY}", "the environment variable EMPTY is empty"),
        ("${file:/nope}", "the file /nope cannot be read: no such file or directory"),
        ("${file:/run/secrets/binary}", "it is not UTF-8 text"),
        ("${HOST", 'has no "}"'),
        ("${HOST?}", "only ${NAME}"),
        ("${}", "only ${NAME}"),
    ],
)
def test_what_is_missing_is_an_error_with_its_line(text: str, part: str) -> None:
    """A missing variable would become a wrong key at a provider: it is an error that names the variable and the line."""
    node, errors = fill(text)
    assert [(error.line, error.path) for error in errors] == [(7, "a.b")]
    assert part in errors[0].message
    assert isinstance(node.value, Broken)


def test_every_missing_variable_of_a_value_is_told() -> None:
    """Two in one value are two errors."""
    assert len(fill("${A}${B}")[1]) == 2


def test_nothing_put_in_is_no_value() -> None:
    """`${N:-}` leaves the field at its default."""
    assert fill("${NOPE:-}")[0].value is None


def test_the_origin_names_what_was_put_in_and_not_its_value() -> None:
    """`autohedge check` says where a value came from."""
    node, _ = fill("${HOST}-${file:/run/secrets/x}")
    assert node.origin == "c.yaml line 7, ${HOST}, ${file:/run/secrets/x}"
    assert node.names == ("HOST", "file:/run/secrets/x")
    assert "line" not in repr(node.value).replace("h-line", "")


def test_a_quoted_value_becomes_plain_only_when_something_is_put_in() -> None:
    """`workers: "${N}"` may be a number, `workers: "4"` is text."""
    root, _ = parse('a: "${N}"\nb: "4"\nc: "$$"\n', "c.yaml")
    tree, _ = filled(root, ENV, files)
    assert isinstance(tree.value, Mapping)
    kinds = {key: type(child.value) for key, child in tree.value.items()}
    assert kinds == {"a": Plain, "b": str, "c": str}


def test_every_value_of_a_tree_is_filled_and_no_key() -> None:
    """Lists and mappings at any depth; a key keeps its dollars."""
    root, _ = parse("a: [x, {b: '${N}'}]\n'${N}': y\n", "c.yaml")
    tree, errors = filled(root, ENV, files)
    assert not errors
    assert isinstance(tree.value, Mapping)
    assert "${N}" in tree.value


def test_files_can_be_forbidden() -> None:
    """A caller without a reader of files gets an error, not an exception."""
    _, errors = filled(Node("${file:/x}", 1), {}, None)
    assert errors[0].message == "${file:/x} is not allowed here"


def test_the_reason_of_a_file_error_carries_no_content() -> None:
    """Only the system's words."""
    assert reason(PermissionError(13, "Permission denied")) == "permission denied"
    assert reason(OSError()) == "oserror"


@given(st.text(alphabet="${}:-aN file", max_size=20))
def test_any_text_is_filled_or_told(text: str) -> None:
    """No text makes it raise."""
    node, errors = fill(text)
    assert isinstance(node.value, Broken) == bool(errors)
