"""How an error reads: the shapes of error bodies, and the limits that error texts name.

Rules
- Every shape that a real server was seen to send is read: OpenAI nested, flat, a bare string, FastAPI
  detail, Anthropic, OpenRouter's error beside choices, an event of a stream, NDJSON, plain text.
- A limit is learned only from a message that *begins* with an engine's own sentence. A client chooses names and values that
  engines echo, and could otherwise teach a limit of one token (B116).
- Nothing here raises, whatever the bytes are.

It must not know: verdicts, HTTP beyond a status number, or which engine spoke.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from autohedge.core.types import NOTHING

LONGEST = 4096  # characters of a message that are looked at
LARGEST = 1 << 20  # bytes of a body that are parsed


@dataclass(frozen=True, slots=True)
class Said:
    """What an error body says. `status` is an HTTP status that stands inside the body, 0 when there is none.

    `code` and `type` are lower case; they are chosen by the engine, `message` may repeat what the client sent.
    """

    message: str = ""
    type: str = ""
    code: str = ""
    param: str = ""
    status: int = 0
    window: int | None = None  # llama.cpp: n_ctx beside the message


NOTHING_SAID = Said()


def parsed(body: bytes) -> Any:
    """The body as JSON, or None when it is none (too deep and too large count as none)."""
    if len(body) > LARGEST:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def error_in(body: bytes) -> Said | None:
    """The error inside a body that came with a 2xx, or None when it holds none. Only explicit errors count."""
    for obj in _objects(body):
        said = _explicit(obj)
        if said is not None:
            return said
    return None


def said_in(body: bytes) -> Said:
    """What a body that came with an error status says. Falls back to plain text; HTML says nothing."""
    for obj in _objects(body):
        said = _explicit(obj) or _loose(obj)
        if said is not None:
            return said
    text = body[:LONGEST].decode("utf-8", "replace").strip()
    return NOTHING_SAID if not text or text[0] in "<{[" else Said(message=text)


def _objects(body: bytes) -> Iterator[Any]:
    """The JSON values of a body: the body itself, or the data lines of a stream, or the lines of NDJSON."""
    whole = parsed(body)
    if whole is not None:
        yield whole
        return
    if len(body) > LARGEST:
        return
    for line in body.split(b"\n"):
        data = line.removeprefix(b"data:").strip()
        if data[:1] == b"{":
            value = parsed(data)
            if value is not None:
                yield value


def _explicit(obj: Any) -> Said | None:
    if not isinstance(obj, dict):
        return None
    error = obj.get("error")
    if isinstance(error, dict) and error:
        return _nested(error, obj)
    if isinstance(error, str) and error:  # TGI, Ollama's own API, vLLM's 401
        return _made(obj, message=error, kind=obj.get("error_type") or obj.get("type"))
    if obj.get("object") == "error" or obj.get("type") == "error" or error is True:  # flat: old vLLM, SGLang
        return _made(obj)
    response = obj.get("response")
    if isinstance(response, dict) and isinstance(response.get("error"), dict):  # event response.failed
        return _nested(response["error"], obj)
    return _beside_choices(obj)


def _beside_choices(obj: dict[str, Any]) -> Said | None:
    """OpenRouter: `finish_reason` "error", the error in the choice."""
    choices = obj.get("choices")
    if not isinstance(choices, list):
        return None
    for choice in choices:
        if not isinstance(choice, dict):
            continue
        error = choice.get("error")
        if isinstance(error, dict) and error:
            return _nested(error, obj)
        if choice.get("finish_reason") == "error":
            return Said(message="the answer ended with finish_reason error")
    return None


def _nested(error: dict[str, Any], outer: dict[str, Any]) -> Said:
    said = _made(error)
    if not said.status and isinstance(outer.get("status"), int):
        return _made({**error, "status": outer["status"]})
    return said


def _loose(obj: Any) -> Said | None:
    """Shapes that are errors only because the status says so: FastAPI's detail, a bare message."""
    if isinstance(obj, str):
        return Said(message=obj[:LONGEST])
    if not isinstance(obj, dict):
        return None
    detail = obj.get("detail")
    if isinstance(detail, str):
        return Said(message=detail[:LONGEST])
    if isinstance(detail, dict):  # TypeSafe: error_type and message; Laya: detail.error
        inner = detail.get("error")
        return _made(inner) if isinstance(inner, dict) else _made(detail, kind=detail.get("error_type"))
    if isinstance(detail, list):
        texts = [text for item in detail if isinstance(item, dict) and isinstance(text := item.get("msg"), str)]
        return Said(message="; ".join(texts)[:LONGEST])
    return _made(obj) if isinstance(obj.get("message"), str) else None


def _made(error: dict[str, Any], *, message: str = "", kind: Any = None) -> Said:
    code = error.get("code")
    status = next((number for name in ("code", "status", "status_code") if (number := _status(error.get(name)))), 0)
    return Said(
        message=(message or _text(error.get("message")))[:LONGEST],
        type=_text(kind or error.get("type"))[:100].lower(),
        code=code[:100].lower() if isinstance(code, str) else "",
        param=_text(error.get("param"))[:100],
        status=status,
        window=whole(error.get("n_ctx")),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _status(value: Any) -> int:
    """400..599 as a number or as three digits in a string (Azure), else 0."""
    if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599 else 0


def whole(value: Any) -> int | None:
    """A positive whole number that can be a length in tokens, else None: unknown."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 40:
        return None
    return value


# --- limits that messages name ----------------------------------------------------------------------------------------

CONTEXT, MAX_INPUT, MAX_OUTPUT, MAX_OPTIONS = "context", "max_input", "max_output", "max_options"

_BEFORE = r"(?:error: |internal server error: |input validation error: |value error, |.{0,30}error code: \d+ - )?"
_N = r"(\d[\d,]*)"

# (limit, how the message begins). Sentences of vLLM, SGLang, TGI, llama.cpp, OpenAI, DeepSeek, Anthropic, xAI, Gemini,
# OpenRouter and Groq; of System One llama.cpp's and SGLang's.
_NAMED = tuple(
    (limit, re.compile(_BEFORE + pattern, re.IGNORECASE | re.DOTALL))
    for limit, pattern in (
        (CONTEXT, rf"this (?:model|endpoint)'s maximum context length is {_N} tokens"),
        (CONTEXT, rf"you passed \d+ input (?:tokens|characters).{{0,120}}?context length is only {_N} tokens"),
        (CONTEXT, rf"input length \(\d+\) exceeds (?:the )?model's maximum context length \({_N}\)"),
        (CONTEXT, rf"the (?:decoder |encoder )?prompt \(.{{0,40}}?\) is longer than the maximum model length of {_N}"),
        (CONTEXT, rf"max_tokens=\d+ cannot be greater than max_model_len={_N}"),
        (
            CONTEXT,
            rf"'max_tokens' or 'max_completion_tokens' is too large: \d+\. this model's maximum context length is {_N}",
        ),
        (CONTEXT, rf"the input \(\d+ tokens\) is longer than the model's context length \({_N} tokens\)"),
        (CONTEXT, rf"requested token count exceeds the model's maximum context length of {_N} tokens"),
        (CONTEXT, rf"(?:the )?request (?:\(\d+ tokens\) )?exceeds the available context size \({_N} tokens\)"),
        (CONTEXT, rf"input \(\d+ tokens\) is larger than the max context size \({_N} tokens\)"),
        (CONTEXT, rf"`inputs` tokens \+ `max_new_tokens` must be <= {_N}\."),
        (CONTEXT, rf"prompt is too long: \d+ tokens > {_N} maximum"),
        (MAX_INPUT, rf"`inputs` must have less than {_N} tokens"),
        (MAX_INPUT, rf"this model's maximum prompt length is {_N}"),
        (MAX_INPUT, rf"the input token count \(\d+\) exceeds the maximum number of tokens allowed \({_N}\)"),
        (MAX_INPUT, rf"input \(\d+ tokens\) is too large to process\..{{0,60}}?\(current batch size: {_N}\)"),
        (
            MAX_OUTPUT,
            rf"max_(?:completion_)?tokens is too large: \d+\. this model supports at most {_N} completion tokens",
        ),
        (MAX_OUTPUT, rf"invalid max_tokens value, the valid range of max_tokens is \[\d+, ?{_N}\]"),
        (MAX_OUTPUT, rf"max_tokens: \d+ > {_N}, which is the maximum allowed number of output tokens"),
        (MAX_OUTPUT, rf"`max_(?:completion_)?tokens` must be less than or equal to `{_N}`"),
        # a client's id stands in front here: without a colon in it, and to the end, nothing of a client's can pose as this
        (MAX_OPTIONS, rf"questions\.[^:]{{1,300}}: too many options \(\d+\), this model supports at most {_N}\Z"),
        (
            MAX_OPTIONS,
            rf"question '[^':]{{1,300}}': it has \d+ options, but the served tokenizer and chat template can label at most {_N}\Z",
        ),
    )
)

# A prompt or max_tokens that does not fit, with no number to learn. B40 is vLLM 0.15-0.17 counting backwards.
_UNNAMED = re.compile(
    _BEFORE + r"(?:max_tokens must be at least 1, got -\d"
    r"|the prompt is longer than the context length"
    r"|the input length exceeds the context length"
    r"|the request exceeds the available context size"
    r"|prompt is too long|prompt too long)",
    re.IGNORECASE,
)
_CODES = frozenset({"context_length_exceeded", "max_tokens_exceeded", "tokens_exceeded", "string_above_max_length"})
_TYPES = frozenset({"exceed_context_size_error", "max_tokens_exceeded", "tokens_exceeded"})


def limits_named(said: Said) -> Mapping[str, int]:
    """The limits that an error names: {"context": n}, {"max_input": n}, {"max_output": n} or {"max_options": n}; empty when
    it names none.
    """
    if said.window is not None and said.type in _TYPES:
        return {CONTEXT: said.window}
    message = said.message
    for limit, pattern in _NAMED:
        found = pattern.match(message)
        if found:
            value = whole(int(found[1].replace(",", "")[:15]))
            return NOTHING if value is None else {limit: value}
    return NOTHING


def about_length(said: Said) -> bool:
    """Whether an error says that the request is too long for the model."""
    if said.code in _CODES or said.type in _TYPES:
        return True
    return bool(_UNNAMED.match(said.message)) or not limits_named(said).keys() <= {MAX_OPTIONS}
