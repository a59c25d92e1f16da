"""What people are told and when, with a clock that the test moves."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.core.types import BackendSpec, Candidate, Snapshot, SourceView, Verdict
from autohedge.rules.alerts import (
    KNOWN,
    PATIENCE,
    Board,
    Event,
    Pace,
    Phase,
    Topic,
    exhausted,
    living,
    moved,
    retired,
    source,
    state,
)
from autohedge.rules.retirement import ALL, Sighting, by_operator, confirm
from autohedge.rules.standing import State, Transition
from tests.memory.patients import S, Ward, candidate

HOUR = 3600.0


def out(at: float, name: str = "r1", topic: Topic = Topic.BREAKER) -> Event:
    return Event(topic, name, True, f"backend b, {name}", "a replica is out of the pool: 6/10 succeeded", at, name)


def back(at: float, name: str = "r1", topic: Topic = Topic.BREAKER) -> Event:
    return Event(topic, name, False, f"backend b, {name}", "the replica is back", at, name)


def board(queue: int = 100) -> Board:
    return Board(Pace(queue=queue))


def phases(one: Board, now: float) -> list[str]:
    """What is due now; people then know it."""
    items = one.due(now)
    one.told(items, now)
    return [item.phase.value for item in items]


# --- one fact ---------------------------------------------------------------------------------------------------------


def test_a_fact_is_told_when_it_begins_and_when_it_ends() -> None:
    one = board()
    one.note(out(10.0))
    assert phases(one, 10.0) == ["began"]
    assert phases(one, 10.0) == []
    one.note(back(50.0))
    (item,) = one.due(50.0)
    assert (item.phase, item.since, item.over) == (Phase.OVER, 10.0, back(50.0))
    assert phases(one, 50.0) == ["over"]
    assert phases(one, 90_000.0) == []


def test_hearing_it_again_only_counts() -> None:
    """Issue 3: deduplicated; a half-open trial that fails is no news."""
    one = board()
    for at in range(5):
        one.note(out(float(at)))
    assert one.due(5.0)[0].times == 5
    assert phases(one, 5.0) == ["began"]
    for at in range(6, 106):
        one.note(out(float(at)))
    assert phases(one, 200.0) == []


def test_what_still_stands_is_told_again_after_repeat() -> None:
    """With the count since the last message."""
    one = board()
    one.note(out(0.0))
    phases(one, 0.0)
    for at in (10.0, 20.0):
        one.note(out(at))
    assert one.due(HOUR - 1) == []
    assert [(item.phase, item.times, item.since) for item in one.due(HOUR)] == [(Phase.STILL, 2, 0.0)]
    assert phases(one, HOUR) == ["still"]
    assert phases(one, 2 * HOUR - 1) == []
    assert phases(one, 2 * HOUR) == ["still"]


def test_an_end_that_nobody_was_told_the_beginning_of_is_no_news() -> None:
    """Every closing of a breaker is told to the board, also after a start."""
    one = board()
    one.note(back(1.0))
    assert phases(one, 1.0) == []


def test_what_came_and_went_before_anybody_was_told_is_one_item() -> None:
    """The channel was lost, or its interval had not passed."""
    one = board()
    one.note(out(1.0))
    one.note(back(13.0))
    (item,) = one.due(20.0)
    assert (item.phase, item.since, item.over) == (Phase.BRIEF, 1.0, back(13.0))
    assert phases(one, 20.0) == ["over already"]
    assert phases(one, 20.0) == []


def test_a_fact_that_keeps_coming_back_is_declared_over_later_each_time() -> None:
    """A breaker that flaps for a day must not send a mail a minute (T32)."""
    one = board()
    told = []
    for minute in range(0, 24 * 60, 2):
        one.note(out(minute * 60.0))
        told += phases(one, minute * 60.0)
        one.note(back(minute * 60.0 + 60.0))
        told += phases(one, minute * 60.0 + 60.0)
    assert len(told) < 40
    assert told[:3] == ["began", "over", "began"]
    assert set(told[3:]) == {"still"}  # it never was quiet for as long as it takes
    assert phases(one, 25 * HOUR + 60.0)[-1:] == ["over"]


def test_after_a_quiet_time_its_end_is_told_at_once_again() -> None:
    one = board()
    for start in (0.0, 100.0, 200.0 + 2 * HOUR):
        one.note(out(start))
        assert phases(one, start) == ["began"]
        one.note(back(start + 10.0))
        assert phases(one, start + 10.0) == ([] if start == 100.0 else ["over"])
        phases(one, start + 80.0)


def test_what_happens_while_a_message_is_on_its_way_is_told_afterwards() -> None:
    """The end while the beginning is sent; the return while the end is sent."""
    one = board()
    one.note(out(0.0))
    items = one.due(0.0)
    one.note(out(1.0))
    one.note(back(2.0))
    one.told(items, 3.0)
    items = one.due(3.0)
    assert [(item.phase, item.times) for item in items] == [(Phase.OVER, 1)]
    one.note(out(4.0))
    one.told(items, 5.0)
    assert phases(one, 5.0) == ["began"]


def test_the_same_fact_begun_anew_is_not_told_by_an_old_message() -> None:
    """A message that took very long must not hide what began since."""
    one = board()
    one.note(out(0.0))
    one.note(back(1.0))
    items = one.due(1.0)
    one.told(items, 2.0)
    one.note(out(3.0))
    one.told(items, 4.0)
    assert phases(one, 4.0) == ["began"]


# --- the topics -------------------------------------------------------------------------------------------------------


def test_a_retirement_is_told_once_per_fact() -> None:
    """No reminder, however long; undone and retired again is a new fact."""
    one = board()
    fact, _ = confirm(None, Sighting("hf", ALL, 410), 0.0)
    one.note(retired(fact, True, 0.0))
    assert phases(one, 0.0) == ["began"]
    assert phases(one, 100 * HOUR) == []
    one.note(retired(fact, True, 101 * HOUR))  # another worker undid it meanwhile: this is a new sighting
    assert phases(one, 101 * HOUR) == ["began"]


def test_another_worker_s_retirement_that_is_undone_here_is_told() -> None:
    """Whoever re-checks tells, whoever saw it."""
    one = board()
    fact, _ = confirm(None, Sighting("hf", "m", 410), 0.0)
    one.note(retired(fact, False, 50.0))
    assert phases(one, 50.0) == ["over"]
    assert phases(one, 100 * HOUR) == []


def test_an_exhausted_chain_is_told_again_only_when_it_happens_again() -> None:
    """It has no end; a thousand failed callers are one message an hour."""
    one = board()
    for at in range(1000):
        one.note(exhausted("m", "every backend of model m failed", float(at)))
    assert one.due(1000.0)[0].times == 1000
    assert phases(one, 1000.0) == ["began"]
    assert phases(one, 50 * HOUR) == []
    one.note(exhausted("m", "every backend of model m failed", 51 * HOUR))
    assert phases(one, 51 * HOUR) == ["again"]
    one.note(exhausted("m", "every backend of model m failed", 51 * HOUR + 1))
    assert phases(one, 52 * HOUR - 1) == []
    assert phases(one, 52 * HOUR) == ["again"]


def test_a_source_that_is_blind_for_a_moment_is_not_worth_a_message() -> None:
    one = board()
    one.note(source("swarm", "no answer", 0.0))
    assert phases(one, 30.0) == []
    one.note(source("swarm", "", 31.0))
    assert phases(one, 1000.0) == []
    one.note(source("swarm", "no answer", 2000.0))
    assert one.next_at() == 2000.0 + PATIENCE[Topic.BLIND]
    assert phases(one, 2060.0) == ["began"]
    one.note(source("swarm", "", 2100.0))
    assert phases(one, 2100.0) == ["over"]


def test_state_is_told_lost_and_found() -> None:
    one = board()
    one.note(state("no answer in time", 1.0))
    assert "no answer in time" in one.due(1.0)[0].event.text
    assert phases(one, 1.0) == ["began"]
    one.note(state("", 5.0))
    assert phases(one, 5.0) == ["over"]


# --- breakers ---------------------------------------------------------------------------------------------------------


def moves(*states: State) -> list[tuple[Event, ...]]:
    """The events of one breaker that goes through these states."""
    found = []
    for number, (old, new) in enumerate(pairwise(states)):
        found.append(moved(candidate(), Transition(old, new, f"why {new}", 7.0), 100.0 + number))
    return found


def test_an_opening_names_the_figures_and_no_address() -> None:
    """Acceptance 1: "6/10 succeeded" reaches people."""
    (event,) = moved(candidate(), Transition(State.CLOSED, State.OPEN, "6/10 succeeded", 7.0), 100.0)
    assert (event.topic, event.on, event.where, event.at) == (Topic.BREAKER, True, "backend b, model m", 100.0)
    assert event.text == "a replica is out of the pool: 6/10 succeeded"
    (event,) = moved(candidate(model=""), Transition(State.CLOSED, State.OPEN, "6/10 succeeded", 7.0), 100.0)
    assert event.where == "backend b"
    assert "h1" in event.fact
    assert "h1" not in event.where + event.text


def test_real_breakers_move_the_board() -> None:
    """A ward with one sick replica: out, and back after its trials."""
    ward, one = Ward(), board()

    def told(who: Candidate, moving: Transition) -> None:
        for event in moved(who, moving, ward.now):
            one.note(event)

    ward.health._told = told
    patient = candidate()
    ward.live(candidate("h2"), Verdict.ANSWER)
    ward.live(patient, Verdict.ANSWER, *[S] * 9)
    assert ward.state(patient) is State.OPEN
    assert phases(one, ward.now) == ["began"]
    ward.probe(patient, *[Verdict.ANSWER] * 3, gap=30.0)
    assert ward.state(patient) is State.CLOSED
    assert phases(one, ward.now) == ["over"]


def test_the_way_back_may_lead_through_other_states() -> None:
    """Open, half-open, loading, closed: the fact ends all the same; a mere loading is no fact."""
    one = board()
    for events in moves(State.CLOSED, State.OPEN, State.HALF_OPEN, State.LOADING, State.CLOSED):
        for event in events:
            one.note(event)
        phases(one, 200.0)
    assert [kept.done_at is not None for kept in one._facts.values()] == [True]
    assert moves(State.CLOSED, State.LOADING, State.CLOSED)[0] == ()


def test_a_refused_credential_is_one_fact_per_backend() -> None:
    """Thirty replicas that refuse one key are one message."""
    one = board()
    for host in range(30):
        who = candidate(f"h{host}")
        for event in moved(who, Transition(State.CLOSED, State.MISCONFIGURED, "401: key refused", 1.0), 1.0):
            one.note(event)
    assert phases(one, 1.0) == ["began"]
    for event in moved(candidate(), Transition(State.MISCONFIGURED, State.CLOSED, "answered", 9.0), 9.0):
        one.note(event)
    assert phases(one, 9.0) == ["over"]


def test_texts_of_a_retirement() -> None:
    """Who is gone, by what evidence."""
    fact, _ = confirm(None, Sighting("hf", ALL, 410, "", b"api access has been retired"), 0.0)
    event = retired(fact, True, 0.0)
    assert (event.where, event.text) == ("backend hf", "the provider is retired (410): api access has been retired")
    fact, _ = confirm(None, Sighting("groq", "m", 400, "model_decommissioned"), 0.0)
    event = retired(fact, True, 0.0)
    assert (event.where, event.text) == ("backend groq, model m", "the model is retired (400 model_decommissioned)")
    event = retired(by_operator("p", "m", "jo", 0.0), True, 0.0)
    assert event.text == "the model is retired (operator jo)"
    assert retired(fact, False, 0.0).text == "the model is no longer retired"


# --- owners -----------------------------------------------------------------------------------------------------------


def test_a_fact_ends_with_its_owner() -> None:
    """A replica that was removed is not reminded of for ever; facts without an owner stay."""
    one = board()
    one.note(out(0.0, "r1"))
    one.note(out(0.0, "r2"))
    one.note(exhausted("m", "x", 0.0))
    phases(one, 0.0)
    one.keep_only({"r2"}, 10.0)
    (item,) = one.due(10.0)
    assert (item.phase, item.event.fact) == (Phase.OVER, "r1")
    assert item.over is not None
    assert item.over.text == "it is gone, nobody uses it any more"
    assert phases(one, 10.0) == ["over"]
    one.keep_only({"r2"}, 20.0)
    assert phases(one, 20.0) == []


def test_the_living_are_replicas_backends_and_sources() -> None:
    """Named so that a backend and a source of one name are two owners."""
    who = candidate()
    snapshot = Snapshot(
        replicas={who.replica.id: who.replica},
        backends={"b": BackendSpec("b")},
        sources={"b": SourceView("b")},
    )
    owners = living(snapshot)
    assert owners == {"b@h1:1", "backend b", "source b"}
    events = [
        *moved(who, Transition(State.CLOSED, State.OPEN, "x", 1.0), 1.0),
        *moved(who, Transition(State.CLOSED, State.MISCONFIGURED, "x", 1.0), 1.0),
        source("b", "x", 1.0),
    ]
    assert {event.owner for event in events} == owners


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_the_oldest_that_waits_is_dropped_and_counted() -> None:
    """Issue 3: a lost SMTP server costs alerts and no memory."""
    one = board(queue=3)
    for number in range(10):
        one.note(out(float(number), f"r{number}"))
    assert one.dropped == 7
    assert [item.event.fact for item in one.due(100.0)] == ["r7", "r8", "r9"]


def test_what_was_told_is_remembered_within_bounds_and_is_no_loss() -> None:
    one = board(queue=3)
    for number in range(KNOWN + 50):
        one.note(out(float(number), f"r{number}"))
        phases(one, float(number))
    assert one.dropped == 0
    assert len(one._facts) <= KNOWN + 3


@pytest.mark.parametrize("topic", [Topic.BREAKER, Topic.RETIRED, Topic.BLIND])
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(0.0, 2000.0)), max_size=60))
def test_people_end_up_knowing_what_is(topic: Topic, steps: list[tuple[bool, bool, float]]) -> None:
    """Whatever comes in whatever order: beginnings and ends alternate, and the last word is the truth."""
    one, now, believed, true = board(), 0.0, False, False
    told: list[Phase] = []
    for begins, look, gap in [*steps, (steps[-1][0] if steps else True, True, 10 * HOUR)]:
        now += gap
        if topic is not Topic.RETIRED or begins is not true:  # retirements are told of when they change only
            one.note(out(now, topic=topic) if begins else back(now, topic=topic))
            true = begins
        for at in (now, now + 2 * HOUR) if look else ():
            items = one.due(at)
            one.told(items, at)
            told += [item.phase for item in items]
            now = at
    for phase in told:
        if phase is Phase.BEGAN:
            assert not believed or topic is Topic.RETIRED
            believed = True
        elif phase is Phase.STILL:
            assert believed
        elif phase is Phase.OVER:
            assert believed or topic is Topic.RETIRED
            believed = False
        else:
            believed = False
    assert believed is true
    assert one.next_at() == float("inf") or believed
