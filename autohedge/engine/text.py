"""Tokens and text of the sample engine: simple, the same everywhere, and unfriendly to guesses.

Rules
- One token is one word: what stands between white space. A word may be any number of bytes, as with BERT-type tokenisers
  (trap T4), so no count of bytes or characters can tell that a prompt does not fit; tokens never exceed bytes.
- A chat costs `PER_MESSAGE` tokens for each message and `OPENING` once (the template); a picture, sound or file part costs
  `MEDIA` whatever its size (trap T1); tools cost the words of their JSON.
- The same question gets the same text from the same engine at any temperature; its first word is the engine's name.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

PER_MESSAGE = 3
OPENING = 2
MEDIA = 64
VOCABULARY = 32_000

# Two-, three- and four-byte characters on purpose: streams get split inside them (B83).
_SENTENCE = ["answers:", "你好", "🌍", "—", "a", "sample", "engine", "made", "this", "text,", "not", "a", "model."]
_FILLER = ["and", "so", "it", "goes", "on,", "word", "after", "word,", "until", "the", "budget", "is", "used", "up;"]
NATURAL = len(_SENTENCE) + 1  # words of an answer that nothing cuts short


def count(text: str) -> int:
    """Tokens of a plain text."""
    return len(text.split())


def ids(text: str) -> list[int]:
    """Token ids: the same word has the same id on every engine."""
    return [zlib.crc32(word.encode("utf-8", "replace")) % VOCABULARY for word in text.split()]


def count_content(content: Any) -> int:
    """Tokens of a message's content: a string, a list of parts, or nothing."""
    if isinstance(content, str):
        return count(content)
    if isinstance(content, list):
        return sum(_count_part(part) for part in content)
    return 0


def _count_part(part: Any) -> int:
    if isinstance(part, str):
        return count(part)
    if not isinstance(part, dict):
        return 0
    if isinstance(part.get("text"), str):
        return count(part["text"])
    if isinstance(part.get("content"), str | list):  # tool results of /v1/messages
        return count_content(part["content"])
    return MEDIA


def count_messages(messages: Iterable[Any], tools: Any = None) -> int:
    """Tokens of a chat after its template."""
    total = OPENING
    for message in messages:
        total += PER_MESSAGE
        if isinstance(message, dict):
            total += count_content(message.get("content"))
            calls = message.get("tool_calls")
            total += count(json.dumps(calls)) if calls else 0
        else:
            total += count_content(message)
    return total + (count(json.dumps(tools)) if tools else 0)


def inputs_of(value: Any) -> list[Any]:
    """A prompt or input as a list of single ones: "a", ["a", "b"], [1, 2] (one list of ids), [[1, 2], [3]]."""
    if isinstance(value, list):
        if value and all(isinstance(item, int) for item in value):
            return [value]
        return value
    return [value]


def count_input(value: Any) -> int:
    """Tokens of one input: a string, a list of token ids, or an object with `content` (llama.cpp)."""
    if isinstance(value, list):
        return len(value)
    if isinstance(value, dict):
        return count_content(value.get("content"))
    return count(value) if isinstance(value, str) else 0


def count_json(value: Any) -> int:
    """Tokens of a JSON value as a decision server renders it: strings as they are, all else as JSON."""
    if value is None:
        return 0
    return count(value) if isinstance(value, str) else count(json.dumps(value, ensure_ascii=False))


def compose(name: str, natural: int, budget: int | None, *, go_on: bool = False) -> tuple[list[str], str]:
    """The words of an answer and its finish_reason. `natural` words end it, unless `go_on` (ignore_eos) wants the budget."""
    wanted = natural if budget is None or (natural <= budget and not go_on) else budget
    words = [name, *_SENTENCE]
    while len(words) < wanted:
        words += _FILLER
    return words[:wanted], "stop" if wanted == natural and not go_on else "length"


def spell(words: Sequence[str]) -> list[str]:
    """Words as pieces of a stream: their concatenation is the text."""
    return [word if number == 0 else f" {word}" for number, word in enumerate(words)]
