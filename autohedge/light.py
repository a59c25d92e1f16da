"""The console's first step: commands that do not need the proxy do not import it, all others go to `cli.py`.

A health check runs every few seconds in every container; importing the proxy for it would cost more than serving requests.
As the first process of a container it ends on SIGTERM from its first moment: the kernel keeps signals from a process 1 that
does not handle them, and a container that is stopped while it starts would be waited for until the whole grace is over.

It must not know: what a command does.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from autohedge.importing import for_good

# Command: the module whose `run` takes the words after it and the environment, and what it is for.
LIGHT: dict[str, tuple[str, str]] = {
    "healthcheck": ("autohedge.healthcheck", "ask the server of this configuration how it is (exit code 0 or 1)"),
    "docker-guard": ("autohedge.guard", "let discovery read a Docker engine and nothing else"),
    "engine": ("autohedge.engine.main", "run the sample engine"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code of the command that `argv` names."""
    words = list(sys.argv[1:] if argv is None else argv)
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, lambda _number, _frame: os._exit(0))  # until the server takes it over
    if words and words[0] in LIGHT:
        return light(words)
    code: int = _imported("autohedge.cli").main(words)
    return code


def light(words: Sequence[str]) -> int:
    """Run the light command that the first word names."""
    code: int = _imported(LIGHT[words[0]][0]).run(words[1:], os.environ)
    return code


def _imported(name: str) -> ModuleType:
    with for_good():
        return import_module(name)
