"""A learned figure says where it came from, and how much it is worth."""

from __future__ import annotations

import pytest

from autohedge.core.fact import Fact, Rank


@pytest.mark.parametrize(
    ("fact", "told"),
    [
        (
            Fact(5, "max_model_len, read from /v1/models", Rank.ENGINE, 100.0),
            "max_model_len, read from /v1/models 12 s ago",
        ),
        (Fact(5, "an error of the engine", Rank.ERROR, 200.0), "an error of the engine 0 s ago"),
        (Fact(5, "line 3 of c.yaml", Rank.CONFIG, 100.0), "line 3 of c.yaml"),
        (Fact(5, "read", Rank.ENGINE), "read"),
    ],
)
def test_a_figure_tells_where_it_came_from(fact: Fact[int], told: str) -> None:
    """What an engine said has an age; what is written in a file has none. A clock that went back is no negative age."""
    assert fact.told(112.4) == told


def test_an_engine_stands_over_what_is_written() -> None:
    """Facts a: engine > arguments > env and labels > config; an engine's refusal knows best."""
    assert sorted(Rank) == [Rank.KIND, Rank.CONFIG, Rank.LABEL, Rank.ENV, Rank.ARGS, Rank.ENGINE, Rank.ERROR]
