"""Who a replica is, and what a backend is known for while nobody can tell."""

from __future__ import annotations

import random

from autohedge.core.types import Address, BackendSpec, Kind, Lesson, Snapshot
from autohedge.memory.registry import Registry
from tests.support.world import backend, failed, lesson, model, seen


def world(*specs: BackendSpec, **lessons: Lesson) -> Registry:
    """A registry with these backends; `lessons` by the host of the replica."""
    registry = Registry()
    registry.apply("swarm", seen(*specs), 1.0)
    for host, one in lessons.items():
        for replica in registry.snapshot.replicas.values():
            if replica.address.host == host:
                registry.learn(replica.id, one, 2.0)
    return registry


def places(snapshot: Snapshot, name: str) -> list[str]:
    return [candidate.replica.address.host for candidate in snapshot.routes[name].candidates]


def notes(registry: Registry) -> tuple[str, ...]:
    return registry.snapshot.sources["swarm"].notes


# --- strangers ---------------------------------------------------------------------------------------------------------


def test_an_engine_that_lists_another_name_than_it_was_told_is_a_stranger() -> None:
    """moby #39028: an address is handed to another task; its container answers for another model."""
    spec = backend("vllm-a", "t1", "t2", models=("nice", "q/q"), by_args=True)
    registry = world(spec, t1=lesson(model("q/q")), t2=lesson(model("llama")))
    assert places(registry.snapshot, "q/q") == places(registry.snapshot, "nice") == ["t1"]
    assert "llama" not in registry.snapshot.routes
    assert notes(registry) == ("replica vllm-a@t2:8000 is left out: its engine serves llama, not nice, q/q",)
    registry.learn("vllm-a@t2:8000", lesson(model("q/q")), 3.0)
    assert places(registry.snapshot, "q/q") == ["t1", "t2"]
    assert notes(registry) == ()


def test_the_last_replica_may_be_a_stranger_too() -> None:
    """Nobody is left: known and unavailable, never answered by another model."""
    registry = world(backend("vllm-a", "t1", models=("q/q",), by_args=True), t1=lesson(model("llama")))
    assert places(registry.snapshot, "q/q") == []


def test_an_engine_that_is_not_heard_or_takes_any_name_is_no_stranger() -> None:
    spec = backend("vllm-a", "t1", "t2", models=("q/q",), by_args=True)
    registry = world(spec, t1=lesson(), t2=lesson(model(""), kind=Kind.TGI))
    assert places(registry.snapshot, "q/q") == ["t1", "t2"]


def test_a_replica_that_answers_as_another_backend_does_is_a_stranger() -> None:
    """Without an exact name: its siblings and the other backend's replicas together give it away."""
    registry = world(
        backend("a", "t1", "t2", models=("nice",)),
        backend("b", "t3"),
        t1=lesson(model("/m/qwen")),
        t2=lesson(model("/m/llama")),
        t3=lesson(model("/m/llama")),
    )
    assert places(registry.snapshot, "nice") == places(registry.snapshot, "a") == ["t1"]
    assert places(registry.snapshot, "/m/llama") == ["t3"]
    assert notes(registry) == (
        "replica a@t2:8000 is left out: its engine serves /m/llama, as backend b does and its own does not",
    )


def test_an_update_to_another_model_makes_no_strangers() -> None:
    """Old and new side by side, and no other backend has either: both serve what they have."""
    registry = world(
        backend("a", "t1", "t2"),
        backend("b", "t3"),
        t1=lesson(model("v1")),
        t2=lesson(model("v2")),
        t3=lesson(model("x")),
    )
    assert (places(registry.snapshot, "v1"), places(registry.snapshot, "v2")) == (["t1"], ["t2"])


def test_two_backends_of_the_same_engine_model_make_no_strangers() -> None:
    """Two labelled names for one file: what one replica alone lists is its own."""
    registry = world(
        backend("a", "t1", models=("fast",)),
        backend("b", "t2", models=("cheap",)),
        t1=lesson(model("/m/q")),
        t2=lesson(model("/m/q")),
    )
    assert (places(registry.snapshot, "fast"), places(registry.snapshot, "cheap")) == (["t1"], ["t2"])


def test_external_accounts_are_never_strangers() -> None:
    spec = backend("cloud", "t1", models=("gpt",), by_args=True, external=True)
    assert places(world(spec, t1=lesson(model("other"))).snapshot, "gpt") == ["t1"]


# --- another tenant ----------------------------------------------------------------------------------------------------


def tenants(*names: str) -> BackendSpec:
    return BackendSpec("a", addresses=tuple(Address(f"t{n}", 8000, tenant=name) for n, name in enumerate(names)))


def test_another_task_at_the_same_address_is_another_replica() -> None:
    """What was learned, counted and judged of the old one says nothing about the new one."""
    registry = Registry()
    registry.apply("swarm", seen(tenants("one", "two")), 1.0)
    registry.learn("a@t0:8000#one", lesson(model("m")), 2.0)
    old = registry.snapshot.replicas["a@t0:8000#one"]
    old.seat.in_flight = 3
    registry.apply("swarm", seen(tenants("three", "two")), 3.0)
    assert set(registry.snapshot.replicas) == {"a@t0:8000#three", "a@t1:8000#two"}
    assert registry.snapshot.lessons == {}
    new = registry.snapshot.replicas["a@t0:8000#three"]
    assert new.seat is not old.seat
    assert new.seat.in_flight == 0


# --- what a backend is known for ---------------------------------------------------------------------------------------


def known(registry: Registry) -> dict[str, int]:
    return {name: len(route.candidates) for name, route in registry.snapshot.routes.items()}


def test_a_backend_without_replicas_is_known_by_what_it_declares() -> None:
    """Traefik #9907: 503, not 404; also before anybody was heard."""
    registry = world(
        backend("vllm-a", models=("m",), aliases={"gpt": "m"}), backend("b", models=("x", "y")), backend("c")
    )
    assert known(registry) == {"b": 0, "c": 0, "gpt": 0, "m": 0, "vllm-a": 0, "x": 0, "y": 0} | {
        "b": 0
    } or "b" not in known(registry)
    assert known(registry).keys() >= {"m", "gpt", "vllm-a", "x", "y", "c"}


def test_a_backend_that_lost_its_replicas_is_known_by_what_they_served() -> None:
    """Scaled to zero, and back with an engine that still loads: the model is not forgotten before somebody says otherwise."""
    registry = world(backend("a", "t1"), t1=lesson(model("m", "alias")))
    assert known(registry) == {"a": 1, "alias": 1, "m": 1}
    registry.apply("swarm", seen(backend("a")), 3.0)
    assert known(registry) == {"a": 0, "alias": 0, "m": 0}
    registry.apply("swarm", seen(backend("a", "t2")), 4.0)
    assert known(registry) == {"a": 1, "alias": 0, "m": 0}
    registry.learn("a@t2:8000", failed(), 5.0)
    assert known(registry)["m"] == 0
    registry.learn("a@t2:8000", lesson(model("n")), 6.0)
    assert known(registry) == {"a": 1, "n": 1}


def test_a_backend_that_is_gone_is_forgotten() -> None:
    registry = world(backend("a", "t1"), t1=lesson(model("m")))
    registry.apply("swarm", seen(), 3.0)
    assert known(registry) == {}


def test_who_serves_a_name_stands_over_who_was_known_for_it() -> None:
    registry = world(backend("a", models=("m",)), backend("b", "t1"), t1=lesson(model("m")))
    assert places(registry.snapshot, "m") == ["t1"]


def test_a_backend_of_the_chain_alone_is_no_model() -> None:
    assert known(world(backend("rung", models=("m",), listed=False))) == {}


def test_what_is_known_does_not_grow_without_end() -> None:
    """A replica that always lists other names beside one that is never heard."""
    registry = world(backend("a", "t1", "t2"))
    draw = random.Random(1)
    for at in range(300):
        names = [model(f"m{draw.random()}") for _ in range(50)]
        registry.learn("a@t1:8000", lesson(*names, at=float(at)), float(at))
    assert len(registry.snapshot.routes) < 2200
