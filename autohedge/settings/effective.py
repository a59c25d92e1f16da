"""The effective configuration as YAML, with a comment per value that says where it came from.

What it decides: what an operator sees of a value. Secrets are "***", and so is what came from a secret file or from a
variable whose name speaks of a secret. What is printed loads again and means the same, the hidden values apart.
In an entry that the operator chose (a backend, a rung) what is not given and means nothing is left out.

It must not know: how the settings were loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from autohedge.settings.addresses import masked
from autohedge.settings.errors import dotted
from autohedge.settings.load import DEFAULT, Loaded
from autohedge.settings.schema import shown
from autohedge.settings.section import Section

_TELLTALE = re.compile(r"\$\{(file:|[A-Z0-9_]*(KEY|TOKEN|SECRET|PASS|CREDENTIAL))", re.IGNORECASE)
CHOSEN = ("upstream_registry", "fallback_chain", "static_models", "models")
_HIDDEN = '"***"'


def render(loaded: Loaded) -> str:
    """The whole configuration as YAML text, one value a line, each with its origin."""
    return "\n".join(_section(loaded.settings, "", loaded.origins)) + "\n"


def _section(value: Section | Mapping[str, Any], path: str, origins: Mapping[str, str]) -> Iterator[str]:
    names = type(value).model_fields if isinstance(value, Section) else value
    for name in names:
        child = getattr(value, name) if isinstance(value, Section) else value[name]
        here = dotted(path, name)
        if child or not path.startswith(CHOSEN) or origins.get(here, DEFAULT) != DEFAULT:
            yield from _entry(name if isinstance(value, Section) else _key(name), child, here, origins)


def _entry(key: str, value: Any, path: str, origins: Mapping[str, str]) -> Iterator[str]:
    if isinstance(value, Section) or (isinstance(value, Mapping) and value):
        yield f"{key}:"
        yield from (f"  {line}" for line in _section(value, path, origins))
    elif isinstance(value, tuple) and any(isinstance(item, Section) for item in value):
        yield f"{key}:"
        for i, item in enumerate(value):
            lines = list(_section(item, dotted(path, i), origins))
            yield from (f"  {'  ' if n else '- '}{line}" for n, line in enumerate(lines))
    else:
        origin = origins.get(path, DEFAULT)
        yield f"{key}: {_visible(value, origin)}  # {origin}"


def _visible(value: Any, origin: str) -> str:
    if value and _TELLTALE.search(origin):
        return _HIDDEN
    return shown(masked(value) if isinstance(value, str) and "://" in value else value)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", name) else shown(name)
