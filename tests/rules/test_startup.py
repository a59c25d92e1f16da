"""What the gate at the start waits for."""

from __future__ import annotations

import pytest

from autohedge.rules.startup import Require, Upstream, missing

UP, DOWN = Upstream("a"), Upstream("b", "connection refused")
CLOUD, CLOUD_DOWN = Upstream("cloud", external=True), Upstream("cloud", "401", external=True)


@pytest.mark.parametrize(
    ("require", "upstreams", "expected"),
    [
        (Require.NONE, [], []),
        (Require.NONE, [DOWN], []),
        (Require.ANY, [UP, DOWN], []),
        (Require.ANY, [DOWN], ["b: connection refused"]),
        (Require.ALL, [UP, DOWN], ["b: connection refused"]),
        (Require.ALL, [UP, UP], []),
        (Require.ALL, [UP, CLOUD_DOWN], []),  # a foreign service that is down is no reason to refuse
        (Require.ANY, [DOWN, CLOUD], ["b: connection refused"]),  # nor one that is up a reason to accept
        (Require.ALL, [CLOUD_DOWN], []),
        (Require.ALL, [], ["no backend is known yet"]),
        (Require.ANY, [], ["no backend is known yet"]),
    ],
)
def test_what_is_missing(require: Require, upstreams: list[Upstream], expected: list[str]) -> None:
    """The article 5.2: registry empty because AutoHedge started first."""
    assert missing(require, upstreams) == expected
