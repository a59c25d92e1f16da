"""What a request leaves behind: nothing that only the cycle collector could take away. It comes rarely (`app._calm_collector`), and
until then every such request would stay in memory as a whole.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from autohedge.core.types import Seat
from tests.support.house import ALONE, SERVER, TIMES, alone, eventually, run

QUIET = ALONE + "learning: {interval: 1h}\n"  # nobody else is at work meanwhile
CHAIN = (
    SERVER
    + TIMES
    + 'learning: {interval: 1h}\nupstream_registry:\n  alone: {hosts: ["${ONE}"]}\n'
    + "fallback_chain:\n  - {provider: static, models: [alone]}\n"
)


@pytest.fixture(autouse=True)
def told() -> Iterator[None]:
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


def ours(thing: object) -> str:
    """What of AutoHedge a piece of garbage is; "" for all that is not, as the sample engine in this process."""
    name: Any = thing.f_globals.get("__name__") if isinstance(thing, FrameType) else type(thing).__module__
    known = isinstance(name, str) and name.startswith("autohedge.") and not name.startswith("autohedge.engine")
    return f"{name}: {thing!r:.200}" if known else ""


@pytest.mark.parametrize(
    ("fault", "config", "fields", "status"),
    [
        ("", QUIET, {}, 200),
        ("", QUIET, {"stream": True}, 200),
        ("", QUIET, {"messages": 5}, 400),
        ("", QUIET, {"max_tokens": 1_000_000}, 400),
        ("", CHAIN, {"max_tokens": 1_000_000}, 400),
        ("", QUIET, {"model": "unknown"}, 404),
        ("garbage:on=/v1/chat/completions", QUIET, {}, 502),
        ("hang:on=/v1/chat/completions", QUIET, {}, 504),
        ("reset:on=/v1/chat/completions", QUIET, {"stream": True}, 502),
        ("stall-after=2", QUIET, {"stream": True}, 200),
    ],
)
def test_a_request_leaves_no_circle(fault: str, config: str, fields: dict[str, Any], status: int) -> None:
    """Issue 2, acceptance 6: flat memory, also under requests that are refused or fail."""

    async def main() -> list[str]:
        async with alone(*filter(None, [fault]), config=config) as edge:
            gc.collect()
            gc.disable()
            heard = [await edge.chat(**fields) for _ in range(3)]
            await eventually(lambda: edge.busy == 0)
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            assert heard[0].status == status
            assert {one.status for one in heard} <= {status, 503}  # the breaker may have opened
            return [found for found in map(ours, gc.garbage) if found]

    assert run(main()) == []


def test_a_circle_of_ours_would_be_found() -> None:
    gc.collect()
    gc.disable()
    ring: list[object] = [Seat()]
    ring.append(ring)
    del ring
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    assert [found.partition(":")[0] for found in map(ours, gc.garbage) if found] == ["autohedge.core.types"]
