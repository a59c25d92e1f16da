"""Questions one by one: what each taste wants of instructions, descriptions and names."""

from __future__ import annotations

from typing import Any

import pytest

from autohedge.core.problems import Detail
from autohedge.payloads.systemone_questions import blank, question
from autohedge.payloads.systemone_tastes import Needs, Taste

STRICT = Taste(textual=True, closed=True, plain_options=True, worded_levels=True, needs=Needs.WORDS)


def found(value: Any, taste: Taste) -> list[tuple[str, tuple[str | int, ...]]]:
    details: list[Detail] = []
    question("q", value, taste, details)
    return [(detail.code, detail.steps[2:]) for detail in details]


@pytest.mark.parametrize(
    ("needs", "instructions", "criteria", "refused"),
    [
        (Needs.ANYTHING, None, None, True),
        (Needs.ANYTHING, "", None, False),
        (Needs.ANYTHING, None, {"true": ""}, False),
        (Needs.ANYTHING, None, {"true": None}, True),
        (Needs.WORDS, " ", {"true": ""}, True),
        (Needs.WORDS, "", {"false": "x"}, False),
        (Needs.WORDS, {}, None, True),
        (Needs.INSTRUCTIONS, None, {"true": "x"}, True),
        (Needs.INSTRUCTIONS, "", None, False),
        (Needs.WORDED_INSTRUCTIONS, "", None, True),
        (Needs.WORDED_INSTRUCTIONS, "x", None, False),
    ],
)
def test_what_a_noul_must_say(needs: Needs, instructions: Any, criteria: Any, refused: bool) -> None:
    """TypeSafe and SGLang want instructions or a description, llama.cpp and Ollama instructions."""
    value = {"type": "noul", "instructions": instructions, "criteria": criteria}
    assert ("nothing_to_decide" in [code for code, _ in found(value, Taste(needs=needs))]) is refused


def test_llama_cpp_wants_instructions_of_every_question() -> None:
    value = {"type": "choice", "criteria": {"a": None}}
    assert found(value, Taste(needs=Needs.INSTRUCTIONS)) == [("missing_field", ("instructions",))]
    assert found(value, STRICT) == []


def test_descriptions_of_a_noul() -> None:
    value = {"type": "noul", "instructions": "x", "criteria": {"true": {"a": 1}, "false": 5}}
    assert found(value, Taste(textual=True, string_descriptions=True)) == [
        ("invalid_type", ("criteria", "true")),
        ("invalid_type", ("criteria", "false")),
    ]
    assert found(value, Taste()) == []
    assert found({**value, "criteria": []}, Taste()) == [("invalid_type", ("criteria",))]


def test_criteria_that_are_null() -> None:
    """Null is there and is no object, which is said in other words than a field that is missing."""
    assert found({"type": "choice", "criteria": None}, STRICT) == [("invalid_type", ("criteria",))]
    assert found({"type": "score", "criteria": None}, STRICT) == [("invalid_type", ("criteria",))]
    assert found({"type": "score"}, STRICT) == [("missing_field", ("criteria",))]


def test_names_differ_by_more_than_case() -> None:
    """SGLang folds case: the long s and the sharp s too."""
    assert found({"type": "choice", "criteria": {"straße": None, "STRASSE": None}}, STRICT) == [
        ("duplicate_option", ("criteria", "STRASSE"))
    ]
    assert found({"type": "choice", "criteria": {"a\u00a0b": None, "🙂": None}}, STRICT) == []
    assert found({"type": "choice", "criteria": {"a\u2028b": None}}, STRICT) == [
        ("invalid_option_name", ("criteria", "a\u2028b"))
    ]


def test_a_question_with_a_thousand_odd_fields_is_told_briefly() -> None:
    assert len(found({str(i): 1 for i in range(1000)}, STRICT)) < 20


@pytest.mark.parametrize("value", [5, None, [], "x"])
def test_a_question_that_is_no_object(value: Any) -> None:
    assert found(value, STRICT) == [("invalid_type", ())]


def test_a_type_that_is_no_text() -> None:
    assert found({"type": ["noul"]}, STRICT) == [("invalid_question_type", ("type",))]
    assert found({"type": None}, STRICT) == [("invalid_question_type", ("type",))]


def test_blank() -> None:
    nothing: list[Any] = ["", " \n", [], {}, None]
    something: list[Any] = ["x", [""], {"a": None}]
    assert all(map(blank, nothing))
    assert not any(map(blank, something))
