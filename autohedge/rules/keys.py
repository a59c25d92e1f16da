"""Affinity keys: which requests share a KV cache, as one 64-bit number.

Rules (systemone facts 8.2 to 8.4)
- What the engine renders is what counts: a string by its decoded UTF-8, an object or array by compact JSON in its own key
  order with non-ASCII unescaped. So `{"a":1}` and `{"a": 1}` share a worker; lone surrogates are hashed, not refused.
- A missing, null, numeric or boolean state has no key: hashing "nothing" would pin all such traffic to one worker.
  The empty string is a key.
- A key is FNV-1a of those bytes. Above `LONG` bytes it is FNV-1a of their BLAKE2b digest: in pure Python FNV-1a takes 60 us per
  KiB, and only "same document, same worker" can be seen from outside.
- A chat's prefix runs to its first user message: the same in every later turn of the same conversation.

It must not know: the ring, workers, the body as it came.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from autohedge.core.ask import Ask
from autohedge.core.types import Door
from autohedge.rules.fnv import fnv1a64

LONG = 128  # bytes; FNV-1a of so many takes 8 us
DIGEST = 16


def key_of(ask: Ask) -> int | None:
    """The key of a body that was read, None when it has none. One that was read in another process brought its key along."""
    obj = ask.obj
    if not isinstance(obj, dict):
        return ask.key
    if ask.door is Door.SYSTEMONE:
        return state_key(obj.get("state"))
    return prefix_key(obj.get("messages")) if ask.door is Door.CHAT else None


def note_key(ask: Ask) -> None:
    """Write the key down, for one who will not have the body."""
    ask.key = key_of(ask)


def state_key(state: Any) -> int | None:
    """The key of a System One `state` (parsed JSON), or None when it has none."""
    if isinstance(state, str):
        return _key(state.encode("utf-8", "surrogatepass"))
    if isinstance(state, dict | list):
        return _rendered(state)
    return None


def prefix_key(messages: Any) -> int | None:
    """The key of a chat (parsed `messages`): everything up to its first user message, or None when there is nothing."""
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        return None
    prefix = []
    for message in messages:
        prefix.append(message)
        if isinstance(message, dict) and message.get("role") == "user":
            break
    return _rendered(prefix)


def _rendered(value: Any) -> int | None:
    try:
        return _key(to_json(value))
    except (PydanticSerializationError, ValueError):  # a lone surrogate, or nested deeper than it goes
        pass
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, ValueError):  # nested too deep, or an integer longer than Python prints
        return None
    return _key(text.encode("utf-8", "surrogatepass"))


def _key(data: bytes) -> int:
    return fnv1a64(data if len(data) <= LONG else blake2b(data, digest_size=DIGEST).digest())
