"""Rules over several fields that shape the answer: its format, its end, its sampling. (body, notes) -> findings.

Rules
- As in checks_talk.py. A flag of an engine that changes its answer (how many stop strings, which largest top_logprobs)
  makes a rule unknown, and what is unknown is not checked.

It must not know: which kind gets which check (checks.py), how findings are shown (wording.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autohedge.core.problems import Detail
from autohedge.payloads.asking import Notes
from autohedge.payloads.wording import listed, refused, said

FORMATS = ("text", "json_object", "json_schema")
# formats that some engine or hosted service reads; a name outside of it is a mistake everywhere
ANY_FORMAT = frozenset({*FORMATS, "structural_tag", "grammar", "lark_grammar", "regex", "json", "json_value", "python"})
FLAGS = frozenset({"0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes"})
EFFORTS = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "ultra", "max"})


def format_word(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    """llama.cpp refuses a type that it does not know; what is no object, or has no type, it ignores."""
    yield from _format_type(obj, frozenset(FORMATS))


def format_word_any(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    yield from _format_type(obj, ANY_FORMAT)


def _format_type(obj: dict[str, Any], known: frozenset[str]) -> Iterator[Detail]:
    wanted = obj.get("response_format")
    name = wanted.get("type") if isinstance(wanted, dict) else None
    if isinstance(name, str) and name and name not in known:
        yield refused(("response_format", "type"), listed(FORMATS), name)


def format_vllm(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    """vLLM: an object with a known type; json_schema needs a named schema."""
    yield from _format(obj, strict=False)


def format_sglang(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    """SGLang: the same, and it also takes a schema that stands beside the type, as llama.cpp writes it."""
    wanted = obj.get("response_format")
    beside = wanted.get("schema") if isinstance(wanted, dict) and not wanted.get("json_schema") else None
    if not (isinstance(beside, dict) and beside):
        yield from _format(obj, strict=True)


def _format(obj: dict[str, Any], *, strict: bool) -> Iterator[Detail]:
    wanted = obj.get("response_format")
    here = "response_format"
    if wanted is None or (isinstance(wanted, dict) and wanted.get("type") == "structural_tag"):
        return
    if not isinstance(wanted, dict):
        yield refused((here,), f"an object with type {listed(FORMATS)}", wanted)
    elif wanted.get("type") not in FORMATS:
        yield refused((here, "type"), listed(FORMATS), wanted.get("type"))
    elif wanted["type"] == "json_schema" or wanted.get("json_schema") is not None:
        schema = wanted.get("json_schema")
        if not isinstance(schema, dict):
            yield refused((here, "json_schema"), "an object with name and schema", schema)
            return
        if not isinstance(schema.get("name"), str):
            yield refused((here, "json_schema", "name"), "a string", schema.get("name"))
        if not isinstance(schema.get("schema", {} if wanted["type"] != "json_schema" else None), dict):
            yield refused((here, "json_schema", "schema"), "an object", schema.get("schema"))
        given = schema.get("strict")
        if not (isinstance(given, bool | None) if strict else _reads_as_flag(given)):
            yield refused((here, "json_schema", "strict"), "true or false", given)


# --- sampling -----------------------------------------------------------------------------------------------------------


def stop_words(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    """vLLM: a string or strings, none of them empty; how many is a setting of the engine."""
    stop = obj.get("stop")
    if stop is None:
        return
    words = stop if isinstance(stop, list) else [stop]
    if not all(isinstance(word, str) for word in words):
        yield refused(("stop",), "a string or an array of strings", stop)
    elif not all(words):
        yield said(("stop",), "an empty string stops nothing and is refused")


def stop_sglang(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    stop = obj.get("stop")
    words = stop if isinstance(stop, list) else [stop]
    if stop is not None and not all(isinstance(word, str) for word in words):
        yield refused(("stop",), "a string or an array of strings", stop)


def stop_items(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    """llama.cpp takes anything, but in a list only strings and what is empty."""
    stop = obj.get("stop")
    words = stop if isinstance(stop, list) else ()
    if any(isinstance(word, int | float) or (word and not isinstance(word, str)) for word in words):
        yield refused(("stop",), "a string or an array of strings", stop)


def options_vllm(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    options = obj.get("stream_options")
    if options and not obj.get("stream"):
        yield said(("stream_options",), "is only allowed together with stream: true")
    yield from options_object(obj, _notes)


def options_object(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    options = obj.get("stream_options")
    if options is not None and not isinstance(options, dict):
        yield refused(("stream_options",), "an object", options)
    elif options and not _reads_as_flag(options.get("include_usage")):
        yield refused(("stream_options", "include_usage"), "true or false", options["include_usage"])


def _reads_as_flag(value: Any) -> bool:
    """As pydantic reads a boolean, with null for "not set"."""
    return value is None or value in (0, 1) or (isinstance(value, str) and value.lower() in FLAGS)


def options_cpp(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    options = obj.get("stream_options")
    usage = options.get("include_usage") if isinstance(options, dict) else None
    if usage is not None and not isinstance(usage, bool):
        yield refused(("stream_options", "include_usage"), "true or false", usage)


def top_cpp(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    """llama.cpp: top_logprobs, 0 too, needs logprobs: true."""
    if obj.get("top_logprobs") is not None and obj.get("logprobs") is not True:
        yield said(("top_logprobs",), "needs logprobs: true")


def top_vllm(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    top = obj.get("top_logprobs")
    if top is None:
        return
    if not isinstance(top, int | float) or top != top // 1 or top < -1:
        yield refused(("top_logprobs",), "a whole number of at least -1", top)
    elif top and not obj.get("logprobs"):
        yield said(("top_logprobs",), "needs logprobs: true")


def bias(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    """vLLM, SGLang: token ids to numbers."""
    table = obj.get("logit_bias")
    if table is None:
        return
    if not isinstance(table, dict):
        yield refused(("logit_bias",), "an object of token ids and numbers", table)
        return
    for token, value in table.items():
        if not token.strip().lstrip("+-").replace("_", "").isdigit():
            yield said(("logit_bias",), "expected token ids as keys")
            return
        if not _reads_as_number(value):
            yield refused(("logit_bias", token), "a number", value)
            return


def _reads_as_number(value: Any) -> bool:
    try:
        return isinstance(value, str | int | float) and float(value) == float(value)
    except (ValueError, OverflowError):
        return False


def room_vllm(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    """vLLM: the bound that counts is at least 1 (a completion that only echoes may have 0), and no less than min_tokens."""
    name = "max_tokens" if obj.get("max_completion_tokens") is None else "max_completion_tokens"
    most = obj.get(name)
    if not isinstance(most, int) or isinstance(most, bool):
        return
    least = obj.get("min_tokens")
    if most < 1 and not (most == 0 and "prompt" in obj and obj.get("echo")):
        yield refused((name,), "a whole number of at least 1", most)
    elif isinstance(least, int) and least > most:
        yield said(("min_tokens",), f"{least} is more than {name}, which is {most}")


def room_sglang(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    name = "max_completion_tokens" if obj.get("max_completion_tokens") else "max_tokens"
    most = obj.get(name)
    if isinstance(most, int) and most < 0:
        yield refused((name,), "a whole number of at least 0", most)


def effort_sglang(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    effort = obj.get("reasoning_effort")
    if effort is None or (isinstance(effort, str) and (effort in EFFORTS or _reads_as_number(effort))):
        return
    if isinstance(effort, bool) or not isinstance(effort, int | float) or not 0 <= effort <= 0.99:
        yield refused(("reasoning_effort",), '"none" to "max", or a number from 0 to 0.99', effort)


def continued(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    """vLLM, llama.cpp: a message is continued only when no new one is started, which is the default."""
    if obj.get("continue_final_message") is True and obj.get("add_generation_prompt", True) is True:
        yield said(("continue_final_message",), "needs add_generation_prompt: false")


def continued_word(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    """llama.cpp: a switch, or which of the two texts is continued."""
    value = obj.get("continue_final_message")
    if value is not None and not isinstance(value, bool) and value not in ("content", "reasoning_content"):
        yield refused(("continue_final_message",), 'true, false, "content" or "reasoning_content"', value)


def prompt_logprobs(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    wanted = obj.get("prompt_logprobs")
    if isinstance(wanted, int | float) and (wanted > 0 or wanted == -1) and obj.get("stream"):
        yield said(("prompt_logprobs",), "is not available together with stream: true")


def grammar_cpp(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    """llama.cpp: one grammar at a time; tools bring their own."""
    if not isinstance(obj.get("grammar"), str) or not obj["grammar"]:
        return
    if obj.get("tools") and obj.get("tool_choice") != "none":
        yield said(("grammar",), "cannot be combined with tools")
    elif isinstance(obj.get("json_schema"), dict):
        yield said(("grammar",), "cannot be combined with json_schema")


def thinking_cpp(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    """llama.cpp: a switch in quotes would be on whatever it says."""
    kwargs = obj.get("chat_template_kwargs")
    if isinstance(kwargs, dict) and isinstance(kwargs.get("enable_thinking"), str):
        yield refused(("chat_template_kwargs", "enable_thinking"), "true or false", kwargs["enable_thinking"])


def one_bound(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    """TGI: the two names are one field, and a field may come once."""
    if "max_tokens" in obj and "max_completion_tokens" in obj:
        yield said(("max_completion_tokens",), "cannot be sent together with max_tokens")
