"""Loads the configuration: file, then `${...}`, then seed shapes and eidex's mode, then the environment, then the checks.

What it decides: the order of precedence (environment over file over default), and that every mistake is told at once.
It is a pure function of the text, the environment and what `read_file` gives: the same input makes equal settings, so a
watcher may compare the results of two loads.

It must not know: where the process runs, the real environment, the clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from autohedge.settings.checking import checked, doubles, without
from autohedge.settings.document import Node, parse
from autohedge.settings.eidex import as_eidex, is_eidex, unread
from autohedge.settings.environment import overlaid
from autohedge.settings.errors import ConfigError, ConfigErrors, dotted
from autohedge.settings.migrate import get, migrated
from autohedge.settings.model import Settings
from autohedge.settings.schema import leaves
from autohedge.settings.text import ReadFile, filled, reason

__all__ = ["DEFAULT", "ConfigErrors", "Loaded", "load", "load_text"]

DEFAULT = "default"
EXPOSED = (
    "workers.open: anybody who reaches this port may register a worker, and with it gets requests and their credentials; "
    "set admin.token or workers.allow"
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration that can be used. `origins` tells for every leaf of `settings` ("server.listen") where its value
    came from: "default", "config.yaml line 12" (with ", ${NAME}" for what was put in), "environment AUTOHEDGE_...".
    """

    settings: Settings
    warnings: tuple[str, ...]
    origins: Mapping[str, str]


def load(path: str | None, env: Mapping[str, str], read_file: ReadFile, *, lenient: bool = False) -> Loaded:
    """The settings of the file at `path`, or of defaults and environment alone when it is None.

    `lenient` (eidex's own rule, and so in its mode) makes warnings of unknown keys and of a missing file. Raises ConfigErrors otherwise.
    """
    lenient = lenient or is_eidex(env)
    if path is None:
        return load_text("", "", env, read_file, lenient=lenient)
    try:
        text = read_file(path)
    except (OSError, UnicodeDecodeError) as error:
        message = f"cannot read the configuration file: {reason(error)}"
        if not lenient or not isinstance(error, FileNotFoundError):
            raise ConfigErrors(path, [ConfigError(None, "", message)]) from None
        loaded = load_text("", path, env, read_file, lenient=True)
        return Loaded(loaded.settings, (f"{path}: {message}; defaults hold", *loaded.warnings), loaded.origins)
    return load_text(text, path, env, read_file, lenient=lenient)


def load_text(text: str, file: str, env: Mapping[str, str], read_file: ReadFile, *, lenient: bool = False) -> Loaded:
    """As `load`, for a text that is read already; `file` is its name in errors and origins."""
    root, errors = parse(text, file)
    root, missing = filled(root, env, read_file)
    root, contradictions = migrated(root)
    eidex = as_eidex(root, env)
    root, warnings = overlaid(root if eidex is None else eidex, env)
    warnings.extend(() if eidex is not None else unread(env))
    lenient = lenient or eidex is not None
    written = dict(_origins(root))
    hints = {"origins": {path: origin for path, origin in written.items() if ".model_limits." in path}}
    result = checked(Settings, root, hints)
    if lenient and result.unknown:
        warnings.extend(_told(file, error) for _, error in result.unknown)
        root = without(root, [loc for loc, _ in result.unknown])
        result = checked(Settings, root, hints)
    errors = [*errors, *missing, *contradictions, *result.errors, *(error for _, error in result.unknown)]
    if errors or result.value is None:
        raise ConfigErrors(file, errors)
    settings = result.value
    warnings.extend(_told(file, error) for error in _doubles(settings, root))
    if settings.workers.exposed and settings.admin.token is None:
        warnings.append(EXPOSED)
    origins = {path: written.get(path, DEFAULT) for path, _ in leaves(settings)}
    return Loaded(settings, tuple(warnings), MappingProxyType(origins))


def _origins(node: Node, path: str = "") -> Iterator[tuple[str, str]]:
    """Path in the settings to origin, for every node that holds something."""
    if node.value is None:
        return
    if path:
        yield path, node.origin + "".join(f", ${{{name}}}" for name in _put_in(node))
    if isinstance(node.value, Mapping):
        for key, child in node.value.items():
            yield from _origins(child, dotted(path, key))
    elif isinstance(node.value, tuple):
        for i, child in enumerate(node.value):
            yield from _origins(child, dotted(path, i))


def _put_in(node: Node) -> Iterator[str]:
    """What was put into the texts of a list: the list is shown as one value."""
    if isinstance(node.value, tuple):
        for child in node.value:
            yield from child.names


def _doubles(settings: Settings, root: Node) -> Iterator[ConfigError]:
    yield from doubles([worker.address for worker in settings.workers.static], get(root, ("workers", "static")))
    for name, backend in settings.upstream_registry.items():
        yield from doubles(backend.places, get(root, ("upstream_registry", name, "hosts")))


def _told(file: str, error: ConfigError) -> str:
    return str(ConfigErrors(file, [error]))
