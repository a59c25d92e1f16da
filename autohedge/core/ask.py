"""What the checks know of a request body, whatever its door.

It must not know: JSON, limits, candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autohedge.core.types import Door


@dataclass(slots=True)
class Sizes:
    """How large the parts of a System One request are, for the limits of a model.

    `options` and `levels` hold (question id, how many) for each choice and score whose criteria can be counted.
    """

    questions: int = 0
    options: tuple[tuple[str, int], ...] = ()
    levels: tuple[tuple[str, int], ...] = ()
    images: int = 0
    state_bytes: int = 0  # UTF-8; that of the whole body where the state is no string
    body_bytes: int = 0  # after Content-Encoding is undone


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
    sizes: Sizes | None = None  # at the System One door
    obj: Any = None  # the parsed body (a dict), None when it was examined in another process
