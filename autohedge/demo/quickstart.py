"""`autohedge quickstart`: the whole product on one machine, with two real engines as child processes.

It writes two tiny models (two seeds, so their answers differ), starts a real llama.cpp server for each, or the sample
engine where the llama.cpp wheel does not exist, hands their addresses to the configuration through the environment, and
prints what to try. The engines end with this process, however it ends.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

READY_WITHIN = 30.0  # seconds


@dataclass(slots=True)
class Engine:
    """One child process that serves a model at `url`."""

    name: str
    url: str
    process: subprocess.Popen[str]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def real_engines_exist() -> bool:
    return importlib.util.find_spec("xllamacpp") is not None and importlib.util.find_spec("gguf") is not None


def start_engines(folder: Path, count: int = 2) -> list[Engine]:
    """Start `count` engines that serve the model "tiny"; raises RuntimeError with the child's last words if one does not."""
    folder.mkdir(parents=True, exist_ok=True)
    engines: list[Engine] = []
    try:
        engines.extend(_start(f"engine-{number}", _command(folder, number)) for number in range(1, count + 1))
    except BaseException:
        stop_engines(engines)
        raise
    return engines


def stop_engines(engines: Sequence[Engine]) -> None:
    for engine in engines:
        engine.stop()


def _command(folder: Path, number: int) -> list[str]:
    if not real_engines_exist():
        return [sys.executable, "-m", "autohedge", "engine", "--kind", "llamacpp", "--model", "tiny", "--port", "0"]
    model = folder / f"tiny-{number}.gguf"
    if not model.exists():
        subprocess.run(  # noqa: S603 - our own module, in a process of its own so that numpy stays out of the proxy
            [sys.executable, "-m", "autohedge.demo.tiny_model", str(model), "--seed", str(number)], check=True
        )
    return [sys.executable, "-m", "autohedge.demo.llama_server", str(model), "--alias", "tiny"]


def _start(name: str, command: Sequence[str]) -> Engine:
    process = subprocess.Popen(  # noqa: S603 - the command is made above
        [*command, "--with-parent", str(os.getpid())],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("READY "):
            return Engine(name, line.split()[1], process)
    process.stdout.close()
    process.wait()
    raise RuntimeError(f"{name} did not start (exit code {process.returncode})")


def environment(env: Mapping[str, str], engines: Sequence[Engine]) -> dict[str, str]:
    """The caller's environment plus the addresses that config/quickstart.yaml asks for."""
    return {**env, **{f"QUICKSTART_ENGINE_{number}": engine.url for number, engine in enumerate(engines, 1)}}


def hints(url: str, engines: Sequence[Engine]) -> str:
    """What to try, in a few lines."""
    what = "real llama.cpp servers (a tiny model with random weights)" if real_engines_exist() else "sample engines"
    pids = ", ".join(f"{engine.name} pid {engine.process.pid}" for engine in engines)
    return f"""
AutoHedge listens on {url} in front of two {what}: {pids}

A good request:
  curl {url}/v1/chat/completions -d '{{"model": "tiny", "messages": [{{"role": "user", "content": "hello"}}], "max_tokens": 12}}'
A wrong one, stopped before any engine sees it:
  curl {url}/v1/chat/completions -d '{{"model": "tiny", "messages": [{{"role": "user", "content": "hello"}}], "tool_choice": "banana"}}'
Kill an engine and ask again; the caller does not notice:
  kill -9 {engines[0].process.pid}
What is served and how it is: {url}/v1/models  {url}/health  {url}/metrics      Stop with Ctrl-C.
"""
