"""Single values: the field decides what an unquoted text is."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from autohedge.core.types import Kind, Secret
from autohedge.settings.scalars import (
    Credential,
    Flag,
    Level,
    Many,
    NotNegative,
    Number,
    Plain,
    Provider,
    Whole,
    kind_of,
    told,
)
from autohedge.settings.section import Section


class Sample(Section):
    whole: Whole = 0
    count: NotNegative = 0
    number: Number = 0.0
    flag: Flag = False
    level: Level = "off"
    words: Many[str] = ()
    provider: Provider = Kind.AUTO
    key: Credential | None = None


def read(field: str, value: object) -> object:
    return getattr(Sample.model_validate({field: value}), field)


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("whole", "4", 4),
        ("whole", "-4", -4),
        ("whole", "33_554_432", 33_554_432),
        ("number", "0.2", 0.2),
        ("number", ".5", 0.5),
        ("number", "1", 1.0),
        ("number", "1e-1", 0.1),
        *(("flag", text, True) for text in ("true", "True", "yes", "on", "ON")),
        *(("flag", text, False) for text in ("false", "no", "off")),
        ("level", "Debug", "debug"),
        ("level", "off", "off"),
        ("level", "false", "off"),
        ("provider", "VLLM", Kind.VLLM),
        ("provider", "openai", Kind.OPENAI),
        ("provider", "llama.cpp", Kind.LLAMACPP),
    ],
)
def test_a_plain_text_becomes_what_the_field_wants(field: str, text: str, value: object) -> None:
    """YAML and the environment give texts; eidex's levels take any case, and YAML's false for off."""
    assert read(field, Plain(text)) == value


@pytest.mark.parametrize(
    ("field", "text"),
    [
        *(("whole", text) for text in ("010", "0x10", "1.0", "1e3", "4 ", "", "1:30", "4s", "99999999999999999999999")),
        *(("number", text) for text in ("nan", "inf", "-1", "1,5", "", "0x1")),
        *(("flag", text) for text in ("1", "0", "y", "", "maybe")),
        *(("level", text) for text in ("on", "true", "trace", "")),
        *(("provider", text) for text in ("vlm", "")),
    ],
)
def test_a_plain_text_that_does_not_fit_is_refused(field: str, text: str) -> None:
    """No octal, no NaN, no 1 for true: one spelling, one meaning."""
    with pytest.raises(ValidationError):
        read(field, Plain(text))


@pytest.mark.parametrize(
    ("field", "value"),
    [("whole", "4"), ("whole", True), ("number", "1"), ("flag", "true"), ("flag", 1), ("words", "a")],
)
def test_quoted_text_is_never_a_number(field: str, value: object) -> None:
    """Strict: the operator's quotes say text."""
    with pytest.raises(ValidationError):
        read(field, value)


def test_python_values_pass_as_they_are() -> None:
    """Tests and callers build settings by hand."""
    sample = Sample(whole=4, number=0.5, flag=True, words=("a",), provider=Kind.TGI, key=Secret("k"))
    assert (sample.whole, sample.number, sample.flag, sample.words) == (4, 0.5, True, ("a",))
    assert read("level", False) == "off"
    assert read("words", ["a", Plain("b")]) == ("a", "b")


def test_a_credential_never_shows() -> None:
    """Neither in the repr of the section nor in the error about it; blanks around it are a copying mistake."""
    sample = Sample.model_validate({"key": Plain(" sk-hidden\n")})
    assert sample.key == Secret("sk-hidden")
    assert "hidden" not in repr(sample)
    for wrong in ("sk hidden\u00e9", ["sk-hidden"], "a\nhidden", "  "):
        with pytest.raises(ValidationError) as caught:
            Sample.model_validate({"key": wrong})
        assert "hidden" not in str(caught.value)


def test_an_unknown_provider_is_told_the_nearest() -> None:
    """Also without a near one: then all are listed."""
    with pytest.raises(ValueError, match='did you mean "vllm"'):
        kind_of("vlm")
    with pytest.raises(ValueError, match="known: auto, openai-compatible"):
        kind_of("zzz")


def test_a_value_is_told_short_and_by_shape() -> None:
    """Messages hold no pages of text and no Python."""
    assert told("x" * 200) == f'"{"x" * 77}..."'
    values: list[object] = ["a", {}, [], None, True, 5]
    assert [told(value) for value in values] == [
        '"a"',
        "a mapping",
        "a list",
        "nothing",
        "true",
        "5",
    ]
