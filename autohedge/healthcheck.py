"""`autohedge healthcheck`: asks the AutoHedge that runs here how it is. Exit code 0 is well, 1 is not; the image has no curl.

What it decides: whom to ask (the listen address of the same configuration, a wildcard as loopback) and what counts as well.

Rules
- `liveness` asks for the process alone. It is the default: a container that is restarted because its backends are away helps
  nobody.
- `startup` is not well while the startup gate is closed, and well ever after: a rolling update waits for it.
- `guard` asks a docker-guard (with --url): well while the engine behind it answers.
- `readiness` is for load balancers that ask by a command: not well while draining or while no backend is usable.
- A configuration that does not load any more falls back to the environment and the default: the server goes on with the old one.

It must not know: anything that takes long to import. It runs every few seconds.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from autohedge.settings.eidex import started
from autohedge.settings.load import ConfigErrors, load

PATHS = {"liveness": "/liveness", "startup": "/readiness", "readiness": "/readiness", "guard": "/_ping"}
WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - read, not bound
LARGEST = 65_536  # bytes of an answer that are read


def run(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Ask once and print one line. A wrong command line ends with 2 (SystemExit)."""
    parser = argparse.ArgumentParser("autohedge healthcheck", description="Ask the AutoHedge that runs here how it is.")
    parser.add_argument("--ask", choices=PATHS, default="liveness", help="what must be well (liveness)")
    parser.add_argument("--url", help="base URL to ask, instead of the listen address of the configuration")
    parser.add_argument("--config", help="YAML file (or AUTOHEDGE_CONFIG)")
    parser.add_argument("--timeout", type=float, default=3.0, help="seconds (3)")
    asked = parser.parse_args(argv)
    try:
        host, port = place(asked.url) if asked.url else listening(asked.config, env)
        well, said = judge(asked.ask, *answer(host, port, PATHS[asked.ask], asked.timeout))
    except (OSError, ValueError, http.client.HTTPException) as error:
        well, said = False, f"{type(error).__name__}: {error}"
    print(said, file=sys.stdout if well else sys.stderr)
    return 0 if well else 1


def place(url: str) -> tuple[str, int]:
    """Host and port of a base URL. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError("--url takes http://host:port")
    return parts.hostname, parts.port or 80


def listening(config: str | None, env: Mapping[str, str]) -> tuple[str, int]:
    """Where the server of this configuration can be asked. Raises ValueError where no one could know."""
    start = started(None, config, env, lambda path: Path(path).exists())
    try:
        loaded = load(*start, read_file)
    except ConfigErrors:
        try:
            loaded = load(None, start.env, read_file)
        except ConfigErrors:
            loaded = load(None, {}, read_file)
    host, port = loaded.settings.server.bind
    if port == 0:
        raise ValueError("server.listen takes a free port; say --url")
    return WILDCARDS.get(host, host), port


def read_file(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def answer(host: str, port: int, path: str, timeout: float) -> tuple[int, bytes]:
    """Status and the beginning of the body. Raises OSError or HTTPException."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        response = connection.getresponse()
        return response.status, response.read(LARGEST)
    finally:
        connection.close()


def judge(ask: str, status: int, body: bytes) -> tuple[bool, str]:
    """Whether that answer is well, and the line that says so."""
    found: object = None
    if ask in {"startup", "readiness"}:
        try:
            found = json.loads(body)
        except ValueError:
            return False, f"{ask}: {status} without a status"
    state = found.get("status") if isinstance(found, dict) else None
    if ask == "startup":
        return isinstance(state, str) and state != "starting", f"{ask}: {state}"
    return status == 200, f"{ask}: {status}" + (f" {state}" if state else "")
