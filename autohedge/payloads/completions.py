"""POST /v1/completions: the fields that each kind of engine reads, and what it takes in them.

Rules as in chat.py. A prompt is a string, an array of strings, of token ids, or of arrays of token ids; llama.cpp also
mixes them and takes objects with `prompt_string`; Ollama takes a string only. Null and absent prompts are what the
OpenAI reference allows and every engine that was asked refuses.
"""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import Field, StrictInt
from typing_extensions import TypedDict

from autohedge.core.types import Kind
from autohedge.payloads import shapes as s
from autohedge.payloads.chat import CppSampling
from autohedge.payloads.embeddings import LaxInput

LAX_PROMPT = "a string, or a non-empty array of strings, of token ids or of arrays of token ids"

LaxId = Annotated[int, Field(ge=0)]
LaxPrompt = (
    str
    | Annotated[list[str], Field(min_length=1, fail_fast=True)]
    | Annotated[list[LaxId], Field(min_length=1, fail_fast=True)]
    | Annotated[list[Annotated[list[LaxId], Field(fail_fast=True)]], Field(min_length=1, fail_fast=True)]
)

CppId = Annotated[StrictInt, Field(ge=0)]


class CppPromptObject(TypedDict):
    prompt_string: str


CppItem = CppId | str | Annotated[list[CppId | str], Field(fail_fast=True)] | CppPromptObject
CppPrompt = Annotated[
    str | CppPromptObject | Annotated[list[CppItem], Field(min_length=1, fail_fast=True)],
    s.Expect("a string, or a non-empty array of strings, token ids or arrays of token ids"),
]


class Common(TypedDict, total=False):
    model: s.Text
    prompt: Annotated[str | list[Any] | dict[str, Any] | None, s.Expect(LAX_PROMPT)]
    temperature: s.Number
    top_p: s.Number
    top_k: s.Number
    min_p: s.Number
    n: s.Number
    seed: s.Number
    max_tokens: s.Number
    frequency_penalty: s.Number
    presence_penalty: s.Number
    logprobs: s.FlagOrNumber
    echo: s.Flag
    stream: s.Flag


class Vllm(TypedDict, total=False):
    prompt: Annotated[LaxPrompt | None, s.Expect(LAX_PROMPT)]
    model: s.Text
    temperature: s.ZeroToTwo
    top_p: s.AboveZeroToOne
    n: s.FromOneSet
    seed: s.Int64
    max_tokens: s.FromZeroWhole
    frequency_penalty: s.Penalty
    presence_penalty: s.Penalty
    logprobs: s.FromMinusOne
    echo: s.Flag
    stream: s.Flag
    suffix: s.Text
    user: s.Text
    add_special_tokens: s.FlagSet
    bad_words: s.Texts
    ignore_eos: s.FlagSet
    include_stop_str_in_output: s.FlagSet
    length_penalty: s.NumberSet
    min_p: s.ZeroToOne
    min_tokens: s.FromZeroWholeSet
    priority: s.Int64Set
    repetition_penalty: s.AboveZero
    skip_special_tokens: s.FlagSet
    stop_token_ids: s.Wholes
    top_k: s.FromMinusOne
    truncate_prompt_tokens: s.FromMinusOne
    use_beam_search: s.FlagSet


class Sglang(TypedDict):
    prompt: Annotated[LaxInput, s.Expect(LAX_PROMPT)]
    model: NotRequired[s.Text]
    temperature: NotRequired[Annotated[Annotated[float, Field(ge=0)], s.Expect("a number of at least 0")]]
    top_p: NotRequired[Annotated[Annotated[float, Field(gt=0, le=1)], s.Expect("a number above 0, at most 1")]]
    n: NotRequired[s.WholeSet]
    best_of: NotRequired[s.Whole]
    seed: NotRequired[s.Int64]
    max_tokens: NotRequired[s.FromOneSet]
    frequency_penalty: NotRequired[s.PenaltySet]
    presence_penalty: NotRequired[s.PenaltySet]
    logprobs: NotRequired[s.Whole]
    echo: NotRequired[s.FlagSet]
    stream: NotRequired[s.FlagSet]
    suffix: NotRequired[s.Text]
    user: NotRequired[s.Text]
    ignore_eos: NotRequired[s.FlagSet]
    json_schema: NotRequired[s.Text]
    min_tokens: NotRequired[s.FromZeroWholeSet]
    regex: NotRequired[s.Text]
    skip_special_tokens: NotRequired[s.FlagSet]
    stop_token_ids: NotRequired[s.Wholes]


class Cpp(CppSampling):
    prompt: CppPrompt
    logprobs: NotRequired[s.CppFlagOrNumber]
    echo: NotRequired[s.CppFlag]


class Ollama(TypedDict, total=False):
    prompt: s.Text
    model: s.Text
    stream: s.StrictFlag
    max_tokens: s.StrictWhole
    seed: s.StrictWhole
    temperature: s.StrictNumber
    top_p: s.StrictNumber
    frequency_penalty: s.StrictNumber
    presence_penalty: s.StrictNumber
    suffix: s.Text


COMMON: Any = Common
MODELS: dict[Kind, Any] = {Kind.VLLM: Vllm, Kind.SGLANG: Sglang, Kind.LLAMACPP: Cpp, Kind.OLLAMA: Ollama}
