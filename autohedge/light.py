"""The console's first step: commands that must start fast do not import the proxy, all others go to `cli.py`.

A health check runs every few seconds in every container; importing the proxy for it would cost more than serving requests.

It must not know: what a command does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from autohedge import healthcheck

Command = Callable[[Sequence[str], Mapping[str, str]], int]

LIGHT: dict[str, tuple[Command, str]] = {
    "healthcheck": (healthcheck.run, "ask the server of this configuration how it is (exit code 0 or 1)"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code of the command that `argv` names."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in LIGHT:
        return LIGHT[words[0]][0](words[1:], os.environ)
    code: int = import_module("autohedge.cli").main(words)  # not at the top: it imports everything
    return code
