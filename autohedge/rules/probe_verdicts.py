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

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from autohedge.core.types import Door, Failure, Judgement, Kind, Outcome, Verdict
from autohedge.providers import common
from autohedge.providers.base import Dialect, Reply
from autohedge.providers.errors import parsed
from autohedge.rules.content import is_number, no_text, no_vector
from autohedge.rules.verdicts import judge

# Kinds that answer with a name from their own list; others resolve aliases and versions ("jev-latest", "gpt-4o-2024-08-06").
EXACT = frozenset({Kind.VLLM, Kind.SGLANG, Kind.TGI, Kind.OLLAMA, Kind.LLAMACPP})
UNSUITABLE = frozenset({Verdict.CLIENT_FAULT, Verdict.CAPABILITY})
AGAINST = frozenset({Verdict.SICK, Verdict.DEAD})

_FAILURES: Mapping[str, Failure] = {failure.value: failure for failure in Failure}
_SILENT = frozenset({Failure.CONNECT_TIMEOUT, Failure.FIRST_BYTE_TIMEOUT, Failure.STALLED, Failure.DEADLINE})


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
        repeats=None,  # what it holds is looked at below, more closely
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
        choices = common.objects(body.get("choices"))
        return no_text(choices[0], expected.repeats) if choices else "no choices"
    if door is Door.EMBEDDINGS:
        return no_vector(body)
    if door is Door.SYSTEMONE:
        return _no_decision(body)
    return ""  # the general judge saw something in it


def _no_decision(body: Mapping[str, Any]) -> str:
    answers = common.mapping(body.get("answers"))
    if not answers:
        return "no answers"
    share = common.mapping(next(iter(answers.values()))).get("noul")
    return "" if is_number(share) and 0 <= share <= 1 else "no probability"
