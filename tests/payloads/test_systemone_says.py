"""How findings about System One requests read."""

from __future__ import annotations

import json

from autohedge.payloads.systemone_says import as_object, at, of, shown, typed, unknown


def test_a_finding_names_its_place_step_by_step() -> None:
    found = at(("questions", "a.b", "criteria", 1), "invalid_level", "said")
    assert (found.param, found.steps) == ("questions.a.b.criteria[1]", ("questions", "a.b", "criteria", 1))
    assert at((), "c", "m").param is None


def test_ids_are_shown_shortened_on_one_line() -> None:
    assert shown("q") == "'q'"
    assert len(shown("x" * 500)) == 42
    assert shown("a\nb") == "'a\\nb'"
    assert shown("\ud800") == "'?'"


def test_values_are_told_by_their_kind_alone() -> None:
    """States and instructions are what people wrote; findings travel to logs."""
    assert [of(value) for value in json.loads('["x", 1, 1.5, true, null, [], {}]')] == [
        "string", "integer", "number", "boolean", "null", "array", "object",
    ]  # fmt: skip
    assert typed(("state",), "state", "a string", 5).message == "state must be a string, got integer"


def test_an_array_of_options_is_shown_as_the_object_that_it_should_be() -> None:
    assert as_object(["a", "b"]) == '{"a": null, "b": null}'
    assert as_object(["a", "b", "c", "d"]) == '{"a": null, "b": null, "c": null, ...}'
    assert as_object([1]) == '{"a": null, "b": null, ...}'


def test_the_field_that_was_meant() -> None:
    """By the name that other APIs have for it, or by its spelling."""
    assert "use 'instructions'" in unknown("q", "prompt", "noul", "x").message
    assert "use 'criteria'" in unknown("q", "options", "choice", ["a"]).message
    assert "use 'criteria'" in unknown("q", "critera", "noul", {}).message
    assert "use 'type'" in unknown("q", "Type", "", "noul").message
    assert "is not a field of a noul question; its fields are" in unknown("q", "weight", "noul", 1).message
    assert "is not a field of a question" in unknown("q", "weight", "", 1).message
