"""The verdict of a probe: on what the model said, not only on the status.

Rules
- First the judge of every outcome (verdicts.py). What it calls an answer must then hold one: choices with text, a vector that
  is not all zeros, a probability. Reasoning, a tool call or a refusal is text too; so is an answer that the bound cut off
  before its first visible word (`finish_reason: length`).
- A model that says nothing but one character again and again is sick, however green its health page is (T88).
- A 4xx proves a live engine whose model the probe does not suit: neutral, and said so (B13; smg PR 2565: not a success).
- An engine that answers for another model than it lists is not the one that was meant: it gets no traffic.
- What cannot be judged (a reply that we did not understand, a question that we could not write) is neutral as well.

It must not know: when probes are sent, breakers, sockets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from autohedge.core.types import Door, Failure, Judgement, Kind, Outcome, Verdict
from autohedge.providers import common
from autohedge.providers.base import Dialect, Reply
from autohedge.providers.errors import parsed
from autohedge.rules.verdicts import judge

# Kinds that answer with a name from their own list; others resolve aliases and versions ("jev-latest", "gpt-4o-2024-08-06").
EXACT = frozenset({Kind.VLLM, Kind.SGLANG, Kind.TGI, Kind.OLLAMA, Kind.LLAMACPP})
UNSUITABLE = frozenset({Verdict.CLIENT_FAULT, Verdict.CAPABILITY})
AGAINST = frozenset({Verdict.SICK, Verdict.DEAD})

_FAILURES: Mapping[str, Failure] = {failure.value: failure for failure in Failure}
_SILENT = frozenset({Failure.CONNECT_TIMEOUT, Failure.FIRST_BYTE_TIMEOUT, Failure.STALLED, Failure.DEADLINE})
_REASONING = ("reasoning_content", "reasoning", "thinking")


@dataclass(frozen=True, slots=True)
class Expected:
    """What a good reply looks like. `names`: the model's and all others that the replica lists; empty: not compared.
    `repeats`: how often one character must stand alone to be no answer, 0 never. `own_key`: the backend's key was sent.
    """

    door: Door
    names: frozenset[str] = frozenset()
    repeats: int = 8
    own_key: bool = False


def silent(reply: Reply) -> bool:
    """Whether nothing, or not enough, came in time."""
    return reply.status == 0 and _FAILURES.get(reply.failure) in _SILENT


def judged(reply: Reply, dialect: Dialect, expected: Expected) -> Judgement:
    """The judgement of a reply to a probe. Total: whatever came back, there is one."""
    failure = _FAILURES.get(reply.failure)
    if reply.status == 0 and failure is None:
        return Judgement(Verdict.CAPABILITY, f"the probe cannot be judged: {reply.failure or 'no answer'}")
    if failure is Failure.DEADLINE:  # the probe's own time, which is all that this engine was given
        failure = Failure.FIRST_BYTE_TIMEOUT
    wait = reply.headers.get("retry-after", "")
    outcome = Outcome(
        failure=failure if reply.status == 0 else None,
        status=reply.status,
        content_type=reply.headers.get("content-type", "").lower(),
        excerpt=reply.body,
        retry_after=float(wait) if wait.isascii() and wait.isdigit() else None,
        finished=reply.status != 0,
        own_key=expected.own_key,
    )
    judgement = judge(outcome, dialect)
    if judgement.verdict in UNSUITABLE:
        return replace(judgement, reason=f"alive, but the probe does not suit it: {judgement.reason}")
    return _content(reply, expected) if judgement.verdict is Verdict.ANSWER else judgement


def judged_light(reply: Reply) -> Judgement:
    """The engine's own health path: 200 is good and nothing else is. Nobody listening is proof, the rest a hint."""
    if reply.status == 200:
        return Judgement(Verdict.ANSWER)
    failure = _FAILURES.get(reply.failure)
    dead = reply.status == 0 and failure in (Failure.REFUSED, Failure.UNREACHABLE)
    reason = f"{reply.status} from its health path" if reply.status else reply.failure or "no answer"
    return Judgement(Verdict.DEAD if dead else Verdict.SICK, reason)


def _content(reply: Reply, expected: Expected) -> Judgement:
    body = parsed(reply.body)
    if not isinstance(body, dict):
        if reply.body.lstrip().startswith((b"data:", b"event:")):
            return Judgement(
                Verdict.CAPABILITY, "alive, but the probe does not suit it: it streams without being asked"
            )
        return Judgement(Verdict.SICK, f"{reply.status}: no JSON object")
    name = body.get("model")
    if expected.names and isinstance(name, str) and name and _bare(name) not in map(_bare, expected.names):
        return Judgement(Verdict.MISCONFIGURED, "it answers for a model that it does not list")
    why = _lacking(body, expected)
    return Judgement(Verdict.SICK, f"{reply.status}: {why}") if why else Judgement(Verdict.ANSWER)


def _bare(name: str) -> str:
    """A name as engines vary it: case, folders before it, Ollama's default tag, the ending of a file."""
    return name.lower().rpartition("/")[2].removesuffix(":latest").removesuffix(".gguf")


def _lacking(body: Mapping[str, Any], expected: Expected) -> str:
    """Why this body answers nothing, or "" when it does."""
    door = expected.door
    if door in (Door.CHAT, Door.COMPLETIONS):
        return _no_text(body, expected.repeats)
    if door is Door.EMBEDDINGS:
        return _no_vector(body)
    if door is Door.SYSTEMONE:
        return _no_decision(body)
    return ""  # the general judge saw something in it


def _no_text(body: Mapping[str, Any], repeats: int) -> str:
    choices = common.objects(body.get("choices"))
    if not choices:
        return "no choices"
    choice = choices[0]
    message = common.mapping(choice.get("message"))
    text = _text(message.get("content")) or _text(choice.get("text"))
    text = text or next((found for key in _REASONING if (found := _text(message.get(key)))), "")
    if text:
        seen = "".join(text.split())
        same = 0 < repeats <= len(seen) and len(set(seen)) == 1
        return "one character again and again" if same else ""
    other = message.get("tool_calls") or message.get("function_call") or message.get("refusal")
    return "" if other or choice.get("finish_reason") == "length" else "an empty answer"


def _text(value: Any) -> str:
    """Text with something in it: a string, or the text parts of a list."""
    if isinstance(value, list):
        value = "".join(part["text"] for part in common.objects(value) if isinstance(part.get("text"), str))
    return value if isinstance(value, str) and value.strip() else ""


def _no_vector(body: Mapping[str, Any]) -> str:
    data = common.objects(body.get("data"))
    vector = data[0].get("embedding") if data else None
    if isinstance(vector, str):  # base64
        return "" if vector else "an empty vector"
    numbers = vector if isinstance(vector, list) else []
    if numbers and isinstance(numbers[0], list):  # one vector per token
        numbers = numbers[0]
    if not numbers:
        return "no vector"
    if not all(_number(value) for value in numbers):
        return "a vector with something that is no number"
    return "" if any(numbers) else "a vector of zeros"


def _no_decision(body: Mapping[str, Any]) -> str:
    answers = common.mapping(body.get("answers"))
    if not answers:
        return "no answers"
    share = common.mapping(next(iter(answers.values()))).get("noul")
    return "" if _number(share) and 0 <= share <= 1 else "no probability"


def _number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
