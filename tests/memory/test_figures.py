"""Which of several figures counts."""

from __future__ import annotations

import pytest

from autohedge.core.types import UNKNOWN_LIMITS, Fact, Limits, Rank
from autohedge.memory.figures import REFUSAL, combined, says, stronger, taught


def fact(value: int, rank: Rank, at: float = 0.0) -> Fact[int]:
    return Fact(value, str(rank), rank, at)


@pytest.mark.parametrize(
    ("one", "two", "counts"),
    [
        (fact(1, Rank.ENGINE), fact(2, Rank.ARGS, 9), 1),
        (fact(1, Rank.ARGS), fact(2, Rank.ENV), 1),
        (fact(1, Rank.ENV), fact(2, Rank.LABEL), 1),
        (fact(1, Rank.LABEL), fact(2, Rank.CONFIG), 1),
        (fact(1, Rank.ERROR, 5), fact(2, Rank.CONFIG, 9), 1),
        (fact(1, Rank.ENV, 5), fact(2, Rank.ENV, 6), 2),
        (fact(1, Rank.ENV, 5), fact(2, Rank.ENV, 5), 1),
    ],
)
def test_the_higher_rank_wins_then_the_newer_then_the_first(one: Fact[int], two: Fact[int], counts: int) -> None:
    """engines (a): engine answer > arguments > environment and labels > configuration."""
    winner = stronger(one, two)
    assert winner is not None
    assert winner.value == counts
    if one.at != two.at or one.rank != two.rank:
        assert stronger(two, one) == winner


def test_a_refusal_and_an_answer_are_one_voice() -> None:
    """T6, B47: an engine's error text beats an older answer and yields to a newer one."""
    answer, refusal = fact(8192, Rank.ENGINE, 10), fact(4096, Rank.ERROR, 11)
    assert stronger(answer, refusal) is refusal
    assert stronger(refusal, answer) is refusal
    assert stronger(refusal, fact(8192, Rank.ENGINE, 12)) == fact(8192, Rank.ENGINE, 12)
    assert stronger(fact(8192, Rank.ENGINE, 11), refusal) is refusal


def test_unknown_never_beats_a_figure() -> None:
    """Unknown is a value of its own: not checked, never 0."""
    known = fact(1, Rank.CONFIG)
    assert stronger(None, known) is known
    assert stronger(known, None) is known
    assert stronger(None, None) is None


def output(value: int, rank: Rank, at: float = 0.0) -> Limits:
    return Limits(max_output=fact(value, rank, at))


@pytest.mark.parametrize(
    ("engine", "operator", "counts"),
    [
        (output(8192, Rank.ENGINE), output(1024, Rank.CONFIG), 1024),
        (output(8192, Rank.ENGINE), output(1024, Rank.LABEL), 1024),
        (output(8192, Rank.ENGINE), output(16384, Rank.CONFIG), 8192),
        (output(8192, Rank.ERROR, 5), output(1024, Rank.CONFIG), 1024),
        (output(512, Rank.ERROR, 5), output(1024, Rank.CONFIG), 512),
        (output(8192, Rank.ENGINE), output(1024, Rank.ENV), 8192),
        (output(2000, Rank.LABEL), output(1000, Rank.CONFIG), 2000),
    ],
)
def test_an_operator_may_restrict_the_answer_but_not_widen_it(engine: Limits, operator: Limits, counts: int) -> None:
    """A configured max_output below the engine's own is a ceiling; above it, it means nothing."""
    for both in (combined(engine, operator), combined(operator, engine)):
        assert both.max_output is not None
        assert both.max_output.value == counts


def test_a_configured_context_never_restricts_the_engine() -> None:
    """T6: a stale hint would refuse what the engine would have served."""
    both = combined(Limits(context=fact(4096, Rank.CONFIG)), Limits(context=fact(32768, Rank.ENGINE)))
    assert both.context == fact(32768, Rank.ENGINE)


def test_abilities_are_merged_one_by_one() -> None:
    """Each ability has its own origin and rank."""
    yes, no = Fact(True, "capabilities", Rank.ENGINE), Fact(False, "label", Rank.LABEL)
    both = combined(Limits(abilities={"tools": no, "vision": no}), Limits(abilities={"tools": yes, "chat": yes}))
    assert both.abilities == {"tools": yes, "vision": no, "chat": yes}


def test_nothing_known_changes_nothing() -> None:
    """Merging with unknown limits gives back the same object."""
    limits = output(1, Rank.CONFIG)
    assert combined(limits, UNKNOWN_LIMITS) is limits
    assert combined(Limits(), limits) is limits


def test_what_a_refusal_teaches() -> None:
    """B50: the figure of the text, with its time; junk in it teaches nothing."""
    limits = taught({"context": 4096, "max_output": 0, "max_input": -1, "temperature": 2}, 7.0)
    assert limits == Limits(context=Fact(4096, REFUSAL, Rank.ERROR, 7.0))
    assert limits.context is not None
    assert limits.context.told(19.0) == "named by the engine when it refused a request 12 s ago"


def test_says() -> None:
    """Only what the other names is compared, and only the number of tokens."""
    limits = Limits(context=fact(4096, Rank.ENGINE), max_output=fact(10, Rank.ENGINE))
    assert says(limits, Limits(context=fact(4096, Rank.ERROR, 9)))
    assert says(limits, Limits())
    assert not says(limits, Limits(context=fact(4095, Rank.ERROR)))
    assert not says(limits, Limits(max_input=fact(1, Rank.ERROR)))


def test_counts_of_a_decision_are_merged_and_taught() -> None:
    """What is usual for a kind gives way to an operator, an operator to an engine's refusal."""
    usual = Limits(counts={"max_options": fact(26, Rank.KIND), "max_levels": fact(26, Rank.KIND)})
    said = combined(Limits(counts={"max_options": fact(100, Rank.CONFIG)}), usual)
    assert {name: one.value for name, one in said.counts.items()} == {"max_options": 100, "max_levels": 26}
    refused = taught({"max_options": 52, "unknown": 1}, 7.0)
    assert refused == Limits(counts={"max_options": Fact(52, REFUSAL, Rank.ERROR, 7.0)})
    assert combined(said, refused).counts["max_options"].value == 52
    assert not says(said, refused)
    assert says(combined(said, refused), refused)
