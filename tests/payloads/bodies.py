"""Short ways to write bodies, and the recorded answers of real engines."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from autohedge.core.problems import Detail, Problem
from autohedge.core.types import Door, Kind
from autohedge.payloads.reading import Bounds, Reading, examine

HERE = Path(__file__).parent
BOUNDS = Bounds()
KINDS = (Kind.OPENAI, Kind.AZURE, Kind.VLLM, Kind.SGLANG, Kind.LLAMACPP, Kind.OLLAMA, Kind.TGI, Kind.AUTO)
USER: dict[str, Any] = {"role": "user", "content": "hi"}
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CALL: dict[str, Any] = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
PLAIN: dict[Door, dict[str, Any]] = {
    Door.CHAT: {"model": "m", "messages": [USER]},
    Door.COMPLETIONS: {"model": "m", "prompt": "hi"},
    Door.EMBEDDINGS: {"model": "m", "input": "hi"},
    Door.RESPONSES: {"model": "m", "input": "hi"},
    Door.MESSAGES: {"model": "m", "messages": [USER], "max_tokens": 5},
}


def read(body: Any, door: Door = Door.CHAT) -> Reading:
    """A body as bytes, as text, or as the object to be written down."""
    if isinstance(body, str):
        body = body.encode()
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return examine(door, raw, "", BOUNDS)


def found(kind: Kind, body: Any, door: Door = Door.CHAT) -> tuple[Detail, ...]:
    """What a kind refuses, a broken body as the one problem that it is."""
    try:
        return read(body, door).findings(kind)
    except Problem as problem:
        return (Detail(problem.param, problem.code, problem.message),)


def fields(kind: Kind, body: Any, door: Door = Door.CHAT) -> list[str | None]:
    """The fields that a kind refuses."""
    return [detail.param for detail in found(kind, body, door)]


def chat(**more: Any) -> dict[str, Any]:
    """A plain chat body with more fields."""
    return {**PLAIN[Door.CHAT], **more}


def refusing(body: Any, door: Door = Door.CHAT) -> set[Kind]:
    """The kinds that refuse something in the body."""
    return {kind for kind in KINDS if found(kind, body, door)}


@dataclass(frozen=True)
class Recorded:
    """One body and the status that each engine gave it; `because` is "" for 200, or "schema", "json", "model" (it lacks
    an ability), "setting" (slots, vocabulary), "content" (a schema or grammar that does not compile)."""

    door: Door
    case: str
    body: bytes
    llamacpp: int
    because: str
    vllm: int
    vllm_because: str
    sglang: int
    sglang_because: str


@cache
def recorded() -> tuple[Recorded, ...]:
    """964 bodies sent to llama.cpp b11549, vLLM 0.32.0 (CPU) and SGLang 0.5.23's own request classes."""
    one = json.loads((HERE / "llamacpp_answers.json").read_text())
    others = json.loads((HERE / "vllm_sglang_answers.json").read_text())
    rows = []
    for row, (door, case, *statuses) in zip(one, others, strict=True):
        assert (row["door"], row["case"]) == (door, case)
        body = row["body"].encode() if "body" in row else base64.b64decode(row["raw"])
        rows.append(Recorded(Door(door), case, body, row["status"], row["because"], *statuses))
    return tuple(rows)
