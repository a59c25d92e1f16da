"""A Swarm made up for tests, in the shape in which a real engine (20.10.24, API 1.41) lists services, tasks and nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NETWORK = "ax6c7av98cymlip7o9cykfevo"
INGRESS = "z9uhcs1314fi1v6uxypl0nm9s"
NODE = "51pjq6clwuiu3jepl9rs6a78v"


def network(name: str = "autohedge-net", id: str = NETWORK, scope: str = "swarm") -> dict[str, Any]:  # noqa: A002 - Docker's word
    return {"Name": name, "Id": id, "Scope": scope, "Driver": "overlay", "Attachable": True}


def container(
    args: Sequence[str] = (),
    env: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    image: str = "python:3.11-slim",
    command: Sequence[str] = (),
) -> dict[str, Any]:
    spec: dict[str, Any] = {"Image": image, "Init": False, "DNSConfig": {}, "Isolation": "default"}
    spec |= {"Labels": dict(labels)} if labels else {}
    spec |= {"Command": list(command)} if command else {}
    spec |= {"Args": list(args)} if args else {}
    return spec | ({"Env": list(env)} if env else {})


def service(
    name: str,
    labels: Mapping[str, str] | None = None,
    spec: dict[str, Any] | None = None,
    networks: Sequence[str] = (NETWORK,),
    created: str = "2026-11-30T17:15:45.204989666Z",
    **more: Any,
) -> dict[str, Any]:
    """A service; its Id is "id-" and the name. `spec` is what its containers run."""
    return {
        "ID": f"id-{name}",
        "Version": {"Index": 15},
        "CreatedAt": created,
        "UpdatedAt": created,
        "Spec": {
            "Name": name,
            "Labels": dict(labels or {}),
            "TaskTemplate": {
                "ContainerSpec": spec or container(),
                "Resources": {"Limits": {}, "Reservations": {}},
                "Placement": {},
                "Networks": [{"Target": target} for target in networks],
                "ForceUpdate": 0,
                "Runtime": "container",
            },
            "Mode": {"Replicated": {"Replicas": 1}},
            "EndpointSpec": {"Mode": "vip"},
        },
        "Endpoint": {
            "Spec": {"Mode": "vip"},
            "VirtualIPs": [{"NetworkID": target, "Addr": "10.0.9.9/24"} for target in networks],
        },
        **more,
    }


def attachment(address: str, network: str = NETWORK) -> dict[str, Any]:
    """A task's place on a network; Docker repeats the whole network in each."""
    return {
        "Network": {
            "ID": network,
            "Version": {"Index": 12},
            "Spec": {
                "Name": "autohedge-net" if network == NETWORK else "other",
                "Labels": {},
                "DriverConfiguration": {"Name": "overlay"},
                "Attachable": True,
                "IPAMOptions": {"Driver": {"Name": "default"}},
                "Scope": "swarm",
            },
            "DriverState": {
                "Name": "overlay",
                "Options": {"com.docker.network.driver.overlay.vxlanid_list": "4097"},
            },
            "IPAMOptions": {
                "Driver": {"Name": "default"},
                "Configs": [{"Subnet": "10.0.1.0/24", "Gateway": "10.0.1.1"}],
            },
        },
        "Addresses": [address],
    }


def task(
    of: str,
    address: str,
    spec: dict[str, Any] | None = None,
    state: str = "running",
    desired: str = "running",
    **more: Any,
) -> dict[str, Any]:
    """A task of the service called `of`; its Id is made of the address. `address` "" is no attachment at all."""
    number = "".join(char for char in address if char.isalnum()) or "none"
    return {
        "ID": f"task{number}{'x' * 20}"[:25],
        "Version": {"Index": 22},
        "CreatedAt": "2026-11-30T17:15:45.20583628Z",
        "UpdatedAt": "2026-11-30T17:15:46.480645397Z",
        "Labels": {},
        "Spec": {"ContainerSpec": spec or container(), "Networks": [{"Target": NETWORK}], "ForceUpdate": 0},
        "ServiceID": f"id-{of}",
        "Slot": 1,
        "NodeID": NODE,
        "Status": {
            "Timestamp": "2026-11-30T17:15:46.439986052Z",
            "State": state,
            "Message": "started",
            "ContainerStatus": {"ContainerID": "8829829b94ad", "PID": 23086, "ExitCode": 0},
            "PortStatus": {},
        },
        "DesiredState": desired,
        "NetworksAttachments": [attachment(f"{address}/24")] if address else [],
        **more,
    }


def node(id: str = NODE, state: str = "ready") -> dict[str, Any]:  # noqa: A002 - Docker's word
    return {
        "ID": id,
        "Version": {"Index": 18},
        "Spec": {"Labels": {}, "Role": "manager", "Availability": "active"},
        "Description": {"Hostname": "vm"},
        "Status": {"State": state, "Addr": "127.0.0.1"},
    }
