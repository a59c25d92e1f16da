"""Real processes for tests: an engine or AutoHedge itself as a child, found by its READY line, never left behind."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

PATIENCE = 60.0


class Child:
    """One child process. Its output is kept line by line; `url` is what it said it listens on."""

    def __init__(self, command: Sequence[str], marker: str, env: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-m", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **(env or {})},
        )
        self.lines: list[str] = []
        self._found: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, args=(marker,), daemon=True)
        self._reader.start()
        try:
            found = self._found.get(timeout=PATIENCE)
        except queue.Empty:
            found = None
        if found is None:
            self.stop()
            ended = f"{command} ended or took too long without saying {marker!r}: "
            raise RuntimeError(ended + "".join(self.lines[-20:]))
        self.url = found

    def _read(self, marker: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if marker in line:
                self._found.put(line.partition(marker)[2].split()[0].rstrip('",'))
        self._found.put(None)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def worked(self) -> float:
        """Seconds of processor time that it has used so far: what other processes do does not count."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def output(self) -> str:
        return "".join(self.lines)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


@cache
def tiny_model(
    seed: int = 7, *, embeds: bool = False, window: int = 400, width: int = 64, layers: int = 2, decides: bool = False
) -> Path:
    """The path of a tiny model, made once per test run and machine."""
    folder = Path(tempfile.gettempdir()) / f"autohedge-test-models-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    path = folder / f"{'emb' if embeds else 'jev' if decides else 'chat'}-{seed}-{window}-{width}-{layers}.gguf"
    if not path.exists():
        half = path.with_suffix(f".{os.getpid()}")
        words = ["autohedge.demo.tiny_model", str(half), "--seed", str(seed), "--window", str(window)]
        words += ["--width", str(width), "--layers", str(layers), *(["--embeds"] if embeds else [])]
        words += ["--decides"] if decides else []
        subprocess.run([sys.executable, "-m", *words], check=True)
        half.rename(path)
    return path


def llama(
    *words: str, seed: int = 7, embeds: bool = False, window: int = 400, width: int = 64, layers: int = 2, port: int = 0
) -> Child:
    """A real llama.cpp server as a child process."""
    path = tiny_model(seed, embeds=embeds, window=window, width=width, layers=layers)
    flags = ["--embeds"] if embeds else []
    command = [
        "autohedge.demo.llama_server",
        str(path),
        "--window",
        str(window),
        "--port",
        str(port),
        "--with-parent",
        str(os.getpid()),
        *flags,
        *words,
    ]
    return Child(command, "READY ")


def decider(alias: str, window: int = 8192, slots: int = 2) -> Child:
    """A real llama.cpp server with a decision model: it answers POST /v1/systemone."""
    path = tiny_model(window=window, decides=True)
    words = ["--window", str(window), "--slots", str(slots), "--alias", alias, "--with-parent", str(os.getpid())]
    return Child(["autohedge.demo.llama_server", str(path), *words], "READY ")


def edge(config: str, folder: Path, env: Mapping[str, str] | None = None) -> Child:
    """AutoHedge itself with the given configuration, on a port of its own, ready to serve."""
    path = folder / "autohedge.yaml"
    path.write_text(config)
    return Child(
        ["autohedge", "serve", "--config", str(path)], " listens on ", {"AUTOHEDGE_DATA": str(folder), **(env or {})}
    )


@contextmanager
def ending(*children: Child) -> Iterator[None]:
    try:
        yield
    finally:
        for child in children:
            child.stop()
