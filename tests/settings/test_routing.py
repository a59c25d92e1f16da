"""eidex's routing section as it stands in its file, and what stands beside it."""

from __future__ import annotations

import pytest

from autohedge.settings.load import ConfigErrors, load_text
from autohedge.settings.routing import Routing


def loaded(text: str) -> Routing:
    return load_text(text, "a.yaml", {}, lambda path: path).settings.routing


def test_the_defaults_are_eidex_s() -> None:
    """E95 to E99: state_hash, 100 nodes, 300 s, one retry, the override on and without a name of its own."""
    found = loaded("")
    assert (found.policy, found.virtual_nodes, found.request_timeout, found.retry) == ("state_hash", 100, 300.0, 1)
    assert (found.model_override.enabled, found.model_override.model) == (True, "")
    assert (found.bounded_load, found.affinity) == (1.25, "off")


def test_an_eidex_section_is_read_as_it_stands() -> None:
    text = (
        "routing:\n  policy: round_robin\n  virtual_nodes: 50\n  request_timeout: 1m30s\n  retry: 0\n"
        "  model_override: {enabled: false, model: dex}\n"
    )
    found = loaded(text)
    assert (found.policy, found.virtual_nodes, found.request_timeout, found.retry) == ("round_robin", 50, 90.0, 0)
    assert (found.model_override.enabled, found.model_override.model) == (False, "dex")


@pytest.mark.parametrize(("text", "bound"), [("off", 0.0), ("0", 0.0), ("false", 0.0), ("2", 2.0)])
def test_the_bound_can_be_off(text: str, bound: float) -> None:
    assert loaded(f"routing: {{bounded_load: {text}}}").bounded_load == bound


@pytest.mark.parametrize(("written", "counts"), [(1, 1), (1000, 1000), (1001, 1000), (100_000, 1000)])
def test_any_number_of_virtual_nodes_is_taken(written: int, counts: int) -> None:
    """E95: eidex has no bound, so a file of it must load; from 1000 on shares do not become more equal."""
    assert loaded(f"routing: {{virtual_nodes: {written}}}").virtual_nodes == counts


@pytest.mark.parametrize(("text", "word"), [("off", "off"), ("false", "off"), ("Prefix", "prefix")])
def test_affinity_of_chats_is_a_choice(text: str, word: str) -> None:
    assert loaded(f"routing: {{affinity: {text}}}").affinity == word


@pytest.mark.parametrize(
    "text",
    ["policy: random", "virtual_nodes: 0", "retry: -1", "request_timeout: 0s", "affinity: suffix", "bounded_load: x"],
)
def test_what_is_none_of_it_is_told_with_its_path(text: str) -> None:
    with pytest.raises(ConfigErrors) as raised:
        loaded(f"routing: {{{text}}}")
    assert f"routing.{text.partition(':')[0]}" in str(raised.value)
