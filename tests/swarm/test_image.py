"""The project's own image, built from its Dockerfile by a real engine: how large it is, as whom it runs, that it is well, and how
it ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.swarm import images
from tests.swarm.cluster import Cluster
from tests.swarm.node import Node
from tests.swarm.shell import CommandError, until

pytestmark = [pytest.mark.swarm, pytest.mark.timeout(300)]
MEGABYTE = 1_000_000
ENGINE = (
    "engine",
    "--kind",
    "vllm",
    "--host",
    "0.0.0.0",
    "--port",
    "8000",
    "--model",
    "m",
    "--pace",
    "10",
    "--words",
    "60",
)
# Reads a stream to its end while the container is told to stop, and asks /readiness on the way.
READER = """
import http.client, json, sys
wire = http.client.HTTPConnection(sys.argv[1], 8000, timeout=60)
body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
wire.request("POST", "/v1/chat/completions", json.dumps(body))
answer = wire.getresponse()
first = answer.readline()
print("BEGUN", flush=True)
print("END", answer.status, (first + answer.read()).strip().splitlines()[-1].decode())
"""


@pytest.fixture
def manager(built: Cluster) -> Iterator[Node]:
    node = built.manager
    node.docker("network", "create", "image")
    yield node
    for name in ("image-edge", "image-engine", "image-reader"):
        node.tried("rm", "--force", "--volumes", name)
    node.docker("network", "rm", "image")


def started(node: Node, name: str, *words: str, options: tuple[str, ...] = ()) -> None:
    node.docker("run", "--detach", "--name", name, "--network", "image", *options, images.PROJECT, *words)


def asked(node: Node, path: str) -> str:
    """The body of a GET, "" while nobody answers."""
    code = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000{path}', timeout=9).read().decode())"
    try:
        return node.docker("exec", "image-edge", "python", "-c", code).strip()
    except CommandError:
        return ""


def size(node: Node, image: str) -> int:
    return int(node.docker("image", "inspect", "--format", "{{.Size}}", image))


def test_it_is_small(built: Cluster) -> None:
    """Under 180 MB with its base, and little of that is ours."""
    whole, base = size(built.manager, images.PROJECT), size(built.manager, images.BASE)
    print(f"image {whole / MEGABYTE:.0f} MB, of which {(whole - base) / MEGABYTE:.1f} MB on top of the base")
    assert whole - base < 35 * MEGABYTE
    assert whole < 180 * MEGABYTE


def test_it_is_compiled_and_needs_not_be(manager: Node) -> None:
    """What is shipped has its data path as machine code. Without that, as where no compiler is to be had, its sources run."""
    assert manager.docker("run", "--rm", images.PROJECT, "version").endswith(" (compiled)")
    bare = "find /opt/autohedge/lib/*/site-packages/autohedge* -name '*.so' -delete; autohedge version; exec autohedge serve"
    started(manager, "image-edge", "-c", bare, options=("--user", "0", "--entrypoint", "sh"))
    until(lambda: asked(manager, "/liveness") == "OK", 60, 0.5, "it lives")
    assert "compiled" not in manager.docker("logs", "image-edge")


def test_it_starts_without_a_word_and_is_well(manager: Node) -> None:
    """E154: started and asked for /liveness and /version. Without root, without a capability, with nothing to write to."""
    started(
        manager, "image-edge", options=("--read-only", "--cap-drop", "ALL", "--tmpfs", "/var/lib/autohedge:uid=10001")
    )
    until(lambda: asked(manager, "/liveness") == "OK", 60, 0.5, "it lives")
    assert (
        json.loads(asked(manager, "/version"))["version"]
        == manager.docker("exec", "image-edge", "autohedge", "version").split()[0]
    )
    assert manager.docker("exec", "image-edge", "id", "-u").strip() == "10001"
    assert "liveness: 200" in manager.docker("exec", "image-edge", "autohedge", "healthcheck")
    said = json.loads(manager.docker("inspect", "image-edge"))[0]
    assert said["Config"]["Healthcheck"]["Test"][:3] == ["CMD", "autohedge", "healthcheck"]


def test_a_stop_lets_a_stream_end(manager: Node) -> None:
    """SIGTERM reaches process 1: it takes nothing new, the stream comes to its end, exit code 0."""
    started(manager, "image-engine", *ENGINE)
    config = '{"server": {"grace": "60s"}, "upstream_registry": {"one": {"host": "image-engine:8000"}}}'
    write = f"import os; open('/tmp/c.yaml', 'w').write({config!r}); os.execvp('python', ['python', '-m', 'autohedge', 'serve', '--config', '/tmp/c.yaml'])"
    manager.docker(
        "run",
        "--detach",
        "--name",
        "image-edge",
        "--network",
        "image",
        "--entrypoint",
        "python",
        images.PROJECT,
        "-c",
        write,
    )
    until(lambda: '"m"' in asked(manager, "/v1/models"), 60, 0.5, "the model is known")
    manager.docker(
        "run", "--detach", "--name", "image-reader", "--network", "image", "--entrypoint", "python", images.PROJECT, "-u", "-c",
        READER, "image-edge",
    )  # fmt: skip
    until(lambda: "BEGUN" in manager.docker("logs", "image-reader"), 60, 0.2, "the stream has begun")
    manager.docker("kill", "--signal", "TERM", "image-edge")
    assert manager.docker("wait", "image-edge", timeout=60).strip() == "0"
    assert manager.docker("wait", "image-reader", timeout=60).strip() == "0"
    assert "END 200 data: [DONE]" in manager.docker("logs", "image-reader")


def test_a_stop_in_the_first_moment_is_heard(manager: Node) -> None:
    """The kernel keeps signals from a process 1 that handles none: without care this waits for the whole grace."""
    started(manager, "image-edge", options=("--stop-timeout", "100"))
    manager.docker("stop", "image-edge", timeout=40)
    assert manager.docker("inspect", "--format", "{{.State.ExitCode}}", "image-edge").strip() == "0"
