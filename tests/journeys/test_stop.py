"""Journeys across a stop (A45): SIGTERM and SIGINT let what runs end, within the grace, and nothing new begin."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from contextlib import suppress

import httpx
import pytest

from tests.support.canned import held
from tests.support.fair import Watch
from tests.support.house import CHAT, HELLO, PATIENCE, SERVER, Edge, alone, eventually, house, run

BRIEF = SERVER + 'upstream_registry:\n  alone: {host: "${ONE}"}\n'  # a grace of one second
CONFIG = BRIEF.replace("grace: 1s", "grace: 60s")


async def _refused(edge: Edge) -> None:
    """Until no connection is taken any more; one that came in that very moment is closed."""
    with pytest.raises(httpx.ConnectError):  # noqa: PT012
        while True:
            async with httpx.AsyncClient(verify=False, timeout=PATIENCE) as client:
                with suppress(httpx.ReadError, httpx.RemoteProtocolError):
                    await client.get(edge.url + "/liveness")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_what_runs_ends_and_nothing_new_begins(number: signal.Signals, stream: bool) -> None:
    """A45: the request in flight is answered whole, new connections are refused, exit code 0."""

    async def main() -> None:
        worker = held(stream=stream)
        async with house(CONFIG, one=worker.engine) as edge:
            running = asyncio.create_task(edge.client.post(edge.url + CHAT, json=HELLO | {"stream": stream}))
            await eventually(lambda: edge.one.received[CHAT] == 1)
            os.kill(os.getpid(), number)
            await eventually(lambda: edge.house.standing.draining)  # eidex: /readiness says 503 from here on
            await _refused(edge)
            assert not edge.life.done()
            worker.free.set()
            answer = await running
            assert answer.status_code == 200
            assert answer.content.endswith(b"[DONE]\n\n") if stream else answer.json()["choices"]
            async with asyncio.timeout(30):
                assert await edge.life == 0

    run(main())


def test_readiness_says_so_before_requests_are_refused() -> None:
    """A load balancer that asks /readiness hears of the stop while requests are still answered (`server.drain`)."""

    async def main() -> None:
        async with alone(config=CONFIG.replace("grace: 60s", "grace: 60s, drain: 2s")) as edge:
            began = time.monotonic()
            os.kill(os.getpid(), signal.SIGTERM)
            await eventually(lambda: edge.house.standing.draining)
            async with httpx.AsyncClient(verify=False, timeout=PATIENCE) as client:  # connections of its own
                ready = await client.get(edge.url + "/readiness")
                assert (ready.status_code, ready.json()["status"]) == (503, "draining")
                assert (await client.get(edge.url + "/liveness")).status_code == 200
                assert (await client.post(edge.url + CHAT, json=HELLO)).status_code == 200
            async with asyncio.timeout(30):
                assert await edge.life == 0
            assert time.monotonic() - began > 1.9

    run(main())


def test_a_second_signal_waits_for_nobody() -> None:
    async def main() -> None:
        async with alone(config=CONFIG.replace("grace: 60s", "grace: 60s, drain: 60s")) as edge:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.sleep(0.1)
            async with asyncio.timeout(30):
                assert await edge.life == 0

    run(main())


def test_what_does_not_end_is_cut_after_the_grace(caplog: pytest.LogCaptureFixture) -> None:
    """A45: over the grace the request is cut and said so in the log; the engine is freed; exit code 0."""

    async def main() -> None:
        async with alone("stall-after", config=BRIEF) as edge:
            running = asyncio.create_task(edge.stream())
            await eventually(lambda: edge.one.received[CHAT] == 1)
            watch = Watch()
            edge.house.stop()
            heard = await running
            assert heard.cut
            assert await edge.life == 0
            assert watch.wall > 0.9
            assert watch.seconds < 2
            await eventually(lambda: edge.one.cancelled[CHAT] == 1)

    with caplog.at_level(logging.ERROR, "uvicorn.error"):
        run(main())
    assert "graceful shutdown exceeded" in caplog.text


def test_an_idle_house_stops_at_once() -> None:
    """Idle connections of clients do not hold it."""

    async def main() -> None:
        async with alone(config=CONFIG) as edge:
            await edge.chat()
            watch = Watch()
            edge.house.stop()
            assert await edge.life == 0
            assert watch.seconds < 5  # the grace is a minute

    run(main())


def test_a_second_house_cannot_have_the_port(caplog: pytest.LogCaptureFixture) -> None:
    """A port that is taken is said in a sentence, with exit code 1."""

    async def main() -> None:
        async with alone(config=CONFIG) as edge:
            taken = edge.house.settings.model_copy(
                update={"server": edge.house.settings.server.model_copy(update={"listen": f"127.0.0.1:{edge.port}"})}
            )
            other = type(edge.house)(taken, None, {})
            assert await other.run(lambda _url: None) == 1

    run(main())
    assert "cannot listen on" in caplog.text
