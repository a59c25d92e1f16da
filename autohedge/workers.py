"""Several processes on one port (`server.workers`): a parent that starts them, keeps them, and passes signals on.

Rules
- Each worker is a whole AutoHedge that binds the same port with SO_REUSEPORT; the kernel shares connections among them. The
  parent holds the port without listening, so it stays ours while a worker is replaced.
- A worker that dies is replaced after a second. SIGTERM and SIGINT end all of them and the parent with 0; SIGHUP reloads all.
- Workers know each other through the shared state only.

It must not know: what a worker does.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping

from autohedge.wire.binding import ours

LOGGER = logging.getLogger("autohedge.workers")
BOOT = "_AUTOHEDGE_BOOT"  # the same for all workers of one start
WORKER = "_AUTOHEDGE_WORKER"  # set in a worker's environment: it does not start workers of its own
AGAIN = 1.0  # seconds before a dead worker is replaced
PARENT = "_AUTOHEDGE_PARENT"  # the process id of the parent: a worker does not outlive it
LOOK = 0.2


def run_workers(count: int, bind: tuple[str, int], config: str | None, env: Mapping[str, str], grace: float) -> int:
    """Run `count` workers until a signal; returns the exit code. `grace` is seconds that they get to end. Raises OSError when
    the port is taken.
    """
    with ours(bind) as holder:
        host, port = holder.getsockname()[:2]
        place = f"[{host}]:{port}" if holder.family is socket.AF_INET6 else f"{host}:{port}"
        command = [sys.executable, "-m", "autohedge", "serve", *(["--config", config] if config else [])]
        crew = Crew(command, {**env, "AUTOHEDGE_SERVER_LISTEN": place}, count)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: crew.over.set())
        signal.signal(signal.SIGHUP, lambda _number, _frame: crew.send(signal.SIGHUP))
        crew.keep()
        return crew.end(grace)


class Crew:
    """The workers, by number."""

    def __init__(self, command: list[str], env: Mapping[str, str], count: int) -> None:
        self.over = threading.Event()
        self._command = command
        self._env = env
        self._workers = {number: self._start(number) for number in range(1, count + 1)}

    def keep(self) -> None:
        """Replace workers that die, until `over` is set."""
        while not self.over.wait(LOOK):
            for number, worker in self._workers.items():
                if worker.poll() is not None:
                    LOGGER.error("worker %d ended with %s and is replaced", number, worker.returncode)
                    if self.over.wait(AGAIN):
                        return
                    self._workers[number] = self._start(number)

    def send(self, number: signal.Signals) -> None:
        for worker in self._workers.values():
            if worker.poll() is None:
                worker.send_signal(number)

    def end(self, grace: float) -> int:
        """Stop all; those that do not end in time are killed. 0 when every one ended by itself."""
        self.send(signal.SIGTERM)
        code = 0
        for worker in self._workers.values():
            try:
                worker.wait(grace + 5)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
                code = 1
        return code

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        env = {**self._env, WORKER: str(number), PARENT: str(os.getpid())}
        return subprocess.Popen(self._command, env=env, stdin=subprocess.DEVNULL)  # noqa: S603 - our own module
