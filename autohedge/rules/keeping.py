"""What of a service's labels, environment and command line discovery needs. All else may hold a password.

Rules
- Labels: autohedge.*, com.docker.stack.*, and keys that are nearly ours, so that a misspelt one can be named to its writer.
- Environment: the names that the operator allows, nothing by default but the model and its window; a value with a URL's
  credentials in it is left out.
- Command line: the flags that name model, alias, window and port, with values that could be such; `serve` and the model after
  it; and the word by which the engine is recognised, if there is one. A shell's script is read as the words that it would run.
  What is left is a shorter command line that means the same to `arguments.py` and `swarm.py`.
- Numbers of entries and lengths are bounded.

It must not know: where in an answer these stand.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise
from typing import Any

from autohedge.rules.swarm import TRACES, start_of

DEFAULT_ENV = frozenset({"MODEL", "MAX_MODEL_LEN"})
LONGEST_KEY = 128
LONGEST = 2048  # characters of one value
MANY = 200  # labels or variables of one service
MOST_WORDS = 1000

_OURS = "autohedge"
_STACK = "com.docker.stack."
_ALIKE = 0.75  # autohdge, autohedged, autohege; not autoheal, autoscale, traefik
_USERINFO = re.compile(r"://[^/\s]*@")
_SHELLS = frozenset({"sh", "bash", "ash", "dash"})
_ONE = frozenset({"model", "model-path", "model-id", "max-model-len", "context-length", "max-total-tokens", "port"})
_SEVERAL = frozenset({"served-model-name", "alias"})
_OPERATORS = frozenset("&|;<>()`")
_VALUE = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./:@+,-]{0,511}", re.ASCII)


def labels(found: Any) -> dict[str, str]:
    """The labels that stay."""
    if not isinstance(found, Mapping):
        return {}
    kept: dict[str, str] = {}
    for key, value in found.items():
        if len(kept) < MANY and isinstance(value, str) and len(key) <= LONGEST_KEY and _wanted(key):
            kept[key] = value[: LONGEST + 1]  # one more: the reader can tell that it is too long
    return kept


@lru_cache(maxsize=4096)  # a Swarm has many services and few keys
def _wanted(key: str) -> bool:
    if key.startswith((f"{_OURS}.", _STACK)):
        return True
    head = key.partition(".")[0].lower().replace("-", "").replace("_", "")
    if head.startswith(_OURS):
        return True
    return len(head) <= 2 * len(_OURS) and SequenceMatcher(None, head, _OURS).ratio() >= _ALIKE and head != "autoheal"


def env(found: Any, allowed: frozenset[str]) -> list[str]:
    """The variables that stay, as NAME=value."""
    kept: list[str] = []
    for entry in found if isinstance(found, list) else ():
        if isinstance(entry, str) and len(kept) < MANY:
            name, sign, value = entry.partition("=")
            if sign and name in allowed and len(value) <= LONGEST and _USERINFO.search(value) is None:
                kept.append(entry)
    return kept


def words(command: Any, args: Any) -> list[str]:
    """A command line with the same meaning to discovery and nothing else in it."""
    told = [*(command if isinstance(command, list) else ()), *(args if isinstance(args, list) else ())][:MOST_WORDS]
    found = [word for word in told if isinstance(word, str)]
    start = start_of(found)
    trace = next((trace for trace, _ in TRACES if trace in start), None)
    return [*([trace] if trace else ()), *_kept(_unwrapped(found))]


def _unwrapped(found: list[str]) -> Sequence[str]:
    """The words that run: those of the script when a shell was given one."""
    for at, (word, after) in enumerate(pairwise(found)):
        if word.rpartition("/")[2] in _SHELLS and after.startswith("-"):
            script = next((text for text in found[at + 1 :] if not text.startswith("-")), "")
            try:
                return shlex.split(script[:16_384], comments=True)[:MOST_WORDS]
            except ValueError:
                return []
    return found


def _kept(found: Sequence[str]) -> list[str]:
    """`serve` and its model, then the flags that count."""
    loose: list[str] = []
    flags: list[str] = []
    takes: int | None = None  # how many values the last flag may still have; None: the word belongs to no flag
    serve = False
    for word in found:
        if word.startswith("--"):
            name, sign, value = word[2:].partition("=")
            name = name.replace("_", "-")
            takes = MOST_WORDS if name in _SEVERAL else 1 if name in _ONE else 0
            if takes:
                flags.append(f"--{name}={value}" if sign and _plain(value) else f"--{name}")
                takes -= bool(sign) and not _filled(value)
        elif word.startswith("-") and not word[1:2].isdigit():
            takes = None
        elif takes is not None:
            if set(word) & _OPERATORS:  # of a shell: another command begins
                takes = 0
            elif takes and not _filled(word):
                takes -= 1
                flags += [word] if _plain(word) else []
        elif serve or (word == "serve" and not loose):
            serve = not serve
            loose += [word] if _plain(word) else []
    return loose + flags


def _filled(value: str) -> bool:
    """Whether it is filled in elsewhere, so that nobody can read it here."""
    return "$" in value or "{{" in value


def _plain(value: str) -> bool:
    return _VALUE.fullmatch(value) is not None and "://" not in value
