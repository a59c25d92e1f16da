"""The picture drawn in steps is the picture drawn from nothing."""

from __future__ import annotations

import time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from autohedge.core.types import Address, BackendSpec, Blind, Lesson, Snapshot
from autohedge.memory.registry import Registry
from tests.support.fair import slowness
from tests.support.world import backend, lesson, model, routes_of, seen

SPEC = st.builds(
    lambda name, places, models, more: backend(name, *places, models=tuple(models), **more),
    st.sampled_from("abcd"),
    st.lists(st.sampled_from([f"t{n}" for n in range(6)]), max_size=3, unique=True),
    st.lists(st.sampled_from("mna"), max_size=2, unique=True),
    st.fixed_dictionaries(
        {},
        optional={
            "priority": st.sampled_from([10, 50]),
            "by_args": st.booleans(),
            "takes_any": st.just(True),
            "listed": st.just(False),
            "stack": st.sampled_from(["one", "two"]),
            "aliases": st.just({"x": "m"}),
        },
    ),
)
SETS = st.lists(SPEC, max_size=4, unique_by=lambda spec: spec.name)
MODELS = st.lists(st.sampled_from(["m", "n", "a", "b", ""]), max_size=2, unique=True)
APPLY = st.tuples(st.just("apply"), st.sampled_from(["one", "two"]), SETS)
LEARN = st.tuples(st.just("learn"), st.integers(0, 9), MODELS)
TEACH = st.tuples(st.just("teach"), st.integers(0, 9), st.sampled_from("mn"))


def from_nothing(reported: dict[str, list[BackendSpec]], lessons: dict[str, Lesson]) -> Registry:
    registry = Registry(("one", "two"))
    for source, specs in reported.items():
        registry.apply(source, seen(*specs), 1.0)
    for name, one in lessons.items():
        registry.learn(name, one, one.at)
    return registry


def drawn(snapshot: Snapshot) -> dict[str, list[tuple[str, str, bool]]]:
    """What a plan reads of the routes, without those that are only known."""
    return {
        name: [(one.replica.id, one.served, one.known) for one in route.candidates]
        for name, route in snapshot.routes.items()
        if route.candidates
    }


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(APPLY, APPLY, LEARN, LEARN, TEACH), max_size=14))
def test_any_history_draws_what_would_be_drawn_from_nothing(history: list[tuple[str, Any, Any]]) -> None:
    registry = Registry(("one", "two"))
    reported: dict[str, list[BackendSpec]] = {}
    for number, (what, which, value) in enumerate(history):
        if what == "apply":
            reported[which] = value
            registry.apply(which, seen(*value), 1.0)
        elif registry.snapshot.replicas:
            name = sorted(registry.snapshot.replicas)[which % len(registry.snapshot.replicas)]
            if what == "learn":
                registry.learn(name, lesson(*map(model, value), at=number + 1.0), 1.0)
            else:
                registry.teach(name, value, {"context": 100 + number}, 1.0)
        snapshot = registry.snapshot
        other = from_nothing(reported, dict(snapshot.lessons)).snapshot
        assert drawn(snapshot) == drawn(other)
        assert list(snapshot.replicas) == list(other.replicas)
        assert [one.replica.id for one in snapshot.wild] == [one.replica.id for one in other.wild]
        assert list(snapshot.routes) == sorted(snapshot.routes)
        strange = set(registry._drawing.strangers)
        assert strange == set(from_nothing(reported, dict(snapshot.lessons))._drawing.strangers)
        offers = [basis.offers for name, basis in _in_order(registry) if name not in strange]
        whole = {name: one for name, one in snapshot.routes.items() if one.candidates}
        assert registry._drawing.contested == from_nothing(reported, dict(snapshot.lessons))._drawing.contested
        assert registry._drawing.contested or whole == routes_of(offers)


def _in_order(registry: Registry) -> list[tuple[str, Any]]:
    return [(name, registry._drawing.bases[name]) for name in registry.snapshot.replicas]


def many(services: int = 500, tasks: int = 4) -> list[BackendSpec]:
    return [
        BackendSpec(
            f"vllm-{n}",
            addresses=tuple(Address(f"10.{n // 250}.{n % 250}.{k}", 8000, tenant=f"t{n}{k}") for k in range(tasks)),
            models=(f"m{n}",),
        )
        for n in range(services)
    ]


def best(times: list[float]) -> float:
    return min(times)


def test_a_lesson_and_a_change_cost_what_they_change() -> None:
    """Two thousand replicas: neither a lesson nor ten changed services may hold the event loop (processor time, best of five)."""
    registry = Registry(("swarm",))
    specs = many()
    registry.apply("swarm", seen(*specs), 1.0)
    names = list(registry.snapshot.replicas)
    lessons: list[float] = []
    for number in range(20):
        began = time.thread_time()
        registry.learn(names[number * 7], lesson(model(f"m{number * 7 // 4}"), at=2.0), 2.0)
        lessons.append(time.thread_time() - began)
    changes: list[float] = []
    for number in range(5):
        for n in range(10):
            old = specs[number * 10 + n]
            specs[number * 10 + n] = BackendSpec(old.name, addresses=old.addresses[1:], models=old.models)
        sweep = seen(*specs)
        began = time.thread_time()
        events = registry.apply("swarm", sweep, 3.0)
        changes.append(time.thread_time() - began)
        assert len(events) == 10
    assert best(lessons) < 0.005 * slowness()
    assert best(changes) < 0.010 * slowness()
    print(f"a lesson {1000 * best(lessons):.2f} ms, a change of ten services {1000 * best(changes):.2f} ms")


def test_blind_draws_nothing() -> None:
    registry = Registry()
    registry.apply("swarm", seen(backend("a", "t1")), 1.0)
    routes = registry.snapshot.routes
    registry.apply("swarm", Blind("gone"), 2.0)
    assert registry.snapshot.routes is routes


def stacks(*specs: BackendSpec, models: str = "m") -> Registry:
    """Every backend's engine lists the same model, which none of them declares."""
    registry = Registry()
    registry.apply("swarm", seen(*specs), 1.0)
    for name in registry.snapshot.replicas:
        registry.learn(name, lesson(model(models)), 2.0)
    return registry


def notes(registry: Registry) -> list[str]:
    return list(registry.snapshot.sources["swarm"].notes)


def serving(registry: Registry, name: str = "m") -> list[str]:
    return [one.backend.name for one in registry.snapshot.routes[name].candidates]


def test_a_model_that_engines_of_two_stacks_list_belongs_to_the_first() -> None:
    """Who may deploy a service must not get another's traffic, also not by a better priority; the note says why."""
    prod, evil = backend("prod_a", "t1", stack="prod"), backend("evil_a", "t2", stack="evil", priority=0)
    registry = stacks(prod, evil)
    assert serving(registry) == ["prod_a"]
    assert serving(registry, "evil_a") == ["evil_a"]
    assert notes(registry) == ["service evil_a does not serve m: it belongs to stack prod (shared_models allows it)"]
    registry.apply("swarm", seen(evil), 3.0)
    assert serving(registry) == ["evil_a"]
    assert notes(registry) == []


def test_sharing_may_be_allowed_and_needs_no_word_within_a_stack_or_without_one() -> None:
    for shares in (("m",), ("*",)):
        both = [backend(f"{name}_a", name, stack=name, shares=shares) for name in ("t1", "t2")]
        assert serving(stacks(*both)) == ["t1_a", "t2_a"]
    assert serving(stacks(*(backend(f"s_{name}", name, stack="s") for name in ("t1", "t2")))) == ["s_t1", "s_t2"]
    mixed = stacks(backend("own", "t0"), backend("a_x", "t1", stack="a"), backend("b_x", "t2", stack="b"))
    assert serving(mixed) == ["own", "a_x"]
