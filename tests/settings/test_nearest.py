"""The nearest known word."""

from __future__ import annotations

import pytest

from autohedge.settings.nearest import did_you_mean, nearest

KNOWN = ["listen", "max_body_bytes", "access_log", "workers"]


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("lisen", "listen"),
        ("MAX-BODY-BYTES", "max_body_bytes"),
        ("accessLog", "access_log"),
        ("worker", "workers"),
        ("zzz", None),
    ],
)
def test_the_nearest_word_is_found(word: str, near: str | None) -> None:
    """A slip, another case, another separator; nothing where nothing is near."""
    assert nearest(word, KNOWN) == near


def test_the_sentence_asks_or_lists() -> None:
    """Either a question or all the known words."""
    assert did_you_mean("lisen", KNOWN) == '; did you mean "listen"?'
    assert did_you_mean("zzz", KNOWN) == " (known: listen, max_body_bytes, access_log, workers)"
