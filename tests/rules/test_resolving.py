"""Which addresses of a name stay in use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.rules.resolving import Family, after, chosen

A, B, SIX = "10.0.0.1", "10.0.0.2", "fd00::1"
names = st.lists(st.sampled_from([A, B, "10.0.0.3", SIX]), unique=True)


def test_what_is_told_is_in_use_at_once() -> None:
    """A18: a new address is kept from its first answer on."""
    assert after({}, [A, B], 3) == {A: 0, B: 0}


def test_what_is_missing_goes_only_after_it_was_missing_several_times() -> None:
    """R13 and facts, swarm 2: an answer may hold a part of the list."""
    once = after({A: 0, B: 0}, [A], 3)
    twice = after(once, [A], 3)
    assert (once, twice, after(twice, [A], 3)) == ({A: 0, B: 1}, {A: 0, B: 2}, {A: 0})


def test_an_address_that_is_told_again_starts_over() -> None:
    assert after({A: 2}, [A], 3) == {A: 0}


def test_no_such_name_empties_the_pool_after_as_many_answers() -> None:
    """R7: a pool that was scaled to zero."""
    assert after(after({A: 0}, [], 2), [], 2) == {}


def test_without_confirmation_every_answer_is_the_whole_truth() -> None:
    assert after({A: 0, B: 0}, [B], 1) == {B: 0}


@given(st.lists(names, max_size=20), st.integers(1, 5))
def test_an_address_is_in_use_exactly_while_one_of_the_last_answers_held_it(
    answers: list[list[str]], confirm: int
) -> None:
    state: dict[str, int] = {}
    for answer in answers:
        state = after(state, answer, confirm)
    assert set(state) == {address for answer in answers[-confirm:] for address in answer}


@pytest.mark.parametrize(
    ("family", "told", "used"),
    [
        (Family.AUTO, [SIX, B, A], (A, B)),
        (Family.AUTO, [SIX], (SIX,)),
        (Family.IPV4, [SIX], ()),
        (Family.IPV6, [SIX, A], (SIX,)),
        (Family.BOTH, [SIX, A, A], (A, SIX)),
        (Family.BOTH, ["fe80::1%eth0"], ("fe80::1",)),
    ],
)
def test_a_host_with_both_families_counts_once_unless_told_otherwise(
    family: Family, told: list[str], used: tuple[str, ...]
) -> None:
    assert chosen(told, family) == used


@given(st.permutations(["10.0.0.10", "10.0.0.9", A, B]))
def test_the_order_of_an_answer_means_nothing(told: list[str]) -> None:
    """Docker's resolver rotates it."""
    assert chosen(told, Family.AUTO) == (A, B, "10.0.0.9", "10.0.0.10")
