"""One Docker engine in namespaces of its own: network, mounts, host name.

- The machine's own engine, if there is one, is not seen and not touched: own socket, data, containerd, cgroup parent.
- The engine finds the names of public registries at 127.0.0.1, where nobody listens: a pull that could not succeed is refused
  at once. Otherwise each start of a task waits for a resolver or a registry that a closed network does not have.
- `kill` is a crash: containers live on, as after a real one. `unplug` pulls the cable.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.swarm.packages import client
from tests.swarm.place import Place
from tests.swarm.shell import PATIENCE, run, tried, until

REGISTRIES = "localhost registry-1.docker.io auth.docker.io index.docker.io production.cloudflare.docker.com"
# `ip netns exec` is not used: it covers /sys, and with it the cgroups that an engine needs.
ENTER = """
set -e
live=$1 name=$2; shift 2
mount --rbind /sys/fs/cgroup "$live/cgroup"
mount -t sysfs sysfs /sys
mount --rbind "$live/cgroup" /sys/fs/cgroup
hostname "$name"
mount --bind "$live/hosts" /etc/hosts
mkdir -p /run/docker /run/containerd /etc/docker
mount --bind "$live/run" /run/docker
mount --bind "$live/containerd" /run/containerd
mount --bind "$live/etc" /etc/docker
exec dockerd "$@"
"""


@dataclass(frozen=True, slots=True)
class Node:
    place: Place
    number: int

    # --- where ------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.place.node(self.number)

    @property
    def address(self) -> str:
        return self.place.address(self.number)

    @property
    def live(self) -> Path:
        return self.place.live / f"n{self.number}"

    @property
    def data(self) -> Path:
        return self.place.data(self.number)

    @property
    def socket(self) -> Path:
        return self.live / "docker.sock"

    @property
    def cable(self) -> str:
        """The switch's end of the node's cable."""
        return f"{self.place.name}-c{self.number}"

    # --- the engine -------------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int | None:
        """The engine's process, None when it does not run."""
        try:
            pid = int((self.live / "docker.pid").read_text())
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if str(self.live / "docker.pid").encode() in words else None

    def start(self, within: float = 40.0) -> None:
        """Start the engine and wait until it answers. An old one that is still going is waited for."""
        if self.pid is not None and self.answers():
            return
        until(lambda: self.pid is None, within, what=f"the old engine of {self.name} ends")
        for folder in ("run", "containerd", "etc", "cgroup", "exec"):
            (self.live / folder).mkdir(parents=True, exist_ok=True)
        self.data.mkdir(parents=True, exist_ok=True)
        (self.live / "hosts").write_text(f"127.0.0.1 {REGISTRIES}\n127.0.0.1 {self.name}\n")
        (self.live / "etc" / "daemon.json").write_text("{}")
        (self.live / "docker.pid").unlink(missing_ok=True)
        options = [
            *("--data-root", str(self.data), "--exec-root", str(self.live / "exec")),
            *("--pidfile", str(self.live / "docker.pid"), "--config-file", str(self.live / "etc" / "daemon.json")),
            *("--host", f"unix://{self.socket}", "--cgroup-parent", f"/{self.place.name}"),
        ]
        space = ["nsenter", f"--net=/run/netns/{self.name}", "unshare", "--mount", "--uts", "--propagation", "private"]
        inner = ["bash", "-c", ENTER, "enter", str(self.live), self.name, *options]
        log = f"exec >>{self.live / 'engine.log'} 2>&1 </dev/null; " + 'exec setsid --fork "$@"'
        run("bash", "-c", log, "start", *space, *inner)
        until(self.answers, within, 0.1, f"the engine of {self.name} answers; see {self.live / 'engine.log'}")

    def answers(self) -> bool:
        try:
            return self.api("/_ping", timeout=2) is None
        except (OSError, RuntimeError):
            return False

    def kill(self) -> None:
        """A crash of the engine."""
        pid = self.pid
        assert pid is not None, f"the engine of {self.name} does not run"
        os.kill(pid, signal.SIGKILL)
        until(lambda: self.pid is None, what=f"{self.name} is dead")

    def end(self) -> None:
        """Ask the engine to end, and its containers with it."""
        pid = self.pid
        if pid is not None:
            os.kill(pid, signal.SIGTERM)

    def ended(self, within: float = 60.0) -> None:
        """Wait for the end."""
        until(lambda: self.pid is None, within, what=f"{self.name} stops")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """The engine hangs: it takes connections and says nothing. Its containers go on."""
        pid = self.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def unplug(self) -> None:
        run("ip", "-n", self.place.switch, "link", "set", self.cable, "down")

    def plug(self) -> None:
        run("ip", "-n", self.place.switch, "link", "set", self.cable, "up")

    # --- talking to it ----------------------------------------------------------------------------------------------

    def docker(
        self,
        *words: str,
        timeout: float = PATIENCE,
        given: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> str:
        """The command line client against this engine."""
        own = {"DOCKER_CONFIG": str(self.place.live / "client"), "DOCKER_BUILDKIT": "0", **(env or {})}
        return run(client(), "-H", f"unix://{self.socket}", *words, timeout=timeout, env=own, given=given, cwd=cwd)

    def log(self, service: str) -> list[str]:
        """What the tasks of a service have written, to either of their outputs."""
        words = (client(), "-H", f"unix://{self.socket}", "service", "logs", "--raw", service)
        return run("sh", "-c", 'exec "$@" 2>&1', "sh", *words).splitlines()

    def tried(self, *words: str, timeout: float = PATIENCE) -> bool:
        return tried(client(), "-H", f"unix://{self.socket}", *words, timeout=timeout)

    def api(self, path: str, timeout: float = 10.0, **filters: list[str]) -> Any:
        """GET of the engine's API; None where the answer is no JSON. Raises RuntimeError for an error answer."""
        if filters:
            path = (
                f"{path}?filters={quote(json.dumps({key.replace('_', '-'): value for key, value in filters.items()}))}"
            )
        with closing(UnixConnection(self.socket, timeout)) as wire:
            wire.request("GET", path if path == "/_ping" else f"/v1.41{path}")
            answer = wire.getresponse()
            body = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"{self.name} says {answer.status} to {path}: {body.decode()[:500]}")
            return json.loads(body) if answer.headers.get_content_type() == "application/json" else None

    def containers(self, label: str = "com.docker.swarm.service.name") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.api("/containers/json", label=[label])
        return found

    def sweep(self) -> None:
        """End every container at once, and the node's part in a swarm: what is left are images."""
        with suppress(OSError, RuntimeError):
            self.tried("swarm", "leave", "--force", timeout=60)
            ids = [one["Id"] for one in self.api("/containers/json?all=1")]
            if ids:
                self.tried("rm", "--force", "--volumes", *ids)
            self.tried("volume", "prune", "--force")
            self.tried("network", "prune", "--force")
            self.tried("image", "prune", "--force", "--filter", "until=48h")


class UnixConnection(http.client.HTTPConnection):
    """HTTP over the engine's socket."""

    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("engine", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
