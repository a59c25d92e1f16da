"""Health: one breaker per (replica, model), fed by live traffic, probes and other workers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autohedge.core.types import Attempt, Candidate, Judgement, Outcome, Snapshot, Verdict
from autohedge.memory.entry import Opening, Rules
from autohedge.memory.health import WISHES, Health
from autohedge.memory.registry import Registry
from autohedge.memory.tuning import rules_of
from autohedge.rules.breaker import DEFAULT, Options
from autohedge.rules.standing import State, Tier, Via, Wish
from autohedge.rules.streak import Streak
from autohedge.settings.model import Settings
from tests.memory.patients import A, C, D, S, Ward, busy, candidate, probed, snapshot
from tests.support.fair import slowness
from tests.support.world import backend, seen

ONE, TWO, THREE = candidate("h1"), candidate("h2"), candidate("h3")


def pool(rules: Rules | None = None, *, others: tuple[Candidate, ...] = (TWO, THREE)) -> Ward:
    """Health in which ONE and the others have answered once."""
    ward = Ward(rules)
    for one in (ONE, *others):
        ward.probe(one, A)
    return ward


# --- what live traffic and probes do together -------------------------------------------------------------------------


def test_live_traffic_and_probes_feed_one_window() -> None:
    """Design decision 4: a replica that fails both is out by its share, told once, in the article's words."""
    ward = pool()
    ward.probe(ONE, *[A] * 6)
    ward.live(ONE, S)
    ward.probe(ONE, S)
    ward.live(ONE, S)
    assert ward.state(ONE) is State.CLOSED
    ward.probe(ONE, S)
    assert ward.state(ONE) is State.OPEN
    ((where, moved),) = ward.told
    assert (where, moved.old, moved.new, moved.reason) == ("b@h1:1", State.CLOSED, State.OPEN, "6/10 succeeded")


def test_a_neutral_probe_changes_nothing() -> None:
    """B13: 4xx to a probe is alive and unsuitable; a hundred of them open nothing and prove nothing."""
    ward = Ward()
    ward.probe(ONE, *[C] * 100)
    assert ward.state(ONE) is State.CLOSED
    assert ward.health.look(ONE, ward.now).tier is Tier.UNKNOWN
    (shown,) = ward.health.describe(ward.now)
    assert shown["probe"]["verdict"] == "capability"
    assert shown["known"] is False


def test_unknown_is_behind_the_known_and_still_usable() -> None:
    """Issue 3: routable only behind known-good ones until first evidence; where nothing else exists live traffic goes there."""
    ward = pool(others=())
    new = candidate("new")
    assert ward.health.look(new, ward.now).tier > ward.health.look(ONE, ward.now).tier
    assert ward.health.admit(new, ward.now).allowed
    assert ward.health.usable(snapshot(ONE, new), ward.now) == 2


def test_one_that_never_told_anything_is_not_usable() -> None:
    """Refused since the start and without a declared model it has no probe that could say so; /health must not count on it."""
    ward = Ward()
    dead, declared, heard = candidate("dead", ""), candidate("declared", "m"), candidate("heard", "")
    ward.live(heard, A)
    everybody = snapshot(dead, declared, heard)
    assert ward.health.usable(everybody, ward.now) == 3
    silent = {one.replica.id for one in (dead, declared, heard)}
    assert ward.health.usable(everybody, ward.now, silent) == 2
    eidex = Health(lambda: 0.5, None, rules=Rules(judge=Streak))
    assert eidex.usable(snapshot(dead), 0.0, silent) == 1  # its own pings decide there, and it begins well


def test_where_nobody_probes_unknown_is_good() -> None:
    """Somebody has to be first: probing off, or an external backend."""
    off = Health(lambda: 0.5, Options(probed=False))
    assert off.look(ONE, 0.0).tier is Tier.GOOD
    ward = Ward()
    assert ward.health.look(candidate("cloud", external=True), 0.0).tier is Tier.GOOD
    assert ward.health.look(ONE, 0.0).tier is Tier.UNKNOWN


@pytest.mark.parametrize("external", [False, True])
def test_an_unprobed_replica_comes_back_by_live_trials(external: bool) -> None:
    """Nobody will probe it, so a live request is its trial, one at a time."""
    cloud = candidate("cloud", external=external)
    ward = Ward(None if external else Rules(Options(probed=False), unprobed=Options(probed=False)))
    ward.live(cloud, A, D, D)
    assert ward.state(cloud) is State.OPEN
    ward.now += 20.0
    first = ward.health.admit(cloud, ward.now)
    assert first.allowed
    assert not ward.health.admit(cloud, ward.now).allowed
    assert ward.told[-1][1].new is State.HALF_OPEN


def test_what_comes_late_for_a_vanished_replica_is_dropped() -> None:
    """A running request or probe must not bring the forgotten back."""
    ward = pool()
    ward.health.keep_only([])
    ward.health.record(Attempt(ONE, 0.0, 1, outcome=Outcome(), judgement=Judgement(A)), ward.now)
    ward.health.probed(1, probed(ONE, A), ward.now)
    ward.health.heard(probed(ONE, A), ward.now)
    assert ward.health.pinged(probed(ONE, A, Via.LIGHT), ward.now) == []
    assert ward.health.describe(ward.now) == []


# --- the pool ---------------------------------------------------------------------------------------------------------


def test_the_last_one_stays_unless_another_rung_can_take_over() -> None:
    """7.1 last-replica rule; the article 4.4: its only vLLM hangs, and callers are better served by the next rung."""
    alone = pool(others=())
    alone.probe(ONE, *[S] * 20)
    assert alone.state(ONE) is State.CLOSED
    assert "last replica" in str(alone.health.describe(alone.now)[0]["held"])
    chained = pool(Rules(spare=lambda _candidate: True), others=())
    chained.probe(ONE, A, A, A, A, A, S, S)
    assert chained.state(ONE) is State.CLOSED
    chained.probe(ONE, S, S)
    assert chained.state(ONE) is State.OPEN


def test_a_flaky_last_one_is_held_even_with_a_chain() -> None:
    """While it still answers now and then it is not given up by its share."""
    ward = pool(Rules(spare=lambda _candidate: True), others=())
    ward.probe(ONE, *[S, S, A] * 20)
    assert ward.state(ONE) is State.CLOSED


def test_a_pool_is_one_model_and_forgets_its_dead() -> None:
    """Another model's replicas do not count, nor do vanished ones."""
    ward = pool(others=(TWO, candidate("h1", "other"), candidate("h4", "other")))
    ward.health.keep_only(["b@h1:1", "b@h4:1"])
    ward.probe(ONE, *[S] * 20)
    assert ward.state(ONE) is State.CLOSED


# --- probes -----------------------------------------------------------------------------------------------------------


def opened_by_probes() -> Ward:
    ward = pool()
    ward.probe(ONE, *[S] * 6)
    assert ward.state(ONE) is State.OPEN
    return ward


def test_a_replica_that_fails_its_probes_is_looked_at_and_returns_soon() -> None:
    """Acceptance 1: recovery closes within 15 s of health, however long the back-off has become."""
    ward = opened_by_probes()
    for _ in range(4):  # every trial fails, the back-off doubles
        ward.now = ward.health.entry(ONE, ward.now).breaker.retry_at
        ward.probe(ONE, S, S)
    breaker = ward.health.entry(ONE, ward.now).breaker
    assert breaker.retry_at - ward.now > 60.0
    assert ward.health.may_look(ONE, ward.now)
    ward.probe(ONE, A)  # without a lease
    assert ward.state(ONE) is State.OPEN
    ward.probe(ONE, A, A)
    assert ward.state(ONE) is State.CLOSED


def test_a_replica_that_pleases_its_probes_keeps_its_back_off() -> None:
    """Live traffic put it out while probes were fine: one look, and then its time."""
    ward = pool()
    ward.live(ONE, S, S, S)
    assert ward.state(ONE) is State.OPEN
    assert ward.health.may_look(ONE, ward.now)  # nobody probed it since
    before = ward.health.entry(ONE, ward.now).breaker.retry_at
    ward.probe(ONE, A)
    assert ward.health.entry(ONE, ward.now).breaker.retry_at == before
    assert not ward.health.may_look(ONE, ward.now)
    ward.now = before
    ward.probe(ONE, A, A)
    assert ward.state(ONE) is State.CLOSED


def test_live_failures_that_probes_confirm_are_looked_at() -> None:
    """The first look after the opening fails: from then on its probes tell."""
    ward = pool()
    ward.live(ONE, S, S, S)
    ward.probe(ONE, S)
    assert ward.health.may_look(ONE, ward.now)
    ward.probe(ONE, A, A, A)
    assert ward.state(ONE) is State.CLOSED


def test_refused_connections_are_looked_at_too() -> None:
    """B05: nobody listens; whoever is back is found by the next look."""
    ward = pool()
    ward.live(ONE, D, D)
    assert ward.health.entry(ONE, ward.now).breaker.hard
    ward.probe(ONE, A, A, A)
    assert ward.state(ONE) is State.CLOSED


def test_a_silent_probe_under_live_requests_is_neutral_for_a_while() -> None:
    """B08, B11, a lone busy replica: live requests are older and will tell; after 30 s without an answer it counts."""
    ward = pool()
    busy(ONE)
    try:
        for probe in ward.probe(ONE, S, S, S, S, S, S, silent=True, gap=4.0):
            assert probe.verdict is Verdict.BUSY
        assert ward.state(ONE) is State.CLOSED
        ward.live(ONE, A)  # a long prefill ended well: the time begins anew
        assert {probe.verdict for probe in ward.probe(ONE, *[S] * 7, silent=True, gap=4.0)} == {Verdict.BUSY}
        late = ward.probe(ONE, *[S] * 4, silent=True, gap=4.0)
        assert late[-1].verdict is S
    finally:
        ONE.replica.seat.in_flight = 0


def test_silence_counts_once_a_live_attempt_failed() -> None:
    """B01 under traffic: the live request that hung has told."""
    ward = pool()
    busy(ONE)
    try:
        ward.live(ONE, S)
        assert [probe.verdict for probe in ward.probe(ONE, S, silent=True)] == [S]
    finally:
        ONE.replica.seat.in_flight = 0


def test_silence_without_live_requests_counts() -> None:
    """And what is not silence counts under any load."""
    ward = pool()
    assert [probe.verdict for probe in ward.probe(ONE, S, silent=True)] == [S]
    busy(TWO)
    try:
        assert [probe.verdict for probe in ward.probe(TWO, D)] == [D]
    finally:
        TWO.replica.seat.in_flight = 0


def test_another_model_on_the_wire_is_told_in_its_own_words() -> None:
    """Identity mismatch: not routed, and the reason is not that of a refused key."""
    ward = pool()
    ward.probe(ONE, Verdict.MISCONFIGURED)
    assert ward.health.look(ONE, ward.now).tier is Tier.OUT
    assert ward.told[-1][1].reason == "it was misconfigured"
    assert ward.health.describe(ward.now)[0]["reason"] == "it was misconfigured"


def test_a_ping_counts_for_every_model_of_its_replica() -> None:
    """eidex: the worker is well or not, whatever it serves."""
    ward = Ward(rules_of(Settings.model_validate({"health": {"judge": "streak"}})))
    two = candidate("h1", "n")
    for one in (ONE, two):
        assert ward.health.look(one, ward.now).tier is Tier.GOOD  # optimistic
    for _ in range(2):
        told = ward.health.pinged(probed(ONE, S, Via.LIGHT), ward.now)
    assert [probe.model for _, probe in told] == ["m", "n"]
    assert {ward.health.look(one, ward.now).tier for one in (ONE, two)} == {Tier.RATIO}
    ward.health.pinged(probed(ONE, A, Via.DEEP), ward.now)
    assert ward.state(ONE) is State.OPEN  # the other probe is still down
    ward.health.pinged(probed(ONE, A, Via.LIGHT), ward.now)
    assert ward.state(ONE) is State.CLOSED


def test_a_light_probe_of_the_window_is_a_hint() -> None:
    """B08: 503 from /health opens nothing; two refused connections do."""
    ward = pool()
    for _ in range(50):
        ward.health.pinged(probed(ONE, S, Via.LIGHT), ward.now)
    assert ward.state(ONE) is State.CLOSED
    for _ in range(2):
        ward.health.pinged(probed(ONE, D, Via.LIGHT), ward.now)
    assert ward.state(ONE) is State.OPEN


@pytest.mark.parametrize(
    ("verdicts", "expected"), [((), None), ((A,), True), ((C,), True), ((Verdict.LOADING,), False), ((S,), False)]
)
def test_what_is_reachable(verdicts: tuple[Verdict, ...], expected: bool | None) -> None:
    """For the gate at the start: alive is enough, loading is not."""
    ward = Ward()
    ward.probe(ONE, *verdicts)
    assert ward.health.reachable(ONE.replica.id) is expected
    assert ward.health.awaits(ONE.replica.id) is False if verdicts else ward.health.reachable("nobody") is None
    assert bool(ward.health.why(ONE.replica.id)) is (expected is False)


def test_live_answers_make_it_reachable() -> None:
    """Traffic that another worker let in proves as much."""
    ward = Ward()
    ward.live(ONE, A)
    assert ward.health.reachable(ONE.replica.id) is True


# --- other workers ----------------------------------------------------------------------------------------------------


def test_another_worker_s_probes_open_and_close_here_as_well() -> None:
    """One leased prober works for all."""
    leader, follower = pool(), pool()
    for ward in (leader, follower):
        assert ward.state(ONE) is State.CLOSED
    leader.probe(ONE, *[S] * 6)
    follower.hear(ONE, *[S] * 6)
    assert leader.state(ONE) is follower.state(ONE) is State.OPEN
    follower.hear(ONE, A)
    assert follower.state(ONE) is State.HALF_OPEN
    follower.hear(ONE, A)
    assert follower.state(ONE) is State.CLOSED


def test_a_heard_failure_is_the_trial_that_is_due() -> None:
    """Otherwise a live request would have to be it."""
    ward = opened_by_probes()
    ward.now = ward.health.entry(ONE, ward.now).breaker.retry_at + 1.0
    ward.hear(ONE, S, S)
    breaker = ward.health.entry(ONE, ward.now).breaker
    assert breaker.state is State.OPEN
    assert breaker.retry_at > ward.now + 20.0
    assert not ward.health.admit(ONE, ward.now + 15.0).allowed


def test_heard_answers_do_not_shorten_what_live_traffic_opened() -> None:
    """The other worker's probes are fine, our callers fail."""
    ward = pool()
    ward.live(ONE, S, S, S)
    ward.hear(ONE, A, A, A)
    assert ward.state(ONE) is State.OPEN


def test_a_heard_hint_takes_no_lease() -> None:
    """Or it would hold up the real trial."""
    ward = opened_by_probes()
    ward.now = ward.health.entry(ONE, ward.now).breaker.retry_at
    ward.health.heard(probed(ONE, A, Via.LIGHT), ward.now)
    assert ward.state(ONE) is State.OPEN
    assert ward.health.lease(ONE, ward.now).allowed


def test_openings_survive_and_are_adopted() -> None:
    """A restart forgets none: they wait for the pair that is not known yet."""
    ward = pool()
    ward.live(ONE, D, D)
    (opening,) = ward.health.openings(ward.now)
    assert (opening.replica, opening.model, opening.hard, opening.level) == ("b@h1:1", "m", True, 1)
    assert opening.left == pytest.approx(15.0)
    fresh = Ward()
    fresh.health.adopt(opening, fresh.now)
    fresh.now += 5.0
    fresh.health.settle(snapshot(ONE, TWO, THREE), fresh.now)
    assert fresh.state(ONE) is State.OPEN
    assert fresh.health.openings(fresh.now)[0].left == pytest.approx(10.0)
    assert [moved.new for _, moved in fresh.told] == [State.OPEN]


def test_models_that_are_not_served_any_more_are_forgotten() -> None:
    """An Ollama loses models while its address stays; what a chain still asks for is kept."""
    ward = pool(others=(candidate("h1", "old"), candidate("h1", "chained")))
    for minute in range(20):
        ward.now += 60.0
        ward.health.admit(candidate("h1", "chained"), ward.now)
        ward.health.settle(snapshot(ONE), ward.now)
        assert len(ward.health.describe(ward.now)) == (3 if minute < 9 else 2)
    assert ward.health.find("b@h1:1", "old") is None
    assert ward.health.find("b@h1:1", "chained") is not None


def test_an_opening_whose_time_is_over_is_forgotten() -> None:
    """The replica is then simply unknown, and probed first."""
    ward = Ward()
    ward.health.adopt(Opening("b@h1:1", "m", 5.0, "x", hard=True, level=1), ward.now)
    ward.health.settle(snapshot(ONE), ward.now + 6.0)
    assert ward.state(ONE) is State.CLOSED


def test_adopted_soft_openings_never_take_out_more_than_half() -> None:
    """Each worker obeys the share; the union of their pictures must as well. Hard ones have no bound."""
    ward = pool()
    for one in (ONE, TWO, THREE):
        ward.health.adopt(Opening(one.replica.id, "m", 15.0, "6/10 succeeded", hard=False, level=1), ward.now)
    assert [ward.state(one) for one in (ONE, TWO, THREE)] == [State.OPEN, State.CLOSED, State.CLOSED]
    for one in (TWO, THREE):
        ward.health.adopt(Opening(one.replica.id, "m", 15.0, "refused", hard=True, level=1), ward.now)
    assert ward.health.usable(snapshot(ONE, TWO, THREE), ward.now) == 0


# --- new tasks and people ---------------------------------------------------------------------------------------------


def test_a_new_task_starts_afresh_and_may_load() -> None:
    """7.1: evidence is void; failures before the first answer are loading, also for models seen later."""
    ward = opened_by_probes()
    ward.health.begin(ONE.replica.id, ward.now)
    assert ward.state(ONE) is State.CLOSED
    assert ward.told[-1][1].reason == "new task"
    late = candidate("h1", "late")
    ward.live(ONE, D, D)
    ward.live(late, D, D)
    assert (ward.state(ONE), ward.state(late)) == (State.LOADING, State.LOADING)
    ward.probe(ONE, A)
    assert ward.state(ONE) is State.CLOSED


def test_a_begun_replica_that_was_well_changes_no_state() -> None:
    """Nothing to tell."""
    ward = pool()
    ward.health.begin(ONE.replica.id, ward.now)
    assert ward.told == []
    assert ward.health.look(ONE, ward.now).tier is Tier.UNKNOWN


def test_a_drained_replica_gets_nothing_new_and_is_still_observed() -> None:
    """The operator's wish stands over evidence and does not change it."""
    ward = pool()
    assert ward.health.force(ONE.replica.id, Wish.DRAIN) == 1
    assert ward.health.look(ONE, ward.now).tier is Tier.OUT
    ward.probe(ONE, *[S] * 6)
    assert ward.state(ONE) is State.OPEN
    assert ward.health.force(ONE.replica.id, Wish.NONE) == 1
    assert ward.health.wishes == []


def test_a_wish_for_one_model_and_for_all() -> None:
    """A model may be taken out of a drain; pairs that are seen later obey as well, also after the replica came back."""
    ward = pool()
    other, later = candidate("h1", "other"), candidate("h1", "later")
    ward.health.look(other, ward.now)
    assert ward.health.force(ONE.replica.id, Wish.DRAIN) == 2
    assert ward.health.force(ONE.replica.id, Wish.NONE, "other") == 1
    assert ward.health.look(other, ward.now).tier is Tier.UNKNOWN
    assert ward.health.look(later, ward.now).tier is Tier.OUT
    ward.health.keep_only([])
    assert ward.health.look(ONE, ward.now).tier is Tier.OUT
    assert ward.health.look(other, ward.now).tier is Tier.UNKNOWN
    ward.health.force(ONE.replica.id, Wish.OPEN, "other")
    assert ward.health.look(other, ward.now).tier is Tier.OUT
    assert ward.health.force("nobody", Wish.OPEN) == 0
    assert ward.health.force(ONE.replica.id, Wish.NONE) == 2
    assert {ward.health.look(one, ward.now).tier for one in (ONE, other)} == {Tier.UNKNOWN}


def test_wishes_are_bounded() -> None:
    """A deploy script that drains every task for ever does not fill the memory."""
    ward = Ward()
    for number in range(WISHES + 50):
        ward.health.force(f"b@h{number}:1", Wish.DRAIN)
    assert len(ward.health.wishes) == WISHES
    assert ward.health.wishes[-1] == (f"b@h{WISHES + 49}:1", None, Wish.DRAIN)


def test_what_the_admin_sees() -> None:
    """State, reason, evidence with ages, the latest probe, and why there is none."""
    ward = pool()
    ward.live(ONE, A)
    ward.health.spared(ONE, "live traffic proves it")
    ward.now += 2.0
    shown: dict[str, Any] = next(one for one in ward.health.describe(ward.now) if one["replica"] == "b@h1:1")
    assert (shown["backend"], shown["model"], shown["state"], shown["tier"]) == ("b", "m", "closed", "good")
    assert shown["judge"] == "2/2 succeeded"
    assert [piece["via"] for piece in shown["evidence"]] == ["probe", "live"]
    assert (shown["live_answer_s_ago"], shown["not_probed"], shown["probed"]) == (2.0, "live traffic proves it", True)
    assert shown["probe"] == {"verdict": "answer", "reason": "it was answer", "s_ago": 5.0, "took_s": 0.1}


def test_slow_first_bytes_rank_a_replica_down() -> None:
    """7.1 slow rule, fed by live attempts."""
    ward = Ward(rules_of(Settings.model_validate({"breaker": {"slow": "1s"}})))
    for _ in range(5):
        ward.now += 1.0
        admission = ward.health.admit(ONE, ward.now)
        attempt = Attempt(ONE, ward.now, admission.stamp, first_byte=ward.now + 2.0, outcome=Outcome())
        attempt.judgement = Judgement(A)
        ward.health.record(attempt, ward.now)
    assert ward.health.look(ONE, ward.now).tier is Tier.SLOW


# --- properties -------------------------------------------------------------------------------------------------------

RESULTS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(list(Verdict)),
        st.sampled_from(["probe", "hear", "live", "light"]),
        st.floats(0.0, 40.0),
        st.booleans(),
    ),
    max_size=80,
)


@settings(max_examples=200, deadline=None)
@given(RESULTS, st.booleans())
def test_no_sequence_of_results_leaves_a_pool_without_a_way_back(steps: list[Any], chained: bool) -> None:
    """Whatever probes, other workers and callers saw: when the engines answer again, probes at their cadence bring all of them
    back within the longest back-off, and without a prober live traffic does.
    """
    ward = Ward(Rules(spare=lambda _candidate: chained))
    ones = (ONE, TWO, THREE)
    for which, verdict, how, gap, certain in steps:
        ward.now += gap
        if how == "probe":
            ward.probe(ones[which], verdict, silent=certain)
        elif how == "hear":
            ward.hear(ones[which], verdict)
        elif how == "live":
            ward.live(ones[which], verdict, certain=certain, insist=certain)
        else:
            ward.health.pinged(probed(ones[which], verdict, Via.LIGHT), ward.now)
    later = ward.now + DEFAULT.cap + DEFAULT.patience + DEFAULT.lease
    assert all(ward.health.admit(one, later, insist=True).allowed for one in ones)
    while ward.now < later + DEFAULT.cap:
        ward.now += 3.0
        for one in ones:
            lease = ward.health.lease(one, ward.now)
            if lease.allowed or ward.health.may_look(one, ward.now):
                ward.health.probed(lease.stamp, probed(one, A), ward.now)
    assert [ward.state(one) for one in ones] == [State.CLOSED] * 3
    assert ward.health.usable(snapshot(*ones), ward.now) == 3


@settings(max_examples=100, deadline=None)
@given(RESULTS)
def test_soft_evidence_never_empties_a_pool(steps: list[Any]) -> None:
    """By ratio at most half are out, with openings of other workers mixed in."""
    ward = Ward()
    ones = (ONE, TWO, THREE)
    for one in ones:
        ward.probe(one, A)
    for which, verdict, _, gap, adopt in steps:
        ward.now += gap
        if verdict in (A, S):
            ward.probe(ones[which], verdict)
        if adopt:
            opening = Opening(ones[which].replica.id, "m", 15.0, "6/10 succeeded", hard=False, level=1)
            ward.health.adopt(opening, ward.now)
        out = sum(ward.health.entry(one, ward.now).breaker.view(ward.now).tier is Tier.RATIO for one in ones)
        assert out <= 1


def test_it_is_fast() -> None:
    """Acceptance 7: look, admit and record together within 5 us (here with a margin for a busy machine)."""
    health = Ward().health
    attempt = Attempt(ONE, 0.0, 1, first_byte=0.1, outcome=Outcome(), judgement=Judgement(A))
    health.look(ONE, 0.0)

    def round_of(number: int) -> float:
        began = time.process_time()
        for _ in range(number):
            health.look(ONE, 1.0)
            attempt.stamp = health.admit(ONE, 1.0).stamp
            health.record(attempt, 1.0)
        return (time.process_time() - began) / number

    best = min(round_of(2000) for _ in range(10))
    assert best < 10e-6 * slowness()


def test_a_replica_without_a_place_is_well_until_something_speaks_against_it() -> None:
    """A wildcard worker that nobody asked yet: optimistic."""
    ward = Ward()
    assert ward.health.well(ONE.replica, (), ward.now)
    ward.live(ONE, *[D] * 2)
    assert not ward.health.well(ONE.replica, (), ward.now)
    assert not ward.health.well(ONE.replica, (ONE,), ward.now)
    assert ward.health.well(TWO.replica, (TWO,), ward.now)


@pytest.mark.sources
def test_the_same_picture_is_gone_through_once_a_second() -> None:
    """Every round of every watcher settles first; with two thousand replicas only a new picture may cost that."""
    health = Health(lambda: 0.5)
    registry = Registry()
    registry.apply("one", seen(backend("a", "t1", models=("m",))), 1.0)
    everybody = Snapshot.everybody
    looked: list[Snapshot] = []

    def through(snapshot: Snapshot) -> Iterator[Candidate]:
        looked.append(snapshot)
        return everybody(snapshot)

    with mock.patch.object(Snapshot, "everybody", through):
        for now in (0.0, 0.1, 0.9):
            health.settle(registry.snapshot, now)
        assert len(looked) == 1
        health.settle(registry.snapshot, 1.0)
        registry.apply("one", seen(backend("a", "t2", models=("m",))), 1.0)
        health.settle(registry.snapshot, 1.1)
    assert len(looked) == 3
