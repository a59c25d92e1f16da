"""Log lines as text and as JSON."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from autohedge.logs import JsonLines, begin, written_as


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What the root logger writes; its own handlers are back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    stream = io.StringIO()
    root.handlers = [logging.StreamHandler(stream)]
    root.setLevel(logging.INFO)
    yield stream
    root.handlers = handlers
    root.setLevel(level)


def test_json_is_one_object_per_line(written: io.StringIO) -> None:
    written_as("json")
    logging.getLogger("autohedge").warning("a %s with\na break and a 'ü'", "line")
    (line,) = written.getvalue().splitlines()
    told = json.loads(line)
    assert list(told) == ["time", "level", "msg", "logger"]
    assert (told["level"], told["msg"], told["logger"]) == ("WARN", "a line with\na break and a 'ü'", "autohedge")
    assert told["time"].endswith("+00:00")


def test_fields_stand_beside_the_message_or_replace_it(written: io.StringIO) -> None:
    """eidex: the msg of a change of health is "worker health changed"."""
    written_as("json")
    logging.getLogger("x").info("it changed: a -> b", extra={"fields": {"msg": "it changed", "new": "b"}})
    told = json.loads(written.getvalue())
    assert (told["msg"], told["new"]) == ("it changed", "b")


def test_text_has_the_whole_sentence(written: io.StringIO) -> None:
    written_as("text")
    logging.getLogger("x").info("it changed: a -> b", extra={"fields": {"msg": "it changed", "new": "b"}})
    assert written.getvalue().endswith(" INFO x: it changed: a -> b\n")


def test_an_exception_stays_in_its_line() -> None:
    try:
        raise ValueError("why")
    except ValueError as error:
        record = logging.LogRecord("x", logging.ERROR, "f", 1, "it broke", (), (ValueError, error, error.__traceback__))
    told = json.loads(JsonLines().format(record))
    assert told["msg"] == "it broke"
    assert "ValueError: why" in told["exception"]


def test_it_begins_as_text() -> None:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    root.handlers = []
    try:
        begin()
        (handler,) = root.handlers
        assert root.level == logging.INFO
        assert not isinstance(handler.formatter, JsonLines)
    finally:
        root.handlers = handlers
        root.setLevel(level)
