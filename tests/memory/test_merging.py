"""How the reports of several sources become one set of backends."""

from __future__ import annotations

from dataclasses import replace

from autohedge.core.types import Address, BackendSpec, Fact, Kind, Limits, Rank, Secret
from autohedge.memory.merging import united
from tests.support.world import backend, place


def places(spec: BackendSpec) -> list[str]:
    return [address.host for address in spec.addresses]


def test_one_endpoint_of_two_sources_is_one_replica() -> None:
    """B28: same name and address from static and swarm: one backend with both origins."""
    union = united({"static": [backend("qwen", "t1")], "swarm": [backend("qwen", "t1", "t2")]})
    assert list(union.backends) == ["qwen"]
    spec = union.backends["qwen"].spec
    assert places(spec) == ["t1", "t2"]
    assert spec.origins == ("static", "swarm")
    assert union.notes == {"static": (), "swarm": ()}


def test_an_endpoint_belongs_to_the_backend_that_had_it_first() -> None:
    """B28 with different names: the later backend's name and models are added to the first, and a note tells."""
    union = united({"static": [backend("qwen", "t1")], "swarm": [backend("vllm-node", "T1", models=("m",))]})
    assert list(union.backends) == ["qwen"]
    merged = union.backends["qwen"]
    assert merged.names == ("qwen", "vllm-node")
    assert merged.spec.models == ("m",)
    assert merged.spec.addresses == (place("t1"),)
    assert union.notes["swarm"] == ("backend vllm-node: T1:8000 belongs to backend qwen; counted there",)


def test_what_is_left_after_giving_endpoints_away_stays_a_backend() -> None:
    """A service of three tasks of which two are written down elsewhere keeps the third."""
    union = united({"static": [backend("a", "t1"), backend("b", "t2")], "swarm": [backend("svc", "t1", "t2", "t3")]})
    assert {name: places(one.spec) for name, one in union.backends.items()} == {"a": ["t1"], "b": ["t2"], "svc": ["t3"]}
    assert union.backends["a"].names == ("a", "svc")
    assert union.backends["b"].names == ("b", "svc")


def test_same_name_for_other_addresses_is_another_backend() -> None:
    """Two sources use a name for different servers: the later is renamed, nothing is lost, a note tells."""
    union = united({"static": [backend("qwen", "s1", key=Secret("k"))], "swarm": [backend("qwen", "t1")]})
    assert {name: places(one.spec) for name, one in union.backends.items()} == {"qwen": ["s1"], "qwen~swarm": ["t1"]}
    assert union.backends["qwen~swarm"].spec.key is None
    assert union.notes["swarm"] == (
        "backend qwen: another source has this name for other addresses; called qwen~swarm here",
    )


def test_a_third_backend_of_the_name_gets_a_number() -> None:
    """New names never collide."""
    specs = [backend("qwen", "s1"), backend("qwen", "s2"), backend("qwen", "s3")]
    assert list(united({"file": specs}).backends) == ["qwen", "qwen~file", "qwen~file~2"]


def test_a_service_scaled_to_zero_agrees_with_its_name() -> None:
    """No address on one side: the same backend."""
    union = united({"static": [backend("qwen", models=("m",))], "swarm": [backend("qwen", "t1")]})
    assert places(union.backends["qwen"].spec) == ["t1"]
    assert union.backends["qwen"].spec.models == ("m",)


def test_an_earlier_source_decides_and_a_later_one_fills_gaps() -> None:
    """Each field: the first source that says something; figures by rank."""
    first = backend("q", "t1", models=("m",), aliases={"x": "m"}, priority=10, labels={"a": "1"}, concurrency=4)
    first = replace(first, hints=Limits(context=Fact(1, "config", Rank.CONFIG)))
    later = backend("q", "t1", models=("n", "m"), aliases={"x": "n", "y": "n"}, kind=Kind.VLLM, priority=90, weight=3)
    later = replace(later, labels={"a": "2", "b": "2"}, concurrency=8, key=Secret("k"), pool="gpu", params={"p": "1"})
    later = replace(later, hints=Limits(context=Fact(2, "arguments", Rank.ARGS)))
    spec = united({"static": [first], "swarm": [later]}).backends["q"].spec
    assert spec.models == ("m", "n")
    assert spec.aliases == {"x": "m", "y": "n"}
    assert (spec.kind, spec.priority, spec.weight, spec.concurrency) == (Kind.VLLM, 10, 3, 4)
    assert (spec.key, spec.pool, spec.params) == (Secret("k"), "gpu", {"p": "1"})
    assert spec.labels == {"a": "1", "b": "2"}
    assert spec.hints.context == Fact(2, "arguments", Rank.ARGS)


def test_an_external_backend_is_not_extended() -> None:
    """A key that leaves the house never travels to an address that another source added."""
    external = backend("openai", "api.example", external=True, key=Secret("k"))
    union = united({"static": [external], "workers": [backend("openai", "api.example", "evil.example")]})
    assert places(union.backends["openai"].spec) == ["api.example"]
    assert union.backends["openai"].spec.external
    assert "evil.example" in union.notes["workers"][0]
    union = united({"static": [external], "workers": [backend("other", "api.example")]})
    assert union.backends["other"].spec.key is None


def test_two_accounts_at_one_provider_stay_two() -> None:
    """One source may mean two backends at one endpoint."""
    specs = [backend("one", "api", external=True, models=("a",)), backend("two", "api", external=True, models=("b",))]
    assert list(united({"static": specs}).backends) == ["one", "two"]
    specs = [backend("one", "t1", models=("a",)), backend("two", "t1", models=("b",))]
    assert list(united({"static": specs}).backends) == ["one", "two"]


def test_a_repeated_address_counts_once() -> None:
    """B14: the same endpoint twice in one backend is one replica, the prefix makes a difference, the scheme does not."""
    spec = backend("q", "h:1", "H:1", "h:1/base")
    spec = replace(spec, addresses=(*spec.addresses, Address("h", 1, tls=True)))
    merged = united({"static": [spec]}).backends["q"].spec
    assert merged.addresses == (place("h:1"), place("h:1/base"))


def test_nothing_is_nothing() -> None:
    """No sources, no backends."""
    assert dict(united({}).backends) == {}
    assert dict(united({"swarm": []}).backends) == {}


def test_the_name_of_an_exact_backend_stands_for_no_model() -> None:
    union = united(
        {
            "static": [backend("svc", "t1")],
            "workers": [backend("w-1", "t1", exact=True), backend("w-2", "t2", exact=True)],
        }
    )
    assert {name: merged.names for name, merged in union.backends.items()} == {"svc": ("svc",), "w-2": ()}


def test_a_wildcard_at_an_endpoint_that_is_known_makes_that_one_a_wildcard() -> None:
    union = united({"static": [backend("svc", "t1")], "workers": [backend("w", "t1", exact=True, takes_any=True)]})
    spec = union.backends["svc"].spec
    assert (spec.takes_any, spec.exact) == (True, False)
