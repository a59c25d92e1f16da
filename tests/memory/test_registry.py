"""The registry: what it keeps, what it drops, what it tells."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autohedge.core.types import (
    Appeared,
    BackendSpec,
    Blind,
    Changed,
    DiscoveryEvent,
    Kind,
    Rank,
    Seen,
    Snapshot,
    SourceView,
    Sweep,
    Vanished,
)
from autohedge.memory.merging import endpoint
from autohedge.memory.registry import Registry, nearest
from tests.support.world import backend, failed, lesson, model, place, seen


def context(registry: Registry, name: str, index: int = 0) -> tuple[int, Rank] | None:
    fact = registry.snapshot.routes[name].candidates[index].limits.context
    return (fact.value, fact.rank) if fact is not None else None


def test_two_endpoints_appear_in_order() -> None:
    """B2: one model on two endpoints; the model is known at once, unconfirmed."""
    registry = Registry()
    spec = backend("qwen", "h1", "h2", models=("m",))
    events = registry.apply("static", seen(spec), 5.0)
    assert events == [Appeared(replace(spec, origins=("static",)))]
    snapshot = registry.snapshot
    assert list(snapshot.replicas) == ["qwen@h1:8000", "qwen@h2:8000"]
    assert [candidate.known for candidate in snapshot.routes["m"].candidates] == [False, False]
    assert snapshot.sources == {"static": SourceView("static", seen_at=5.0)}


def test_the_same_look_twice_tells_nothing() -> None:
    """B20: idempotent; only the time of the look moves, the version stays."""
    registry = Registry()
    registry.apply("swarm", seen(backend("a", "t1")), 1.0)
    before = registry.snapshot
    assert registry.apply("swarm", seen(backend("a", "t1")), 2.0) == []
    assert registry.snapshot.version == before.version
    assert registry.snapshot.routes is before.routes
    assert registry.snapshot.sources["swarm"].seen_at == 2.0
    assert before.sources["swarm"].seen_at == 1.0


def test_a_late_report_repairs_the_order() -> None:
    """B21: an alias whose model the engine lists only later is mapped then, and is not lost before."""
    registry = Registry()
    registry.apply("static", seen(backend("svc", "t1", aliases={"chat": "qwen"})), 1.0)
    registry.learn("svc@t1:8000", lesson(model("base"), model("other")), 1.0)
    assert not registry.snapshot.routes["chat"].candidates[0].known
    registry.learn("svc@t1:8000", lesson(model("base"), model("qwen-7b", "qwen"), at=2.0), 2.0)
    candidate = registry.snapshot.routes["chat"].candidates[0]
    assert (candidate.served, candidate.known) == ("qwen-7b", True)


def test_a_change_of_address_removes_the_old_and_adds_the_new() -> None:
    """B22: the event holds both; the untouched replica stays the same object, and its seat keeps counting."""
    registry = Registry()
    registry.apply("swarm", seen(backend("a", "t1", "t2")), 1.0)
    kept = registry.snapshot.replicas["a@t2:8000"]
    kept.seat.in_flight = 3
    (event,) = registry.apply("swarm", seen(backend("a", "t2", "t3")), 2.0)
    assert isinstance(event, Changed)
    assert event.old.addresses == (place("t1"), place("t2"))
    assert event.new.addresses == (place("t2"), place("t3"))
    assert list(registry.snapshot.replicas) == ["a@t2:8000", "a@t3:8000"]
    assert registry.snapshot.replicas["a@t2:8000"] is kept
    assert kept.seat.in_flight == 3


def test_what_a_source_no_longer_sees_vanishes() -> None:
    """B24: no models are left; deleting what is not there is nothing."""
    registry = Registry()
    spec = backend("a", "t1", models=("m",))
    registry.apply("swarm", seen(spec), 1.0)
    assert registry.apply("swarm", seen(), 2.0) == [Vanished(replace(spec, origins=("swarm",)))]
    assert registry.snapshot.routes == {}
    assert registry.snapshot.replicas == {}
    assert registry.apply("swarm", seen(), 3.0) == []


def test_blind_keeps_everything() -> None:
    """B29: a failed look is noted with its reason and removes nothing; the next good look clears the note."""
    registry = Registry()
    registry.apply("swarm", seen(backend("a", "t1", models=("m",))), 1.0)
    before = registry.snapshot
    assert registry.apply("swarm", Blind("docker.sock: connection refused"), 9.0) == []
    assert registry.snapshot.routes is before.routes
    assert registry.snapshot.sources["swarm"] == SourceView("swarm", 1.0, "docker.sock: connection refused")
    registry.apply("swarm", seen(backend("a", "t1", models=("m",))), 10.0)
    assert registry.snapshot.sources["swarm"] == SourceView("swarm", 10.0)


def test_a_source_that_was_blind_from_the_start() -> None:
    """It never saw: no time, a reason, no backends."""
    registry = Registry()
    registry.apply("dns", Blind("no resolver"), 1.0)
    assert registry.snapshot.sources == {"dns": SourceView("dns", 0.0, "no resolver")}


def test_one_endpoint_of_two_sources() -> None:
    """B28: one replica with both origins; it goes only when the last origin dropped it."""
    registry = Registry()
    registry.apply("static", seen(backend("a", "t1")), 1.0)
    registry.apply("swarm", seen(backend("a", "t1")), 1.0)
    replica = registry.snapshot.replicas["a@t1:8000"]
    assert registry.snapshot.backends["a"].origins == ("static", "swarm")
    (event,) = registry.apply("static", seen(), 2.0)
    assert isinstance(event, Changed)
    assert event.new.origins == ("swarm",)
    assert registry.snapshot.replicas["a@t1:8000"] is replica
    registry.apply("swarm", Blind("down"), 3.0)
    assert "a@t1:8000" in registry.snapshot.replicas
    (event,) = registry.apply("swarm", seen(), 4.0)
    assert isinstance(event, Vanished)
    assert registry.snapshot.replicas == {}


def test_precedence_of_sources_does_not_depend_on_who_was_first() -> None:
    """The configured order decides, not which look came back sooner."""
    one, two = Registry(("static", "swarm")), Registry(("static", "swarm"))
    static, swarm = seen(backend("mine", "t1")), seen(backend("svc", "t1"))
    one.apply("static", static, 1.0)
    one.apply("swarm", swarm, 1.0)
    two.apply("swarm", swarm, 1.0)
    two.apply("static", static, 1.0)
    assert list(one.snapshot.backends) == list(two.snapshot.backends) == ["mine"]


def test_decisions_about_names_are_told_once() -> None:
    """Notes of a source and of merging stand beside each other, and do not pile up with every look."""
    registry = Registry()
    registry.apply("static", seen(backend("a", "s1")), 1.0)
    registry.apply("swarm", Seen((backend("a", "t1"),), ("service b: no port",)), 1.0)
    for second in range(3):
        registry.apply("static", seen(backend("a", "s1")), 2.0 + second)
    notes = registry.snapshot.sources["swarm"].notes
    assert notes[0] == "service b: no port"
    assert len(notes) == 2
    assert "called a~swarm here" in notes[1]


def test_a_renamed_backend_takes_its_seat_along() -> None:
    """A cap holds over the requests in flight even when sources begin to disagree about a name."""
    registry = Registry()
    registry.apply("swarm", seen(backend("a", "t1")), 1.0)
    seat = registry.snapshot.replicas["a@t1:8000"].seat
    registry.apply("swarm", seen(backend("b", "t1")), 2.0)
    assert registry.snapshot.replicas["b@t1:8000"].seat is seat


def test_the_cap_follows_the_configuration() -> None:
    """Seat.cap is the backend's concurrency, also when it changes while requests run."""
    registry = Registry()
    registry.apply("static", seen(backend("a", "t1", concurrency=2)), 1.0)
    seat = registry.snapshot.replicas["a@t1:8000"].seat
    assert seat.cap == 2
    registry.apply("static", seen(backend("a", "t1")), 2.0)
    assert registry.snapshot.replicas["a@t1:8000"].seat is seat
    assert seat.cap is None


def test_the_scheme_may_change_under_a_replica() -> None:
    """Same host and port, now with TLS: a new address in a new replica, the same seat."""
    registry = Registry()
    registry.apply("static", seen(backend("a", "t1")), 1.0)
    seat = registry.snapshot.replicas["a@t1:8000"].seat
    registry.apply("static", seen(replace(backend("a"), addresses=(replace(place("t1"), tls=True),))), 2.0)
    assert registry.snapshot.replicas["a@t1:8000"].address.tls
    assert registry.snapshot.replicas["a@t1:8000"].seat is seat


def test_a_failed_lesson_keeps_the_older_one() -> None:
    """The models stay with their time; the reason is noted until the engine answers again."""
    registry = Registry()
    registry.apply("static", seen(backend("a", "t1")), 1.0)
    registry.learn("a@t1:8000", lesson(model("m", context=400, at=2.0), at=2.0), 2.0)
    routes = registry.snapshot.routes["m"]
    registry.learn("a@t1:8000", failed("first byte timeout"), 62.0)
    kept = registry.snapshot.lessons["a@t1:8000"]
    assert (kept.kind, kept.at, kept.failed) == (Kind.VLLM, 2.0, "first byte timeout")
    assert registry.snapshot.routes["m"] == routes
    version = registry.snapshot.version
    registry.learn("a@t1:8000", failed("first byte timeout"), 63.0)
    assert registry.snapshot.version == version
    registry.learn("a@t1:8000", lesson(model("n"), at=64.0), 64.0)
    assert registry.snapshot.lessons["a@t1:8000"].failed == ""
    assert set(registry.snapshot.routes) == {"n", "a"}


def test_a_first_lesson_that_failed_leaves_nothing() -> None:
    """Nothing older to keep: the replica was not heard yet, its declared model stays unconfirmed."""
    registry = Registry()
    registry.apply("static", seen(backend("a", "t1", models=("m",))), 1.0)
    before = registry.snapshot
    registry.learn("a@t1:8000", failed(), 1.0)
    assert registry.snapshot is before
    assert registry.snapshot.lessons == {}


def test_what_is_gone_teaches_nothing() -> None:
    """A late answer of a vanished replica is dropped, and a replica that comes back starts afresh."""
    registry = Registry()
    registry.apply("swarm", seen(backend("a", "t1")), 1.0)
    registry.learn("a@t1:8000", lesson(model("m", context=400)), 1.0)
    registry.teach("a@t1:8000", "m", {"context": 100}, 1.0)
    registry.apply("swarm", seen(), 2.0)
    registry.learn("a@t1:8000", lesson(model("m")), 2.0)
    registry.teach("a@t1:8000", "m", {"context": 100}, 2.0)
    assert registry.snapshot.lessons == {}
    registry.apply("swarm", seen(backend("a", "t1", models=("m",))), 3.0)
    assert context(registry, "m") is None


def test_a_refusal_teaches_until_the_engine_answers_anew() -> None:
    """B41, B47, T6: the error's figure beats the older answer; a newer answer beats the error."""
    registry = Registry()
    registry.apply("static", seen(backend("a", "t1", "t2")), 1.0)
    for where in ("a@t1:8000", "a@t2:8000"):
        registry.learn(where, lesson(model("m", context=8192, at=1.0)), 1.0)
    registry.teach("a@t1:8000", "m", {"context": 4096}, 2.0)
    assert context(registry, "m", 0) == (4096, Rank.ERROR)
    assert context(registry, "m", 1) == (8192, Rank.ENGINE)
    version = registry.snapshot.version
    registry.teach("a@t1:8000", "m", {"context": 4096}, 3.0)
    assert registry.snapshot.version == version
    registry.learn("a@t1:8000", lesson(model("m", context=8192, at=4.0), at=4.0), 4.0)
    assert context(registry, "m", 0) == (8192, Rank.ENGINE)


def test_what_an_engine_never_says_is_learned_from_its_errors() -> None:
    """B50: a provider that lists no lengths; the figure stays through later answers, figures of two errors add up."""
    registry = Registry()
    registry.apply("static", seen(backend("deepseek", "api", external=True, models=("chat",))), 1.0)
    registry.learn("deepseek@api:8000", lesson(model("chat"), kind=Kind.OPENAI), 1.0)
    registry.teach("deepseek@api:8000", "chat", {"max_output": 8192}, 2.0)
    registry.teach("deepseek@api:8000", "chat", {"context": 65536}, 3.0)
    registry.learn("deepseek@api:8000", lesson(model("chat"), kind=Kind.OPENAI, at=9.0), 9.0)
    limits = registry.snapshot.routes["chat"].candidates[0].limits
    assert limits.max_output is not None
    assert (limits.max_output.value, context(registry, "chat")) == (8192, (65536, Rank.ERROR))


def test_teaching_about_a_name_that_is_not_served_is_ignored() -> None:
    """Memory cannot be filled with invented names."""
    registry = Registry()
    registry.apply("static", seen(backend("a", "t1", models=("m",))), 1.0)
    before = registry.snapshot
    registry.teach("a@t1:8000", "nope", {"context": 1}, 2.0)
    registry.teach("a@t1:8000", "m", {}, 2.0)
    assert registry.snapshot is before


def test_a_source_that_is_no_longer_configured() -> None:
    """Forgetting a source drops what only it reported, and its line in the status."""
    registry = Registry()
    registry.apply("static", seen(backend("a", "t1")), 1.0)
    registry.apply("file", seen(backend("b", "t2")), 1.0)
    (event,) = registry.forget("file")
    assert isinstance(event, Vanished)
    assert list(registry.snapshot.backends) == ["a"]
    assert list(registry.snapshot.sources) == ["static"]
    assert registry.forget("never") == []


def test_the_snapshot_is_frozen() -> None:
    """Neither its fields nor its mappings can be written."""
    registry = Registry()
    registry.apply("static", seen(backend("a", "t1", models=("m",))), 1.0)
    snapshot: Any = registry.snapshot
    with pytest.raises(FrozenInstanceError):
        snapshot.version = 9
    for name in ("routes", "backends", "replicas", "lessons", "sources"):
        with pytest.raises(TypeError):
            getattr(snapshot, name)["x"] = 1


def test_offers_of_untouched_replicas_are_taken_over() -> None:
    """Learning about one replica does not compute the others again: their candidates stay the same objects."""
    registry = Registry()
    registry.apply("static", seen(backend("a", "t1", "t2")), 1.0)
    registry.learn("a@t1:8000", lesson(model("m")), 1.0)
    first = registry.snapshot.routes["m"].candidates[0]
    registry.learn("a@t2:8000", lesson(model("m")), 1.0)
    assert registry.snapshot.routes["m"].candidates[0] is first


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("Qwen2-7B", ["qwen/qwen2-7b"]),
        ("dexx", ["dex"]),
        ("/models/qwen2-7b", ["qwen/qwen2-7b"]),
        ("gpt-4o-minl", ["gpt-4o-mini", "gpt-4o"]),
        ("zzzzzz", []),
        ("", []),
        ("x" * 1_000_000, []),
    ],
)
def test_nearest(asked: str, expected: list[str]) -> None:
    """B30: a 404 names the models that were probably meant."""
    assert nearest(asked, ["dex", "gpt-4o", "gpt-4o-mini", "qwen/qwen2-7b"]) == expected


# --- any sequence of looks, lessons and refusals ----------------------------------------------------------------------

SOURCES = ("static", "swarm", "workers")
HOSTS = st.sampled_from(["t1", "t2", "t3", "t4"])
SPECS = st.builds(
    lambda name, hosts, models, concurrency: backend(name, *hosts, models=tuple(models), concurrency=concurrency),
    st.sampled_from("ab"),
    st.lists(HOSTS, max_size=3),
    st.lists(st.sampled_from("mn"), max_size=2, unique=True),
    st.none() | st.integers(1, 3),
)
SWEEPS = st.one_of(
    st.builds(Blind, st.just("down")),
    st.builds(Seen, st.lists(SPECS, max_size=2, unique_by=lambda spec: spec.name).map(tuple)),
)
LESSONS = st.one_of(
    st.just(failed()), st.lists(st.sampled_from("mno"), unique=True).map(lambda names: lesson(*map(model, names)))
)
APPLY = st.tuples(st.just("apply"), st.sampled_from(SOURCES), SWEEPS)
LEARN = st.tuples(st.just("learn"), st.integers(0, 5), LESSONS)
TEACH = st.tuples(st.just("teach"), st.integers(0, 5), st.sampled_from("mn"))


def replayed(picture: dict[str, BackendSpec], events: list[DiscoveryEvent]) -> None:
    """Keep a picture by events only, as a reader of events would; every event must fit."""
    for event in events:
        if isinstance(event, Appeared):
            assert event.spec.name not in picture
            picture[event.spec.name] = event.spec
        elif isinstance(event, Changed):
            assert picture[event.old.name] == event.old
            assert event.old != event.new
            picture[event.new.name] = event.new
        else:
            assert picture.pop(event.spec.name) == event.spec


def check(snapshot: Snapshot, reported: dict[str, tuple[BackendSpec, ...]]) -> None:
    """What must hold of every snapshot, given what each source reported last."""
    origins: dict[object, set[str]] = {}
    twice = set()
    for source, specs in reported.items():
        mine: set[object] = set()
        for spec in specs:
            places = {endpoint(address) for address in spec.addresses}
            twice |= places & mine
            mine |= places
        for where in mine:
            origins.setdefault(where, set()).add(source)
    found: dict[object, list[str]] = {}
    for name, replica in snapshot.replicas.items():
        where = endpoint(replica.address)
        assert replica.id == name
        found.setdefault(where, []).append(name)
        spec = snapshot.backends[replica.backend]
        assert replica.address in spec.addresses
        assert replica.seat.cap == spec.concurrency
        assert where in twice or origins[where] <= set(spec.origins)
    assert set(found) == set(origins)
    assert all(len(names) == 1 for where, names in found.items() if where not in twice)
    assert set(snapshot.lessons) <= set(snapshot.replicas)
    for name, route in snapshot.routes.items():
        assert route.model == name
        assert route.candidates or any(spec.listed for spec in snapshot.backends.values())
        assert route.kinds == {candidate.kind for candidate in route.candidates}
        for candidate in route.candidates:
            assert snapshot.replicas[candidate.replica.id] is candidate.replica
            assert snapshot.backends[candidate.replica.backend] is candidate.backend
        assert len({candidate.replica.id for candidate in route.candidates}) == len(route.candidates)


def shown(snapshot: Snapshot) -> str:
    return repr((snapshot.version, dict(snapshot.routes), dict(snapshot.lessons), dict(snapshot.sources)))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(APPLY, LEARN, TEACH), max_size=15))
def test_any_history_keeps_the_rules(history: list[tuple[str, Any, Any]]) -> None:
    """B20-B24, B28, B29: no replica lost under Blind, origins right, seats kept, events complete, old snapshots unmoved."""
    registry = Registry()
    reported: dict[str, tuple[BackendSpec, ...]] = {}
    by_events: dict[str, BackendSpec] = {}
    for step, (verb, where, what) in enumerate(history):
        before, text = registry.snapshot, shown(registry.snapshot)
        if verb == "apply":
            sweep: Sweep = what
            replayed(by_events, registry.apply(where, sweep, float(step)))
            if isinstance(sweep, Seen):
                reported[where] = sweep.backends
                assert registry.apply(where, sweep, float(step)) == []
            else:
                assert registry.snapshot.routes is before.routes
        else:
            replica = (list(before.replicas) or ["a@gone:8000"])[where % max(1, len(before.replicas))]
            if verb == "learn":
                registry.learn(replica, what, float(step))
            else:
                registry.teach(replica, what, {"context": step + 1}, float(step))
        after = registry.snapshot
        check(after, reported)
        assert shown(before) == text
        assert by_events == after.backends
        for name, replica_after in after.replicas.items():
            assert name not in before.replicas or before.replicas[name] is replica_after


def test_wildcards_stand_beside_the_routes() -> None:
    """eidex's worker without a model_id: one candidate of each replica, under no name; everybody holds both."""
    registry = Registry()
    registry.apply("workers", seen(backend("any", "t1", "t2", takes_any=True, exact=True)), 1.0)
    registry.apply("static", seen(backend("dex", "t3", models=("dex",))), 1.0)
    snapshot = registry.snapshot
    assert [(one.replica.id, one.served) for one in snapshot.wild] == [("any@t1:8000", ""), ("any@t2:8000", "")]
    assert list(snapshot.routes) == ["dex"]
    assert {one.replica.id for one in snapshot.everybody()} == {"any@t1:8000", "any@t2:8000", "dex@t3:8000"}
    registry.learn("any@t1:8000", lesson(model("served")), 1.0)
    assert [one.served for one in registry.snapshot.wild] == ["served", ""]
    registry.apply("workers", seen(), 2.0)
    assert registry.snapshot.wild == ()
