"""What leaves docker-guard: the recorded shapes of a real engine (20.10) with a secret in every field that may hold one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.core.types import Seen
from autohedge.rules.guarding import Subject
from autohedge.rules.keeping import DEFAULT_ENV
from autohedge.rules.stripping import event, stripper
from autohedge.rules.swarm import Reader, Wanted
from autohedge.rules.tasks import STACK as STACK_LABEL
from autohedge.rules.tasks import nodes_down
from tests.support.swarm import INGRESS, container, node, service, task
from tests.support.swarm import NETWORK as NETWORK_ID

CONTAINER: dict[str, Any] = {
    "Image": "vllm/vllm-openai:v0.9@sha256:ab",
    "Labels": {"autohedge.port": "80", "traefik.users": "SECRET"},
    "Command": ["sh", "-c"],
    "Args": ["TOKEN=SECRET vllm serve q --api-key SECRET --max-model-len 4096"],
    "Env": ["MODEL=tiny", "PASSWORD=SECRET"],
    "Hostname": "SECRET",
    "User": "SECRET",
    "Dir": "SECRET",
    "Healthcheck": {"Test": ["CMD-SHELL", "curl -H SECRET"]},
    "Mounts": [{"Type": "bind", "Source": "/SECRET", "Target": "/x"}],
    "Secrets": [{"File": {"Name": "SECRET"}, "SecretID": "SECRET", "SecretName": "SECRET"}],
    "Configs": [{"ConfigID": "SECRET", "ConfigName": "SECRET"}],
    "DNSConfig": {"Nameservers": ["SECRET"]},
    "Hosts": ["SECRET"],
    "Privileges": {"CredentialSpec": {"Config": "SECRET"}},
    "StopGracePeriod": 60_000_000_000,
}
SPEC: dict[str, Any] = {
    "Name": "llm_vllm",
    "Labels": {"autohdge.enable": "true", "com.docker.stack.namespace": "llm", "db": "SECRET"},
    "TaskTemplate": {
        "ContainerSpec": CONTAINER,
        "Networks": [{"Target": "net", "Aliases": ["vllm"], "DriverOpts": {"x": "SECRET"}}],
        "LogDriver": {"Options": {"splunk-token": "SECRET"}},
        "Resources": {"GenericResources": "SECRET"},
        "ForceUpdate": 1,
        "Runtime": "container",
    },
    "Mode": {"Replicated": {"Replicas": 2}},
    "EndpointSpec": {
        "Mode": "vip",
        "Ports": [{"Protocol": "tcp", "TargetPort": 80, "PublishMode": "host", "x": "SECRET"}],
    },
}
SERVICE: dict[str, Any] = {
    "ID": "s1",
    "Version": {"Index": 7},
    "CreatedAt": "2026-11-30T17:19:36Z",
    "Spec": SPEC,
    "PreviousSpec": SPEC,
    "Endpoint": {"Spec": SPEC["EndpointSpec"], "VirtualIPs": [{"NetworkID": "net", "Addr": "10.0.1.4/24"}]},
    "UpdateStatus": {"State": "completed", "Message": "update completed"},
    "ServiceStatus": {"RunningTasks": 2, "DesiredTasks": 2},
}
TASK: dict[str, Any] = {
    "ID": "t1",
    "ServiceID": "s1",
    "Slot": 1,
    "NodeID": "n1",
    "DesiredState": "running",
    "Labels": {"x": "SECRET"},
    "Spec": {"ContainerSpec": CONTAINER, "Networks": [{"Target": "net"}], "ForceUpdate": 0},
    "Status": {
        "State": "running",
        "Timestamp": "2026-11-30T17:19:38Z",
        "Message": "started",
        "ContainerStatus": {"ContainerID": "c", "PID": 3},
        "PortStatus": {"Ports": [{"TargetPort": 80, "PublishedPort": 8001, "PublishMode": "host"}]},
    },
    "NetworksAttachments": [
        {
            "Network": {"ID": "net", "Spec": {"Name": "autohedge-net", "Labels": {"x": "SECRET"}}},
            "Addresses": ["10.0.1.9/24"],
        }
    ],
}
NODE: dict[str, Any] = {
    "ID": "n1",
    "Spec": {"Labels": {"x": "SECRET"}, "Role": "manager", "Availability": "active"},
    "Status": {"State": "ready", "Addr": "SECRET"},
    "Description": {"Hostname": "vm", "TLSInfo": {"TrustRoot": "SECRET"}, "Engine": {"Labels": {"x": "SECRET"}}},
}
NETWORK: dict[str, Any] = {
    "Id": "net",
    "Name": "autohedge-net",
    "Scope": "swarm",
    "Driver": "overlay",
    "Labels": {"x": "SECRET"},
    "Options": {"encrypted": "SECRET"},
    "Containers": {"c": {"Name": "SECRET"}},
    "Peers": [{"IP": "SECRET"}],
    "Services": {
        "llm_vllm": {
            "VIP": "10.0.1.4",
            "Ports": ["Target: 80"],
            "LocalLBIndex": 257,
            "Tasks": [
                {
                    "Name": "llm_vllm.1.t1",
                    "EndpointID": "e",
                    "EndpointIP": "10.0.1.9",
                    "Info": {"Host IP": "h", "x": "SECRET"},
                }
            ],
        }
    },
}
ANSWERS: dict[Subject, Any] = {
    Subject.SERVICES: [SERVICE],
    Subject.TASKS: [TASK],
    Subject.NODES: [NODE],
    Subject.NETWORKS: [NETWORK],
    Subject.NETWORK: NETWORK,
    Subject.VERSION: {"ApiVersion": "1.41", "Version": "20.10.24", "KernelVersion": "SECRET", "Components": ["SECRET"]},
}


def stripped(subject: Subject, answer: Any) -> Any:
    return stripper(subject, DEFAULT_ENV)(answer)


@pytest.mark.parametrize("subject", ANSWERS)
def test_no_secret_leaves(subject: Subject) -> None:
    """facts swarm 2b: a read-only API still tells the environment, mounts and certificates of everybody."""
    assert "SECRET" in json.dumps(ANSWERS[subject])
    assert "SECRET" not in json.dumps(stripped(subject, ANSWERS[subject]))


def test_what_discovery_reads_of_a_service_stays() -> None:
    (kept,) = stripped(Subject.SERVICES, [SERVICE])
    spec = kept["Spec"]
    container = spec["TaskTemplate"]["ContainerSpec"]
    assert (kept["ID"], kept["Version"], spec["Name"]) == ("s1", {"Index": 7}, "llm_vllm")
    assert spec["Labels"] == {"autohdge.enable": "true", "com.docker.stack.namespace": "llm"}
    assert container == {
        "Image": CONTAINER["Image"],
        "Env": ["MODEL=tiny"],
        "Labels": {"autohedge.port": "80"},
        "StopGracePeriod": 60_000_000_000,
        "Args": ["vllm", "serve", "q", "--max-model-len", "4096"],
    }
    assert spec["TaskTemplate"]["Networks"] == [{"Target": "net", "Aliases": ["vllm"]}]
    assert spec["Mode"] == {"Replicated": {"Replicas": 2}}
    assert kept["Endpoint"]["VirtualIPs"] == [{"NetworkID": "net", "Addr": "10.0.1.4/24"}]
    assert kept["Endpoint"]["Spec"] == {"Mode": "vip"}
    assert kept["UpdateStatus"]["State"] == "completed"
    assert "PreviousSpec" not in kept


def test_what_discovery_reads_of_a_task_stays() -> None:
    """The task's own environment and image: they differ from the service's during an update."""
    (kept,) = stripped(Subject.TASKS, [TASK])
    assert [kept[name] for name in ("ID", "ServiceID", "Slot", "NodeID", "DesiredState")] == [
        "t1",
        "s1",
        1,
        "n1",
        "running",
    ]
    assert kept["Status"]["State"] == "running"
    assert kept["Status"]["PortStatus"]["Ports"][0]["PublishedPort"] == 8001
    assert kept["Spec"]["ContainerSpec"]["Env"] == ["MODEL=tiny"]
    assert kept["NetworksAttachments"] == [
        {"Network": {"ID": "net", "Spec": {"Name": "autohedge-net"}}, "Addresses": ["10.0.1.9/24"]}
    ]


def test_what_discovery_reads_of_nodes_and_networks_stays() -> None:
    (node,) = stripped(Subject.NODES, [NODE])
    assert node == {
        "ID": "n1",
        "Spec": {"Availability": "active", "Role": "manager"},
        "Status": {"State": "ready"},
        "Description": {"Hostname": "vm"},
    }
    network = stripped(Subject.NETWORK, NETWORK)
    assert network["Services"]["llm_vllm"]["Tasks"][0] == {
        "Name": "llm_vllm.1.t1",
        "EndpointID": "e",
        "EndpointIP": "10.0.1.9",
        "Info": {"Host IP": "h"},
    }
    assert (network["Id"], network["Driver"], network["Scope"]) == ("net", "overlay", "swarm")


def test_a_global_service_without_much_stays_one() -> None:
    """dnsrr: `Endpoint` is nearly empty; a global service has an empty `Global`; null lists are Go's empty ones."""
    bare = {
        "ID": "g",
        "Spec": {"Name": "g", "Labels": None, "Mode": {"Global": {}}},
        "Endpoint": {"Spec": {}, "Ports": None},
    }
    assert stripped(Subject.SERVICES, [bare]) == [
        {
            "ID": "g",
            "Spec": {"Name": "g", "Labels": {}, "Mode": {"Global": {}}},
            "Endpoint": {"Spec": {}, "Ports": None},
        }
    ]


@pytest.mark.parametrize("subject", ANSWERS)
def test_stripping_twice_changes_nothing(subject: Subject) -> None:
    """A guard behind a guard, and what the rules of discovery see, are the same."""
    once = stripped(subject, ANSWERS[subject])
    assert stripped(subject, once) == once


def poisoned(value: Any, draw: Any) -> Any:
    """The same answer with other fields and forms in it, as a newer engine or an attacker would send it."""
    if isinstance(value, dict):
        spoiled = {name: poisoned(item, draw) for name, item in value.items()}
        if draw():
            spoiled["NewField"] = {"deep": ["SECRET"]}
        return spoiled
    if isinstance(value, list):
        return [*(poisoned(item, draw) for item in value), *([["SECRET"]] if draw() else [])]
    return {"unexpected": "SECRET"} if draw() else value


@given(st.sampled_from(list(ANSWERS)), st.randoms(use_true_random=False))
def test_fields_and_forms_of_another_engine_never_leave(subject: Subject, chance: Any) -> None:
    """What no shape names is gone, wherever it appears and whatever form it has."""
    answer = poisoned(ANSWERS[subject], lambda: chance.random() < 0.1)
    assert "SECRET" not in json.dumps(stripped(subject, answer))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)


@given(st.sampled_from(list(ANSWERS)), JSON)
def test_any_json_is_stripped_without_a_failure(subject: Subject, answer: Any) -> None:
    json.dumps(stripped(subject, answer))
    event(answer)


def test_events_of_discovery_pass() -> None:
    found = {
        "Type": "service",
        "Action": "update",
        "Actor": {"ID": "s1", "Attributes": {"name": "llm_vllm", "replicas.new": "3", "other": "SECRET"}},
        "scope": "swarm",
        "time": 1,
        "timeNano": 2,
    }
    assert event(found) == {
        "Type": "service",
        "scope": "swarm",
        "time": 1,
        "timeNano": 2,
        "Action": "update",
        "Actor": {"ID": "s1", "Attributes": {"name": "llm_vllm", "replicas.new": "3"}},
    }


def test_a_container_s_end_passes_without_its_labels() -> None:
    found = {
        "status": "die",
        "from": "SECRET",
        "Type": "container",
        "Action": "die",
        "Actor": {
            "ID": "c",
            "Attributes": {"com.docker.swarm.task.id": "t1", "exitCode": "1", "traefik.users": "SECRET"},
        },
    }
    kept = event(found)
    assert kept is not None
    assert kept["Actor"]["Attributes"] == {"exitCode": "1", "com.docker.swarm.task.id": "t1"}
    assert "SECRET" not in json.dumps(kept)


def test_health_says_which() -> None:
    kept = event({"Type": "container", "Action": "health_status: unhealthy SECRET", "Actor": {"ID": "c"}})
    assert kept is not None
    assert kept["Action"] == "health_status: unhealthy"


@pytest.mark.parametrize(
    ("kind", "action"),
    [
        ("container", "exec_create: curl -H SECRET"),
        ("container", "exec_die"),
        ("secret", "create"),
        ("config", "x"),
        (None, "x"),
    ],
)
def test_other_events_are_not_told(kind: object, action: str) -> None:
    """The command line of every health check and `docker exec` is in its event."""
    assert event({"Type": kind, "Action": action, "Actor": {}}) is None


def seen_of(services: Any, tasks: Any, nodes: Any) -> Seen:
    """What discovery makes of these lists."""
    reader = Reader(Wanted())
    read = [reader.service(raw, NETWORK_ID) for raw in services]
    return reader.look(read, [reader.task(raw, NETWORK_ID) for raw in tasks], nodes_down(nodes))


def test_discovery_finds_the_same_through_the_guard() -> None:
    """The rules read stripped lists as they read whole ones: backends, ports, models, limits, and every note about a label."""
    spec = container(
        [
            "--model",
            "org/q",
            "--served-model-name",
            "q",
            "--max-model-len",
            "4096",
            "--port",
            "8001",
            "--api-key",
            "SECRET",
        ],
        ["MODEL=other", "MAX_MODEL_LEN=2048", "TOKEN=SECRET"],
        {"autohedge.pool": "gpu", "autohdge.port": "1"},
        "vllm/vllm-openai:v0.9",
    )
    shell = container(["exec llama-server --alias tiny --port 8080 --api-key SECRET"], command=["sh", "-c"])
    services = [
        service("vllm-a", {"autohedge.enabled": "true", STACK_LABEL: "one"}, spec),
        service("web", {"autohedge.enable": "true", "autohedge.aliases": "gpt=q", "db": "SECRET"}, spec),
        service("off", {"autohedge.enable": "false"}, spec),
        service("llamacpp-b", {}, shell, networks=(INGRESS, NETWORK_ID)),
        service("two_vllm-a", {STACK_LABEL: "two"}, spec),
        service("elsewhere", {}, spec, networks=("other",)),
    ]
    tasks = [
        task(name, f"10.0.1.{number}", spec if "vllm" in name or name == "web" else shell)
        for number, name in enumerate(("vllm-a", "vllm-a", "web", "llamacpp-b", "two_vllm-a"), 3)
    ]
    whole = seen_of(services, tasks, [node()])
    kept = (
        stripped(Subject.SERVICES, services), stripped(Subject.TASKS, tasks), stripped(Subject.NODES, [node()])
    )  # fmt: skip
    assert "SECRET" not in json.dumps(kept)
    assert seen_of(*kept) == whole
    assert {backend.name for backend in whole.backends} == {
        "llamacpp-b",
        "two_vllm-a",
    }  # one model, two stacks: one has it
