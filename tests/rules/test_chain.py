"""The plan: rung by rung, with every skip explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from autohedge.core.types import (
    NOTHING,
    UNKNOWN_LIMITS,
    Address,
    BackendSpec,
    Candidate,
    Kind,
    Lesson,
    Replica,
    Route,
    Seat,
    Snapshot,
)
from autohedge.rules.balance import least_outstanding
from autohedge.rules.chain import Checks, Plan, Rung, RungKind, Skipped
from autohedge.rules.standing import Admission, Tier

OPEN = Admission(False, 1, "open: 3/10 succeeded", Tier.RATIO, failures=7)
DEAD = Admission(False, 1, "open: 2 connections in a row refused or reset", Tier.OUT)
READY = Admission(True, 1)


def at(tier: Tier, failures: int = 0) -> Admission:
    return Admission(tier <= Tier.UNKNOWN, 1, tier.name.lower(), tier, failures)


def candidate(name: str, served: str, kind: Kind = Kind.VLLM, *, external: bool = False) -> Candidate:
    backend = name.partition("@")[0]
    spec = BackendSpec(backend, kind, models=(served,), external=external)
    return Candidate(Replica(name, backend, Address("h", 1), Seat()), spec, kind, served, UNKNOWN_LIMITS)


A1, A2 = candidate("a@1", "qwen"), candidate("a@2", "qwen")
B1 = candidate("b@1", "vllm-13b")
C1 = candidate("c@1", "vllm-70b")
O1 = candidate("o@1", "llama3:8b", Kind.OLLAMA)
Z1 = candidate("az@1", "gpt-35-turbo", Kind.AZURE, external=True)
WORLD = (A1, A2, B1, C1, O1, Z1)
CHAIN = (
    Rung(RungKind.SWARM, ("vllm-13b", "vllm-70b")),
    Rung(RungKind.OLLAMA, ("llama3:8b",)),
    Rung(RungKind.EXTERNAL, backend="az", name="azure"),
)


def snapshot(candidates: Sequence[Candidate] = WORLD, lessons: Mapping[str, Lesson] = NOTHING) -> Snapshot:
    routes: dict[str, Route] = {}
    for one in candidates:
        old = routes[one.served].candidates if one.served in routes else ()
        routes[one.served] = Route(one.served, (*old, one), frozenset({one.kind}))
    backends = {one.backend.name: one.backend for one in candidates}
    replicas = {one.replica.id: one.replica for one in candidates}
    return Snapshot(1, routes, backends, replicas, lessons)


def plan(
    looks: Mapping[str, Admission] = NOTHING,
    unfit: Mapping[str, str] = NOTHING,
    retired: Mapping[str, str] = NOTHING,
    rungs: Sequence[Rung] = CHAIN,
    world: Snapshot | None = None,
    *,
    fallback: bool = True,
) -> Plan:
    checks = Checks(
        look=lambda one: looks.get(one.replica.id, READY),
        fits=lambda one: unfit.get(one.replica.id, ""),
        retired=lambda one: retired.get(one.replica.id, ""),
        order=least_outstanding,
    )
    world = world or snapshot()
    return Plan(world, world.routes["qwen"], checks, rungs, fallback=fallback)


def told(plan: Plan) -> list[tuple[int, str, str]]:
    return [(one.rung, one.replica.id, one.served) for one in plan]


def test_rung_by_rung_with_each_engines_own_model_name() -> None:
    """The article's chain: own replicas, peers in the Swarm in their order, Ollama, Azure."""
    assert told(plan()) == [
        (0, "a@1", "qwen"),
        (0, "a@2", "qwen"),
        (1, "b@1", "vllm-13b"),
        (1, "c@1", "vllm-70b"),
        (2, "o@1", "llama3:8b"),
        (3, "az@1", "gpt-35-turbo"),
    ]


def test_nothing_of_the_chain_is_looked_at_before_it_is_needed() -> None:
    """Most requests use the first candidate."""
    asked: list[str] = []

    def look(one: Candidate) -> Admission:
        asked.append(one.replica.id)
        return READY

    checks = Checks(look, lambda _: "", lambda _: "", least_outstanding)
    world = snapshot()
    next(iter(Plan(world, world.routes["qwen"], checks, CHAIN)))
    assert asked == ["a@1", "a@2"]


def test_known_good_before_slow_ramping_and_unknown() -> None:
    """7.1: new replicas only behind those that answered."""
    five = [candidate(f"a@{n}", "qwen") for n in range(5)]
    tiers = [Tier.UNKNOWN, Tier.RAMPING, Tier.GOOD, Tier.SLOW, Tier.GOOD]
    looks = {one.replica.id: at(tier) for one, tier in zip(five, tiers, strict=True)}
    order = [one for _, one, _ in told(plan(looks, rungs=(), world=snapshot(five)))]
    assert order == ["a@2", "a@4", "a@3", "a@1", "a@0"]


def test_what_is_left_out_is_explained() -> None:
    """Context, retired, open, hard-open: skipped, each with its reason."""
    walk = plan({"a@1": OPEN, "b@1": DEAD}, {"a@2": "context 8192 is too small"}, {"o@1": "retired (410)"})
    assert told(walk) == [(1, "c@1", "vllm-70b"), (3, "az@1", "gpt-35-turbo"), (0, "a@1", "qwen")]
    assert [(one.rung, one.where, one.reason) for one in walk.skipped] == [
        (0, "a@2", "context 8192 is too small"),
        (0, "a@1", "open: 3/10 succeeded"),
        (1, "b@1", "open: 2 connections in a row refused or reset"),
        (2, "o@1", "retired (410)"),
    ]


def test_panic_comes_after_the_whole_chain_and_takes_the_least_failures_first() -> None:
    """7.1: chain first; then loading ones, then softly opened ones; hard-opened ones never."""
    looks = {
        "a@1": at(Tier.RATIO, 7),
        "a@2": at(Tier.RATIO, 4),
        "b@1": DEAD,
        "c@1": DEAD,
        "o@1": at(Tier.LOADING),
    }
    walk = plan(looks)
    seen = iter(walk)
    assert next(seen).replica.id == "az@1"
    assert not walk.panic
    assert next(seen).replica.id == "o@1"
    assert not walk.panic
    assert [one.replica.id for one in seen] == ["a@2", "a@1"]
    assert walk.panic


def test_no_panic_while_half_of_the_pool_is_usable() -> None:
    """One of two is open: the other one and the chain have to do."""
    walk = plan({"a@1": OPEN})
    assert "a@1" not in [one for _, one, _ in told(walk)]
    assert not walk.panic


def test_nothing_at_all_is_an_empty_plan_with_reasons() -> None:
    walk = plan(dict.fromkeys(("a@1", "a@2"), DEAD), rungs=())
    assert told(walk) == []
    assert len(walk.skipped) == 2


def test_no_fallback_stays_on_the_first_rung() -> None:
    """X-AutoHedge-No-Fallback and `fallback: off`: the rungs are named, not used; panic stays possible."""
    walk = plan({"a@1": OPEN, "a@2": OPEN}, fallback=False)
    assert [one for _, one, _ in told(walk)] == ["a@1", "a@2"]
    assert [(one.rung, one.where, one.reason) for one in walk.skipped[2:]] == [
        (1, "swarm vllm-13b vllm-70b", "fallback is off for this request"),
        (2, "ollama llama3:8b", "fallback is off for this request"),
        (3, "azure", "fallback is off for this request"),
    ]


def test_fallback_can_be_switched_off_on_the_way() -> None:
    walk = plan()
    seen = iter(walk)
    next(seen)
    next(seen)
    walk.fallback = False
    assert list(seen) == []


def test_what_an_earlier_rung_offered_is_not_offered_again() -> None:
    """The article's own chain names the model that was asked for."""
    walk = plan(rungs=(Rung(RungKind.SWARM, ("qwen",)), *CHAIN[1:2]))
    assert [one for _, one, _ in told(walk)] == ["a@1", "a@2", "o@1"]
    assert walk.skipped == [Skipped(1, "swarm qwen", "offered by an earlier rung")]


def test_a_rung_that_nobody_serves_says_so() -> None:
    walk = plan(rungs=(Rung(RungKind.STATIC, ("nope",)), Rung(RungKind.EXTERNAL, backend="gone")))
    told(walk)
    assert [one.reason for one in walk.skipped] == [
        "no backend of this rung serves 'nope'",
        "no backend of this rung serves 'qwen'",
    ]


def test_swarm_rungs_never_cost_money() -> None:
    """A name that an external account serves too needs a rung of its own."""
    world = snapshot((A1, candidate("paid@1", "vllm-13b", external=True)))
    assert told(plan(rungs=CHAIN[:1], world=world)) == [(0, "a@1", "qwen")]


def test_an_ollama_rung_asks_ollama_only() -> None:
    """The same model name on vLLM is not that rung's business; an Ollama that was never heard may have it."""
    other = candidate("v@1", "llama3:8b")
    silent = candidate("local@1", "other", Kind.OLLAMA)
    world = snapshot((A1, other, silent))
    assert told(plan(rungs=CHAIN[1:2], world=world)) == [(0, "a@1", "qwen"), (1, "local@1", "llama3:8b")]
    heard = snapshot((A1, other, silent), {"local@1": Lesson(Kind.OLLAMA)})
    assert told(plan(rungs=CHAIN[1:2], world=heard)) == [(0, "a@1", "qwen")]


@pytest.mark.parametrize(
    ("rung", "served"),
    [
        (Rung(RungKind.EXTERNAL, backend="az"), "gpt-35-turbo"),
        (Rung(RungKind.EXTERNAL, ("gpt-4",), "az"), "gpt-4"),
    ],
)
def test_an_external_rung_uses_its_backend(rung: Rung, served: str) -> None:
    """Endpoint -> backend of the configuration; its first declared model unless the rung names one."""
    assert told(plan(rungs=(rung,)))[-1] == (1, "az@1", served)


def test_an_external_backend_without_models_gets_the_name_that_was_asked_for() -> None:
    spec = BackendSpec("ext", Kind.OPENAI, aliases={"qwen": "qwen-max"}, external=True)
    replica = Replica("ext@1", "ext", Address("h", 443, tls=True), Seat())
    base = snapshot((A1,))
    world = Snapshot(1, base.routes, {"a": A1.backend, "ext": spec}, {"a@1": A1.replica, "ext@1": replica})
    walk = list(plan(rungs=(Rung(RungKind.EXTERNAL, backend="ext"),), world=world))
    assert [(one.served, one.rung, one.known) for one in walk[1:]] == [("qwen-max", 1, False)]


def test_a_rung_without_names_asks_for_the_model_of_the_request() -> None:
    world = snapshot((A1, A2))
    walk = plan(rungs=(Rung(RungKind.SWARM),), world=world)
    assert len(told(walk)) == 2
    assert walk.skipped[-1].reason == "offered by an earlier rung"


def test_spare_ones_are_offered_where_no_own_one_is() -> None:
    """E29: wildcards when every exact worker is out, and only then; the chain comes after them."""
    spare = candidate("any@1", "")
    route = Route("qwen", (A1, A2), frozenset({Kind.VLLM}), spare=(spare,))

    def names(looks: Mapping[str, Admission]) -> list[str]:
        checks = Checks(lambda one: looks.get(one.replica.id, READY), lambda _: "", lambda _: "", least_outstanding)
        return [one.replica.id for one in Plan(snapshot(), route, checks, (Rung(RungKind.SWARM, ("vllm-13b",)),))]

    assert names({}) == ["a@1", "a@2", "b@1"]
    assert names({"a@1": DEAD}) == ["a@2", "b@1"]
    assert names({"a@1": DEAD, "a@2": DEAD}) == ["any@1", "b@1"]
