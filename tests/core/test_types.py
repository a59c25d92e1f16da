"""The words: frozen, comparable, and silent about secrets."""

from __future__ import annotations

import dataclasses
import inspect
import json
import pickle

import pytest

from autohedge.core import types
from autohedge.core.types import Address, BackendSpec, Fact, Rank, Seat, Secret

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


def test_the_file_imports_nothing_that_acts() -> None:
    """Floor 0: no clock, no socket, nothing of the project."""
    source = inspect.getsource(types)
    names = {line.split()[1].partition(".")[0] for line in source.splitlines() if line.startswith(("import ", "from "))}
    assert names <= {"__future__", "collections", "dataclasses", "enum", "types", "typing"}


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


@pytest.mark.parametrize(
    ("fact", "told"),
    [
        (
            Fact(5, "max_model_len, read from /v1/models", Rank.ENGINE, 100.0),
            "max_model_len, read from /v1/models 12 s ago",
        ),
        (Fact(5, "an error of the engine", Rank.ERROR, 200.0), "an error of the engine 0 s ago"),
        (Fact(5, "line 3 of c.yaml", Rank.CONFIG, 100.0), "line 3 of c.yaml"),
        (Fact(5, "read", Rank.ENGINE), "read"),
    ],
)
def test_a_figure_tells_where_it_came_from(fact: Fact[int], told: str) -> None:
    """What an engine said has an age; what is written in a file has none. A clock that went back is no negative age."""
    assert fact.told(112.4) == told


def test_an_engine_stands_over_what_is_written() -> None:
    """Facts a: engine > arguments > env and labels > config; an engine's refusal knows best."""
    assert sorted(Rank) == [Rank.KIND, Rank.CONFIG, Rank.LABEL, Rank.ENV, Rank.ARGS, Rank.ENGINE, Rank.ERROR]


@pytest.mark.parametrize(("cap", "busy", "free"), [(None, 99, True), (2, 1, True), (2, 2, False), (2, 3, False)])
def test_a_seat_is_free_under_its_cap(cap: int | None, busy: int, free: bool) -> None:
    seat = Seat(cap)
    seat.in_flight = busy
    assert seat.free is free


def test_a_spec_survives_pickling() -> None:
    """Kinds and limits go to the examiner's helper process."""
    assert pickle.loads(pickle.dumps(types.Kind.VLLM)) is types.Kind.VLLM
    assert pickle.loads(pickle.dumps(types.UNKNOWN_LIMITS.context)) is None
