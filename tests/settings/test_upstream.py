"""Backends, rungs and rules for names."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from autohedge.core.types import Address, Fact, Kind, Limits, Rank, Secret
from autohedge.settings.upstream import Backend, ModelRule, Rung, StaticModel, claimed_twice


def backend(**fields: Any) -> Backend:
    return Backend.model_validate(fields)


def faults(kind: type[Backend | Rung], fields: dict[str, Any]) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        kind.model_validate(fields)
    return [error["msg"].removeprefix("Value error, ") for error in caught.value.errors()]


@pytest.mark.parametrize(
    ("fields", "address"),
    [
        ({"host": "h"}, Address("h", 8000)),
        ({"host": "h", "provider": "ollama"}, Address("h", 11434)),
        ({"host": "h:1", "provider": "ollama"}, Address("h", 1)),
        ({"host": "x.openai.azure.com", "provider": "azure"}, Address("x.openai.azure.com", 443, tls=True)),
        ({"host": "https://h", "provider": "openai"}, Address("h", 443, tls=True)),
    ],
)
def test_a_host_without_port_gets_the_one_of_its_provider(fields: dict[str, Any], address: Address) -> None:
    """8000, Ollama 11434, Azure https; a URL has its own."""
    assert backend(**fields).spec("b", "static", str).addresses == (address,)


def test_a_spec_carries_everything_that_the_entry_says() -> None:
    """Every field arrives, the credential as a Secret, and each hint with its sentence."""
    spec = backend(
        provider="azure",
        hosts=["a", "b", "A"],
        models=["m", "n", "m"],
        aliases={"public": "m"},
        model_limits={"max_tokens": 1, "max_input_length": 2, "max_model_len": 3},
        api_key="k",
        concurrency=4,
        pool="p",
        priority=10,
        weight=2,
        deployment="d",
        api_version="v",
        labels={"team": "x"},
    ).spec("b", "static", lambda key: f"<{key}>")
    assert [address.host for address in spec.addresses] == ["a", "b"]
    assert (spec.name, spec.kind, spec.models, spec.aliases) == ("b", Kind.AZURE, ("m", "n"), {"public": "m"})
    assert spec.hints == Limits(
        context=Fact(3, "model_limits.max_model_len in <model_limits.max_model_len>", Rank.CONFIG),
        max_input=Fact(2, "model_limits.max_input_length in <model_limits.max_input_length>", Rank.CONFIG),
        max_output=Fact(1, "model_limits.max_tokens in <model_limits.max_tokens>", Rank.CONFIG),
    )
    assert (spec.key, spec.external, spec.concurrency, spec.pool) == (Secret("k"), True, 4, "p")
    assert (spec.priority, spec.weight, spec.origins, spec.labels) == (10, 2, ("static",), {"team": "x"})
    assert spec.params == {"deployment": "d", "api_version": "v"}


def test_an_entry_with_only_a_host_knows_nothing_else() -> None:
    """Unknown stays unknown: no models, no limits, no key."""
    spec = backend(host="h").spec("b", "static", str)
    assert (spec.models, spec.hints, spec.key, spec.external, spec.params) == ((), Limits(), None, False, {})


@pytest.mark.parametrize(
    ("fields", "messages"),
    [
        ({}, ["host or hosts is required"]),
        ({"host": "a", "hosts": ["b"]}, ["give host or hosts, not both"]),
        ({"host": "a:x", "hosts": ["b"]}, ['invalid port "x" in "a:x"']),
        ({"host": "a", "model": "m", "models": ["n"]}, ["give model or models, not both"]),
        ({"host": "a", "external": True}, ['an external backend needs a URL with http:// or https://, not "a"']),
        (
            {"hosts": ["http://a", "b"], "external": True},
            ['an external backend needs a URL with http:// or https://, not "b"'],
        ),
        (
            {"model": "m", "models": ["n"], "provider": "vlm"},
            [
                'unknown provider "vlm"; did you mean "vllm"?',
                "host or hosts is required",
                "give model or models, not both",
            ],
        ),
    ],
)
def test_contradictions_in_an_entry_are_told_together(fields: dict[str, Any], messages: list[str]) -> None:
    """One mistake does not hide another, and does not cause a second one."""
    assert faults(Backend, fields) == messages


@pytest.mark.parametrize("provider", ["swarm", "static", "SWARM", "ollama", "openai", "azure"])
def test_a_rung_names_peers_or_a_provider(provider: str) -> None:
    """The article's swarm and ollama and azure, our static, and the usual spellings."""
    rung = Rung.model_validate({"provider": provider, "models": ["a", "b"]})
    assert rung.provider == {"SWARM": "swarm", "openai": "openai-compatible"}.get(provider, provider)
    assert rung.names == ("a", "b")


def test_a_rung_with_one_model_or_only_an_endpoint() -> None:
    """`names` is one spelling of two."""
    assert Rung(provider="ollama", model="llama3:8b").names == ("llama3:8b",)
    assert Rung(provider="azure", endpoint="https://h/x").names == ()


@pytest.mark.parametrize(
    ("fields", "messages"),
    [
        ({"provider": "swarm"}, ["a rung needs model, models or endpoint"]),
        ({"provider": "swarm", "model": "a", "models": ["b"]}, ["give model or models, not both"]),
        ({"provider": "azur", "model": "a"}, ['unknown provider "azur"; did you mean "azure"?']),
        ({"provider": "azure", "endpoint": "h/x"}, ["must be a URL with http:// or https://"]),
    ],
)
def test_a_rung_that_leads_nowhere_is_refused(fields: dict[str, Any], messages: list[str]) -> None:
    """At least one of model, models, endpoint."""
    assert faults(Rung, fields) == messages


@pytest.mark.parametrize(
    ("value", "length"), [(None, None), ("off", 0), (False, 0), ([{"provider": "swarm", "model": "a"}], 1)]
)
def test_a_rule_says_which_chain(value: Any, length: int | None) -> None:
    """Absent is the common chain, off is none, a list is its own."""
    chain = ModelRule.model_validate({"fallback": value}).fallback
    assert (None if chain is None else len(chain)) == length


def test_a_static_model_has_eidex_defaults() -> None:
    """System One notes 8, item 26."""
    model = StaticModel(id="dex")
    assert (model.created, model.owned_by, model.root, model.parent, model.max_model_len) == (
        0,
        "sglang",
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("rules", "twice"),
    [
        ({"a": ["b"], "c": ["d"]}, False),
        ({"a": ["b"], "b": []}, True),
        ({"a": ["x"], "b": ["x"]}, True),
        ({"a": ["a"]}, True),
    ],
)
def test_a_name_belongs_to_one_model(rules: dict[str, list[str]], twice: bool) -> None:
    """An alias that is another model, or another model's alias, has no meaning."""
    models = {name: ModelRule(aliases=tuple(aliases)) for name, aliases in rules.items()}
    assert (claimed_twice(models) is not None) is twice


@pytest.mark.parametrize(
    "fields", [{"host": "https://h"}, {"hosts": ["h", "https://i"]}, {"host": "h", "provider": "azure"}]
)
def test_only_plain_http_is_resolved(fields: dict[str, Any]) -> None:
    """A certificate is for the name; the addresses behind it would all fail."""
    assert faults(Backend, {**fields, "resolve": True}) == [
        "resolve is for http only: a certificate belongs to the name, not to the address behind it"
    ]
