"""The breaker under any sequence of outcomes: what must hold whatever happens."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from autohedge.core.types import Verdict
from autohedge.rules.breaker import Breaker, Options
from autohedge.rules.pool import hold
from autohedge.rules.standing import ALIVE, State, Tier, Via, Wish
from autohedge.rules.window import Window

Step = tuple[float, Verdict, float, Via, bool]
STEPS = st.lists(
    st.tuples(
        st.floats(0.0, 200.0),
        st.sampled_from(list(Verdict)),
        st.floats(0.0, 0.999),
        st.sampled_from(list(Via)),
        st.booleans(),
    ),
    max_size=60,
)
COUNTED = {Verdict.ANSWER, Verdict.SICK, Verdict.DEAD}


def lived(breaker: Breaker, steps: list[Step]) -> Iterator[float]:
    """Feed the steps: probes ask for a lease, live requests for admission; some results come back late."""
    now = 0.0
    for gap, verdict, draw, via, late in steps:
        now += gap
        asked = breaker.admit(now, draw) if via is Via.LIVE else breaker.lease(now)
        stamp = asked.stamp - 1 if late and not asked.allowed else asked.stamp
        breaker.record(stamp, verdict, now, draw, via=via)
        yield now


@settings(max_examples=300, deadline=None)
@given(STEPS, st.booleans())
def test_there_is_always_a_way_back(steps: list[Step], probed: bool) -> None:
    """Never stuck: after the longest back-off something may try, and a replica that answers closes within two trials."""
    breaker = Breaker(Window(), Options(probed=probed))
    now = 0.0
    for now in lived(breaker, steps):  # noqa: B007
        pass
    now += 400.0
    for _ in range(2):
        if breaker.state is State.CLOSED:
            break
        asked = breaker.lease(now) if probed else breaker.admit(now)
        assert asked.allowed, (breaker.state, asked.why)
        breaker.record(asked.stamp, Verdict.ANSWER, now, via=Via.DEEP if probed else Via.LIVE)
    assert breaker.state is State.CLOSED
    assert breaker.admit(now + 60.0, 0.99).allowed


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_live_traffic_finds_a_way_back_when_the_prober_is_gone(steps: list[Step]) -> None:
    """The prober may die: 30 s later than planned, live traffic is the trial."""
    breaker = Breaker(Window())
    now = 0.0
    for now in lived(breaker, steps):  # noqa: B007
        pass
    now += 500.0
    assert breaker.admit(now).allowed


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_nothing_is_ever_negative(steps: list[Step]) -> None:
    """Levels, failures, ages and waits never fall below zero, and back-off never exceeds its cap."""
    breaker = Breaker(Window())
    for now in lived(breaker, steps):
        seen = breaker.describe(now)
        assert breaker.level >= 0
        assert breaker.failures >= 0
        assert breaker.retry_at - now <= 300.0
        for name in ("since_s", "answered_s_ago", "failed_s_ago", "retry_in_s"):
            age = seen.get(name, 0.0)
            assert isinstance(age, float)
            assert age >= 0.0


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_neutral_outcomes_change_no_count(steps: list[Step]) -> None:
    """With every neutral outcome left out, the judge and the state of a closed breaker come out the same (4.3.1)."""
    counted = [step for step in steps if step[1] in COUNTED or step[1] in ALIVE]
    with_neutral, without = Breaker(Window()), Breaker(Window())
    now = 0.0
    for gap, verdict, draw, _, _ in counted:
        now += gap
        with_neutral.record(with_neutral.stamp, verdict, now, draw)
        if verdict in COUNTED:
            without.record(without.stamp, verdict, now, draw)
        assert with_neutral.state is without.state
        assert with_neutral.judge.evidence(now) == without.judge.evidence(now)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 8),
    st.lists(
        st.tuples(st.integers(0, 7), st.sampled_from([Verdict.ANSWER, Verdict.SICK]), st.floats(0, 5)), max_size=150
    ),
)
def test_never_all_ejected_by_ratio(size: int, steps: list[tuple[int, Verdict, float]]) -> None:
    """However soft evidence falls: at most floor(half) out by ratio, and one that answers stays in (7.1)."""
    pool: list[Breaker] = [Breaker(Window()) for _ in range(size)]

    def guard(me: Breaker, now: float) -> str:
        return hold([other.view(now) for other in pool if other is not me], now)

    for breaker in pool:
        breaker.guard = lambda now, me=breaker: guard(me, now)
    now = 0.0
    for which, verdict, gap in steps:
        now += gap
        breaker = pool[which % size]
        breaker.record(breaker.stamp, verdict, now, 0.5)
        out = sum(other.view(now).tier is Tier.RATIO for other in pool)
        assert out <= size // 2
        assert any(other.admit(now, insist=True).allowed for other in pool)


@settings(max_examples=100, deadline=None)
@given(STEPS, st.sampled_from([Wish.OPEN, Wish.DRAIN]))
def test_a_wish_never_changes_what_is_observed(steps: list[Step], wish: Wish) -> None:
    """The same outcomes lead to the same state with and without the operator's wish."""
    plain, wished = Breaker(Window()), Breaker(Window())
    wished.force(wish)
    now = 0.0
    for gap, verdict, draw, via, _ in steps:
        now += gap
        for breaker in (plain, wished):
            breaker.lease(now)
            breaker.record(breaker.stamp, verdict, now, draw, via=via)
        assert plain.state is wished.state
        assert not wished.admit(now).allowed
