"""`autohedge serve`: from the configuration to the process that serves, or to the one that keeps several that do.

Rule: the proxy is imported by who runs it. The keeper of several workers needs half of the memory without it, and starts them
half a second earlier.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping

from autohedge import logs
from autohedge.importing import for_good
from autohedge.reloading import read_file
from autohedge.settings.load import ConfigErrors, load
from autohedge.settings.model import Server
from autohedge.workers import BOOT, WORKER, run_workers

LOGGER = logging.getLogger("autohedge")


def serve(config: str | None, env: Mapping[str, str], on_ready: Callable[[str], None] | None = None) -> int:
    """Run until SIGTERM or SIGINT. Returns the exit code: 1 when the configuration is wrong or the port is taken."""
    logs.begin()
    try:
        loaded = load(config, env, read_file)
    except ConfigErrors as errors:
        LOGGER.error("the configuration is wrong:\n%s", errors)
        return 1
    settings = loaded.settings
    logs.written_as(settings.server.log_format)
    for warning in loaded.warnings:
        LOGGER.warning("%s", warning)
    if settings.server.workers > 1 and WORKER not in env:
        return _keep(settings.server, config, env)
    with for_good():
        from autohedge.app import run  # noqa: PLC0415

    return run(settings, config, env, on_ready)


def _keep(server: Server, config: str | None, env: Mapping[str, str]) -> int:
    try:
        return run_workers(server.workers, server.bind, config, {**env, BOOT: secrets.token_hex(8)}, server.leave)
    except OSError as error:
        LOGGER.error("cannot listen on %s: %s", server.listen, error.strerror)
        return 1
