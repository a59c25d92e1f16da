"""The ring of each set of candidates, kept; and what is told of it afterwards."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from autohedge.core.ask import Ask
from autohedge.core.types import (
    UNKNOWN_LIMITS,
    Address,
    BackendSpec,
    Candidate,
    Door,
    Kind,
    Replica,
    Route,
    Seat,
)
from autohedge.memory.affinity import Affinity, Order, Ringed
from autohedge.rules.balance import round_robin
from autohedge.settings.routing import Routing

ROUTING = Routing()


def candidate(name: str, busy: int = 0, priority: int = 50) -> Candidate:
    seat = Seat()
    seat.in_flight = busy
    replica = Replica(f"{name}@h", name, Address(name, 8000), seat)
    return Candidate(replica, BackendSpec(name, priority=priority), Kind.SGLANG, "dex", UNKNOWN_LIMITS)


def route(*names: str, spare: tuple[Candidate, ...] = ()) -> Route:
    return Route("dex", tuple(map(candidate, names)), frozenset({Kind.SGLANG}), spare=spare)


def ask(state: Any = "a document", door: Door = Door.SYSTEMONE) -> Ask:
    return Ask(door, "dex", obj={"state": state, "messages": [{"role": "user", "content": state}]})


def ringed(where: Route, state: Any = "a document", affinity: Affinity | None = None) -> Ringed:
    order = (affinity or Affinity()).order(ask(state), where, ROUTING)
    assert isinstance(order, Ringed)
    return order


def names(order: Order, candidates: tuple[Candidate, ...]) -> str:
    return "".join(one.backend.name for one in order(candidates))


def test_who_has_an_order_of_its_own() -> None:
    """E94: the policy is the System One door's; chats have one when `affinity` says so, other doors never."""
    affinity, three = Affinity(), route("a", "b", "c")
    assert isinstance(affinity.order(ask(), three, ROUTING), Ringed)
    assert affinity.order(ask(), three, Routing(policy="round_robin")) is round_robin
    assert affinity.order(ask(), three, Routing(policy="least_outstanding")) is None
    assert affinity.order(ask(door=Door.CHAT), three, ROUTING) is None
    assert isinstance(affinity.order(ask(door=Door.CHAT), three, Routing(affinity="prefix")), Ringed)
    assert affinity.order(ask(door=Door.EMBEDDINGS), three, Routing(affinity="prefix")) is None
    assert affinity.order(ask(), route("a"), ROUTING) is None


def test_a_lost_or_sick_candidate_moves_its_own_documents_only() -> None:
    """E65: another route without it, and the same route where it is not asked, agree."""
    affinity, whole, rest = Affinity(), route("a", "b", "c"), route("a", "b")
    for n in range(300):
        order = ringed(whole, f"doc {n}", affinity)
        first = names(order, whole.candidates)[0]
        without = names(ringed(rest, f"doc {n}", affinity), rest.candidates)[0]
        assert without == (first if first != "c" else names(order, whole.candidates).replace("c", "")[0])
        assert names(order, whole.candidates[:2])[0] == without


def test_the_same_place_on_every_ring() -> None:
    """A member stands where its address puts it, whatever its backend is called here."""
    one = route("a", "b", "c")
    other = Route(
        "dex",
        tuple(
            Candidate(Replica(f"x{n}", f"x{n}", c.replica.address, Seat()), c.backend, c.kind, "dex", c.limits)
            for n, c in enumerate(one.candidates)
        ),
        one.kinds,
    )
    for n in range(100):
        assert names(ringed(one, f"doc {n}"), one.candidates) == names(ringed(other, f"doc {n}"), other.candidates)


def test_rings_are_kept_by_the_candidates_of_a_route() -> None:
    affinity, where = Affinity(), route("a", "b", "c")
    ring = ringed(where, "x", affinity)._ring
    assert ringed(where, "y", affinity)._pool is ringed(where, "x", affinity)._pool
    assert ringed(route("c", "b", "a"), "y", affinity)._ring is ring  # a new snapshot with the same members
    assert ringed(route("a", "b"), "y", affinity)._ring is not ring
    order = affinity.order(ask(), where, Routing(virtual_nodes=7))
    assert isinstance(order, Ringed)
    assert order._ring.nodes == 7


def test_what_is_kept_is_bounded() -> None:
    affinity = Affinity()
    for n in range(1100):
        ringed(route("a", f"b{n % 120}"), "x", affinity)
    assert len(affinity._rings) <= 100
    assert len(affinity._at_hand) <= 1000


def test_no_document_goes_to_the_least_loaded() -> None:
    """E6."""
    where = Route("dex", (candidate("a", 2), candidate("b", 1)), frozenset())
    for state in (None, 5, True):
        order = ringed(where, state)
        assert names(order, where.candidates) == "ba"
        assert order.told(where.candidates[0], 1) == "none"


def test_why_a_request_went_where_it_went() -> None:
    """Hit share: home, failover, spill, skip."""
    where = route("a", "b", "c")
    order = ringed(where)
    home, second, third = order(where.candidates)
    assert order.home == home.replica.id
    assert order.told(home, 1) == "home"
    assert order.told(second, 2) == "failover"
    away = ringed(where)
    list(away([second, third]))  # home could not be asked
    assert away.told(second, 1) == "skip"
    hot = ringed(where)
    home.replica.seat.in_flight = 40
    assert next(iter(hot(where.candidates))) is second
    assert hot.told(second, 1) == "spill"


def test_documents_belong_to_those_of_the_best_priority() -> None:
    """A backend's own priority stands over the ring; the others get documents when none of the first can be asked."""
    where = Route("dex", (candidate("a", priority=1), candidate("b", priority=1), candidate("z")), frozenset())
    for n in range(50):
        order = ringed(where, f"doc {n}")
        assert order.home in {"a@h", "b@h"}
        assert names(order, where.candidates)[0] == order.home[0]
        at_home = order.at_home(where.candidates)
        assert at_home is not None
        assert at_home.replica.id == order.home
    assert names(ringed(where), where.candidates[2:]) == "z"


def test_spare_ones_stand_on_the_ring_and_own_no_document() -> None:
    """A wildcard is asked when no exact one can be: then documents spread over the wildcards, each to the same one."""
    where = route("a", "b", spare=(candidate("x"), candidate("y")))
    seen: Counter[str] = Counter()
    for n in range(200):
        order = ringed(where, f"doc {n}")
        assert order.home in {"a@h", "b@h"}
        seen[names(order, where.spare)[0]] += 1
    assert min(seen["x"], seen["y"]) > 60
    assert ringed(Route("dex", (), frozenset(), spare=where.spare)).home in {"x@h", "y@h"}


@pytest.mark.parametrize("c", [1.25, 2.0])
def test_acceptance_3(c: float) -> None:
    """3 workers, 20,000 documents, 3 rounds: each stays; one is lost: only its share moves; a hot key keeps the bound."""
    affinity, where = Affinity(), route("a", "b", "c")
    routing = Routing(bounded_load=c)

    def first(state: str, candidates: tuple[Candidate, ...] = where.candidates) -> Candidate:
        order = affinity.order(ask(state), where, routing)
        assert order is not None
        return next(iter(order(candidates)))

    documents = [f"document {n}" for n in range(20_000)]
    rounds = [[first(one).backend.name for one in documents] for _ in range(3 if c == 1.25 else 1)]
    assert all(one == rounds[0] for one in rounds)
    shares = Counter(rounds[0])
    assert all(abs(share - 20_000 / 3) < 0.15 * 20_000 / 3 for share in shares.values())
    rest = where.candidates[1:]
    moved = [old for old, one in zip(rounds[0], documents, strict=True) if first(one, rest).backend.name != old]
    assert set(moved) == {"a"}
    assert len(moved) == shares["a"]
    for placed in range(1, 301):
        first("hot").replica.seat.in_flight += 1
        assert max(one.replica.seat.in_flight for one in where.candidates) <= max(4, -(-c * placed // 3))
