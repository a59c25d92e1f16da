"""The words: frozen, comparable, and silent about secrets."""

from __future__ import annotations

import dataclasses
import inspect
import json
import pickle

import pytest

from autohedge.core import types
from autohedge.core.types import Address, BackendSpec, Seat, Secret

FIGURES = "from autohedge.core.fact import Fact, Rank  # noqa: F401  all others take them from here"
ACTING = {"Seat", "Outcome", "Attempt", "Ask"}  # moved by live traffic, or filled on the way of one request


@pytest.mark.parametrize(
    "kind",
    [one for _, one in inspect.getmembers(types, inspect.isclass) if dataclasses.is_dataclass(one)],
    ids=lambda kind: kind.__name__,
)
def test_what_is_said_does_not_change(kind: type) -> None:
    """Everything is frozen but the few that act."""
    frozen = kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert frozen == (kind.__name__ not in ACTING)


@pytest.mark.sources
def test_the_file_imports_nothing_that_acts() -> None:
    """Floor 0: no clock, no socket, nothing of the project."""
    source = inspect.getsource(types)
    names = {line.split()[1].partition(".")[0] for line in source.splitlines() if line.startswith(("import ", "from "))}
    assert names <= {"__future__", "autohedge", "collections", "dataclasses", "enum", "types", "typing"}
    assert [line for line in source.splitlines() if line.startswith("from autohedge.")] == [FIGURES]


def test_a_secret_never_shows_itself() -> None:
    """Not in a repr, not in a format, not inside of what holds it."""
    secret = Secret("sk-1")
    spec = BackendSpec("b", key=secret)
    for shown in (repr(secret), f"{secret}", str(spec), repr([spec]), json.dumps({"a": secret}, default=repr)):
        assert "sk-1" not in shown
    assert secret.reveal() == "sk-1"


def test_secrets_are_compared_by_value() -> None:
    """A reload with the same key changes nothing."""
    assert Secret("a") == Secret("a") != Secret("b")
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2
    assert Secret("a") != "a"


@pytest.mark.parametrize(
    ("address", "authority", "text"),
    [
        (Address("h", 8000), "h:8000", "http://h:8000"),
        (Address("h", 80), "h", "http://h"),
        (Address("h", 443, tls=True), "h", "https://h"),
        (Address("h", 80, tls=True, prefix="/x"), "h:80", "https://h:80/x"),
        (Address("::1", 8000), "[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_an_address_as_a_host_header(address: Address, authority: str, text: str) -> None:
    """RFC 9110 7.2: the scheme's own port is left out, IPv6 stands in brackets."""
    assert address.authority == authority
    assert str(address) == text


@pytest.mark.parametrize(("cap", "busy", "free"), [(None, 99, True), (2, 1, True), (2, 2, False), (2, 3, False)])
def test_a_seat_is_free_under_its_cap(cap: int | None, busy: int, free: bool) -> None:
    seat = Seat(cap)
    seat.in_flight = busy
    assert seat.free is free


def test_a_spec_survives_pickling() -> None:
    """Kinds and limits go to the examiner's helper process."""
    assert pickle.loads(pickle.dumps(types.Kind.VLLM)) is types.Kind.VLLM
    assert pickle.loads(pickle.dumps(types.UNKNOWN_LIMITS.context)) is None
