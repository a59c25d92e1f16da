"""Real Redis servers for tests: on a free port, in a temporary folder, killed at the end."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.ports import free_port

PATIENCE = 60.0
WITHOUT = "AUTOHEDGE_TESTS_WITHOUT_REDIS"


def redis_program() -> str:
    """The path of redis-server. A machine without one fails the test, unless it was told to go without."""
    found = shutil.which("redis-server")
    if found is None:
        if os.environ.get(WITHOUT) == "1":
            pytest.skip(f"{WITHOUT}=1")
        pytest.fail(
            f"redis-server is missing: apt-get install redis-server, or set {WITHOUT}=1 to go without these tests"
        )
    return found


class RedisServer:
    """One server that keeps nothing on disk; `words` are further options of its command line."""

    def __init__(self, folder: Path, words: Sequence[str] = (), *, password: str = "") -> None:
        self.folder = folder
        self.port = free_port()
        self._words = (*words, *(("--requirepass", password) if password else ()))
        self._password = password
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it (again), empty, and wait until it answers."""
        command = [redis_program(), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        command += ["--save", "", "--appendonly", "no", "--logfile", "redis.log", *self._words]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                pytest.fail("redis-server did not start: " + (self.folder / "redis.log").read_text()[-2000:])
            time.sleep(0.01)

    def say(self, *words: str) -> bytes:
        """One command on a connection of its own, in the protocol's raw words."""
        login = (("AUTH", self._password),) if self._password else ()
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as connection:
            reply = b""
            for command in (*login, words):
                packed = f"*{len(command)}\r\n" + "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in command)
                connection.sendall(packed.encode())
                reply = connection.recv(1 << 16)
            return reply

    def _answers(self) -> bool:
        try:
            return self.say("PING") == b"+PONG\r\n"
        except OSError:
            return False

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> None:
        """Kill it; what it held is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
