"""A tree with lines into a typed section, or every reason why not.

What it decides: the sentence and the line of each mistake. Pydantic finds them; its own words are replaced, because they
speak of Python.

Rules
- An unknown key names the nearest known one: a sibling first, then the same word elsewhere in the tree.
- Whatever came from `${...}` is shown as "***", also in a message about another field.
- A value that already has an error (`Broken`) gets no second one.

It must not know: which settings exist, or where the text came from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from autohedge.core.types import Address
from autohedge.settings.document import Node
from autohedge.settings.errors import ConfigError, dotted
from autohedge.settings.nearest import did_you_mean, nearest
from autohedge.settings.scalars import Broken
from autohedge.settings.schema import bare, below, settings_of
from autohedge.settings.section import Section

S = TypeVar("S", bound=Section)
Loc = tuple[str | int, ...]

_SENTENCES = {
    "missing": "is required",
    "string_type": "must be text, not {shape}",
    "int_type": "must be a whole number, not {shape}",
    "float_type": "must be a number, not {shape}",
    "bool_type": "must be true or false, not {shape}",
    "tuple_type": "must be a list, not {shape}",
    "model_type": "must be a mapping, not {shape}",
    "dict_type": "must be a mapping, not {shape}",
    "mapping_type": "must be a mapping, not {shape}",
    "greater_than_equal": "must be at least {ge}",
    "finite_number": "must be a finite number",
    "string_too_short": "must not be empty",
    "string_too_long": "must not be longer than {max_length} characters",
}
_QUOTED = re.compile(r'".*"', re.DOTALL)  # from the first quote to the last: a value may hold quotes itself
_TELLING = 8  # characters from which on a text is hidden wherever it stands, not only in quotes at its own field


@dataclass(frozen=True, slots=True)
class Checked(Generic[S]):
    """Either `value`, or errors and the places of unknown keys with their errors."""

    value: S | None
    errors: tuple[ConfigError, ...] = ()
    unknown: tuple[tuple[Loc, ConfigError], ...] = ()


def checked(kind: type[S], node: Node, context: Mapping[str, Any] | None = None) -> Checked[S]:
    """The section that the tree holds. Never raises."""
    try:
        return Checked(kind.model_validate(data(node), context=context))
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
    errors: list[ConfigError] = []
    unknown: list[tuple[Loc, ConfigError]] = []
    hidden = _hidden(node)
    for one in found:
        loc: Loc = tuple(part for part in one["loc"] if part != "[key]")
        place, missing = _find(node, loc)
        if isinstance(place.value, Broken):
            continue
        is_unknown = one["type"] == "extra_forbidden"
        message = _unknown(kind, loc) if is_unknown else _sentence(one, None if missing else place)
        mistake = ConfigError(
            place.line, reduce(dotted, missing, place.path), _masked(message, place, hidden) + _from(place)
        )
        if is_unknown:
            unknown.append((loc, mistake))
        else:
            errors.append(mistake)
    return Checked(None, tuple(errors), tuple(unknown))


def data(node: Node) -> Any:
    """The tree as plain dicts, lists and texts."""
    if isinstance(node.value, Mapping):
        return {key: data(child) for key, child in node.value.items()}
    return [data(child) for child in node.value] if isinstance(node.value, tuple) else node.value


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it."""
    yield node
    children: Iterable[Node] = ()
    if isinstance(node.value, Mapping):
        children = node.value.values()
    elif isinstance(node.value, tuple):
        children = node.value
    for child in children:
        yield from walk(child)


def without(node: Node, locs: Sequence[Loc]) -> Node:
    """The tree without the keys at `locs`."""
    if isinstance(node.value, Mapping):
        gone = {loc[0] for loc in locs if len(loc) == 1}
        kept = {key: child for key, child in node.value.items() if key not in gone}
        return replace(node, value={key: without(child, _under(locs, key)) for key, child in kept.items()})
    if isinstance(node.value, tuple):
        return replace(node, value=tuple(without(child, _under(locs, i)) for i, child in enumerate(node.value)))
    return node


def doubles(addresses: Sequence[Address], hosts: Node | None) -> Iterator[ConfigError]:
    """A notice for every address of one list that stands twice (table B, B14): it counts once. `hosts` is that list."""
    items = hosts.value if hosts is not None and isinstance(hosts.value, tuple) else ()
    first: dict[Address, str] = {}
    for address, item in zip(addresses, items, strict=False):
        if address in first:
            message = f"{address} stands here and at {first[address]}; it counts once"
            yield ConfigError(item.line, item.path, message)
        first.setdefault(address, item.path)


def _under(locs: Sequence[Loc], part: str | int) -> list[Loc]:
    return [loc[1:] for loc in locs if len(loc) > 1 and loc[0] == part]


def _find(node: Node, loc: Loc) -> tuple[Node, Loc]:
    """The deepest node on the way to `loc`, and the steps that do not exist."""
    for i, part in enumerate(loc):
        value = node.value
        if isinstance(value, Mapping) and part in value:
            node = value[str(part)]
        elif isinstance(value, tuple) and isinstance(part, int) and part < len(value):
            node = value[part]
        else:
            return node, loc[i:]
    return node, ()


def _sentence(error: Any, node: Node | None) -> str:
    context = error.get("ctx", {})
    if error["type"] == "value_error":
        return str(context["error"])
    sentence = _SENTENCES.get(error["type"])
    return sentence.format(shape=_shape(node), **context) if sentence else str(error["msg"])


def _shape(node: Node | None) -> str:
    if node is None or node.value is None:
        return "nothing"
    if isinstance(node.value, str):
        return "text"
    return "a mapping" if isinstance(node.value, Mapping) else "a list"


def _unknown(kind: type[Section], loc: Loc) -> str:
    place: Any = kind
    for part in loc[:-1]:
        place = below(place, part)
    section = bare(place)
    key, siblings = str(loc[-1]), [*section.model_fields, *section.also_known]
    if not nearest(key, siblings):
        elsewhere = next((setting.shown for setting in settings_of(kind) if setting.path[-1] == key), None)
        if elsewhere:
            return f'unknown key "{key}"; did you mean "{elsewhere}"?'
    return f'unknown key "{key}"{did_you_mean(key, siblings)}'


def _from(node: Node) -> str:
    if node.names:
        return f" (from {', '.join(f'${{{name}}}' for name in node.names)})"
    return f" (from the {node.origin})" if node.line is None and node.origin else ""


def _hidden(node: Node) -> list[str]:
    return [each.value for each in walk(node) if each.names and isinstance(each.value, str)]


def _masked(message: str, node: Node, hidden: Sequence[str]) -> str:
    own = node.value if node.names and isinstance(node.value, str) else ""
    for text in sorted({text for text in hidden if len(text) >= _TELLING}, key=len, reverse=True):
        message = message.replace(text, "***")
    return _QUOTED.sub('"***"', message) if own else message
