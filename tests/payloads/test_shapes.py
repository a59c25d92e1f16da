"""Single fields: what each of the ways to read JSON takes, and the words when it does not."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from autohedge.payloads import shapes as s


def takes(shape: Any, value: Any) -> bool:
    try:
        TypeAdapter(shape).validate_python(value)
    except ValidationError as error:
        return [e["type"] for e in error.errors()] != [s.EXPECTED]
    return True


@pytest.mark.parametrize(
    "value", [1, 1.5, True, "1", "0.5", None, "hot", [], {}, float("nan"), float("inf"), "nan", ""]
)
def test_numbers(value: Any) -> None:
    """Section 00: vLLM and SGLang read numbers in quotes, llama.cpp reads true, Go and serde neither; nobody NaN."""
    good = isinstance(value, int | str | None) or value == 1.5
    good = good and value not in ("hot", "nan", "")
    assert takes(s.Number, value) is good
    assert takes(s.CppNumber, value) is (good and not isinstance(value, str))
    assert takes(s.StrictNumber, value) is (good and not isinstance(value, str | bool))
    assert takes(s.NumberSet, value) is (good and value is not None)


@pytest.mark.parametrize("value", [True, False, None, "true", "yes", 1, 0, 1.0, "hot", "", [], {}, 2])
def test_flags(value: Any) -> None:
    """Section 00: stream "true" and 1 pass in vLLM and SGLang, llama.cpp refuses them."""
    good = value in (True, False, None, "true", "yes")
    assert takes(s.Flag, value) is good
    assert takes(s.CppFlag, value) is isinstance(value, bool | None)
    assert takes(s.FlagSet, value) is (good and value is not None)


@pytest.mark.parametrize(
    ("shape", "good", "bad"),
    [
        (s.Whole, [1, "5", 2.0, True, None], [1.5, "1.5", "x", []]),
        (s.StrictWhole, [1, -1, None], [1.0, "1", True]),
        (s.StrictNatural, [0, 7, None], [-1, 1.0]),
        (s.ZeroToTwo, [0, 2, "1", None], [2.5, -0.1]),
        (s.AboveZeroToOne, [0.1, 1, None], [0, 1.1]),
        (s.Penalty, [-2, 2, None], [-2.1, 3]),
        (s.PenaltySet, [0], [None]),
        (s.Int64, [-(2**63), 2**63 - 1, None], [2**63, 1.5]),
        (s.CppUpToAll, [-1, -1.5, 0, 1.5, 10**6, None], [-2, -5, "1"]),
        (s.CppFromOne, [1, 1.5, None, True], [0, -1, 0.5]),
        (s.OpenFraction, [0.5, None], [0, 1, "0.5"]),
        (s.FlagOrNumber, [True, 5, None, "1"], ["hot", []]),
    ],
)
def test_ranges(shape: Any, good: list[Any], bad: list[Any]) -> None:
    assert [value for value in good if not takes(shape, value)] == []
    assert [value for value in bad if takes(shape, value)] == []


def test_words() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(s.ZeroToTwo).validate_python("hot")
    assert caught.value.errors()[0]["msg"] == "a number from 0 to 2"
