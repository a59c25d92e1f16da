"""Sizes of a System One request against the limits of models."""

from __future__ import annotations

import pytest

from autohedge.core.ask import Ask, Sizes
from autohedge.core.problems import Detail
from autohedge.core.types import Candidate, Door, Fact, Kind, Limits, Rank
from autohedge.rules.decisions import EACH, MOST, WHOLE, over, within
from autohedge.rules.limits import check, refusal
from autohedge.settings.systemone import DecisionLimits
from tests.providers.saying import NOW, place

SIZES = Sizes(3, (("a", 5), ("b", 1)), (("c", 4),), images=2, state_bytes=100, body_bytes=200)
PLACE = "model m on b"


def facts(**values: int) -> dict[str, Fact[int]]:
    return {name: Fact(value, "set by hand", Rank.CONFIG) for name, value in values.items()}


def told(**values: int) -> list[tuple[str, str | None, int]]:
    return [(one.code, one.param, one.value) for one in over(SIZES, facts(**values), PLACE, NOW)]


def candidate(**values: int) -> Candidate:
    return place(Kind.SYSTEMONE, Limits(counts=facts(**values)))


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("max_questions", 2, [("too_many_questions", "questions", 3)]),
        ("max_images", 1, [("too_many_images", "images", 2)]),
        ("max_state_bytes", 99, [("limit_exceeded", "state", 100)]),
        ("max_body_bytes", 199, [("limit_exceeded", None, 200)]),
        ("max_options", 4, [("too_many_options", "questions.a.criteria", 5)]),
        ("min_options", 2, [("too_few_options", "questions.b.criteria", 1)]),
        ("max_levels", 3, [("too_many_levels", "questions.c.criteria", 4)]),
        ("min_levels", 5, [("too_few_levels", "questions.c.criteria", 4)]),
    ],
)
def test_each_limit(name: str, value: int, found: list[tuple[str, str | None, int]]) -> None:
    """What equals a limit fits; what is over (or under) it is told with field, number, limit and origin."""
    assert told(**{name: value}) == found
    least = name.startswith("min")
    assert told(**{name: value - 1 if least else value + 1}) == []
    assert within(SIZES, [candidate(**{name: value - 1 if least else value + 1})])
    assert not within(SIZES, [candidate(), candidate(**{name: value})])


def test_every_setting_is_a_limit() -> None:
    assert set(DecisionLimits.model_fields) == {*WHOLE, *EACH}


def test_a_finding_reads_alone() -> None:
    (found,) = over(SIZES, facts(max_options=4), PLACE, NOW)
    assert found.message == "question 'a' has 5 options, model m on b takes at most 4 (set by hand)"
    assert (found.limit, found.source, found.steps) == (4, "set by hand", ("questions", "a", "criteria"))
    (few,) = over(SIZES, facts(min_options=2), PLACE, NOW)
    assert few.message == "question 'b' has 1 option, model m on b takes at least 2 (set by hand)"


def test_what_is_not_known_is_not_checked() -> None:
    assert over(SIZES, {}, PLACE, NOW) == []
    assert within(SIZES, [place(Kind.SYSTEMONE)])
    assert within(SIZES, [])


def test_many_questions_are_told_up_to_a_bound() -> None:
    sizes = Sizes(100, tuple((f"{'x' * 600}{i}", 9) for i in range(100)))
    found = over(sizes, facts(max_options=1), PLACE, NOW)
    assert len(found) == MOST
    assert len(found[0].message) < 200


def test_a_model_that_takes_more_gets_the_request() -> None:
    """Per model: one backend of two has room for it; when none has, the larger limit leads."""

    def nothing(_kind: Kind) -> tuple[Detail, ...]:
        return ()

    ask = Ask(Door.SYSTEMONE, "m", sizes=SIZES)
    small, large = candidate(max_options=2), candidate(max_options=9)
    assert check(ask, nothing, (small, large), {}, NOW).usable == (large,)
    problem = refusal(check(ask, nothing, (small, candidate(max_options=4)), {}, NOW))
    assert (problem.status, problem.code, problem.details[0].limit) == (400, "too_many_options", 4)
