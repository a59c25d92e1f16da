"""YAML text into a tree in which every value still knows its line.

What it decides: what counts as a readable file. A key that stands twice is an error with both lines, never "the last one
wins"; a scalar without quotes stays text (`Plain`) until a field gives it a type; an empty value is None.

Rules
- Anchors, aliases and `<<` work as people expect; a tree that contains itself or explodes is refused.
- Tags other than YAML's own (`!!python/...`, `!Ref`) are refused: nothing is ever constructed.
- No message quotes a value.

It must not know: which keys exist, or the environment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

import yaml

from autohedge.settings.errors import ConfigError, ConfigErrors, dotted
from autohedge.settings.scalars import BROKEN, Plain

_DEPTH = 50  # levels of nesting
_NODES = 100_000  # values after aliases are written out
_NULLS = {"", "~", "null", "Null", "NULL"}
_MERGE = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True)
class Node:
    """One value: a mapping, a list, text or None. `path` is the key as written ("models[0].id"); `origin` says where
    the value came from; `names` are the variables and files put in for `${...}`.
    """

    value: Mapping[str, Node] | tuple[Node, ...] | str | None = field(repr=False)
    line: int | None = None
    path: str = ""
    origin: str = ""
    names: tuple[str, ...] = ()


def parse(text: str, file: str) -> tuple[Node, list[ConfigError]]:
    """The tree of a file and the mistakes in its keys. Raises ConfigErrors when the text is not YAML at all."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise ConfigErrors(file, [_syntax(error, text)]) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigErrors(file, [ConfigError(line, "", f"cannot be parsed as YAML: {error.reason}")]) from None
    except RecursionError:
        raise ConfigErrors(file, [ConfigError(None, "", "cannot be parsed as YAML: nested too deep")]) from None
    reader = _Reader(PurePath(file).name)
    tree = reader.read(root, "", 1) if root is not None else Node(None, 1, "", f"{reader.name} line 1")
    return tree, reader.errors


def _syntax(error: yaml.MarkedYAMLError, text: str) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else None
    message = ", ".join(part for part in (error.problem, error.context) if part)
    lines = text.splitlines()
    shown = lines[line - 1] if line is not None and line <= len(lines) else ""
    hint = '; write "${...}" in quotes inside [ ] and { }' if "${" in shown else ""
    return ConfigError(line, "", f"cannot be parsed as YAML: {message}{hint}")


class _Reader:
    """Turns PyYAML's nodes into ours and collects the mistakes on the way."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.errors: list[ConfigError] = []
        self._count = 0
        self._open: list[int] = []  # the nodes that we are inside of

    def read(self, node: yaml.Node, path: str, line: int) -> Node:
        """Our node for `node`; `line` is where its key stands."""
        self._count += 1
        if not node.tag.startswith("tag:yaml.org,2002:") or ":python/" in node.tag:
            return self._refused(path, node.start_mark.line + 1, f"the tag {node.tag} is not supported")
        if id(node) in self._open:
            return self._refused(path, line, "an alias that contains itself")
        if len(self._open) > _DEPTH or self._count > _NODES:
            return self._refused(path, line, "nested too deep or too many values")
        if isinstance(node, yaml.ScalarNode):
            return self._node(_scalar(node), path, node.start_mark.line + 1)
        self._open.append(id(node))
        value: Mapping[str, Node] | tuple[Node, ...]
        if isinstance(node, yaml.MappingNode):
            value = self._mapping(node, path)
        else:
            items = enumerate(node.value)
            value = tuple(self.read(item, dotted(path, i), item.start_mark.line + 1) for i, item in items)
        self._open.pop()
        return self._node(value, path, line)

    def _mapping(self, node: yaml.MappingNode, path: str) -> Mapping[str, Node]:
        own: dict[str, Node] = {}
        lines: dict[str, int] = {}
        merged: list[Node] = []
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.tag == _MERGE:
                merged.append(self.read(value, path, line))
            elif not isinstance(key, yaml.ScalarNode):
                self.errors.append(ConfigError(line, path, "a key must be text"))
            elif key.value in own:
                message = f'the key "{key.value}" stands twice, first in line {lines[key.value]}'
                self.errors.append(ConfigError(line, dotted(path, key.value), message))
            else:
                lines[key.value] = line
                own[key.value] = self.read(value, dotted(path, key.value), line)
        for extra in merged:
            for name, child in self._merged(extra):
                own.setdefault(name, child)
        return own

    def _merged(self, node: Node) -> Iterator[tuple[str, Node]]:
        for part in node.value if isinstance(node.value, tuple) else (node,):
            if isinstance(part.value, Mapping):
                yield from part.value.items()
            else:
                self.errors.append(ConfigError(node.line, node.path, '"<<" needs a mapping'))

    def _refused(self, path: str, line: int, message: str) -> Node:
        self.errors.append(ConfigError(line, path, message))
        return self._node(BROKEN, path, line)

    def _node(self, value: Mapping[str, Node] | tuple[Node, ...] | str | None, path: str, line: int) -> Node:
        return Node(value, line, path, f"{self.name} line {line}")


def _scalar(node: yaml.ScalarNode) -> str | None:
    text = str(node.value)
    if node.style is not None:
        return text
    return None if text in _NULLS else Plain(text)
