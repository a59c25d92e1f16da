"""The endpoints file: AIBrix's static list of models and their servers, for the source that follows a file.

What it decides: which file is complete and free of contradictions, and which backends it declares. AIBrix ignores what
it does not understand and ends with no backends; here every mistake is told (facts, table B: B2 to B19).

Rules
- One backend per model, or per role of a roleset: prefill and decode servers do not replace each other.
- `endpoints` and `rolesets` exclude each other; names stand once; a roleset has both sides.
- Our own `upstream_registry` may stand in such a file, beside `models` or alone.
- All or nothing: one mistake, and the file declares nothing.

It must not know: how the file is found or followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from autohedge.core.types import NOTHING, Address, BackendSpec, Kind, Seen
from autohedge.settings.addresses import parse_address
from autohedge.settings.checking import checked, doubles
from autohedge.settings.document import Node
from autohedge.settings.document import parse as parse_yaml
from autohedge.settings.errors import ConfigError, ConfigErrors, dotted
from autohedge.settings.migrate import get
from autohedge.settings.scalars import Many, Name, kind_of, told
from autohedge.settings.section import Section
from autohedge.settings.text import ReadFile, filled
from autohedge.settings.upstream import Backend, BackendName, HostText, default_port

SOURCE = "file"
ROLES = ("prefill", "decode")


def _roleset_name(name: str) -> str:
    if not name.strip():
        raise ValueError("roleset name is required")
    return name


class Roleset(Section):
    """Servers that work together: a prefill server hands its cache to a decode server of the same roleset."""

    name: Annotated[str, AfterValidator(_roleset_name)] = Field(default="", validate_default=True)
    prefill: Many[HostText] = ()
    decode: Many[HostText] = Field(default=(), validate_default=True)

    @field_validator("decode")
    @classmethod
    def _both_sides(cls, decode: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if "prefill" in info.data and not (info.data["prefill"] and decode):
            missing = [role for role, servers in zip(ROLES, (info.data["prefill"], decode), strict=True) if not servers]
            raise ValueError(f"a roleset needs prefill and decode servers; missing: {', '.join(missing)}")
        return decode


class Entry(Section):
    """One model of the file."""

    name: Name
    engine: str = ""
    endpoints: Many[HostText] = ()
    rolesets: Many[Roleset] = Field(default=(), validate_default=True)

    @field_validator("rolesets")
    @classmethod
    def _one_kind(cls, rolesets: tuple[Roleset, ...], info: ValidationInfo) -> tuple[Roleset, ...]:
        endpoints = info.data.get("endpoints")
        if endpoints and rolesets:
            raise ValueError("endpoints and rolesets are mutually exclusive")
        if endpoints == () and not rolesets:
            raise ValueError("endpoints or rolesets is required")
        return rolesets

    @property
    def kind(self) -> Kind:
        """The provider that `engine` names; an engine we do not know is asked what it is."""
        try:
            return kind_of(self.engine) if self.engine else Kind.AUTO
        except ValueError:
            return Kind.AUTO


class EndpointsFile(Section):
    models: Many[Entry] = ()
    upstream_registry: Mapping[BackendName, Backend] = {}


def parse(
    text: str, file: str = "endpoints.yaml", env: Mapping[str, str] = NOTHING, read_file: ReadFile | None = None
) -> Seen:
    """The backends that an endpoints file declares, with notes on what was merged or not recognised.

    `env` and `read_file` serve `${...}`. Raises ConfigErrors with every mistake; then nothing of the file counts.
    """
    root, errors = parse_yaml(text, file)
    root, missing = filled(root, env, read_file)
    result = checked(EndpointsFile, root)
    found = [*errors, *missing, *_doubled_names(root), *result.errors, *(error for _, error in result.unknown)]
    if found or result.value is None:
        raise ConfigErrors(file, [_with_model(error, root) for error in found])
    content = result.value
    backends = tuple(_backends(content, root))
    if not backends:
        raise ConfigErrors(file, [ConfigError(root.line, "models", "the file declares no backends")])
    _unique(file, backends, root)
    return Seen(backends, tuple(str(ConfigErrors(file, [_with_model(note, root)])) for note in _notes(content, root)))


def _backends(content: EndpointsFile, root: Node) -> Iterator[BackendSpec]:
    for entry in content.models:
        base = BackendSpec(
            name=re.sub(r"[\s@]+", "-", entry.name),
            kind=entry.kind,
            models=(entry.name,),
            origins=(SOURCE,),
            labels={"engine": entry.engine} if entry.engine else NOTHING,
        )
        if entry.endpoints:
            yield replace(base, addresses=_addresses(entry.endpoints, entry.kind))
        for roleset in entry.rolesets:
            for role, servers in zip(ROLES, (roleset.prefill, roleset.decode), strict=True):
                yield replace(
                    base,
                    name=re.sub(r"[\s@]+", "-", f"{base.name}/{roleset.name}/{role}"),
                    addresses=_addresses(servers, entry.kind),
                    labels={**base.labels, "roleset": roleset.name, "role": role},
                )
    for name, backend in content.upstream_registry.items():
        yield backend.spec(name, SOURCE, partial(_origin, root, name))


def _origin(root: Node, name: str, key: str) -> str:
    node = get(root, ("upstream_registry", name, *key.split(".")))
    return node.origin.partition(",")[0] if node else "the endpoints file"


def _places(servers: tuple[str, ...], kind: Kind) -> tuple[Address, ...]:
    return tuple(parse_address(server, default_port(kind)) for server in servers)


def _addresses(servers: tuple[str, ...], kind: Kind) -> tuple[Address, ...]:
    return tuple(dict.fromkeys(_places(servers, kind)))


def _doubled_names(root: Node) -> Iterator[ConfigError]:
    models = get(root, ("models",))
    yield from _doubled(models, "model")
    for model in _items(models):
        yield from _doubled(get(model, ("rolesets",)), "roleset")


def _doubled(entries: Node | None, word: str) -> Iterator[ConfigError]:
    lines: dict[str, int | None] = {}
    for entry in _items(entries):
        name = get(entry, ("name",))
        if name is None or not isinstance(name.value, str):
            continue
        if name.value in lines:
            yield ConfigError(
                name.line, name.path, f"the {word} {told(name.value)} stands twice, first in line {lines[name.value]}"
            )
        lines.setdefault(name.value, name.line)


def _items(node: Node | None) -> tuple[Node, ...]:
    return node.value if node is not None and isinstance(node.value, tuple) else ()


def _unique(file: str, backends: tuple[BackendSpec, ...], root: Node) -> None:
    seen: set[str] = set()
    for backend in backends:
        if backend.name in seen:
            node = get(root, ("upstream_registry", backend.name)) or root
            raise ConfigErrors(
                file, [ConfigError(node.line, node.path, f"two backends are called {told(backend.name)}")]
            )
        seen.add(backend.name)


def _notes(content: EndpointsFile, root: Node) -> Iterator[ConfigError]:
    for i, (entry, node) in enumerate(zip(content.models, _items(get(root, ("models",))), strict=True)):
        path = dotted("models", i)
        if entry.engine and entry.kind is Kind.AUTO and entry.engine != Kind.AUTO:
            line = (get(node, ("engine",)) or node).line
            yield ConfigError(
                line,
                f"{path}.engine",
                f"{told(entry.engine)} is not an engine known here; the server is asked what it is",
            )
        yield from doubles(_places(entry.endpoints, entry.kind), get(node, ("endpoints",)))
        for roleset, inner in zip(entry.rolesets, _items(get(node, ("rolesets",))), strict=True):
            for role, servers in zip(ROLES, (roleset.prefill, roleset.decode), strict=True):
                yield from doubles(_places(servers, entry.kind), get(inner, (role,)))
    for name, backend in content.upstream_registry.items():
        yield from doubles(backend.places, get(root, ("upstream_registry", name, "hosts")))


def _with_model(error: ConfigError, root: Node) -> ConfigError:
    """The error with the model's name before it, as operators know the entry by that."""
    found = re.match(r"models\[(\d+)\]", error.path)
    items = _items(get(root, ("models",)))
    if found is None or int(found[1]) >= len(items):
        return error
    name = get(items[int(found[1])], ("name",))
    if name is None or name.names or not isinstance(name.value, str) or not name.value:
        return error
    return replace(error, message=f"model {told(name.value)}: {error.message}")
