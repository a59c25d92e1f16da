"""50 decisions a second while a worker is killed, frozen, or answers whatever it likes (issue 5, acceptance 4), on processes."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.canned import Canned
from tests.support.house import eventually
from tests.support.ports import free_port
from tests.support.processes import Child, edge, ending

pytestmark = pytest.mark.real
PATH = "/v1/systemone"
RATE, CROWD = 50, 40
CONFIG = """
server: {{listen: "127.0.0.1:0"}}
routing: {{request_timeout: 3s}}
learning: {{interval: 2s}}
{judge}
upstream_registry:
  killed: {{host: "{killed}", model: dex}}
  frozen: {{host: "{frozen}", model: dex}}
  moody: {{host: "{moody}", model: dex}}
"""
JUDGES = {
    "window": "probe: {enabled: false}",  # live answers alone
    "streak": "health: {judge: streak, health_check_interval: 500ms, health_gen_check_interval: 0, health_timeout: 3s}",
}
DECIDED = b'{"model":"dex","answers":{"q":{"type":"noul","noul":0.5}},"usage":{"input_tokens":1,"output_tokens":0}}'
SAID = b'{"detail":[{"type":"missing","loc":["body","x"],"msg":"by the moody one"}]}'


def worker(port: int = 0) -> Child:
    return Child(["autohedge", "engine", "--kind", "systemone", "--model", "dex", "--port", str(port)], "READY ")


def body(number: int) -> dict[str, Any]:
    return {
        "model": "dex",
        "state": f"document {number % 97}",
        "questions": {"q": {"type": "noul", "instructions": "?"}},
    }


async def load(url: str, over: asyncio.Event) -> list[tuple[int, str, bytes]]:
    """Every answer: status, backend, body. An answer that did not come is status 0. A busy machine gets as many requests as it
    takes, `CROWD` at once at most.
    """
    places = asyncio.Semaphore(CROWD)
    found: list[tuple[int, str, bytes]] = []

    async def one(client: httpx.AsyncClient, number: int) -> None:
        try:
            answer = await client.post(url + PATH, json=body(number))
        except httpx.HTTPError as error:
            found.append((0, "", repr(error).encode()))
            return
        finally:
            places.release()
        found.append((answer.status_code, answer.headers.get("x-autohedge-backend", ""), answer.content))

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(timeout=90, limits=limits) as client, asyncio.TaskGroup() as group:
        for number in count():
            await places.acquire()
            group.create_task(one(client, number))
            await asyncio.sleep(1 / RATE)
            if over.is_set():
                break
    return found


async def phases(moody: Canned, killed: Child, frozen: Child, over: asyncio.Event) -> Child:
    """One after the other; the worker that was started in the place of the killed one."""
    await asyncio.sleep(1)
    killed.send(signal.SIGKILL)
    revived = asyncio.create_task(asyncio.to_thread(worker, killed.port))
    await asyncio.sleep(1.5)
    frozen.send(signal.SIGSTOP)
    await asyncio.sleep(4.5)  # one and a half time-outs
    frozen.send(signal.SIGCONT)
    child = await revived
    for status in (400, 422, 404, 405, 501, 502, 503, 504, 200):
        before = len(moody.requests)
        moody.status, moody.body = status, DECIDED if status == 200 else SAID
        await asyncio.sleep(0.7)
        if status < 502:  # later it may be out
            await eventually(lambda: len(moody.requests) > before + 1)  # noqa: B023 - awaited here
    over.set()
    return child


@pytest.mark.parametrize("judge", JUDGES)
def test_callers_see_what_eidex_promises(tmp_path: Path, judge: str) -> None:
    """Killed, frozen, 502, 503, 504: somebody else answers, and nobody waits longer than one attempt more. 400, 422, and even
    404, 405 and 501 are the worker's own words, byte by byte; none of them is ever ours.
    """
    killed, frozen = worker(free_port()), worker()

    async def main() -> list[tuple[int, str, bytes]]:
        moody, over = Canned(), asyncio.Event()
        config = CONFIG.format(killed=killed.url, frozen=frozen.url, moody=await moody.start(), judge=JUDGES[judge])
        moody.body = DECIDED
        front = await asyncio.to_thread(edge, config, tmp_path)
        with ending(front):
            found, revived = await asyncio.gather(load(front.url, over), phases(moody, killed, frozen, over))
            revived.stop()
        await moody.stop()
        return found

    with ending(killed, frozen):
        found = asyncio.run(main())
    seen = Counter(status for status, _, _ in found)

    for status, backend, said in found:
        if status == 200:
            assert "answers" in json.loads(said)
        else:
            assert status in {400, 422, 404, 405, 501}, (status, said)
            assert (backend, said) == ("moody", SAID)
    assert seen[200] > 0.5 * len(found)  # the moody one has its third, and the shares of who is out
    assert {400, 422, 404, 405, 501} <= set(seen)
