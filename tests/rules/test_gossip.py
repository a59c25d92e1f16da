"""A network's own picture of its services."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autohedge.core.types import Address, BackendSpec
from autohedge.rules.gossip import members
from autohedge.rules.swarm import Reader, Wanted
from autohedge.rules.tasks import UnreadableError


def row(name: str, host: str) -> dict[str, Any]:
    return {"Name": name, "EndpointID": "e", "EndpointIP": host, "Info": {"Host IP": "10.123.45.12"}}


def found(raw: dict[str, Any], labels: dict[str, dict[str, str]] | None = None) -> dict[str, BackendSpec]:
    seen = Reader(Wanted()).read(*members(raw, labels or {}))
    return {backend.name: backend for backend in seen.backends}


NETWORK = {
    "Services": {
        "": {"VIP": "<nil>", "Tasks": [row("by-hand", "10.0.1.9")]},
        "llm_ollama-a": {
            "VIP": "10.0.1.2",
            "Tasks": [row("llm_ollama-a.2.bbb", "10.0.1.4"), row("llm_ollama-a.1.aaa", "10.0.1.3")],
        },
        "web": {"VIP": "10.0.1.7", "Tasks": [row("web.1.ccc", "10.0.1.8")]},
    }
}


def test_services_with_an_engine_s_name_are_backends() -> None:
    """The usual port of the engine; what has no service, or no engine's name, is nobody's."""
    assert {name: backend.addresses for name, backend in found(NETWORK).items()} == {
        "llm_ollama-a": (Address("10.0.1.3", 11434, tenant="aaa"), Address("10.0.1.4", 11434, tenant="bbb"))
    }


def test_labels_of_the_configuration_stand_for_those_that_cannot_be_read() -> None:
    labels = {"web": {"autohedge.enable": "true", "autohedge.port": "9000", "autohedge.model": "m"}}
    web = found(NETWORK, labels)["web"]
    assert (web.addresses, web.models) == ((Address("10.0.1.8", 9000, tenant="ccc"),), ("m",))


def test_a_service_that_was_named_and_is_not_there_stays_known() -> None:
    """Its model is then a 503, no 404."""
    web = found({"Services": {}}, {"web": {"autohedge.enable": "true", "autohedge.model": "m"}})["web"]
    assert (web.addresses, web.models) == ((), ("m",))


@pytest.mark.parametrize("services", [None, {}])
def test_a_network_without_services_has_none(services: Any) -> None:
    """Docker leaves the key out where the network is empty."""
    assert members({"Services": services}, {}) == ([], {})


def test_what_is_no_mapping_is_told() -> None:
    with pytest.raises(UnreadableError):
        members({"Services": ["x"]}, {})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=8), below, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50)
@given(st.dictionaries(st.text(max_size=8), json_values, max_size=4))
def test_no_shape_of_a_service_raises(services: dict[str, Any]) -> None:
    members({"Services": services}, {})
