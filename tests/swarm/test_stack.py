"""Issue 4, acceptance 1: the shipped stack files on a real Swarm, as they are. AutoHedge twice, docker-guard, Valkey, and engines
that are real llama.cpp servers.

What differs from a production deploy: images that a closed network cannot pull are built here, and where the kernel has no IPVS
the published port is played by tests/swarm/splitter.py. Two of the examples cannot run: one wants a GPU, one an image.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.swarm import images, stack
from tests.swarm.cluster import Cluster
from tests.swarm.figures import tell
from tests.swarm.load import Load
from tests.swarm.node import Node
from tests.swarm.shell import CommandError, until

pytestmark = [pytest.mark.swarm, pytest.mark.timeout(300)]
NET, DOOR = "autohedge-net", 9400
SECRET = "correct-horse-battery-staple"
EDGE = "llm_autohedge"


@dataclass(frozen=True, slots=True)
class Shipped:
    manager: Node
    door: str

    def asked(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        return stack.asked(f"http://{self.door}{path}", body)

    def inside(self, *words: str) -> str:
        """A command in one of AutoHedge's containers."""
        found = self.manager.api(
            "/containers/json", label=[f"com.docker.swarm.service.name={EDGE}"], status=["running"]
        )
        return self.manager.docker("exec", found[0]["Id"], *words)


def shipped(node: Node, name: str, *files: str) -> None:
    """`docker stack deploy` of files as they lie in the project."""
    told = {"AUTOHEDGE_IMAGE": images.PROJECT, "VALKEY_IMAGE": images.VALKEY, "DOCKER_SOCKET": str(node.socket)}
    words = [word for file in files for word in ("--compose-file", file)]
    node.docker("stack", "deploy", "--resolve-image", "never", *words, name, env=told, cwd=images.ROOT)


def examples(folder: Path) -> Path:
    """The shipped examples, with the folder of the models that an operator would put in."""
    path = folder / "backends.yml"
    path.write_text((images.ROOT / "stack.example-backends.yml").read_text().replace("/data/models", str(folder)))
    return path


def overrides(folder: Path) -> Path:
    """What the closed network makes us change in the examples."""
    tiny = folder / "tiny.gguf"
    words = ["autohedge.demo.tiny_model", str(tiny), "--window", "4096"]
    subprocess.run([sys.executable, "-m", *words], check=True, cwd=images.ROOT)
    models = [{"type": "bind", "source": str(folder), "target": "/models", "read_only": True}]
    listening = ["--host", "0.0.0.0", "--port", "8080"]
    second = {
        "image": images.ENGINE,
        "volumes": models,
        "healthcheck": {"test": ["CMD", "curl", "-fsS", "http://127.0.0.1:8080/health"], **stack.OFTEN},
        "command": ["--model", "/models/tiny.gguf", "--alias", "second", "--ctx-size", "1024", *listening],
        "environment": {"MODEL": "second"},
        "networks": ["backends"],
        "deploy": {"labels": {"autohedge.port": "8080", "autohedge.modle": "second"}},
    }
    stranger = {"image": images.BASE, "command": ["sleep", "1000"], "networks": ["backends"], "stop_grace_period": "1s"}
    services = {
        "llamacpp-tiny": {"image": images.ENGINE},
        "llamacpp-second": second,
        "stranger": stranger,
    }
    path = folder / "overrides.json"
    path.write_text(json.dumps({"version": "3.8", "services": services}))
    return path


@pytest.fixture(scope="module")
def llm(alone: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shipped]:
    manager = alone.manager
    images.valkey(manager)
    images.engine(manager)
    stack.network(manager, NET)
    manager.docker("secret", "create", "autohedge_admin", "-", given=SECRET)
    folder = tmp_path_factory.mktemp("models")
    folder.chmod(0o755)
    shipped(manager, "engines", str(examples(folder)), str(overrides(folder)))
    shipped(manager, "llm", "stack.yml")
    stack.deploy(manager, "door", {"door": stack.splitter(EDGE, DOOR, network=NET)})
    stack.settled(manager, EDGE, 2, 120)
    made = Shipped(manager, f"{manager.address}:{DOOR}")
    until(lambda: made.asked("/health")[0] == 200, 60, 0.2, "AutoHedge answers through its port")
    until(lambda: {"tiny", "second"} <= models(made), 60, 0.2, "both engines have told their models")
    yield made
    stack.remove(manager, "door", "llm", "engines")
    manager.docker("secret", "rm", "autohedge_admin")


def models(llm: Shipped) -> set[str]:
    status, told = llm.asked("/v1/models")
    return {one["id"] for one in told["data"]} if status == 200 else set()


def test_a_chat_through_the_published_port(llm: Shipped) -> None:
    """The model that a label names, and the one that an environment variable names; both answer, each by its real engine."""
    for model in ("tiny", "second"):
        body = {"model": model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}
        status, answer = llm.asked("/v1/chat/completions", body)
        assert (status, answer["model"]) == (200, model)
        assert answer["usage"]["completion_tokens"] == 8
        assert answer["choices"][0]["message"]["content"]


def test_what_the_engine_told_is_checked(llm: Shipped) -> None:
    """The window of a real llama.cpp server, learned by asking it: too much is refused before it sees the request."""
    body = {"model": "second", "messages": [{"role": "user", "content": "hello " * 1500}]}
    status, answer = llm.asked("/v1/chat/completions", body)
    assert status == 400
    assert "1024" in answer["error"]["message"]


def test_check_tells_what_was_found_and_what_was_ignored(llm: Shipped) -> None:
    """`autohedge check` in the container: both engines, the service that is none, and the label that nobody reads."""
    told = llm.inside("autohedge", "check", "--discover")
    print(told[-3000:])
    assert "engines_llamacpp-tiny" in told
    assert "engines_llamacpp-second" in told
    assert "autohedge.modle" in told
    assert "did you mean autohedge.model" in told
    assert SECRET not in told


def test_the_guard_shows_no_secret_and_lets_nothing_be_written(llm: Shipped) -> None:
    """From AutoHedge's own container: services without their environment, no containers, no POST."""
    ask = (
        "import urllib.request as u; print(u.urlopen(u.Request({url!r}, method={method!r}), timeout=5).read().decode())"
    )
    services = llm.inside("python", "-c", ask.format(url="http://docker-guard:2375/services", method="GET"))
    assert "engines_llamacpp-tiny" in services
    assert "AUTOHEDGE_SERVER_ACCESS_LOG" not in services
    for method, path in (("GET", "/containers/json"), ("GET", "/secrets"), ("POST", "/services/create")):
        with pytest.raises(CommandError, match="HTTP Error 40"):
            llm.inside("python", "-c", ask.format(url=f"http://docker-guard:2375{path}", method=method))


def test_the_admin_api_wants_the_secret(llm: Shipped) -> None:
    assert llm.asked("/admin/replicas")[0] in {401, 403}
    request = urllib.request.Request(f"http://{llm.door}/admin/replicas", headers={"authorization": f"Bearer {SECRET}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        told = json.loads(answer.read())
    assert {one["backend"] for one in told["replicas"]} == {"engines_llamacpp-tiny", "engines_llamacpp-second"}


def test_the_store_is_used_and_may_go(llm: Shipped) -> None:
    """Without Valkey nobody's request fails; /health says so, and is well when it is back."""
    until(lambda: llm.asked("/health")[1]["status"] == "ok", 30, 0.2, "all is well")
    with Load([llm.door], rate=10, models=("tiny", "second"), streams=0.0) as load:
        llm.manager.docker("service", "scale", "--detach", "llm_valkey=0")
        until(lambda: llm.asked("/health")[1]["status"] != "ok", 40, 0.2, "the loss is told")
        llm.manager.docker("service", "scale", "--detach", "llm_valkey=1")
        until(lambda: llm.asked("/health")[1]["status"] == "ok", 60, 0.2, "all is well again")
    tell("the store goes and comes:", load.report)
    load.report.well()
