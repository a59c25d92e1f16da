"""Journeys of one request past backends that fail: who is asked, how fast, and what the caller reads in the end."""

from __future__ import annotations

import asyncio

import pytest

from autohedge.engine.sample import SampleEngine
from tests.support.canned import held
from tests.support.fair import Watch
from tests.support.house import (
    APART,
    CHAT,
    HELLO,
    PAIR,
    SERVER,
    TIMES,
    UNHURRIED,
    alone,
    eventually,
    house,
    pair,
    run,
    vllm,
)


@pytest.mark.parametrize("status", [400, 422, 403])
def test_a_client_s_fault_is_passed_byte_by_byte(status: int) -> None:
    """A5: the engine's own bytes and status; nobody else is asked."""

    async def main() -> None:
        async with pair(f"status={status}") as edge:
            direct = await edge.client.post(edge.one.url + CHAT, json=HELLO)
            heard = await edge.chat()
            assert (heard.status, heard.body) == (status, direct.content)
            assert edge.work["two"] == 0
            assert "x-should-retry" not in heard.headers

    run(main())


def test_an_unknown_model_at_one_engine_may_be_known_at_the_next() -> None:
    """A5, d2: a 404 of one replica is no fault of the caller; after all were asked it is the engine's own 404."""

    async def main() -> None:
        async with pair("status=404") as edge:
            assert (await edge.chat()).status == 200
            edge.two.set_faults("status=404")
            heard = await edge.chat()
            assert heard.status == 404
            assert heard.error["message"] == "fault status=404"

    run(main())


def test_a_redirect_is_passed_on() -> None:
    """A6: 302 with its Location; it is not followed and nobody else is asked."""

    async def main() -> None:
        async with pair("redirect-302=http://127.0.0.1:9/x") as edge:
            heard = await edge.chat()
            assert (heard.status, heard.headers["location"]) == (302, "http://127.0.0.1:9/x")
            assert edge.work == {"one": 1, "two": 0}

    run(main())


@pytest.mark.parametrize("how", ["refused", "500", "stream"])
def test_a_fast_failure_is_followed_at_once(how: str) -> None:
    """A34, A41: no timer stands between a failure and the next replica: the answer is there in less than 200 ms."""

    async def main() -> None:
        async with pair(*([] if how == "refused" else ["status=500"])) as edge:
            if how == "refused":
                await edge.one.stop()
            heard = await edge.chat(stream=how == "stream")
            assert heard.status == 200
            assert heard.took < 0.2
            assert (heard.attempts, heard.backend) == (2, "pair")
            assert heard.headers["x-autohedge-model"] == "m"

    run(main())


def test_a_full_queue_before_the_peer() -> None:
    """A39: 429 and 503 with Retry-After go on at once; the time to wait is not slept by us."""

    async def main() -> None:
        async with pair("B32=30", kind="openai-compatible") as edge:
            heard = await edge.chat()
            assert (heard.status, heard.attempts) == (200, 2)
            assert heard.took < 5

    run(main())


def test_the_most_telling_answer_of_all() -> None:
    """A40: one refuses the connection, the other says why it cannot: its JSON is the answer, without any address."""

    async def main() -> None:
        async with pair() as edge:
            await edge.one.stop()
            edge.two.set_faults("status=503")
            heard = await edge.chat()
            assert heard.status == 503
            assert heard.error["message"] == "fault status=503"
            assert heard.headers["x-autohedge-attempts"] == "2"
            assert int(heard.headers["retry-after"]) >= 1
            for port in (edge.one.port, edge.two.port):
                assert str(port).encode() not in heard.body

    run(main())


def test_nobody_there() -> None:
    """A40: both refuse: 502, who was tried and how it ended, Retry-After, and SDKs are told not to try again."""

    async def main() -> None:
        async with pair() as edge:
            await edge.one.stop()
            await edge.two.stop()
            heard = await edge.chat()
            assert heard.status == 502
            assert heard.error["code"] == "upstream_failed"
            assert [detail["message"] for detail in heard.error["details"]] == ["pair: connection refused"] * 2
            assert heard.headers["x-should-retry"] == "false"
            assert str(edge.one.port).encode() not in heard.body
            assert b"127.0.0.1" not in heard.body

    run(main())


def test_at_most_so_many_attempts() -> None:
    """Design 5: three attempts by default, whatever else there is."""
    config = SERVER + TIMES + 'upstream_registry: {all: {hosts: ["${A}", "${B}", "${C}", "${D}"]}}\n'

    async def main() -> None:
        a, b, c, d = (vllm(faults=["status=500"]) for _ in range(4))
        async with house(config, a=a, b=b, c=c, d=d) as edge:
            heard = await edge.chat()
            assert heard.status == 500
            assert sum(edge.work.values()) == 3

    run(main())


def test_an_outage_does_not_double_the_load() -> None:
    """Design 5: retries that cost an engine work are paid from a budget; when it is empty the first failure is the answer."""
    config = PAIR + "failover: {budget_ratio: 0, budget_rate: 0.2}\nbreaker: {live_row: 0, min_samples: 10}\n"

    async def main() -> None:
        async with pair("status=500", config=config) as edge:
            edge.two.set_faults("status=500")
            heard = [await edge.chat() for _ in range(6)]
            assert {one.status for one in heard} == {500}
            assert sum(edge.work.values()) <= 6 + 3

    run(main())


def test_a_refused_connection_is_followed_without_budget() -> None:
    """Design 5: nothing was sent, so trying elsewhere adds no load."""

    async def main() -> None:
        async with pair(config=PAIR + "failover: {budget_ratio: 0, budget_rate: 0}\n") as edge:
            await edge.one.stop()
            assert (await edge.chat()).status == 200

    run(main())


@pytest.mark.parametrize("fault", ["hang", "stall-after", "B17=5"])
def test_the_time_for_the_whole_request(fault: str) -> None:
    """Design 5: when `timeouts.total` is over, a 504 says so, in time; it counts against nobody."""
    config = SERVER + "timeouts: {total: 400ms}\n" + 'upstream_registry: {pair: {hosts: ["${ONE}", "${TWO}"]}}\n'

    async def main() -> None:
        async with pair(fault, config=config) as edge:
            heard = await edge.chat()
            assert heard.status == 504
            assert heard.error["code"] == "deadline_exceeded"
            assert heard.last > 0.35
            assert heard.took < 1
            assert edge.verdicts() == ["abandoned"]
            assert edge.busy == 0

    run(main())


def test_a_stream_ends_with_the_time_for_the_whole_request() -> None:
    """Design 5: a stream that is still going then ends with an error event, no [DONE]."""
    config = SERVER + "timeouts: {total: 1s}\n" + 'upstream_registry: {alone: {host: "${ONE}"}}\n'

    async def main() -> None:
        async with alone(config=config, pace=20, words=100) as edge:
            heard = await edge.stream()
            assert heard.last > 0.95
            assert heard.took < 3
            assert "time for the whole request" in heard.errors[-1]["message"]
            assert b"[DONE]" not in heard.body
            await eventually(lambda: edge.one.cancelled[CHAT] == 1)

    run(main())


def test_two_backends_of_one_model() -> None:
    """The backend with the smaller priority number serves; the other when it fails, and the answer names which."""

    async def main() -> None:
        async with pair(config=APART) as edge:
            assert [(await edge.chat()).backend for _ in range(3)] == ["first"] * 3
            edge.one.set_faults("status=500")
            assert (await edge.chat()).backend == "second"

    run(main())


def test_load_is_shared() -> None:
    """Least outstanding, ties round robin: one after the other both get half, and a slow one gets less."""

    async def main() -> None:
        worker = held()
        async with house(UNHURRIED, one=worker.engine, two=vllm()) as edge:
            worker.free.set()
            for _ in range(10):
                await edge.chat()
            assert edge.work == {"one": 5, "two": 5}
            worker.free.clear()
            running = [asyncio.create_task(edge.chat()) for _ in range(2)]
            await eventually(lambda: edge.work["one"] == 6)
            for _ in range(6):
                await edge.chat()
            assert edge.work["one"] == 6
            worker.free.set()
            await asyncio.gather(*running)

    run(main())


def test_a_fast_hour_of_failures_leaves_nothing_behind() -> None:
    """A36: after 300 requests over failing and leaving connections seats and sockets are where they were."""

    async def main() -> None:
        async with pair("reset:times=50", "B80=1:after=50:times=50") as edge:
            watch = Watch()
            for _ in range(15):
                await asyncio.gather(*(edge.chat(stream=number % 2 == 0) for number in range(20)))
            assert watch.seconds < 5
            assert edge.busy == 0
            assert edge.pool(0).open == edge.pool(0).idle
            assert edge.pool(1).open == edge.pool(1).idle
            assert (await edge.chat()).status == 200

    run(main())


def test_an_ollama_and_a_vllm_serve_one_model() -> None:
    """Kinds may be mixed behind one name; each is spoken to in its own way."""

    async def main() -> None:
        one, two = SampleEngine("ollama", model="m"), SampleEngine("sglang", model="m")
        async with house(APART, one=one, two=two) as edge:
            assert [(await edge.chat()).status for _ in range(2)] == [200, 200]
            one.set_faults("status=500")
            assert (await edge.chat()).headers["x-sample-engine"].startswith("sglang")

    run(main())


@pytest.mark.parametrize("fault", ["hang", "stall-after"])
def test_a_silent_first_choice_leaves_time_for_the_rungs_after_it(fault: str) -> None:
    """Design 5: its wait ends before the request's time does, and the rung answers; that speaks against nobody."""
    config = SERVER + "timeouts: {total: 4s, reserve: 3500ms}\n" + 'upstream_registry: {first: {host: "${ONE}"}}\n'
    config += 'fallback_chain: [{provider: openai-compatible, name: cloud, endpoint: "${TWO}", model: m}]\n'

    async def main() -> None:
        async with pair(fault, config=config) as edge:
            heard = await edge.chat()
            assert (heard.status, heard.backend, heard.headers["x-autohedge-rung"]) == (200, "cloud", "1")
            assert 0.45 < heard.last < 4
            assert edge.verdicts() == ["abandoned", "answer"]

    run(main())
