"""Environment variables over the file: AUTOHEDGE_ and the path in capitals, for every setting that one text can hold.

What it decides: which variable stands over which key. An empty variable is one that is not set. A list is written with
commas. REDIS_URL (the article) is read too: AUTOHEDGE_STATE_URL stands over it, and it stands over the file.

It must not know: how a text becomes a number; the field decides that, as it does for the file.
"""

from __future__ import annotations

from collections.abc import Mapping

from autohedge.settings.document import Node
from autohedge.settings.migrate import get, put, same_redis
from autohedge.settings.nearest import nearest
from autohedge.settings.scalars import Plain
from autohedge.settings.schema import PREFIX, variables

# Read by the command line before any file: where state lies, and which file to load.
ELSEWHERE = frozenset({"AUTOHEDGE_DATA", "AUTOHEDGE_CONFIG"})

_STATE_URL = ("state", "url")


def overlaid(root: Node, env: Mapping[str, str]) -> tuple[Node, list[str]]:
    """The tree with the environment's values put over it, and what is worth a warning."""
    known = variables()
    warnings: list[str] = []
    root = _redis(root, env, warnings)
    for name in sorted(env):
        if not name.startswith(PREFIX) or name in ELSEWHERE or name == f"{PREFIX}REDIS_URL":
            continue
        setting = known.get(name)
        if setting is None:
            near = nearest(name, known)
            warnings.append(f"unknown environment variable {name}" + (f"; did you mean {near}?" if near else ""))
        elif env[name].strip():
            root = put(root, setting.path, _node(name, env[name], ".".join(setting.path), is_list=setting.is_list))
    return root, warnings


def _redis(root: Node, env: Mapping[str, str], warnings: list[str]) -> Node:
    """The general names first: the loop over AUTOHEDGE_* comes after, and wins."""
    own = next((name for name in (f"{PREFIX}STATE_URL", f"{PREFIX}REDIS_URL") if env.get(name, "").strip()), None)
    general = _node("REDIS_URL", env["REDIS_URL"], "redis_url") if env.get("REDIS_URL", "").strip() else None
    if own is not None:
        mine = _node(own, env[own], "state.url")
        if general is not None and not same_redis(general, mine):
            warnings.append(f"REDIS_URL is not used: {own} names another Redis")
        return put(root, _STATE_URL, mine)
    if general is None:
        return root
    written = get(root, _STATE_URL)
    if written is not None and written.value and not same_redis(general, written):
        warnings.append(
            f"REDIS_URL of the environment names another Redis than {written.path} in {written.origin}; it is used"
        )
    return put(root, _STATE_URL, general)


def _node(name: str, text: str, path: str, *, is_list: bool = False) -> Node:
    origin = f"environment {name}"
    if not is_list:
        return Node(Plain(text), None, path, origin)
    items = [item.strip() for item in text.split(",")]
    return Node(tuple(Node(Plain(item), None, path, origin) for item in items if item), None, path, origin)
