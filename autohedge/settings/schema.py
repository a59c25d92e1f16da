"""The settings read as data: which exist, of which type, with which default and which environment variable.

What it decides: the names of the environment variables (AUTOHEDGE_ and the path) and the words of the documentation.
Everything is computed from the classes of `model.py`; nothing is listed by hand.

It must not know: values that somebody configured.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import yaml
from pydantic.fields import FieldInfo

from autohedge.core.types import Kind, Secret
from autohedge.settings.durations import Duration
from autohedge.settings.errors import dotted
from autohedge.settings.model import Settings
from autohedge.settings.section import Section

PREFIX = "AUTOHEDGE_"
_WORDS: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),
    (int, "whole number"),
    (Duration, "duration"),
    (float, "number"),
    (Kind, "provider"),
    (Secret, "secret"),
    (str, "text"),
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One leaf of the tree. `path` holds "<name>" for a key and "[]" for an item that the operator chooses."""

    path: tuple[str, ...]
    info: FieldInfo

    @property
    def shown(self) -> str:
        """The path for people: "upstream_registry.<name>.host", "fallback_chain[].model"."""
        return ".".join(self.path).replace(".[]", "[]")

    @property
    def is_list(self) -> bool:
        return get_origin(bare(self.info.annotation)) is tuple

    @property
    def variable(self) -> str:
        """The environment variable that overrides it, "" for what cannot stand in one variable."""
        free = "[]" in self.path or "<name>" in self.path or get_origin(bare(self.info.annotation)) is Mapping
        return "" if free else PREFIX + "_".join(self.path).upper()


def bare(annotation: Any) -> Any:
    """An annotation without `Annotated` and `| None`."""
    if get_origin(annotation) is Annotated:
        return bare(get_args(annotation)[0])
    if get_origin(annotation) in {Union, types.UnionType}:
        return bare(next(part for part in get_args(annotation) if part is not type(None)))
    return annotation


def below(annotation: Any, part: str | int) -> Any:
    """The annotation one step further down, or None when there is no such place."""
    kind = bare(annotation)
    if isinstance(kind, type) and issubclass(kind, Section):
        info = kind.model_fields.get(str(part))
        return info.annotation if info else None
    if get_origin(kind) is Mapping:
        return get_args(kind)[1]
    return get_args(kind)[0] if get_origin(kind) is tuple else None


def settings_of(kind: type[Section], path: tuple[str, ...] = ()) -> Iterator[Setting]:
    """Every leaf below a section, in the order of the classes."""
    for name, info in kind.model_fields.items():
        here = (*path, name)
        inner, steps = bare(info.annotation), here
        while get_origin(inner) in {Mapping, tuple}:
            steps = (*steps, "<name>" if get_origin(inner) is Mapping else "[]")
            inner = bare(below(inner, "x"))
        if isinstance(inner, type) and issubclass(inner, Section):
            yield from settings_of(inner, steps)
        else:
            yield Setting(here, info)


def variables() -> dict[str, Setting]:
    """Environment variable to setting, for every leaf that one variable can hold."""
    return {setting.variable: setting for setting in settings_of(Settings) if setting.variable}


class Documented(NamedTuple):
    """One row of the documentation."""

    path: str
    type: str
    default: str
    env: str
    description: str


def documented() -> list[Documented]:
    """Every setting as a row of text, in the order of the file; `default` is "" where the setting is required."""
    alias = Documented("redis_url", "text", "", "REDIS_URL", "Another name of state.url.")
    rows = [
        Documented(
            setting.shown,
            _type_name(setting.info.annotation),
            "" if setting.info.is_required() else shown(setting.info.default),
            setting.variable,
            setting.info.description or "",
        )
        for setting in settings_of(Settings)
    ]
    return [*rows, alias]


def _type_name(annotation: Any) -> str:
    kind = bare(annotation)
    if get_origin(kind) is tuple:
        return f"list of {_type_name(get_args(kind)[0])}"
    if get_origin(kind) is Mapping:
        return f"mapping to {_type_name(get_args(kind)[1])}"
    return next((word for known, word in _WORDS if issubclass(kind, known)), "mapping")


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a section with its path; a list of plain values and an empty mapping are one value."""
    if isinstance(value, Section):
        for name in type(value).model_fields:
            yield from leaves(getattr(value, name), dotted(path, name))
    elif isinstance(value, Mapping) and value:
        for name, child in value.items():
            yield from leaves(child, dotted(path, name))
    elif isinstance(value, tuple) and any(isinstance(item, Section) for item in value):
        for i, item in enumerate(value):
            yield from leaves(item, dotted(path, i))
    else:
        yield path, value


def shown(value: Any) -> str:
    """A value as YAML would read it back; a secret as "***"."""
    if isinstance(value, Mapping | Section):
        return "{}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(shown(item) for item in value)}]"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, int | float):
        return str(value)
    text = value if isinstance(value, str) else "***"
    return yaml.safe_dump(text, default_style='"', allow_unicode=True, width=10**9).strip()
