"""Issue 4, acceptance 5: services of every shape, and the endpoints that AutoHedge makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.swarm import stack
from tests.swarm.cluster import Cluster
from tests.swarm.node import Node
from tests.swarm.shell import until

pytestmark = [pytest.mark.swarm, pytest.mark.timeout(240)]
DOOR = 9600
CONFIG = {
    "server": {"listen": f"0.0.0.0:{stack.PORT}"},
    "sources": {"swarm": {"enabled": True, "network": "backends"}},
    "admin": {"open": True},
}


def quick(model: str, *words: str, **more: Any) -> stack.Service:
    """A backend without a health check of Docker's: it counts as soon as its process runs."""
    return stack.sample(model, "--pace", "0", *words, checked=False, **more)


@pytest.fixture(scope="module")
def shapes(built: Cluster) -> Iterator[tuple[Node, str]]:
    """One AutoHedge and all the services at once. Two stacks, because two of them may use the same short name."""
    node = built.manager
    stack.network(node, "elsewhere")
    here = stack.on(node)
    one = {
        "vllm-dnsrr": quick("dnsrr", deploy={"endpoint_mode": "dnsrr", "replicas": 2, **here}),
        "vllm-global": quick("global", deploy={"mode": "global", **here}),
        "vllm-twice": quick("twice-one"),
        "vllm-two-networks": quick("two-networks", networks=("elsewhere", "backends")),
        "vllm-elsewhere": quick("elsewhere", networks=("elsewhere",)),
        "vllm-published": {
            **quick("published"),
            "ports": [{"mode": "ingress", "target": stack.PORT, "published": 9601}],
        },
        "named-otherwise": quick("otherwise", labels={"autohedge.enable": "true", "autohedge.port": str(stack.PORT)}),
        "vllm-off": quick("off", labels={"autohedge.enable": "false"}),
        "vllm-typo": quick("typo", labels={"autohedge.modle": "x", "autohdge.port": "1"}),
        "vllm-container-label": {**quick("container-label"), "labels": {"autohedge.weight": "3"}},
        "unmarked": quick("unmarked"),
    }
    port = {"mode": "host", "target": stack.PORT, "published": DOOR}
    edge = stack.edge(volumes=[stack.socket(node)], user="0", ports=[port])
    stack.deploy(node, "one", {**one, "edge": edge}, CONFIG)
    stack.deploy(node, "two", {"vllm-twice": quick("twice-two")})
    door = f"{node.address}:{DOOR}"
    found = {
        "dnsrr",
        "global",
        "twice-one",
        "twice-two",
        "two-networks",
        "published",
        "otherwise",
        "typo",
        "container-label",
    }
    until(lambda: found <= models(door), 90, 0.2, f"all of {sorted(found)} are known")
    yield node, door
    stack.remove(node, "one", "two")


def models(door: str) -> set[str]:
    status, told = stack.asked(f"http://{door}/v1/models")
    return {one["id"] for one in told["data"]} if status == 200 else set()


def endpoints(door: str) -> dict[str, set[str]]:
    """The addresses that AutoHedge uses, by backend."""
    found: dict[str, set[str]] = {}
    for one in stack.asked(f"http://{door}/admin/replicas")[1]["replicas"]:
        found.setdefault(one["backend"], set()).add(one["replica"].partition("@")[2].partition("#")[0])
    return found


def tasks(node: Node, service: str, network: str = "backends") -> set[str]:
    """The addresses that the engine gives a service's tasks on a network."""
    wanted = node.docker("network", "inspect", "--format", "{{.Id}}", network)
    found = set()
    for task in node.api("/tasks", service=[service], desired_state=["running"]):
        for place in task["NetworksAttachments"]:
            if place["Network"]["ID"] == wanted:
                found.add(f"{place['Addresses'][0].partition('/')[0]}:{stack.PORT}")
    return found


@pytest.mark.parametrize(
    ("service", "number"),
    [
        ("one_vllm-dnsrr", 2),
        ("one_vllm-global", 1),
        ("one_vllm-twice", 1),
        ("two_vllm-twice", 1),
        ("one_vllm-two-networks", 1),
        ("one_vllm-published", 1),
        ("one_named-otherwise", 1),
        ("one_vllm-typo", 1),
        ("one_vllm-container-label", 1),
    ],
)
def test_a_service_is_reached_at_its_tasks_on_our_network(shapes: tuple[Node, str], service: str, number: int) -> None:
    """Never the virtual address, never that of the ingress or of another network."""
    node, door = shapes
    wanted = tasks(node, service)
    assert len(wanted) == number
    until(lambda: endpoints(door).get(service) == wanted, 10, 0.2, f"{service} is at {wanted}")


@pytest.mark.parametrize("service", ["one_vllm-elsewhere", "one_vllm-off", "one_unmarked", "one_edge"])
def test_what_is_no_backend_is_none(shapes: tuple[Node, str], service: str) -> None:
    """On another network, switched off by its label, without any mark, or AutoHedge itself."""
    assert service not in endpoints(shapes[1])


def test_every_model_answers(shapes: tuple[Node, str]) -> None:
    """Also those of two services with one short name: each by its own."""
    _, door = shapes
    for model, service in (
        ("dnsrr", "one_vllm-dnsrr"),
        ("global", "one_vllm-global"),
        ("twice-one", "one_vllm-twice"),
        ("twice-two", "two_vllm-twice"),
        ("two-networks", "one_vllm-two-networks"),
        ("published", "one_vllm-published"),
        ("otherwise", "one_named-otherwise"),
    ):
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
        status, answer = stack.asked(f"http://{door}/v1/chat/completions", body)
        assert status == 200, answer
        assert answer["choices"][0]["message"]["content"].startswith(f"{service}."), model


def test_misspelt_and_misplaced_labels_are_named(shapes: tuple[Node, str]) -> None:
    """Each with the one that was meant."""
    node, _ = shapes
    container = next(
        one["Id"] for one in node.containers() if one["Labels"]["com.docker.swarm.service.name"] == "one_edge"
    )
    told = node.docker("exec", container, "autohedge", "check", "--discover")
    print(told[-2500:])
    for words in ("autohedge.modle", "did you mean autohedge.model", "autohdge.port", "did you mean autohedge.port"):
        assert words in told
    assert "autohedge.weight stands on the container" in told
