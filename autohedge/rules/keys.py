"""Affinity keys: which requests share a KV cache, as one 64-bit number.

Rules (systemone facts 8.2 to 8.4)
- What the engine renders is what counts: a string by its decoded UTF-8, an object or array by compact JSON in its own key
  order with non-ASCII unescaped. So `{"a":1}` and `{"a": 1}` share a worker; lone surrogates are hashed, not refused.
- A missing, null, numeric or boolean state has no key: hashing "nothing" would pin all such traffic to one worker.
  The empty string is a key.
- A key is FNV-1a of those bytes. Above `LONG` bytes it is FNV-1a of their BLAKE2b digest: a megabyte in the pure-Python
  loop would hold up every other request for 60 ms, and only "same document, same worker" can be seen from outside.
- Documents come again, that is why affinity pays: keys of the last documents are remembered by digest (bounded).
- A chat's prefix runs to its first user message: the same in every later turn of the same conversation.

It must not know: the ring, workers, the body as it came.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from autohedge.rules.fnv import fnv1a64

SHORT = 64  # bytes that are hashed faster than looked up
LONG = 8192
REMEMBERED = 8192  # keys; about 1.5 MB

_keys: dict[bytes, int] = {}  # digest -> key: a memo of a pure function, dropped whole when full


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
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, ValueError):  # nested too deep, or an integer longer than Python prints
        return None
    return _key(text.encode("utf-8", "surrogatepass"))


def _key(data: bytes) -> int:
    if len(data) <= SHORT:
        return fnv1a64(data)
    digest = blake2b(data, digest_size=16).digest()
    key = _keys.get(digest)
    if key is None:
        if len(_keys) >= REMEMBERED:
            _keys.clear()
        key = _keys[digest] = fnv1a64(digest if len(data) > LONG else data)
    return key
