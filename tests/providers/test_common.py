"""What all dialects share: probes, doors, and that no answer of an engine can make a reader raise."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autohedge.core.ask import Ask
from autohedge.core.types import Door, Fact, Kind, Limits, Rank, Secret
from autohedge.providers import DIALECTS, lesson, recognise
from autohedge.providers.base import TOO_LONG, Dialect, Reply
from autohedge.providers.common import chosen, name_of
from tests.providers.saying import JSON, NOW, keyed, place, reply

ALL = list(DIALECTS.values())
KEYS = [
    "data",
    "models",
    "id",
    "name",
    "model",
    "aliases",
    "max_model_len",
    "parent",
    "owned_by",
    "status",
    "value",
    "loaded",
    "meta",
    "n_ctx",
    "architecture",
    "output_modalities",
    "modalities",
    "default_generation_settings",
    "total_slots",
    "capabilities",
    "context_length",
    "model_id",
    "max_input_tokens",
    "max_total_tokens",
    "context_window",
    "is_generation",
    "allow_auto_truncate",
    "count",
    "tokens",
    "input_tokens",
    "tokenize_response",
    "error",
    "message",
    "type",
    "code",
]


@pytest.mark.parametrize("dialect", ALL, ids=lambda d: d.kind.value)
def test_the_mapping_is_complete(dialect: Dialect) -> None:
    """One dialect per kind; tables are lower case, doors have paths."""
    assert set(DIALECTS) == set(Kind)
    tables = ("client_faults", "capability", "engine_dead", "engine_failed", "busy", "loading")
    assert all(text == text.lower() and text for table in tables for text in getattr(dialect, table))
    assert all(path.startswith("/") for path in dialect.doors.values())
    assert dialect.keep_alive <= 4.0


@pytest.mark.parametrize("dialect", ALL, ids=lambda d: d.kind.value)
@pytest.mark.parametrize("door", list(Door))
def test_probes_are_small_and_never_stream(dialect: Dialect, door: Door) -> None:
    """B13: the budget is the caller's (16); a probe is one plain answer."""
    question = dialect.probe("m", door, 16)
    assert question.json is not None
    assert question.json["model"] == "m"
    assert question.json.get("stream", False) is False
    assert {question.json.get(key, 16) for key in ("max_tokens", "max_output_tokens")} == {16}
    anonymous = dialect.probe("", door, 16).json
    assert anonymous is not None
    assert "model" not in anonymous


@pytest.mark.parametrize("dialect", ALL, ids=lambda d: d.kind.value)
@settings(max_examples=40)
@given(bodies=st.lists(keyed(*KEYS), min_size=4, max_size=4), status=st.sampled_from([0, 200, 200, 200, 401, 404, 503]))
def test_no_json_makes_a_reader_raise(dialect: Dialect, bodies: list[object], status: int) -> None:
    """Anything malformed is unknown, never an exception."""
    paths = [*(q.key for q in dialect.learn), "/v1/models", "/props", "/api/show m", "/get_model_info"]
    replies = {path: reply(body, status) for path, body in zip(paths, bodies * 3, strict=False)}
    more = dialect.more(replies)
    replies |= {question.key: reply(bodies[0]) for question in more}
    dialect.lessons(replies, NOW)
    dialect.slots(replies)
    recognise(replies)
    learned = lesson(dialect.kind, replies, NOW)
    assert all(model.id and model.id in model.names for model in learned.models)
    counted = dialect.counted(reply(bodies[1], status))
    assert counted.tokens is None or counted.tokens >= 0


@pytest.mark.parametrize("dialect", ALL, ids=lambda d: d.kind.value)
@settings(max_examples=40)
@given(body=st.binary(max_size=200))
def test_no_bytes_make_a_reader_raise(dialect: Dialect, body: bytes) -> None:
    replies = {q.key: Reply(200, body) for q in dialect.learn}
    dialect.lessons(replies, NOW)
    dialect.counted(Reply(400, body))
    recognise(replies)


@pytest.mark.parametrize("dialect", ALL, ids=lambda d: d.kind.value)
@settings(max_examples=40)
@given(body=JSON, door=st.sampled_from(list(Door)))
def test_no_body_makes_the_counter_raise(dialect: Dialect, body: object, door: Door) -> None:
    dialect.count(Ask(door, "m", obj=body), "m")


@pytest.mark.parametrize("dialect", ALL, ids=lambda d: d.kind.value)
@settings(max_examples=40)
@given(
    door=st.sampled_from(list(Door)),
    max_tokens=st.none() | st.integers(-2, 2000),
    low=st.integers(0, 2000),
    more=st.integers(0, 2000),
    limits=st.lists(st.none() | st.integers(1, 2000), min_size=3, max_size=3),
)
def test_more_tokens_never_give_fewer_findings(
    dialect: Dialect, door: Door, max_tokens: int | None, low: int, more: int, limits: list[int | None]
) -> None:
    """The cheap proof rests on it: no finding for an upper bound means none for the true count."""
    facts = [None if value is None else Fact(value, "x", Rank.ENGINE, 1.0) for value in limits]
    candidate = place(dialect.kind, Limits(context=facts[0], max_input=facts[1], max_output=facts[2]))
    ask = Ask(door, "m", max_tokens=max_tokens)
    few = {detail.param for detail in dialect.fits(ask, low, candidate, NOW)}
    many = {detail.param for detail in dialect.fits(ask, low + more, candidate, NOW)}
    assert few <= many
    assert many <= {detail.param for detail in dialect.fits(ask, TOO_LONG, candidate, NOW)}


def test_null_fields_are_not_repeated() -> None:
    """00b: clients send explicit nulls everywhere, and one engine refuses them."""
    assert chosen({"a": None, "b": 0, "c": False}, ("a", "b", "c", "d")) == {"b": 0, "c": False}


@pytest.mark.parametrize(
    ("value", "name"), [("qwen2-7b", "qwen2-7b"), ("组/模型", "组/模型"), ("a\r\nb", ""), (None, "")]
)
def test_names_can_stand_in_a_log_line(value: object, name: str) -> None:
    assert name_of(value) == name


def test_credentials_are_revealed_only_on_the_wire() -> None:
    assert "sk-x" not in repr([dialect.authorize for dialect in ALL])
    assert all(b"sk-x" in dialect.authorize(Secret("sk-x"))[0][1] for dialect in ALL)
