"""`${...}` in values: what the environment and secret files put into the configuration.

What it decides: `${NAME}` is the variable, `${NAME:-text}` the variable or else the text, `${file:/run/secrets/x}` the
content of a file without its last line break, `$$` a dollar. Any other `$` stands for itself.

Rules
- A variable that is not set, or empty, is an error that names it, unless a default stands in the same braces: an empty
  key would travel to a provider as a wrong one.
- A value with something put in is `Plain`: `workers: "${N}"` is a number where a number is asked for.
- Nothing put in (`${N:-}`) is no value: the field keeps its default.
- No message carries what a variable or a file holds.

It must not know: which settings exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from autohedge.settings.document import Node
from autohedge.settings.errors import ConfigError
from autohedge.settings.scalars import BROKEN, Plain

ReadFile = Callable[[str], str]

_PART = re.compile(r"\$\$|\$\{([^}]*)(\})?")
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


@dataclass(slots=True)
class _Filler:
    """One pass over a text or a tree: what was asked for, and what was missing."""

    env: Mapping[str, str] = field(repr=False)
    read_file: ReadFile | None
    names: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def fill(self, found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        inside = found[1]
        if found[2] is None:
            return self._missing('"${" has no "}"; write "$${" for the text itself')
        if inside.startswith("file:"):
            return self._file(inside.removeprefix("file:"))
        variable = _VARIABLE.fullmatch(inside)
        if variable is None:
            return self._missing('only ${NAME}, ${NAME:-default} and ${file:/path} are known; write "$$" for a dollar')
        name, default = variable[1], variable[2]
        self.names.append(name)
        value = self.env.get(name, "")
        if value or default is not None:
            return value or default
        state = "is empty" if name in self.env else "is not set"
        return self._missing(
            f"the environment variable {name} {state}; write ${{{name}:-default}} where it may be missing"
        )

    def _file(self, path: str) -> str:
        self.names.append(f"file:{path}")
        if self.read_file is None:
            return self._missing(f"${{file:{path}}} is not allowed here")
        try:
            text = self.read_file(path)
        except (OSError, UnicodeDecodeError) as error:
            return self._missing(f"the file {path} cannot be read: {reason(error)}")
        return text.removesuffix("\n").removesuffix("\r")

    def _missing(self, problem: str) -> str:
        self.problems.append(problem)
        return ""


def reason(error: OSError | UnicodeDecodeError) -> str:
    """Why a file could not be read, without its content."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    return (error.strerror or type(error).__name__).lower()


def filled(node: Node, env: Mapping[str, str], read_file: ReadFile | None) -> tuple[Node, list[ConfigError]]:
    """The tree with every `${...}` in its values put in, and an error for each that could not be."""
    errors: list[ConfigError] = []

    def walk(node: Node) -> Node:
        if isinstance(node.value, Mapping):
            return replace(node, value={key: walk(child) for key, child in node.value.items()})
        if isinstance(node.value, tuple):
            return replace(node, value=tuple(walk(child) for child in node.value))
        if node.value is None or "$" not in node.value:
            return node
        filler = _Filler(env, read_file)
        text = _PART.sub(filler.fill, node.value)
        errors.extend(ConfigError(node.line, node.path, problem) for problem in filler.problems)
        if filler.problems:
            return replace(node, value=BROKEN, names=tuple(filler.names))
        origin = node.origin + "".join(f", ${{{name}}}" for name in filler.names)
        kept = (Plain(text) or None) if filler.names else type(node.value)(text)
        return replace(node, value=kept, origin=origin, names=tuple(filler.names))

    return walk(node), errors
