"""Rules over prompts and inputs, and the table that says which kind of engine gets which rule.

Rules
- An entry is (trigger, check): the check runs when the body has the trigger field, when `ODD` and something about the
  messages is worth a look, or always for `ALWAYS`. So a plain request pays for nothing that it does not use.
- A kind that is not in the table gets what every engine refuses (`COMMON`).

It must not know: how a body was parsed, how findings are shown (wording.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from autohedge.core.problems import Detail
from autohedge.core.types import Door, Kind
from autohedge.payloads import checks_answer as answer
from autohedge.payloads import checks_talk as talk
from autohedge.payloads.asking import Notes
from autohedge.payloads.wording import missing, refused, said

Check = Callable[[dict[str, Any], Notes], Iterator[Detail]]

ALWAYS = ""
ODD = "*"


def prompt_needed(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    """vLLM: a prompt, none of them empty, or embeddings of one."""
    if obj.get("prompt_embeds") is None and obj.get("prompt") is None:
        yield missing(("prompt",), "a string or an array")
    elif obj.get("prompt") is not None:
        yield from _empty("prompt", obj["prompt"])


def prompt_sglang(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    prompt = obj.get("prompt")
    if prompt == "" or (isinstance(prompt, list) and prompt and not any(prompt)):
        yield said(("prompt",), "is empty")


def input_needed(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    """Something to embed: input, or what llama.cpp and vLLM read in its place."""
    if "input" not in obj and "content" not in obj and "messages" not in obj:
        yield missing(("input",), "a string or an array")


def input_vllm(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    if "input" in obj:
        yield from _empty("input", obj["input"])
    elif "messages" not in obj:
        yield missing(("input",), "a string or an array")


def input_cpp(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    if "input" not in obj and "content" not in obj:
        yield missing(("input",), "a string or an array")


def input_sglang(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    """SGLang: white space is nothing, and a token id is not negative."""
    value = obj.get("input")
    items = value if isinstance(value, list) else [value]
    for i, item in enumerate(items):
        if isinstance(item, str) and not item.strip():
            where = ("input", i) if isinstance(value, list) else ("input",)
            yield said(where, "is empty")
            return
        if isinstance(item, int) and item < 0:
            yield refused(("input", i), "a token id of at least 0", item)
            return


def _empty(name: str, value: Any) -> Iterator[Detail]:
    if value == "":
        yield said((name,), "is empty")
    elif (
        isinstance(value, list)
        and (at := next((i for i, item in enumerate(value) if item in ("", [])), None)) is not None
    ):
        yield said((name, at), "is empty")


_SAMPLING_VLLM: tuple[tuple[str, Check], ...] = (
    ("response_format", answer.format_vllm),
    ("stop", answer.stop_words),
    ("stream_options", answer.options_vllm),
    ("logit_bias", answer.bias),
    ("max_tokens", answer.room_vllm),
    ("max_completion_tokens", answer.room_vllm),
    ("prompt_logprobs", answer.prompt_logprobs),
)
_SAMPLING_SGLANG: tuple[tuple[str, Check], ...] = (
    ("response_format", answer.format_sglang),
    ("stop", answer.stop_sglang),
    ("stream_options", answer.options_object),
    ("logit_bias", answer.bias),
)

COMMON: dict[Door, tuple[tuple[str, Check], ...]] = {
    Door.CHAT: (
        (ODD, talk.only_strings),
        (ODD, talk.typeless),
        ("tools", talk.functions),
        ("tool_choice", talk.choice_word_any),
        ("response_format", answer.format_word_any),
        ("stop", answer.stop_items),
    ),
    Door.COMPLETIONS: (("stop", answer.stop_items),),
    Door.EMBEDDINGS: ((ALWAYS, input_needed),),
    Door.SPARSE: ((ALWAYS, input_needed),),
    Door.BOTH: ((ALWAYS, input_needed),),
}

CHECKS: dict[tuple[Door, Kind], tuple[tuple[str, Check], ...]] = {
    (Door.CHAT, Kind.VLLM): (
        (ODD, talk.hollow_vllm),
        (ODD, talk.only_strings),
        (ODD, talk.typeless),
        (ODD, talk.links),
        ("tool_choice", talk.choice_vllm),
        ("top_logprobs", answer.top_vllm),
        ("continue_final_message", answer.continued),
        *_SAMPLING_VLLM,
    ),
    (Door.CHAT, Kind.SGLANG): (
        (ODD, talk.hollow_sglang),
        ("tool_choice", talk.choice_sglang),
        ("reasoning_effort", answer.effort_sglang),
        ("max_tokens", answer.room_sglang),
        ("max_completion_tokens", answer.room_sglang),
        *_SAMPLING_SGLANG,
    ),
    (Door.CHAT, Kind.LLAMACPP): (
        (ODD, talk.hollow_cpp),
        ("tools", talk.parameters_cpp),
        ("tool_choice", talk.choice_word),
        ("response_format", answer.format_word),
        ("stop", answer.stop_items),
        ("stream_options", answer.options_cpp),
        ("top_logprobs", answer.top_cpp),
        ("continue_final_message", answer.continued),
        ("continue_final_message", answer.continued_word),
        ("grammar", answer.grammar_cpp),
        ("chat_template_kwargs", answer.thinking_cpp),
    ),
    (Door.CHAT, Kind.OLLAMA): (
        (ODD, talk.hollow_any),
        (ODD, talk.untyped),
        ("stream_options", answer.options_object),
        ("stream_options", answer.options_cpp),
    ),
    (Door.CHAT, Kind.TGI): (
        (ODD, talk.hollow_any),
        (ODD, talk.untyped),
        ("max_completion_tokens", answer.one_bound),
    ),
    (Door.COMPLETIONS, Kind.VLLM): ((ALWAYS, prompt_needed), *_SAMPLING_VLLM),
    (Door.COMPLETIONS, Kind.SGLANG): ((ALWAYS, prompt_sglang), *_SAMPLING_SGLANG),
    (Door.COMPLETIONS, Kind.LLAMACPP): (("stop", answer.stop_items),),
    (Door.COMPLETIONS, Kind.OLLAMA): (),
    (Door.EMBEDDINGS, Kind.VLLM): ((ALWAYS, input_vllm),),
    (Door.EMBEDDINGS, Kind.SGLANG): ((ALWAYS, input_sglang),),
    (Door.EMBEDDINGS, Kind.LLAMACPP): ((ALWAYS, input_cpp),),
}
