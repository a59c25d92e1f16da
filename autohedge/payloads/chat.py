"""POST /v1/chat/completions: the fields that each kind of engine reads, and what it takes in them.

Rules
- A field that is not named here is not checked: unknown keys pass, and so do fields that an engine ignores (Ollama reads
  neither n, tool_choice, logit_bias nor max_completion_tokens; nobody reads metadata, store or service_tier).
- `Common` is what llama.cpp b11549, vLLM 0.32.0 and SGLang 0.5.23 all refuse, sent to the real ones or to their own
  request classes; it is also all that is checked for an engine that is not known.
- Dictionaries, not classes: a TypedDict of 25 fields is checked in 1.2 us, a model class takes 3.

It must not know: how a finding reads (findings.py), rules over two fields (checks.py).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from autohedge.core.types import Kind
from autohedge.payloads import shapes as s
from autohedge.payloads import talk


class Common(TypedDict):
    messages: list[talk.CommonMessage]
    model: NotRequired[s.Text]  # llama.cpp alone takes anything, and does not read it
    temperature: NotRequired[s.Number]
    top_p: NotRequired[s.Number]
    top_k: NotRequired[s.Number]
    min_p: NotRequired[s.Number]
    n: NotRequired[s.Number]
    seed: NotRequired[s.Number]
    max_tokens: NotRequired[s.Number]
    max_completion_tokens: NotRequired[s.Number]
    frequency_penalty: NotRequired[s.Number]
    presence_penalty: NotRequired[s.Number]
    logprobs: NotRequired[s.FlagOrNumber]
    stream: NotRequired[s.Flag]
    tools: NotRequired[list[talk.CommonTool] | None]


class _VllmExtras(TypedDict, total=False):
    """What vLLM reads beyond OpenAI. It takes null for few of these."""

    add_generation_prompt: s.FlagSet
    add_special_tokens: s.FlagSet
    allowed_token_ids: s.Wholes
    bad_words: s.Texts
    chat_template: s.Text
    chat_template_kwargs: s.Object
    continue_final_message: s.FlagSet
    documents: s.Array
    echo: s.FlagSet
    ignore_eos: s.FlagSet
    include_reasoning: s.FlagSet
    include_stop_str_in_output: s.FlagSet
    length_penalty: s.NumberSet
    min_p: s.ZeroToOne
    min_tokens: s.FromZeroWholeSet
    prompt_logprobs: s.FromMinusOne
    priority: s.Int64Set
    repetition_penalty: s.AboveZero
    request_id: s.TextSet
    session_id: s.Text
    skip_special_tokens: s.FlagSet
    spaces_between_special_tokens: s.FlagSet
    stop_token_ids: s.Wholes
    top_k: s.FromMinusOne
    truncate_prompt_tokens: s.FromMinusOne
    truncation_side: Annotated[Literal["left", "right"] | None, s.Expect('"left" or "right"')]
    use_beam_search: s.FlagSet
    vllm_xargs: s.Object


class Vllm(_VllmExtras):
    messages: Annotated[list[talk.VllmMessage], Field(min_length=1)]
    model: NotRequired[s.Text]
    temperature: NotRequired[s.ZeroToTwo]
    top_p: NotRequired[s.AboveZeroToOne]
    n: NotRequired[s.FromOne]
    seed: NotRequired[s.Int64]
    max_tokens: NotRequired[s.Whole]
    max_completion_tokens: NotRequired[s.Whole]
    frequency_penalty: NotRequired[s.Penalty]
    presence_penalty: NotRequired[s.Penalty]
    logprobs: NotRequired[s.Flag]
    stream: NotRequired[s.Flag]
    parallel_tool_calls: NotRequired[s.Flag]
    user: NotRequired[s.Text]
    tools: NotRequired[Annotated[list[talk.VllmTool], Field(min_length=1)] | None]
    reasoning_effort: NotRequired[
        Annotated[
            Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None,
            s.Expect('"none", "minimal", "low", "medium", "high", "xhigh" or "max"'),
        ]
    ]


class _SglangExtras(TypedDict, total=False):
    """What SGLang reads beyond OpenAI."""

    chat_template_kwargs: s.Object
    continue_final_message: s.FlagSet
    custom_params: s.Object
    ebnf: s.Text
    ignore_eos: s.FlagSet
    min_p: s.ZeroToOne
    min_tokens: s.FromZeroWholeSet
    no_stop_trim: s.FlagSet
    regex: s.Text
    repetition_penalty: s.AboveZeroToTwo
    separate_reasoning: s.FlagSet
    session_id: s.Text
    skip_special_tokens: s.FlagSet
    stop_token_ids: s.Wholes
    stream_reasoning: s.FlagSet
    top_k: s.Whole


class Sglang(_SglangExtras):
    messages: Annotated[list[talk.SglangMessage], Field(min_length=1)]
    model: NotRequired[s.Text]  # null is refused there, and replaced on the way: a name is always sent
    temperature: NotRequired[s.FromZero]
    top_p: NotRequired[s.AboveZeroToOne]
    n: NotRequired[s.WholeSet]
    seed: NotRequired[s.Int64]
    max_tokens: NotRequired[s.Whole]
    max_completion_tokens: NotRequired[s.Whole]
    frequency_penalty: NotRequired[s.PenaltySet]
    presence_penalty: NotRequired[s.PenaltySet]
    logprobs: NotRequired[s.FlagSet]
    top_logprobs: NotRequired[s.Whole]
    stream: NotRequired[s.FlagSet]
    parallel_tool_calls: NotRequired[s.FlagSet]
    user: NotRequired[s.Text]
    tools: NotRequired[list[talk.SglangTool] | None]


class CppSampling(TypedDict, total=False):
    """The sampling fields that llama.cpp reads on every door; each of them was sent as a string and refused."""

    adaptive_target: s.CppNumber
    cache_prompt: s.CppFlag
    dry_allowed_length: s.CppNumber
    dry_base: s.CppNumber
    dry_multiplier: s.CppNumber
    dynatemp_exponent: s.CppNumber
    dynatemp_range: s.CppNumber
    frequency_penalty: s.CppNumber
    ignore_eos: s.CppFlag
    max_completion_tokens: s.CppUpToAll
    max_tokens: s.CppUpToAll
    min_keep: s.CppNumber
    min_p: s.CppNumber
    mirostat: s.CppNumber
    mirostat_eta: s.CppNumber
    mirostat_tau: s.CppNumber
    n: s.CppFromOne
    n_cmpl: s.CppNumber
    n_indent: s.CppNumber
    n_keep: s.CppNumber
    n_predict: s.CppUpToAll
    n_probs: s.CppNumber
    post_sampling_probs: s.CppFlag
    presence_penalty: s.CppNumber
    repeat_last_n: s.CppNumber
    repeat_penalty: s.CppNumber
    return_progress: s.CppFlag
    return_tokens: s.CppFlag
    seed: s.CppNumber
    sse_ping_interval: s.CppNumber
    stream: s.CppFlag
    t_max_predict_ms: s.CppNumber
    temperature: s.CppNumber
    timings_per_token: s.CppFlag
    top_k: s.CppNumber
    top_n_sigma: s.CppNumber
    top_p: s.CppNumber
    typical_p: s.CppNumber
    xtc_probability: s.CppNumber
    xtc_threshold: s.CppNumber


class Cpp(CppSampling):
    messages: list[talk.CppMessage]
    logprobs: NotRequired[s.CppFlagOrNumber]
    echo: NotRequired[s.CppFlag]
    tools: NotRequired[list[talk.CppTool] | None]
    reasoning_format: NotRequired[  # any other word is a 500 there, and Groq's clients send "hidden" and "parsed"
        Annotated[
            Literal["none", "auto", "deepseek", "deepseek-legacy"],
            s.Expect('"none", "auto", "deepseek" or "deepseek-legacy"'),
        ]
    ]


class Ollama(TypedDict):
    """The fields of its request struct; what Go cannot put into one is a 400, and null is "not set" for all of them."""

    messages: Annotated[list[talk.OllamaMessage], Field(min_length=1)]
    model: NotRequired[s.Text]
    stream: NotRequired[s.StrictFlag]
    max_tokens: NotRequired[s.StrictWhole]
    seed: NotRequired[s.StrictWhole]
    temperature: NotRequired[s.StrictNumber]
    top_p: NotRequired[s.StrictNumber]
    frequency_penalty: NotRequired[s.StrictNumber]
    presence_penalty: NotRequired[s.StrictNumber]
    response_format: NotRequired[s.Object]
    tools: NotRequired[list[talk.OllamaTool] | None]
    reasoning: NotRequired[s.Object]
    reasoning_effort: NotRequired[s.Text]


class Tgi(TypedDict):
    messages: list[talk.TgiMessage]
    model: NotRequired[s.Text]
    stream: NotRequired[s.StrictFlagSet]
    max_tokens: NotRequired[s.StrictNatural]
    max_completion_tokens: NotRequired[s.StrictNatural]
    seed: NotRequired[s.StrictNatural]
    temperature: NotRequired[s.StrictNumber]
    top_p: NotRequired[s.OpenFraction]
    frequency_penalty: NotRequired[s.StrictNumber]
    presence_penalty: NotRequired[s.StrictNumber]
    logprobs: NotRequired[s.StrictFlag]
    stop: NotRequired[Annotated[Annotated[list[str], Field(fail_fast=True)] | None, s.Expect("an array of strings")]]
    logit_bias: NotRequired[
        Annotated[Annotated[list[float], Field(fail_fast=True)] | None, s.Expect("an array of numbers")]
    ]
    tools: NotRequired[list[talk.CommonTool] | None]


COMMON: Any = Common
MODELS: dict[Kind, Any] = {
    Kind.VLLM: Vllm,
    Kind.SGLANG: Sglang,
    Kind.LLAMACPP: Cpp,
    Kind.OLLAMA: Ollama,
    Kind.TGI: Tgi,
}
