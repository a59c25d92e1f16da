"""What the tests deploy: sample backends, AutoHedge itself with a configuration of its own, the splitter. All as stacks, which
are Compose files made here; JSON is YAML.
"""

from __future__ import annotations

import json
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.swarm import images
from tests.swarm.node import Node
from tests.swarm.shell import until

PORT = 8000  # of every backend and of AutoHedge, inside
PACE, WORDS = 40, 120  # a stream takes three seconds; a probe of sixteen words less than half a one
Service = dict[str, Any]

POLICY = {"parallelism": 1, "order": "start-first", "monitor": "1s", "failure_action": "rollback"}
EDGE_DEPLOY = {"replicas": 1, "update_config": POLICY, "restart_policy": {"delay": "1s"}}

# Every check starts a process through the engine, which costs more than what it asks: two processors carry few of them. And a
# machine that is busy must not take a slow answer for a sick one.
OFTEN = {"interval": "3s", "timeout": "15s", "retries": 5}
# Docker takes no check without a process; this one is the cheapest that Python can do.
LISTENS = ["CMD", "python", "-S", "-E", "-c", f"import socket; socket.create_connection(('127.0.0.1', {PORT}), 1)"]


def sample(
    model: str = "sample",
    *words: str,
    replicas: int = 1,
    checked: bool = True,
    labels: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    deploy: Mapping[str, Any] | None = None,
    kind: str = "vllm",
    networks: Sequence[str] = ("backends",),
) -> Service:
    """A sample engine that says its task's name first in every answer, and ends what it has begun when it is told to go."""
    command = ["python", "-m", "autohedge", "engine", "--kind", kind, "--host", "0.0.0.0", "--port", str(PORT)]
    command += ["--model", model, "--pace", str(PACE), "--words", str(WORDS), "--drain", "20", *words]
    return {
        "image": images.PROJECT,
        "entrypoint": ["sh", "-c", f'exec {" ".join(command)} --name "$$TASK"'],
        "environment": {"TASK": "{{.Task.Name}}", **(env or {})},
        "networks": list(networks),
        "stop_grace_period": "20s",
        "healthcheck": {"test": LISTENS, "interval": "1s", "timeout": "2s", "retries": 3}
        if checked
        else {"disable": True},
        "deploy": {
            **({} if (deploy or {}).get("mode") == "global" else {"replicas": replicas}),
            "labels": dict(labels or {}),
            "update_config": POLICY,
            "rollback_config": {"parallelism": 0, "monitor": "1s"},
            "restart_policy": {"delay": "1s"},
            **(deploy or {}),
        },
    }


def socket(node: Node) -> dict[str, Any]:
    """The engine's own socket as a volume: only tests give it to the edge."""
    return {"type": "bind", "source": str(node.socket), "target": "/var/run/docker.sock"}


def edge(**more: Any) -> Service:
    """AutoHedge with the configuration that `deploy` is given as `edge_config`."""
    return {
        "image": images.PROJECT,
        "environment": {"AUTOHEDGE_CONFIG": "/app/config/autohedge.yaml"},
        "configs": [{"source": "edge", "target": "/app/config/autohedge.yaml"}],
        "networks": ["backends"],
        "stop_grace_period": "40s",
        "healthcheck": OFTEN,
        "deploy": EDGE_DEPLOY,
        **more,
    }


def guard(node: Node) -> Service:
    """docker-guard where the managers are. The tests' kernel has no virtual addresses, so its name gives the task's own."""
    return {
        "image": images.PROJECT,
        "command": ["docker-guard"],
        "volumes": [socket(node)],
        "user": "0",
        "healthcheck": {"disable": True},
        "networks": ["backends"],
        "stop_grace_period": "2s",
        "deploy": {"endpoint_mode": "dnsrr", "restart_policy": {"delay": "1s"}, **on(node)},
    }


def on(node: Node) -> dict[str, Any]:
    """`deploy` of a service that stays on one node."""
    return {"placement": {"constraints": [f"node.hostname=={node.name}"]}}


def splitter(service: str, published: int, target: int = PORT, network: str = "backends") -> Service:
    """The ingress of these tests; needs the config that `deploy` hands along under the name "splitter"."""
    return {
        "image": images.BASE,
        "command": ["python", "-u", "/splitter.py", str(published), f"tasks.{service}", str(target)],
        "configs": [{"source": "splitter", "target": "/splitter.py"}],
        "networks": [network],
        "ports": [{"mode": "host", "target": published, "published": published}],
        "stop_grace_period": "1s",
    }


def deploy(
    node: Node, name: str, services: Mapping[str, Service], edge_config: Mapping[str, Any] | None = None, **more: Any
) -> None:
    """`docker stack deploy` of services on networks that exist already, each under its own name. What does not say where it runs
    runs on the managers: there may be workers, and they have not all images.
    """
    here = {"placement": {"constraints": ["node.role==manager"]}}
    services = {key: _placed(service, here) for key, service in services.items()}
    configs = {"splitter": Path(__file__).with_name("splitter.py").read_text(), "edge": json.dumps(edge_config)}
    used = {one["source"] for service in services.values() for one in service.get("configs", ())}
    networks = {net for service in services.values() for net in service.get("networks", ())}
    with tempfile.TemporaryDirectory(dir=node.live) as folder:
        for config in used:
            (Path(folder) / config).write_text(configs[config])
        file = {
            "version": "3.9",
            "services": services,
            "networks": {net: {"external": True, "name": net} for net in sorted(networks)},
            "configs": {config: {"file": str(Path(folder) / config)} for config in sorted(used)},
            **more,
        }
        words = ("stack", "deploy", "--resolve-image", "never", "--compose-file", "-", name)
        node.docker(*words, given=json.dumps(file))


def _placed(service: Service, here: dict[str, Any]) -> Service:
    return {**service, "deploy": here | service.get("deploy", {})}


def remove(node: Node, *stacks: str) -> None:
    """Stacks and their containers go; waits for it."""
    node.docker("stack", "rm", *stacks)

    def gone() -> bool:
        return not [one for one in node.containers() if one["Labels"].get("com.docker.stack.namespace") in stacks]

    until(gone, 40, 0.1, f"the stacks {stacks} are gone")


def network(node: Node, name: str = "backends", *words: str) -> str:
    """An overlay network, made when it is not there; its Id."""
    if not node.tried("network", "inspect", name):
        node.docker("network", "create", "--driver", "overlay", "--attachable", *words, name)
    return node.docker("network", "inspect", "--format", "{{.Id}}", name)


def settled(node: Node, service: str, replicas: int, within: float = 60.0) -> None:
    """Wait until a service has exactly so many tasks that are wanted and run, and no update is under way."""

    def seen() -> bool:
        spec = node.api(f"/services/{service}")
        tasks = node.api("/tasks", service=[service], desired_state=["running"])
        busy = (spec.get("UpdateStatus") or {}).get("State", "") in {"updating", "rollback_started"}
        return not busy and [task["Status"]["State"] for task in tasks] == ["running"] * replicas

    until(seen, within, 0.1, f"{service} has {replicas} tasks that run")


def asked(url: str, body: Mapping[str, Any] | None = None, timeout: float = 10.0) -> tuple[int, Any]:
    """One request of an onlooker: status and JSON, also of an error answer. (0, reason) when nobody answers."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            text = error.read()
        return error.code, json.loads(text) if text.startswith((b"{", b"[")) else text.decode()
    except (OSError, ValueError) as error:
        return 0, str(error)
