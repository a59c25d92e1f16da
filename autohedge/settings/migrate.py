"""Seed shapes into our shape, before anything is checked, so that a file that worked elsewhere loads as it stands.

What it decides
- the article's `redis_url` is `state.url`; both may stand there when they mean the same Redis;
- eidex's `models` list is `static_models`; our own `models` is a mapping;
- eidex's `workers` list is `workers.static`; our own `workers` is a section;
- AIBrix's `models` list has its own file: the error says where to name it.

Every value keeps the line and the path it was written at, so errors speak of the file as it is.

It must not know: defaults, types or the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autohedge.settings.addresses import redis_target
from autohedge.settings.document import Node
from autohedge.settings.errors import ConfigError
from autohedge.settings.scalars import BROKEN


def migrated(root: Node) -> tuple[Node, list[ConfigError]]:
    """The tree in our shape, and where two spellings contradict each other."""
    if not isinstance(root.value, Mapping):
        return root, []
    errors: list[ConfigError] = []
    keys = dict(root.value)
    _redis(keys, errors)
    _models(keys, errors)
    workers = keys.get("workers")
    if workers is not None and isinstance(workers.value, tuple):
        keys["workers"] = put(replace(workers, value=None), ("static",), workers)
    return replace(root, value=keys), errors


def put(node: Node, path: tuple[str, ...], child: Node) -> Node:
    """The tree with `child` at `path`; unchanged where something on the way is no mapping (that has its own error)."""
    if not path:
        return child
    if node.value is not None and not isinstance(node.value, Mapping):
        return node
    keys = dict(node.value or {})
    keys[path[0]] = put(keys.get(path[0], replace(child, value=None)), path[1:], child)
    return replace(node, value=keys)


def get(node: Node, path: tuple[str, ...]) -> Node | None:
    """The node at `path`, or None when there is none or it holds nothing."""
    for part in path:
        value = node.value
        if not isinstance(value, Mapping) or part not in value:
            return None
        node = value[part]
    return None if node.value is None else node


def same_redis(one: Node, other: Node) -> bool:
    """Whether two URLs mean the same store. What is no URL at all is the same only when it is the same text."""
    if not isinstance(one.value, str) or not isinstance(other.value, str):
        return False
    try:
        return redis_target(one.value) == redis_target(other.value)
    except ValueError:
        return one.value == other.value


def _redis(keys: dict[str, Node], errors: list[ConfigError]) -> None:
    alias = keys.pop("redis_url", None)
    if alias is None or alias.value is None or alias.value == "":
        return
    state = keys.get("state", replace(alias, value=None))
    own = get(state, ("url",))
    if own is not None and own.value != "":
        if BROKEN not in (own.value, alias.value) and not same_redis(own, alias):
            message = f"redis_url and state.url (line {own.line}) mean different Redis; keep one of them"
            errors.append(ConfigError(alias.line, alias.path, message))
        return
    keys["state"] = put(state, ("url",), alias)


def _models(keys: dict[str, Node], errors: list[ConfigError]) -> None:
    models = keys.get("models")
    if models is None or not isinstance(models.value, tuple):
        return
    del keys["models"]
    foreign = [
        entry
        for entry in models.value
        if isinstance(entry.value, Mapping) and {"endpoints", "rolesets"} & entry.value.keys()
    ]
    if foreign:
        message = "entries with endpoints or rolesets belong into a file of their own; name it in sources.file.path"
        errors.append(ConfigError(foreign[0].line, foreign[0].path, message))
    elif "static_models" in keys:
        message = (
            f"models as a list and static_models (line {keys['static_models'].line}) mean the same; keep one of them"
        )
        errors.append(ConfigError(models.line, models.path, message))
    else:
        keys["static_models"] = models
