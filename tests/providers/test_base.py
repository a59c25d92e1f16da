"""The small words of the contract: what a question is called, what a count says, what a reply does not show."""

from __future__ import annotations

from autohedge.core.ask import Ask
from autohedge.core.types import Door
from autohedge.providers import DIALECTS
from autohedge.providers.base import TOO_LONG, Counted, Question
from tests.providers.saying import reply


def test_two_questions_to_one_path_keep_their_replies_apart() -> None:
    """/api/show is asked once per model."""
    assert Question("/api/ps").key == "/api/ps"
    assert Question("/api/show", {"model": "a"}, "/api/show a").key == "/api/show a"


def test_a_refusal_to_count_is_longer_than_any_window() -> None:
    """b: some versions check the window already when they count."""
    assert Counted(too_long=True).size == TOO_LONG
    assert Counted(5).size == 5
    assert Counted().size is None


def test_a_reply_shows_no_body_and_no_headers() -> None:
    """SGLang's server_info holds every start argument, an API key perhaps among them."""
    assert "sk-secret" not in repr(reply({"api_key": "sk-secret"}))


def test_what_an_engine_cannot_do_is_none() -> None:
    """Ollama and external providers count nothing, say nothing of slots and need one round."""
    for dialect in DIALECTS.values():
        assert dialect.slots({}) is None
        assert dialect.more({}) == ()
        assert dialect.count(Ask(Door.RERANK, "m"), "m") is None
        assert dialect.counted(reply(None, 0)).size is None
