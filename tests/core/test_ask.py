"""What the checks know of a body: unknown stays unknown."""

from __future__ import annotations

from autohedge.core.ask import Ask
from autohedge.core.types import Door


def test_what_a_body_does_not_say_is_not_checked() -> None:
    ask = Ask(Door.CHAT, "m")
    assert ask.max_tokens is None
    assert not any((ask.stream, ask.media, ask.tools, ask.response_format, ask.truncates))


def test_a_body_examined_elsewhere_leaves_no_object_behind() -> None:
    assert Ask(Door.EMBEDDINGS, None).obj is None
