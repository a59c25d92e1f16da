"""The shapes of single fields: what a value may be, with the words that a client reads when it is something else.

Rules
- Four ways to read JSON are in use, and each shape belongs to one of them:
  lax     vLLM and SGLang (pydantic): "0.7" and true are numbers, "true" and 1 are booleans
  cpp     llama.cpp (nlohmann json): true is a number, 1.5 is a whole number, "0.7" and "true" are refused
  strict  Ollama (Go) and TGI (serde): a number is a number, a whole number has no point
- `Expect` carries the words. It folds the noise of a union into one error, in Rust, at no cost for good values.
- A number that is not finite is refused by every engine where a number is read.
- Names that end in `Set` refuse null; all others take it, as most clients send it for "not set".

It must not know: which field has which shape, engines by name (see chat.py, completions.py, embeddings.py, others.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler, StrictBool, StrictFloat, StrictInt
from pydantic_core import CoreSchema, core_schema

EXPECTED = "expected"  # the type of the error that `Expect` makes; its message is the words


@dataclass(frozen=True)
class Expect:
    """Replaces every error of a shape by one that says what is accepted. The words follow "expected "."""

    words: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.custom_error_schema(
            handler(source), custom_error_type=EXPECTED, custom_error_message=self.words
        )


INT64 = 2**63 - 1

_Finite = Annotated[float, Field(allow_inf_nan=False)]
_StrictFinite = Annotated[StrictFloat, Field(allow_inf_nan=False)]

# --- any of the three ---------------------------------------------------------------------------------------------------
TextSet = Annotated[str, Expect("a string")]
Text = Annotated[str | None, Expect("a string")]
Object = Annotated[dict[str, Any] | None, Expect("an object")]
Array = Annotated[list[Any] | None, Expect("an array")]

# --- lax ----------------------------------------------------------------------------------------------------------------
Number = Annotated[_Finite | None, Expect("a number")]
NumberSet = Annotated[_Finite, Expect("a number")]
Whole = Annotated[int | None, Expect("a whole number")]
WholeSet = Annotated[int, Expect("a whole number")]
Flag = Annotated[bool | None, Expect("true or false")]
FlagSet = Annotated[bool, Expect("true or false")]
FlagOrNumber = Annotated[bool | _Finite | None, Expect("true, false or a number")]
Wholes = Annotated[Annotated[list[int], Field(fail_fast=True)] | None, Expect("an array of whole numbers")]
Texts = Annotated[Annotated[list[str], Field(fail_fast=True)], Expect("an array of strings")]

FromZero = Annotated[Annotated[float, Field(ge=0, allow_inf_nan=False)] | None, Expect("a number of at least 0")]
ZeroToTwo = Annotated[Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None, Expect("a number from 0 to 2")]
ZeroToOne = Annotated[Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None, Expect("a number from 0 to 1")]
AboveZeroToOne = Annotated[
    Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None, Expect("a number above 0, at most 1")
]
AboveZeroToTwo = Annotated[
    Annotated[float, Field(gt=0, le=2, allow_inf_nan=False)] | None, Expect("a number above 0, at most 2")
]
AboveZero = Annotated[Annotated[float, Field(gt=0, allow_inf_nan=False)] | None, Expect("a number above 0")]
Penalty = Annotated[Annotated[float, Field(ge=-2, le=2, allow_inf_nan=False)] | None, Expect("a number from -2 to 2")]
PenaltySet = Annotated[Annotated[float, Field(ge=-2, le=2, allow_inf_nan=False)], Expect("a number from -2 to 2")]
FromOne = Annotated[Annotated[int, Field(ge=1)] | None, Expect("a whole number of at least 1")]
FromOneSet = Annotated[Annotated[int, Field(ge=1)], Expect("a whole number of at least 1")]
FromZeroWhole = Annotated[Annotated[int, Field(ge=0)] | None, Expect("a whole number of at least 0")]
FromZeroWholeSet = Annotated[Annotated[int, Field(ge=0)], Expect("a whole number of at least 0")]
FromMinusOne = Annotated[Annotated[int, Field(ge=-1)] | None, Expect("a whole number of at least -1")]
Int64 = Annotated[Annotated[int, Field(ge=-INT64 - 1, le=INT64)] | None, Expect("a whole number of 64 bits")]
Int64Set = Annotated[Annotated[int, Field(ge=-INT64 - 1, le=INT64)], Expect("a whole number of 64 bits")]

# --- cpp ----------------------------------------------------------------------------------------------------------------
CppNumber = Annotated[_StrictFinite | StrictBool | None, Expect("a number")]
CppFlag = Annotated[StrictBool | None, Expect("true or false")]
CppFlagOrNumber = CppNumber
CppUpToAll = Annotated[
    Annotated[StrictFloat, Field(gt=-2, allow_inf_nan=False)] | StrictBool | None,
    Expect("a number of at least -1, where -1 is no limit"),
]
CppFromOne = Annotated[
    Annotated[StrictFloat, Field(ge=1, allow_inf_nan=False)] | StrictBool | None, Expect("a number of at least 1")
]

# --- strict -------------------------------------------------------------------------------------------------------------
StrictNumber = Annotated[_StrictFinite | None, Expect("a number")]
StrictWhole = Annotated[StrictInt | None, Expect("a whole number, not in quotes and without a point")]
StrictNatural = Annotated[
    Annotated[StrictInt, Field(ge=0)] | None, Expect("a whole number of at least 0, not in quotes and without a point")
]
StrictFlag = Annotated[StrictBool | None, Expect("true or false, not in quotes")]
StrictFlagSet = Annotated[StrictBool, Expect("true or false, not in quotes")]
OpenFraction = Annotated[
    Annotated[StrictFloat, Field(gt=0, lt=1, allow_inf_nan=False)] | None, Expect("a number above 0 and below 1")
]
