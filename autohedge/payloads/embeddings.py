"""POST /v1/embeddings, and the sparse and combined doors next to it: what each kind of engine takes.

Rules as in chat.py. `input` is a string, an array of strings, of token ids, or of arrays of token ids. llama.cpp also
reads `content` in its place, mixed arrays, and objects with `content` parts; vLLM reads `messages` in its place.
`encoding_format` is "float" or "base64" (openai-python asks for base64 by itself); vLLM adds two binary ones.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, StrictInt
from typing_extensions import TypedDict

from autohedge.core.types import Kind
from autohedge.payloads import shapes as s

LAX_INPUT = "a string, or a non-empty array of strings, of token ids or of arrays of token ids"
FORMATS = '"float" or "base64"'

LaxInput = (
    str
    | Annotated[list[str], Field(min_length=1, fail_fast=True)]
    | Annotated[list[int], Field(min_length=1, fail_fast=True)]
    | Annotated[list[Annotated[list[int], Field(fail_fast=True)]], Field(min_length=1, fail_fast=True)]
)

CppId = Annotated[StrictInt, Field(ge=0)]


class CppPromptObject(TypedDict):
    prompt_string: str


class CppContentObject(TypedDict):
    content: list[Any]


CppObject = CppPromptObject | CppContentObject
CppItem = CppId | str | Annotated[list[CppId | str], Field(min_length=1, fail_fast=True)] | CppObject


class SglangInput(TypedDict, total=False):
    text: s.Text
    image: s.Text
    video: s.Text


class Common(TypedDict, total=False):
    model: s.Text
    input: Annotated[str | list[Any] | dict[str, Any] | None, s.Expect(LAX_INPUT)]
    encoding_format: Annotated[Literal["float", "base64", "bytes", "bytes_only"] | None, s.Expect(FORMATS)]


class Vllm(TypedDict, total=False):
    input: Annotated[
        LaxInput
        | Annotated[list[dict[str, Any]], Field(min_length=1, fail_fast=True)]
        | Annotated[list[list[dict[str, Any]]], Field(min_length=1, fail_fast=True)],
        s.Expect(LAX_INPUT),
    ]
    model: s.Text
    encoding_format: Annotated[Literal["float", "base64", "bytes", "bytes_only"], s.Expect(FORMATS)]
    dimensions: s.Whole
    user: s.Text
    truncate_prompt_tokens: s.FromMinusOne
    add_special_tokens: s.FlagSet
    priority: s.Int64Set


class Sglang(TypedDict):
    input: Annotated[LaxInput | Annotated[list[SglangInput], Field(min_length=1, fail_fast=True)], s.Expect(LAX_INPUT)]
    model: NotRequired[s.Text]
    encoding_format: NotRequired[Annotated[Literal["float", "base64"], s.Expect(FORMATS)]]
    dimensions: NotRequired[s.Whole]
    user: NotRequired[s.Text]


class Cpp(TypedDict, total=False):
    input: Annotated[
        str | CppObject | Annotated[list[CppItem], Field(min_length=1, fail_fast=True)], s.Expect(LAX_INPUT)
    ]
    encoding_format: Annotated[Literal["float", "base64"], s.Expect(FORMATS)]
    embd_normalize: Annotated[float, s.Expect("a number")]


class Ollama(TypedDict, total=False):
    input: Annotated[
        str | Annotated[list[str], Field(fail_fast=True)] | None, s.Expect("a string or an array of strings")
    ]
    model: s.Text
    encoding_format: Annotated[Annotated[str, Field(pattern="^(?i:float|base64)?$")] | None, s.Expect(FORMATS)]
    dimensions: s.StrictWhole


COMMON: Any = Common
MODELS: dict[Kind, Any] = {Kind.VLLM: Vllm, Kind.SGLANG: Sglang, Kind.LLAMACPP: Cpp, Kind.OLLAMA: Ollama}
