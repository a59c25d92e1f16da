"""Retry-After is obeyed: by rank, by everybody, and not for ever."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from autohedge.core.types import Address, BackendSpec, Candidate, Kind, Limits, Replica, Seat
from autohedge.memory.cooling import MOST, Cooling

ONE = Candidate(Replica("b@h:1", "b", Address("h", 1), Seat()), BackendSpec("b"), Kind.VLLM, "m", Limits())
TWO = Candidate(Replica("b@h:2", "b", Address("h", 2), Seat()), BackendSpec("b"), Kind.VLLM, "m", Limits())


class Book:
    """A shared state of two workers: what one puts, both hear."""

    def __init__(self) -> None:
        self.hearers: list[Callable[[str, Mapping[str, Any] | None], object]] = []
        self.puts: list[tuple[str, float | None]] = []

    def put_soon(self, key: str, value: Mapping[str, Any], ttl: float | None = None) -> None:
        self.puts.append((key, ttl))
        for hearer in self.hearers:
            hearer(key, value)

    def on_change(self, prefix: str, callback: Callable[[str, Mapping[str, Any] | None], object]) -> None:
        assert prefix == "cooling:"
        self.hearers.append(callback)


def test_it_counts_down_and_ends() -> None:
    cooling = Cooling(Book())
    cooling.note(ONE, 10, 100.0)
    assert cooling.left(ONE, 104.0) == 6.0
    assert cooling.left(TWO, 104.0) == 0.0
    assert cooling.left(ONE, 110.0) == 0.0


def test_the_later_deadline_stands() -> None:
    """B35: a short Retry-After does not undo a long one."""
    cooling = Cooling(Book())
    cooling.note(ONE, 60, 100.0)
    cooling.note(ONE, 1, 101.0)
    assert cooling.left(ONE, 101.0) == 59.0


def test_nobody_may_ask_for_ever() -> None:
    cooling = Cooling(Book())
    cooling.note(ONE, 1e9, 0.0)
    assert cooling.left(ONE, 0.0) == MOST


def test_what_one_worker_was_told_holds_for_all() -> None:
    book = Book()
    mine, other = Cooling(book), Cooling(book)
    mine.note(ONE, 30, 0.0)
    assert other.left(ONE, 10.0) == 20.0
    assert book.puts == [("cooling:b@h:1|m", 30.0)]


def test_nothing_is_kept_of_what_is_over() -> None:
    book = Book()
    cooling = Cooling(book)
    cooling.note(ONE, 0, 5.0)
    cooling.note(ONE, -3, 5.0)
    assert book.puts == []
