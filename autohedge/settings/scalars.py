"""Single values: how one unquoted text of YAML or of the environment becomes a number, a yes or no, a choice, a secret.

What it decides: the type of a plain scalar, from the field that asks for it, never from its looks. So YAML 1.1 cannot
turn `off` into a boolean, `1:30` into 90 or `2023-05-15` into a date. A quoted scalar is text and stays text.

It must not know: files, lines, or which settings exist.
"""

from __future__ import annotations

import re
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, GetPydanticSchema
from pydantic_core import core_schema

from autohedge.core.types import Kind, Secret
from autohedge.settings.durations import Duration, positive
from autohedge.settings.nearest import did_you_mean

T = TypeVar("T")


class Plain(str):
    """Text without quotes, so without a type yet: the field decides."""

    __slots__ = ()


class Broken(Plain):
    """Stands where a value already has its error, so that no second error follows from it."""

    __slots__ = ()


BROKEN = Broken("")

_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]*(_[0-9]+)*)")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_YES, _NO = {"true", "yes", "on"}, {"false", "no", "off"}


def told(value: object) -> str:
    """A value inside an error message: shortened text in quotes, or only the shape of anything bigger."""
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 80 else f'"{value[:77]}..."'
    if isinstance(value, dict | list | tuple):
        return "a mapping" if isinstance(value, dict) else "a list"
    return "nothing" if value is None else str(value).lower()


def _whole(value: object) -> object:
    if not isinstance(value, Plain):
        return value
    if not _WHOLE.fullmatch(value) or len(value) > 20:
        raise ValueError(f"must be a whole number, not {told(value)}")
    return int(value)


def _number(value: object) -> object:
    if not isinstance(value, Plain):
        return value
    if not _NUMBER.fullmatch(value):
        raise ValueError(f"must be a number, not {told(value)}")
    return float(value)


def _flag(value: object) -> object:
    if not isinstance(value, Plain):
        return value
    if value.lower() in _YES | _NO:
        return value.lower() in _YES
    raise ValueError(f"must be true or false, not {told(value)}")


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _secret(value: object) -> Secret:
    if isinstance(value, Secret):
        return value
    if not isinstance(value, str):
        raise ValueError("must be text")  # noqa: TRY004 - pydantic collects ValueError only
    value = value.strip()
    if not value or not value.isprintable() or not value.isascii():
        raise ValueError("must be printable ASCII text that is not blank")
    return Secret(value)


def one_of(*words: str) -> BeforeValidator:
    """Any case; the error names the choices."""

    def check(value: object) -> object:
        if isinstance(value, str) and value.lower() in words:
            return value.lower()
        raise ValueError(f"must be one of {', '.join(words)}, not {told(value)}")

    return BeforeValidator(check)


LEVELS = ("off", "error", "warning", "info", "debug")


def _level(value: object) -> object:
    """Any case (eidex); YAML's false is what `off` became before we saw it, or what somebody means by it."""
    if value is False or (isinstance(value, Plain) and value.lower() == "false"):
        return "off"
    if isinstance(value, str) and value.lower() in LEVELS:
        return value.lower()
    raise ValueError(f"must be one of {', '.join(LEVELS)}, not {told(value)}")


# Names that people use for a provider, beside its own.
SPELLINGS = {
    "openai": Kind.OPENAI,
    "azure-openai": Kind.AZURE,
    "llama.cpp": Kind.LLAMACPP,
    "llama-cpp": Kind.LLAMACPP,
    "text-generation-inference": Kind.TGI,
    "system-one": Kind.SYSTEMONE,
}


def kind_of(value: object) -> Kind:
    """The provider that a text names, in any case. Raises ValueError with the nearest name."""
    text = value.lower() if isinstance(value, str) else ""
    if text in SPELLINGS:
        return SPELLINGS[text]
    known = [kind.value for kind in Kind]
    if text not in known:
        raise ValueError(f"unknown provider {told(value)}{did_you_mean(text, known)}")
    return Kind(text)


Whole = Annotated[int, BeforeValidator(_whole)]
AtLeastOne = Annotated[int, BeforeValidator(_whole), Field(ge=1)]
NotNegative = Annotated[int, BeforeValidator(_whole), Field(ge=0)]
Number = Annotated[float, BeforeValidator(_number), Field(ge=0, allow_inf_nan=False)]
Flag = Annotated[bool, BeforeValidator(_flag)]
Many = Annotated[tuple[T, ...], BeforeValidator(_tuple)]
PositiveDuration = Annotated[Duration, AfterValidator(positive)]
Level = Annotated[str, BeforeValidator(_level)]
Provider = Annotated[Kind, BeforeValidator(kind_of)]
Credential = Annotated[
    Secret, GetPydanticSchema(lambda _source, _handler: core_schema.no_info_plain_validator_function(_secret))
]
Name = Annotated[str, Field(min_length=1, max_length=512)]
