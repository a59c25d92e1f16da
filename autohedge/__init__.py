"""AutoHedge: an edge proxy that sees whether the model answers."""

from __future__ import annotations

__version__ = "0.1.0"


def compiled() -> bool:
    """Whether the data path runs as machine code (fast.py) and not from its sources."""
    from importlib.util import find_spec  # noqa: PLC0415  not for commands that must start fast

    spec = find_spec("autohedge.relay")
    return spec is not None and spec.origin is not None and not spec.origin.endswith(".py")
