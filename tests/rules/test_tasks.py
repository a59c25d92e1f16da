"""Docker's lists cut down, and which task may get requests: the endpoint rule that held in every experiment on a real Swarm."""

from __future__ import annotations

from typing import Any

import pytest

from autohedge.rules.tasks import UnreadableError, begins, network_id, nodes_down, service_of, task_of
from tests.support.swarm import INGRESS, NETWORK, attachment, container, network, node, service, task

NOBODY: frozenset[str] = frozenset()


def state(raw: dict[str, Any]) -> str:
    return task_of(raw, NETWORK, NOBODY).state


@pytest.mark.parametrize("wanted", ["running", "shutdown", "remove", "ready", "accepted", "complete"])
@pytest.mark.parametrize(
    "now",
    [
        *(
            "new",
            "pending",
            "assigned",
            "accepted",
            "preparing",
            "ready",
            "starting",
            "running",
            "complete",
            "shutdown",
        ),
        *("failed", "rejected", "remove", "orphaned"),
    ],
)
def test_only_a_task_that_is_meant_to_run_and_does_counts(wanted: str, now: str) -> None:
    """Starting is not running (traefik #1238); a task that is to shut down is left two seconds before its SIGTERM."""
    assert (state(task("a", "10.0.1.3", state=now, desired=wanted)) == "") is (wanted == now == "running")


def test_why_a_task_does_not_count() -> None:
    assert state(task("a", "10.0.1.3", state="starting")) == "starting"
    assert state(task("a", "10.0.1.3", desired="shutdown")) == "ending"
    assert state(task("a", "")) == "without an address on the network"


def test_nodes_that_are_down() -> None:
    assert nodes_down([node(), node("gone", "down"), node("odd", "unknown"), {"odd": 1}, None]) == {"gone"}


def host(*attachments: dict[str, Any]) -> str:
    return task_of(task("a", "") | {"NetworksAttachments": list(attachments)}, NETWORK, NOBODY).host


def test_the_address_is_the_one_on_our_network() -> None:
    """Several networks, the ingress first (traefik #1403, #979, #3529): always by Id, never the first."""
    assert (
        host(attachment("10.0.0.7/24", INGRESS), attachment("10.0.1.9/24"), attachment("10.9.9.9/24", "x"))
        == "10.0.1.9"
    )
    assert host(attachment("10.0.0.7/24", INGRESS)) == ""
    assert host() == ""
    assert host(attachment("fd00::5/64") | {"Addresses": ["fd00::5/64", "10.0.1.9/24"]}) == "10.0.1.9"
    assert host(attachment("fd00:0::5/64")) == "fd00::5"
    assert host(attachment("evil.example/24")) == ""


def test_a_service_and_what_its_tasks_run() -> None:
    spec = container(["--port", "9"], ["MODEL=m", "KEY=secret"], {"l": "1"}, "vllm/vllm-openai:v1", ["vllm", "serve"])
    found = service_of(service("s_vllm-a", {"com.docker.stack.namespace": "s"}, spec), NETWORK, frozenset({"MODEL"}))
    assert (found.name, found.stack, found.here) == ("s_vllm-a", "s", True)
    assert found.container.words == ("vllm", "serve", "--port", "9")
    assert found.container.env == (("MODEL", "m"),)
    assert found.container.image == "vllm/vllm-openai:v1"
    assert "secret" not in repr(found)


def test_old_services_name_their_networks_elsewhere() -> None:
    raw = service("a", networks=())
    assert not service_of(raw, NETWORK, NOBODY).here
    raw["Spec"]["Networks"] = [{"Target": NETWORK}]
    assert service_of(raw, NETWORK, NOBODY).here


@pytest.mark.parametrize(
    "raw", [None, 5, "x", [], {}, {"ID": 5}, {"ID": "a", "Spec": []}, {"ID": "a", "Spec": {"Name": None}}]
)
def test_what_is_no_service(raw: Any) -> None:
    with pytest.raises(UnreadableError):
        service_of(raw, NETWORK, NOBODY)


@pytest.mark.parametrize(
    "change", [{"ID": None}, {"ServiceID": ""}, {"Status": []}, {"NetworksAttachments": {}}, {"Spec": 5}]
)
def test_what_is_no_task(change: dict[str, Any]) -> None:
    with pytest.raises(UnreadableError):
        task_of(task("a", "10.0.1.3") | change, NETWORK, NOBODY)


@pytest.mark.parametrize(
    ("now", "wanted", "soon"),
    [
        ("starting", "running", True),
        ("preparing", "running", True),
        ("pending", "running", False),
        ("running", "running", False),
        ("starting", "shutdown", False),
        ("ready", "ready", False),
    ],
)
def test_a_task_that_is_about_to_run(now: str, wanted: str, soon: bool) -> None:
    """No event tells when a task runs (swarm facts): whoever wants to know has to look."""
    assert begins(task_of(task("a", "10.0.1.3", state=now, desired=wanted), NETWORK, NOBODY)) is soon
    assert not begins(task_of(task("a", "", state=now, desired=wanted), NETWORK, NOBODY))


def test_a_network_is_found_by_its_exact_name() -> None:
    """Docker's filter takes part of a name: "autohedge" brings "autohedge-net" as well."""
    listed = [network("autohedge-net-2", "two"), network("autohedge-net", "local", "local"), network()]
    assert network_id(listed, "autohedge-net") == NETWORK
    assert network_id(listed, "autohedge") is None
    assert network_id([5, None], "autohedge") is None
