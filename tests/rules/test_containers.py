"""Containers of one engine, as services and tasks."""

from __future__ import annotations

from typing import Any

import pytest

from autohedge.core.types import Address, BackendSpec, Kind, Rank
from autohedge.rules.containers import container_of, grouped, row_of
from autohedge.rules.swarm import Reader, Wanted
from autohedge.rules.tasks import UnreadableError

NET = "llm"


def listed(
    name: str, host: str = "172.18.0.2", state: str = "running", status: str = "Up 1 second", **more: Any
) -> dict[str, Any]:
    """One container as GET /containers/json of 20.10 shows it."""
    return {
        "Id": f"id-{name}",
        "Names": [f"/{name}"],
        "Image": "vllm/vllm-openai:v0.11",
        "Command": "python3 -m x",
        "Created": 1796061296,
        "Labels": {},
        "State": state,
        "Status": status,
        "NetworkSettings": {"Networks": {NET: {"NetworkID": "n", "IPAddress": host, "GlobalIPv6Address": ""}}},
        **more,
    }


def compose(project: str, service: str, number: int, host: str, **more: Any) -> dict[str, Any]:
    labels = {"com.docker.compose.project": project, "com.docker.compose.service": service}
    return listed(f"{project}-{service}-{number}", host, Labels=labels | more.pop("labels", {}), **more)


def shown(*env: str, cmd: list[str] | None = None, entrypoint: list[str] | None = None) -> dict[str, Any]:
    return {"Config": {"Image": "vllm/vllm-openai:v0.11", "Env": list(env), "Cmd": cmd, "Entrypoint": entrypoint}}


def found(*rows: dict[str, Any], told: dict[str, Any] | None = None) -> dict[str, BackendSpec]:
    wanted = Wanted(network=NET)
    kept = [row for row in (row_of(raw, NET) for raw in rows) if row is not None]
    containers = {row.id: container_of(told or shown(), wanted.env) for row in kept}
    return {backend.name: backend for backend in Reader(wanted).read(*grouped(kept, containers)).backends}


def places(backend: BackendSpec) -> list[str]:
    return [address.host for address in backend.addresses]


def test_containers_of_a_compose_service_are_replicas_of_one_backend() -> None:
    backends = found(compose("app", "vllm-a", 1, "172.18.0.3"), compose("app", "vllm-a", 2, "172.18.0.2"))
    assert {name: sorted(places(backend)) for name, backend in backends.items()} == {
        "app_vllm-a": ["172.18.0.2", "172.18.0.3"]
    }
    assert backends["app_vllm-a"].labels == {"stack": "app"}


def test_tasks_of_a_swarm_on_this_engine_are_replicas_of_their_service() -> None:
    labels = {"com.docker.swarm.service.name": "llm_ollama-a"}
    rows = [listed(f"llm_ollama-a.{number}.x", f"172.18.0.{number}", Labels=labels) for number in (2, 3)]
    assert places(found(*rows)["llm_ollama-a"]) == ["172.18.0.2", "172.18.0.3"]


def test_a_container_by_itself_is_a_backend_under_its_name() -> None:
    assert places(found(listed("ollama-x"))["ollama-x"]) == ["172.18.0.2"]


def test_a_label_takes_in_what_has_no_engine_s_name_and_is_in_its_place_here() -> None:
    """Containers have no other labels: no note says that they belong elsewhere."""
    labels = {"autohedge.enable": "true", "autohedge.model": "m", "autohedge.port": "9000"}
    backend = found(listed("web", Labels=labels))["web"]
    assert (backend.models, backend.addresses[0].port) == (("m",), 9000)
    row = row_of(listed("web", Labels=labels), NET)
    assert row is not None
    assert Reader(Wanted(network=NET)).read(*grouped([row], {row.id: container_of(shown(), frozenset())})).notes == ()


def test_what_it_was_told_at_its_start_counts() -> None:
    """Environment by the list of names, then the command's own arguments."""
    told = shown("MODEL=m", "SECRET=x", cmd=["--max-model-len", "4096"], entrypoint=["vllm", "serve"])
    backend = found(listed("vllm-a"), told=told)["vllm-a"]
    assert backend.models == ("m",)
    assert backend.hints.context is not None
    assert (backend.hints.context.value, backend.hints.context.rank) == (4096, Rank.ARGS)
    assert container_of(told, frozenset({"MODEL"})).env == (("MODEL", "m"),)


@pytest.mark.parametrize(
    ("fields", "used"),
    [
        ({}, True),
        ({"status": "Up 2 minutes (healthy)"}, True),
        ({"status": "Up 2 minutes (unhealthy)"}, True),
        ({"status": "Up 2 seconds (health: starting)"}, False),
        ({"state": "exited", "status": "Exited (137) 3 seconds ago"}, False),
        ({"state": "paused", "status": "Up 2 minutes (Paused)"}, False),
        ({"state": "restarting", "status": "Restarting (1)"}, False),
        ({"host": ""}, False),
    ],
)
def test_who_gets_requests(fields: dict[str, Any], used: bool) -> None:
    """A backend whose container is not there stays known, without a replica."""
    assert bool(found(listed("vllm-a", **fields))["vllm-a"].addresses) is used


@pytest.mark.parametrize(
    "raw",
    [
        listed("vllm-a", NetworkSettings={"Networks": {"other": {"IPAddress": "172.19.0.2"}}}),
        listed("vllm-a", NetworkSettings=None),
        compose("app", "vllm-a", 1, "172.18.0.2", labels={"com.docker.compose.oneoff": "True"}),
    ],
    ids=["another network", "none", "compose run"],
)
def test_what_is_not_a_part_of_the_picture(raw: dict[str, Any]) -> None:
    assert row_of(raw, NET) is None


def test_an_address_of_the_sixth_version_is_used_where_there_is_no_other() -> None:
    networks = {NET: {"IPAddress": "", "GlobalIPv6Address": "fd00::5"}}
    backend = found(listed("ollama-x", NetworkSettings={"Networks": networks}))["ollama-x"]
    assert backend.addresses == (Address("fd00::5", 11434, tenant="id-ollama-x"),)
    assert backend.kind is Kind.AUTO


@pytest.mark.parametrize("raw", [{}, {"Config": None}, {"Config": []}])
def test_a_container_of_another_shape_is_told(raw: dict[str, Any]) -> None:
    with pytest.raises(UnreadableError):
        container_of(raw, frozenset())


def test_a_line_that_is_no_object_is_told() -> None:
    with pytest.raises(UnreadableError):
        row_of("x", NET)
