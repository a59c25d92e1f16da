"""eidex's mode: a user of eidex changes the image and nothing else.

It holds when the process is started as eidex is, and never because of what stands in a file:
- with the flag `-config FILE`, or `--config FILE` without a command before it (Go's programs take either);
- or without a file of our own (`--config`, AUTOHEDGE_CONFIG) and with EIDEX_CONFIG, EIDEX_SERVER_LISTEN or EIDEX_SERVER_ACCESS_LOG;
- or with nothing at all, where /etc/eidex/config.yaml exists;
- or where `mode: eidex` (AUTOHEDGE_MODE) says so.

What it means
- the file is -config, else EIDEX_CONFIG, else /etc/eidex/config.yaml; a missing one is a warning, unknown keys are warnings;
- EIDEX_SERVER_LISTEN and EIDEX_SERVER_ACCESS_LOG stand over the file, AUTOHEDGE_* over both; an empty one is not set;
- other defaults (`DEFAULTS`): the port, JSON logs, the judge of health, and workers that anybody may register while there is no token;
- the management paths refuse in eidex's words (doors/status.py).

It must not know: the real environment, whether a file exists (`exists` is given in).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from autohedge.settings.document import Node
from autohedge.settings.migrate import get, put
from autohedge.settings.scalars import Plain

NAME, MODE, OWN = "eidex", "AUTOHEDGE_MODE", "AUTOHEDGE_CONFIG"
CONFIG = "EIDEX_CONFIG"
FILE = "/etc/eidex/config.yaml"
OURS = (
    "/app/config/config.yaml"  # where a container of ours finds its file without a word about it (the article's place)
)
OVER: Mapping[str, tuple[str, ...]] = {
    "EIDEX_SERVER_LISTEN": ("server", "listen"),
    "EIDEX_SERVER_ACCESS_LOG": ("server", "access_log"),
}
DEFAULTS: Mapping[tuple[str, ...], str] = {
    ("mode",): NAME,
    ("server", "listen"): "0.0.0.0:8080",
    ("server", "log_format"): "json",
    ("health", "judge"): "streak",
    ("workers", "open"): "true",
}


class Start(NamedTuple):
    """The file to load, and the environment to load it with."""

    config: str | None
    env: Mapping[str, str]


def started(flag: str | None, own: str | None, env: Mapping[str, str], exists: Callable[[str], bool]) -> Start:
    """How the process was started: `flag` is -config, `own` is --config."""
    own = own or _said(env, OWN)
    named = flag or (None if own else _said(env, CONFIG))
    over = not own and any(_said(env, name) for name in OVER)
    if named or over or (not own and (is_eidex(env) or exists(FILE))):
        return Start(named or FILE, {**env, MODE: NAME})
    return Start(own or (OURS if exists(OURS) else None), env)


def is_eidex(env: Mapping[str, str]) -> bool:
    """Whether the environment says so."""
    return (_said(env, MODE) or "").lower() == NAME


def as_eidex(root: Node, env: Mapping[str, str]) -> Node | None:
    """The tree with eidex's defaults under it and its variables over it; None outside of eidex's mode."""
    written = get(root, ("mode",))
    said = _said(env, MODE) or (written.value if written is not None else None)
    if not isinstance(said, str) or said.lower() != NAME:
        return None
    for path, value in DEFAULTS.items():
        if get(root, path) is None:
            root = put(root, path, Node(Plain(value), None, ".".join(path), "default of eidex's mode"))
    for name, path in OVER.items():
        if over := _said(env, name):
            root = put(root, path, Node(Plain(over), None, ".".join(path), f"environment {name}"))
    return root


def unread(env: Mapping[str, str]) -> Iterator[str]:
    """Outside of eidex's mode: a warning for each of its variables, which mean nothing then."""
    for name in (CONFIG, *OVER):
        if _said(env, name):
            yield f"{name} is not read: a file of our own was named, so this is not eidex's mode (mode: eidex)"


def _said(env: Mapping[str, str], name: str) -> str | None:
    """An empty variable is one that is not set."""
    return env.get(name, "").strip() or None
