"""What an engine was told on its command line: the name of its model, its window, its port.

Rules
- Only what the engine takes literally counts. A value with "$" or "{{" in it is filled in elsewhere and says nothing.
- `exact` are the names that the engine will list. `--served-model-name` and `--alias` are such names for everybody; what was
  loaded (`--model`, `--model-path`, `--model-id`) is one for the engines that have no other name for it.
- Dashes and underscores are the same, "--flag=value" and "--flag value" are the same, a shell's one long text is split.
- A number may be written as vLLM reads it: 32k is 32,000, 32K is 32,768. What is no plain figure is unknown.

It must not know: labels, environment, Docker.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from autohedge.core.types import Kind
from autohedge.rules.labels import MANY, MOST_TOKENS, is_model

MOST_WORDS = 1000
LONGEST_WORD = 16_384

_SHELLS = {"sh", "bash", "ash", "dash"}
_NUMBER = re.compile(r"([0-9]{1,12})(\.[0-9]{1,6})?([kKmMgG]?)", re.ASCII)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
_WINDOWS = ("max-model-len", "context-length", "max-total-tokens")
_TOLD = ("served-model-name", "alias")
_LOADED: Mapping[str, tuple[Kind, ...]] = {
    "model": (Kind.VLLM,),
    "model-path": (Kind.SGLANG,),
    "model-id": (Kind.TGI,),
}


@dataclass(frozen=True, slots=True)
class Told:
    """What the command line says; None is not said. `window_by` is the flag that names the window."""

    exact: tuple[str, ...] = ()
    window: int | None = None
    window_by: str = ""
    port: int | None = None


def told(words: Sequence[object], kind: Kind) -> Told:
    """What these words of a command tell an engine of (probably) this kind."""
    flags, loose = _flags(_split([word for word in words[:MOST_WORDS] if isinstance(word, str)]))
    exact: tuple[str, ...] = ()
    for flag in _TOLD if kind is not Kind.TGI else ():  # it lists what it loaded, whatever else it was called
        exact = exact or _names(flags.get(flag, ()))
    for flag, kinds in _LOADED.items():
        if kind in kinds:
            exact = exact or _names(flags.get(flag, ())[:1])
    if kind is Kind.VLLM and not exact and "serve" in loose:
        exact = _names(loose[loose.index("serve") + 1 :][:1])
    window_by = next((flag for flag in _WINDOWS if flag in flags), "")
    window = number((flags[window_by] or ("",))[0]) if window_by else None
    ports = flags.get("port", ())
    port = int(ports[0]) if ports and re.fullmatch(r"[0-9]{1,5}", ports[0], re.ASCII) else None
    return Told(
        exact,
        window,
        window_by if window is not None else "",
        port if port is not None and 1 <= port <= 65535 else None,
    )


def number(text: str) -> int | None:
    """A count of tokens as engines read it on their command line; None for what is no plain figure."""
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        return None
    value = int(float(found[1] + (found[2] or "")) * _UNITS[found[3]])
    return value if 1 <= value <= MOST_TOKENS else None


def _names(values: Sequence[str]) -> tuple[str, ...]:
    split = chain.from_iterable(value.split(",") for value in values)
    return tuple(dict.fromkeys(name for name in map(str.strip, split) if is_model(name)))[:MANY]


def _split(words: list[str]) -> list[str]:
    """The words of the engine's own command: of what a shell was told to run, if it is one."""
    for at, word in enumerate(words):
        if word.rpartition("/")[2] in _SHELLS and words[at + 1 : at + 2] and words[at + 1].startswith("-"):
            script = next((text for text in words[at + 1 :] if not text.startswith("-")), "")
            try:
                return shlex.split(script[:LONGEST_WORD], comments=True)
            except ValueError:  # a quote that does not end
                return []
    return words


def _flags(words: list[str]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Every long flag with the plain words after it, the last one counting, and the words before the first flag."""
    flags: dict[str, tuple[str, ...]] = {}
    loose: list[str] = []
    name = ""
    for word in words:
        if word.startswith("--"):
            name, sign, value = word[2:].partition("=")
            name = name.replace("_", "-")
            flags[name] = (value,) if sign and _plain(value) else ()
        elif word.startswith("-") and not word[1:2].isdigit():
            name = ""
        elif name:
            flags[name] = (*flags[name], word) if _plain(word) else flags[name]
        else:
            loose.append(word)
    return flags, loose


def _plain(word: str) -> bool:
    return "$" not in word and "{{" not in word and len(word) <= LONGEST_WORD


def env_of(entries: Sequence[object], allowed: frozenset[str]) -> Iterator[tuple[str, str]]:
    """The variables of an engine that may be read, with plain values only."""
    for entry in entries:
        if isinstance(entry, str):
            name, sign, value = entry.partition("=")
            if sign and name in allowed and _plain(value):
                yield name, value.strip()
