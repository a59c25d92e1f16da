"""Journeys of what must not take a replica out, however often it happens, and of who hears when nobody can answer."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.journeys.test_seeds_health import webhook
from tests.support.house import ALONE, HELLO, Edge, alone, eventually, run

UNCHECKED = ALONE + "validation: {mode: off}\n"


async def _asked(edge: Edge, times: int, body: bytes) -> set[int]:
    """The statuses of so many requests, ten at once."""
    statuses: set[int] = set()
    for _ in range(times // 10):
        statuses |= {heard.status for heard in await asyncio.gather(*(edge.post(body) for _ in range(10)))}
    return statuses


@pytest.mark.parametrize("kind", ["vllm", "llamacpp", "sglang", "tgi"])
def test_two_hundred_oversize_prompts_leave_the_breaker_closed(kind: str) -> None:
    """Acceptance 3: each reaches the engine, which refuses it in its own way; the next good one is served at once."""
    long = json.dumps(HELLO | {"messages": [{"role": "user", "content": "word " * 300}]}).encode()

    async def main() -> None:
        async with alone(kind=kind, config=UNCHECKED, context=64) as edge:
            assert max(await _asked(edge, 200, long)) < 500
            assert edge.work["one"] == 200
            assert edge.state() == "closed"
            assert (await edge.chat(max_tokens=5)).status == 200

    run(main())


@pytest.mark.parametrize(
    ("fault", "kind"), [("queue-full-503", "ollama"), ("overloaded", "sglang"), ("overloaded", "vllm"), ("B32", "vllm")]
)
def test_a_hundred_full_queues_leave_a_lone_replica_in(fault: str, kind: str) -> None:
    """Acceptance 3: a busy replica is not a sick one; it is asked again each time, and serves as soon as it has room."""

    async def main() -> None:
        async with alone(fault, kind=kind) as edge:
            assert await _asked(edge, 100, json.dumps(HELLO).encode()) <= {429, 503}
            assert edge.work["one"] == 100
            assert edge.state() == "closed"
            edge.one.set_faults()
            assert (await edge.chat()).status == 200

    run(main())


def test_an_exhausted_chain_is_told_once() -> None:
    """Twenty requests that nobody could answer are one alert, not twenty."""

    async def main() -> None:
        async with webhook() as (url, alerts):
            config = ALONE + f"alerts: {{webhook: {{url: '{url}'}}, min_interval: 0}}\n"
            async with alone("status=500", config=config) as edge:
                assert min(await _asked(edge, 20, json.dumps(HELLO).encode())) >= 500
                await eventually(lambda: any(alert["topic"] == "chain exhausted" for alert in alerts))
                await asyncio.sleep(0.3)
                told = [alert for alert in alerts if alert["topic"] == "chain exhausted"]
                assert len(told) == 1
                assert "every backend of model m" in told[0]["text"] or "no backend" in told[0]["text"]

    run(main())
