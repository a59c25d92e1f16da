"""A backend dies, hangs, comes back; callers do not notice (issue acceptance 4), on real processes."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.ports import free_port
from tests.support.processes import Child, edge, ending, llama

pytestmark = pytest.mark.real
RATE = 50
CROWD = 8  # a death hits all of them at once, and their second attempts are paid from the budget of retries
FIRST_BYTE = 5  # seconds; a well engine takes a hundredth of one, and tenths of one on a machine with other work
CONFIG = f"""
server: {{{{listen: "127.0.0.1:0"}}}}
timeouts: {{{{connect: 5s, first_byte: {FIRST_BYTE}s, stall: {FIRST_BYTE}s}}}}
learning: {{{{interval: 2s}}}}
upstream_registry:
  pair: {{{{hosts: ["{{one}}", "{{two}}"]}}}}
"""
BODY: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}


async def load(url: str, over: asyncio.Event, stream: bool) -> list[str]:
    """`RATE` requests a second until it is over, or as many as a busy machine takes: `CROWD` at once at most. Returns what went
    wrong, one line each.
    """
    wrong: list[str] = []
    places = asyncio.Semaphore(CROWD)

    async def one(client: httpx.AsyncClient) -> None:
        try:
            answer = await client.post(f"{url}/v1/chat/completions", json=BODY | {"stream": stream})
        except httpx.HTTPError as error:
            wrong.append(repr(error))
            return
        finally:
            places.release()
        if answer.status_code != 200:
            wrong.append(f"{answer.status_code} {answer.text[:300]}")
        elif stream and b"[DONE]" not in answer.content and b'"error"' not in answer.content:
            wrong.append(f"silent cut: {answer.content[-200:]!r}")

    async with (
        httpx.AsyncClient(timeout=90, limits=httpx.Limits(max_keepalive_connections=None)) as client,
        asyncio.TaskGroup() as group,
    ):
        while not over.is_set():
            await places.acquire()
            group.create_task(one(client))
            await asyncio.sleep(1 / RATE)
    return wrong


async def loaded(url: str, stream: bool, steps: Callable[[], Coroutine[Any, Any, None]]) -> list[str]:
    """What went wrong while `steps` were taken."""
    over = asyncio.Event()

    async def taken() -> None:
        try:
            await steps()
        finally:
            over.set()

    wrong, _ = await asyncio.gather(load(url, over, stream), taken())
    return wrong


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_killed_and_revived(tmp_path: Path, stream: bool) -> None:
    """50 requests/s; one of two engines is killed with -9 and started again on its port: no failed request."""
    one, two = llama("--alias", "tiny", port=free_port()), llama("--alias", "tiny")
    revived: list[Child] = []

    async def steps() -> None:
        await asyncio.sleep(2)
        one.send(signal.SIGKILL)
        await asyncio.sleep(2)
        revived.append(await asyncio.to_thread(llama, "--alias", "tiny", port=one.port))
        await asyncio.sleep(1)
        two.send(signal.SIGKILL)  # the first one's breaker may still be open: it is found again by knocking
        await asyncio.sleep(3)

    with ending(one, two):
        front = edge(CONFIG.format(one=one.url, two=two.url), tmp_path)
        with ending(front):
            try:
                assert asyncio.run(loaded(front.url, stream, steps)) == []
            finally:
                for child in revived:
                    child.stop()


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_frozen_and_thawed(tmp_path: Path, stream: bool) -> None:
    """50 requests/s; one of two engines is stopped with SIGSTOP for longer than the first-byte time: no failed request."""
    one, two = llama("--alias", "tiny"), llama("--alias", "tiny")

    async def steps() -> None:
        await asyncio.sleep(2)
        two.send(signal.SIGSTOP)
        await asyncio.sleep(FIRST_BYTE + 3)
        two.send(signal.SIGCONT)
        await asyncio.sleep(2)

    with ending(one, two):
        front = edge(CONFIG.format(one=one.url, two=two.url), tmp_path)
        with ending(front):
            assert asyncio.run(loaded(front.url, stream, steps)) == []


def test_a_dead_backend_is_a_clear_502(tmp_path: Path) -> None:
    """Nobody left: who was tried and how it ended, no address, and SDKs are told not to try again."""
    one = llama("--alias", "tiny")
    with ending(one):
        front = edge(CONFIG.format(one=one.url, two=one.url), tmp_path)
        with ending(front):
            httpx.post(f"{front.url}/v1/chat/completions", json=BODY).raise_for_status()
            one.stop()
            answer = httpx.post(f"{front.url}/v1/chat/completions", json=BODY)
            assert answer.status_code == 502
            error = answer.json()["error"]
            assert error["code"] == "upstream_failed"
            assert "connection refused" in error["message"]
            assert error["details"][0]["message"].startswith("pair:")
            assert str(one.port) not in answer.text
            assert answer.headers["x-should-retry"] == "false"
            assert int(answer.headers["retry-after"]) >= 1
            for _ in range(3):
                answer = httpx.post(f"{front.url}/v1/chat/completions", json=BODY)
            assert answer.status_code == 503  # its breaker is open: nobody is tried
            assert int(answer.headers["retry-after"]) >= 1


def test_a_client_that_leaves_frees_the_engine(tmp_path: Path) -> None:
    """A35: the slot of a real engine is free soon after the client of a stream went. (llama.cpp b11549 itself does not notice
    that the reader of a plain answer left; that AutoHedge closes the connection then is tested with the sample engine.)
    """
    slow = llama("--alias", "tiny", "--slots", "1", width=512, layers=6, window=8192)
    with ending(slow):
        front = edge(CONFIG.format(one=slow.url, two=slow.url), tmp_path)
        with ending(front):
            long = BODY | {"max_tokens": 8000}
            with httpx.stream("POST", f"{front.url}/v1/chat/completions", json=long | {"stream": True}) as answer:
                pieces = answer.iter_raw()
                next(pieces)
                assert busy(slow.url)
            assert_idle_soon(slow.url)


def assert_idle_soon(url: str) -> None:
    """The engine works on nothing, long before it has said all; it looks at its socket between two tokens."""
    until = time.monotonic() + 60
    while busy(url):
        assert time.monotonic() < until
        time.sleep(0.02)
    assert slots(url)[0]["n_prompt_tokens"] < 4000  # llama.cpp counts what it said as well


def busy(url: str) -> bool:
    return any(slot["is_processing"] for slot in slots(url))


def slots(url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = httpx.get(f"{url}/slots").json()
    return found
