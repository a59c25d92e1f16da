"""What the checks know of a request body, whatever its door.

It must not know: JSON, limits, candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autohedge.core.types import Door


@dataclass(slots=True)
class Ask:
    """What the checks need to know of one request body. The body itself is forwarded as it came.

    `max_tokens` is the explicit bound on the answer (max_completion_tokens before max_tokens), None when absent.
    `text_bytes` is an upper bound of the prompt's text in UTF-8 bytes; `parts` counts messages or inputs.
    `truncates` is true when the request asks the engine to cut a long prompt (trap T5).
    """

    door: Door
    model: str | None
    stream: bool = False
    max_tokens: int | None = None
    max_tokens_param: str = "max_tokens"
    text_bytes: int = 0
    parts: int = 1
    media: bool = False
    tools: bool = False
    response_format: bool = False
    truncates: bool = False
    key: int | None = None  # its affinity (rules/keys.py), where it was examined in another process
    obj: Any = None  # the parsed body (a dict), None when it was examined in another process
