"""What the bench needs of the machine: processes pinned to a core, their CPU time and memory, and the load generator."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")


def missing(tools: Sequence[str]) -> list[str]:
    return [tool for tool in tools if shutil.which(tool) is None]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(slots=True)
class Process:
    """A child pinned to one core. Its own children count too (nginx works in one)."""

    name: str
    child: subprocess.Popen[bytes]

    @classmethod
    def start(
        cls, name: str, core: int, command: Sequence[str], log: Path, env: dict[str, str] | None = None
    ) -> Process:
        with log.open("wb") as output:
            child = subprocess.Popen(
                ["taskset", "-c", str(core), *command], stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=env
            )
        return cls(name, child)

    def tree(self) -> list[int]:
        pids, found = [self.child.pid], [self.child.pid]
        while pids:
            parent = pids.pop()
            children = Path(f"/proc/{parent}/task/{parent}/children")
            kids = [int(pid) for pid in children.read_text().split()] if children.exists() else []
            pids += kids
            found += kids
        return found

    def cpu(self) -> float:
        """Seconds of CPU used so far, user and system."""
        total = 0
        for pid in self.tree():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / TICK

    def rss(self) -> float:
        """Resident memory in MiB."""
        total = 0
        for pid in self.tree():
            match = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
            total += int(match[1]) if match else 0
        return total / 1024

    def stop(self) -> None:
        self.child.terminate()
        try:
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


def wait_for(url: str, seconds: float = 60.0) -> float:
    """Seconds until `url` answers 200; raises TimeoutError."""
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return time.perf_counter() - began
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.02)
    raise TimeoutError(url)


@dataclass(frozen=True, slots=True)
class Load:
    """What one run of wrk saw. Latencies in milliseconds."""

    requests: int
    seconds: float
    p50: float
    p99: float
    errors: int

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


def wrk(url: str, script: Path, connections: int, seconds: float, core: int) -> Load:
    """Run wrk, pinned to `core`, bounded in time."""
    command = [
        "taskset",
        "-c",
        str(core),
        "wrk",
        "-t1",
        f"-c{connections}",
        f"-d{max(1, round(seconds))}s",
        "--latency",
        "-s",
        str(script),
        url,
    ]
    text = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds + 60).stdout
    match = re.search(r"(\d+) requests in ([\d.]+)(ms|s|m)", text)
    assert match is not None, text
    unit = {"ms": 0.001, "s": 1.0, "m": 60.0}[match[3]]
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    broken = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    errors = (int(bad[1]) if bad else 0) + (sum(int(group) for group in broken.groups()) if broken else 0)
    return Load(int(match[1]), float(match[2]) * unit, _percentile(text, "50%"), _percentile(text, "99%"), errors)


def _percentile(text: str, name: str) -> float:
    match = re.search(rf"{re.escape(name)}\s+([\d.]+)(us|ms|s)", text)
    assert match is not None, text
    return float(match[1]) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[match[2]]
