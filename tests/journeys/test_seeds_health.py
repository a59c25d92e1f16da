"""Journeys that hold what the seeds say of health, with every part wired as the process has it (docs/parity.md)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from autohedge.engine.sample import SampleEngine
from tests.support.canned import Canned
from tests.support.house import (
    ALONE,
    APART,
    CHAT,
    HELLO,
    PAIR,
    SERVER,
    TIMES,
    alone,
    eventually,
    house,
    pair,
    run,
    vllm,
)

QUICK = "probe: {interval: 80ms, doubtful_interval: 40ms, timeout: 2s, jitter: 0}\nbreaker: {window: 2, min_samples: 2, open: 200ms, cap: 400ms}\n"
PROBING = {"AUTOHEDGE_PROBE_ENABLED": "true"}  # the journeys of others are told without probes between
EIDEX = "health: {judge: streak, health_check_interval: 60ms, health_gen_check_interval: 90ms, health_timeout: 5s, health_gen_endpoint: /version}\n"


# --- eidex: two probes alone decide -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/health", "/version"], ids=["light", "deep"])
def test_two_failed_pings_take_a_worker_out_and_one_good_one_brings_it_back(path: str) -> None:
    """eidex: down 2, up 1, each probe for itself; the sick worker goes on being asked, and gets no request meanwhile."""

    async def main() -> None:
        async with pair(config=PAIR + EIDEX) as edge:
            await asyncio.sleep(0.3)
            assert [edge.state(0), edge.state(1)] == ["closed", "closed"]
            edge.one.set_faults(f"status=500:on={path}")
            await eventually(lambda: edge.state() == "open")
            for _ in range(4):
                assert (await edge.chat()).status == 200
            assert edge.work == {"one": 0, "two": 4}
            edge.one.set_faults()
            await eventually(lambda: edge.state() == "closed")
            for _ in range(4):
                assert (await edge.chat()).status == 200
            assert edge.work["one"] == 2

    run(main())


def test_a_worker_begins_well_and_requests_move_nothing() -> None:
    """eidex: optimistic start, first ping after one interval; a bad answer fails over, but only pings decide."""
    config = PAIR + EIDEX.replace("60ms", "30s").replace("90ms", "60s")

    async def main() -> None:
        async with pair("status=502", config=config) as edge:
            edge.one.set_faults("status=502", "health-503")
            for _ in range(8):
                assert (await edge.chat()).status == 200
            assert edge.state() == "closed"
            assert edge.work["one"] == 8  # asked first each time
            assert edge.one.received["/health"] == 0

    run(main())


# --- the article: minimal inference ---------------------------------------------------------------------------------------


def test_a_hang_behind_a_green_health_page_is_found_without_any_request() -> None:
    """The article, 3.3: /health is 200, the model hangs: the probe finds it, and finds it again when it is well."""

    async def main() -> None:
        async with house(PAIR + QUICK, env=PROBING, one=vllm(), two=vllm()) as edge:
            await eventually(lambda: edge.one.received[CHAT] >= 1)
            edge.one.set_faults("hang")
            assert (await edge.client.get(edge.one.url + "/health")).status_code == 200
            await eventually(lambda: edge.state() == "open")
            began = edge.one.received[CHAT]
            assert (await edge.chat()).attempts == 1
            edge.one.set_faults()
            await eventually(lambda: edge.state() == "closed")
            assert edge.one.received[CHAT] > began
            assert (
                'autohedge_probes_total{backend="pair",model="m",verdict="answer"}' in (await edge.get("/metrics")).text
            )

    run(main())


@pytest.mark.parametrize("text", ["", "////////////////"], ids=["empty", "degenerate"])
def test_a_model_gone_dumb_is_out_under_full_traffic(text: str) -> None:
    """Issue 3, T88: its 200s reach their callers, who may have wanted them, but they are no proof of health: the probes go on, and
    they decide.
    """

    async def main() -> None:
        one = Canned("m")
        said = {"choices": [{"index": 0, "message": {"content": text}, "finish_reason": "stop"}], "model": "m"}
        one.body = json.dumps(said).encode()
        async with house(PAIR + QUICK, env=PROBING, one=one.engine, two=vllm()) as edge:
            while "open" not in (edge.state(0), edge.state(1)):
                heard = await edge.chat()
                assert (heard.status, heard.attempts) == (200, 1)
            assert {"answer", "client_fault"} >= set(edge.verdicts())
            assert (await edge.chat()).backend == "pair"
            assert one.url.endswith(str(edge.candidate(0 if edge.state() == "open" else 1).replica.address.port))

    async def bounded() -> None:
        async with asyncio.timeout(8):
            await main()

    run(bounded())


def test_a_probe_finds_the_end_and_lets_it_rest() -> None:
    """d3, B107: no caller meets the 410 that a probe met, and what is retired is not probed any more."""

    async def main() -> None:
        one = SampleEngine("openai-compatible", model="m", faults=["B107"])
        async with house(APART + QUICK, env=PROBING, one=one, two=vllm()) as edge:
            await eventually(lambda: bool(edge.house.retirements.facts))
            asked, probed = one.received[CHAT], edge.two.received[CHAT]
            heard = await edge.chat()
            assert (heard.status, heard.backend, heard.attempts) == (200, "second", 1)
            await eventually(lambda: edge.two.received[CHAT] >= probed + 6)
            assert one.received[CHAT] == asked

    run(main())


def test_a_paid_provider_is_not_probed() -> None:
    """The article's third rung costs money with every question."""
    config = ALONE.replace(
        'alone: {hosts: ["${ONE}"]}', 'paid: {host: "${ONE}", provider: openai-compatible, model: m, external: true}'
    )

    async def main() -> None:
        one = SampleEngine("openai-compatible", model="m")
        async with house(config + QUICK, env=PROBING, one=one) as edge:
            await asyncio.sleep(1.2)
            assert edge.one.received[CHAT] == 0

    run(main())


def test_nothing_is_accepted_before_the_backends_answer() -> None:
    """The article, 5.2: started first, it waits for its backends; requests are told so, and /readiness says for what."""
    config = APART + "startup: {require: all, max_wait: 100s}\n" + QUICK

    async def main() -> None:
        late = vllm(faults=["status=503:on=all:for=1.5"])
        async with house(config, env=PROBING, one=vllm(), two=late) as edge:
            heard = await edge.chat()
            assert (heard.status, heard.error["code"]) == (503, "starting")
            assert int(heard.headers["retry-after"]) >= 1
            await eventually(lambda: [one.partition(":")[0] for one in edge.house.gate.missing] == ["second"])
            ready = await edge.get("/readiness")
            assert ready.status_code == 503
            assert ready.json()["missing"][0].startswith("second: ")
            assert (await edge.get("/liveness")).status_code == 200
            for _ in range(600):
                if (await edge.get("/readiness")).status_code == 200:
                    break
                await asyncio.sleep(0.1)
            assert (await edge.chat()).status == 200

    run(main())


# --- the article: people are told ---------------------------------------------------------------------------------------


@asynccontextmanager
async def webhook() -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """A URL, and every alert that was posted to it."""
    alerts: list[dict[str, Any]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.partition(b":")[2]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
        )
        alerts.extend(json.loads(await reader.readexactly(length))["alerts"])
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook", alerts


@pytest.mark.parametrize(("fault", "word"), [("cuda-oom", "out of the pool"), ("B107", "retired")])
def test_people_are_told_once(fault: str, word: str) -> None:
    """The article, 3.3 and 3.4: a node that leaves the pool, a provider that is gone: one alert, however many requests met it."""
    first = 'first: {host: "${ONE}", provider: openai-compatible, model: m, '

    async def main() -> None:
        async with webhook() as (url, alerts):
            config = (
                APART.replace('first: {host: "${ONE}", ', first)
                + f"alerts: {{webhook: {{url: '{url}'}}, min_interval: 0}}\n"
            )
            one = SampleEngine("openai-compatible", model="m", faults=[fault])
            async with house(config, one=one, two=vllm()) as edge:
                heard = await asyncio.gather(*(edge.chat() for _ in range(5)))
                assert {one.status for one in heard} == {200}
                await eventually(lambda: word in json.dumps(alerts))
                await asyncio.sleep(0.3)
                assert sum(word in json.dumps(alert) for alert in alerts) == 1
                assert str(edge.one.port) not in json.dumps(alerts)

    run(main())


def test_a_redirect_is_seen_in_the_list_of_models() -> None:
    """The article, 3.4, and its adaptive half: the model that failed there goes to the first rung, and /v1/models says to whom."""
    config = SERVER + TIMES + "upstream_registry:\n"
    config += '  walkai: {host: "${ONE}", provider: openai-compatible, model: m}\n  peer: {host: "${TWO}"}\n'
    config += "fallback_chain: [{provider: swarm, models: [other]}]\n"

    async def main() -> None:
        one = SampleEngine("openai-compatible", model="m", faults=["B107"])
        async with house(config, one=one, two=SampleEngine("vllm", model="other", context=512)) as edge:
            assert (await edge.chat()).backend == "peer"
            heard = await edge.chat()
            assert (heard.backend, heard.attempts) == ("peer", 1)
            listed = {entry["id"]: entry for entry in (await edge.get("/v1/models")).json()["data"]}
            assert (listed["m"]["root"], listed["m"]["max_model_len"]) == ("other", 512)
            assert (await edge.get("/v1/models/m")).json() == listed["m"]

    run(main())


# --- the article: who may call --------------------------------------------------------------------------------------------


def test_only_services_that_are_registered_come_in() -> None:
    """The article, 5.2: X-Service-ID and that service's own token, in any form; neither of them reaches an engine."""
    config = SERVER + TIMES + 'upstream_registry: {alone: {host: "${ONE}"}}\n'
    config += "auth: {mode: services, services: {vllm-app: {token: sk-prod-odd.form}}}\n"
    good = {"x-service-id": "vllm-app", "authorization": "Bearer sk-prod-odd.form"}

    async def main() -> None:
        async with alone(config=config) as edge:
            for headers in (
                {},
                {"authorization": "Bearer sk-prod-odd.form"},
                good | {"authorization": "Bearer sk-other"},
            ):
                heard = await edge.post(HELLO, headers=headers)
                assert (heard.status, heard.error["code"]) == (401, "unauthorized")
                assert b"sk-" not in heard.body
            assert edge.work["one"] == 0
            assert (await edge.post(HELLO, headers=good)).status == 200
            request = edge.one.last_request
            assert request is not None
            assert b"sk-prod" not in request.head
            assert b"vllm-app" not in request.head

    run(main())
