"""The contenders: how each proxy is started in front of the same backend. What cannot be had here is named and left out."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.machine import Process, free_port, wait_for

ROOT = Path(__file__).resolve().parent.parent
VENVS = ROOT / ".bench"
FAST = ROOT / ".fast"  # made by `make fast`
CHAT = "/v1/chat/completions"
ANSWER = (
    '{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":'
    '{"role":"assistant","content":"hello there, how are you"},"finish_reason":"stop"}],'
    '"usage":{"prompt_tokens":150,"completion_tokens":6,"total_tokens":156}}'
)
MODELS = '{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"vllm","root":"m","parent":null,"max_model_len":32768}]}'
NGINX = """
worker_processes 1; daemon off; pid {folder}/{name}.pid; error_log {folder}/{name}.log;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 100000000; client_body_temp_path {folder}/{name}-body;
proxy_temp_path {folder}/{name}-proxy; fastcgi_temp_path {folder}/{name}-f; uwsgi_temp_path {folder}/{name}-u; scgi_temp_path {folder}/{name}-s;
{http} }}
"""


@dataclass(slots=True)
class Backend:
    """One nginx that answers like a vLLM server, from memory."""

    port: int
    process: Process

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{CHAT}"

    @classmethod
    def start(cls, folder: Path) -> Backend:
        port = free_port()
        answers = [("/v1/models", MODELS), ("/version", '{"version":"0.32.0"}'), ("/health", ""), ("/", ANSWER)]
        places = "".join(
            f"location {'' if path == '/' else '= '}{path} {{ default_type application/json; return 200 '{body}'; }} "
            for path, body in answers
        )
        process = _nginx(folder, "backend", f"server {{ listen 127.0.0.1:{port}; {places} }}", core=1)
        wait_for(f"http://127.0.0.1:{port}/health")
        return cls(port, process)

    def stop(self) -> None:
        self.process.stop()


@dataclass(slots=True)
class Contender:
    """A proxy that can be started again and again on its own port."""

    name: str
    url: str
    ready_url: str
    start: Callable[[], Process]


def _nginx(folder: Path, name: str, http: str, core: int) -> Process:
    config = folder / f"{name}.conf"
    config.write_text(NGINX.format(folder=folder, name=name, http=http))
    return Process.start(name, core, ["nginx", "-c", str(config)], folder / f"{name}.out")


def nginx(folder: Path, backend: Backend) -> Contender:
    port = free_port()
    http = (
        f"upstream b {{ server 127.0.0.1:{backend.port}; keepalive 64; keepalive_requests 100000000; }} "
        f'server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://b; proxy_http_version 1.1; proxy_set_header Connection ""; }} }}'
    )
    return Contender(
        "nginx",
        f"http://127.0.0.1:{port}{CHAT}",
        f"http://127.0.0.1:{port}/health",
        lambda: _nginx(folder, "proxy", http, core=0),
    )


def autohedge(folder: Path, backend: Backend, place: Path = ROOT) -> Contender:
    """AutoHedge as it stands in `place`: the sources, or the copy whose data path is compiled."""
    name = "autohedge" if place == ROOT else "autohedge compiled"
    port = free_port()
    config = folder / f"{name}.yaml"
    config.write_text(
        f"server: {{listen: '127.0.0.1:{port}'}}\n"
        f"upstream_registry: {{bench: {{host: '127.0.0.1:{backend.port}', provider: vllm}}}}\n"
    )
    command = [sys.executable, "-m", "autohedge", "serve", "--config", str(config)]
    env = {**os.environ, "PYTHONPATH": str(place), "PYTHONSAFEPATH": "1", "AUTOHEDGE_DATA": str(folder)}
    return Contender(
        name,
        f"http://127.0.0.1:{port}{CHAT}",
        f"http://127.0.0.1:{port}/readiness",
        lambda: Process.start(name, 0, command, folder / f"{name}.out", env),
    )


def ours(folder: Path, backend: Backend) -> list[Contender]:
    """The sources, and last, where there is a compiled copy of them, that."""
    places = [ROOT, FAST] if any(FAST.glob("autohedge__mypyc*")) else [ROOT]
    return [autohedge(folder, backend, place) for place in places]


def _venv(name: str, *packages: str) -> Path | None:
    """A virtual environment of its own under .bench; None, with the reason printed, when it cannot be had."""
    home = VENVS / name
    if not (home / "ready").exists():
        done = subprocess.run([sys.executable, "-m", "venv", str(home)], check=False, capture_output=True)
        if done.returncode == 0:
            done = subprocess.run(
                [str(home / "bin" / "pip"), "install", "-q", *packages], check=False, capture_output=True
            )
        if done.returncode != 0:
            print(f"bench: {name} is left out: pip could not install {' '.join(packages)}", file=sys.stderr)
            return None
        (home / "ready").touch()
    return home / "bin"


def smg(folder: Path, backend: Backend) -> list[Contender]:
    """The Rust router of the SGLang family, round robin over the one backend, its own metrics on."""
    home = _venv("smg", "smg")
    if home is None:
        return []
    port = free_port()
    command = [
        *(str(home / "python"), "-m", "smg.launch_router"),
        *("--worker-urls", f"http://127.0.0.1:{backend.port}", "--host", "127.0.0.1", "--port", str(port)),
        *("--policy", "round_robin", "--prometheus-port", str(free_port()), "--log-level", "warn"),
    ]
    root = f"http://127.0.0.1:{port}"
    return [
        Contender("smg", root + CHAT, root + "/readiness", lambda: Process.start("smg", 0, command, folder / "smg.out"))
    ]


def litellm(folder: Path, backend: Backend) -> list[Contender]:
    home = _venv("litellm", "litellm[proxy]")
    if home is None:
        return []
    port = free_port()
    config = folder / "litellm.yaml"
    config.write_text(
        "model_list: [{model_name: m, litellm_params: {model: openai/m, api_key: none, "
        f"api_base: 'http://127.0.0.1:{backend.port}/v1'}}}}]\n"
    )
    command = [str(home / "litellm"), "--config", str(config), "--port", str(port), "--host", "127.0.0.1"]
    root = f"http://127.0.0.1:{port}"
    return [
        Contender(
            "litellm",
            root + CHAT,
            root + "/health/liveliness",
            lambda: Process.start("litellm", 0, command, folder / "litellm.out"),
        )
    ]
