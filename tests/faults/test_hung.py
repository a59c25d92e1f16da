"""Bug log (f), health lies and hung engines: what looks well and does not answer costs a caller time, never an error."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.cables import cut
from tests.support.house import ALONE, CHAT, PAIR, SERVER, TIMES, Edge, alone, eventually, pair, run


@pytest.mark.parametrize("row", ["B01", "B07"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_an_engine_that_accepts_and_never_answers(row: str, stream: bool) -> None:
    """B01, B07: every GET is well, work hangs. After the first-byte time the peer answers, and it counts as a failure."""

    async def main() -> None:
        async with pair(row) as edge:
            heard = await edge.chat(stream=stream)
            assert heard.status == 200
            assert heard.attempts == 2
            assert heard.last > 0.95
            assert heard.took < 5
            assert edge.verdicts() == ["answer", "sick"]

    run(main())


def test_a_hung_engine_without_a_peer_is_a_504() -> None:
    """B01: JSON that says what happened, with Retry-After, and SDKs are told not to try at once."""

    async def main() -> None:
        async with alone("B01") as edge:
            heard = await edge.chat()
            assert heard.status == 504
            assert heard.error["code"] == "deadline_exceeded"
            assert "no first byte in time" in heard.error["message"]
            assert int(heard.headers["retry-after"]) >= 1
            assert heard.headers["x-should-retry"] == "false"

    run(main())


def test_a_hung_engine_is_taken_out_after_a_few_requests() -> None:
    """B01: open after three in a row, not after five minutes; from then on nobody waits for it."""

    async def main() -> None:
        async with pair("B01") as edge:
            for _ in range(12):
                assert (await edge.chat()).status == 200
                if edge.state() == "open":
                    break
            assert edge.state() == "open"
            assert edge.verdicts().count("sick") == 3
            heard = await edge.chat()
            assert (heard.status, heard.attempts) == (200, 1)
            assert heard.took < 0.7

    run(main())


VANISHING = "timeouts: {acknowledge: 1s, first_byte: 30s, stall: 30s, total: 60s}\n"  # the kernel takes a second more
SOON = 10.0  # of thirty: on a machine that has other work


async def _cut(edge: Edge) -> None:
    """The cable of the first engine is cut while it is at work."""
    await eventually(lambda: edge.one.received[CHAT] == 1)
    for connection in edge.one.connections:
        assert connection._transport is not None
        await cut(connection._transport)


def test_a_machine_that_vanishes_under_a_plain_request() -> None:
    """T67: long before the first byte is late the peer answers; the machine has a failure on its account."""

    async def main() -> None:
        async with pair("hang", config=PAIR.replace(TIMES, VANISHING)) as edge:
            asked = asyncio.ensure_future(edge.chat())
            await _cut(edge)
            heard = await asked
            assert (heard.status, heard.attempts) == (200, 2)
            assert heard.took < SOON
            assert edge.verdicts() == ["answer", "sick"]

    run(main())


def test_a_machine_that_vanishes_under_a_stream() -> None:
    """T67: after the commit it is an error event."""

    async def main() -> None:
        async with alone("stall-after=3", config=ALONE.replace(TIMES, VANISHING)) as edge:
            asked = asyncio.ensure_future(edge.stream())
            await _cut(edge)
            heard = await asked
            assert heard.status == 200
            assert "acknowledges nothing" in heard.errors[-1]["message"]
            assert heard.errors[-1]["code"] == "upstream_failed"
            assert heard.took < SOON
            assert not heard.cut
            assert edge.verdicts() == ["sick"]

    run(main())


def test_a_machine_that_vanishes_without_a_peer_is_a_504() -> None:
    async def main() -> None:
        async with alone("hang", config=ALONE.replace(TIMES, VANISHING)) as edge:
            asked = asyncio.ensure_future(edge.chat())
            await _cut(edge)
            heard = await asked
            assert (heard.status, heard.error["code"]) == (504, "deadline_exceeded")

    run(main())


def test_an_engine_frozen_in_the_middle_of_a_stream() -> None:
    """B02: three chunks and silence: after the stall time an error event, no [DONE], a failure on the engine's account."""

    async def main() -> None:
        async with alone("B02") as edge:
            heard = await edge.stream()
            assert heard.status == 200
            assert len(heard.text.split()) >= 2
            assert "stalled" in heard.errors[-1]["message"]
            assert heard.errors[-1]["code"] == "upstream_failed"
            assert b"[DONE]" not in heard.body
            assert not heard.cut
            assert edge.verdicts() == ["sick"]

    run(main())


def test_a_cuda_error_opens_fast() -> None:
    """B04: 500 CUDA error while /health is 200: the peer answers, the replica is out after this one."""

    async def main() -> None:
        async with pair("B04") as edge:
            assert (await edge.chat()).status == 200
            assert edge.state() == "open"
            assert (await edge.chat()).attempts == 1
            assert edge.work == {"one": 1, "two": 2}

    run(main())


def test_an_engine_that_dies() -> None:
    """B05: the first "EngineCore" body opens; then nothing listens there and no caller sees it; later it is back."""

    async def main() -> None:
        async with pair("B05=0.5") as edge:
            assert (await edge.chat()).status == 200
            assert edge.state() == "open"
            heard = await asyncio.gather(*(edge.stream() for _ in range(10)))
            assert {one.status for one in heard} == {200}
            assert edge.work == {"one": 1, "two": 11}
            await eventually(lambda: edge.one.listening and not edge.one._dying)
            edge.two.set_faults("reset")
            assert (await edge.chat()).status == 200  # the last resort is one knock at the door that was shut

    run(main())


def test_a_slow_health_path_takes_nobody_out() -> None:
    """B08: /health says 503 during a long prefill while requests are answered: it stays in use."""

    async def main() -> None:
        async with alone("B08=0.05,0.25") as edge:
            heard = await asyncio.gather(*(edge.chat() for _ in range(3)))
            assert {one.status for one in heard} == {200}
            assert edge.state() == "closed"
            assert (await edge.get("/health")).status_code == 200

    run(main())


def test_a_loading_model_is_waited_for() -> None:
    """B16: Ollama begins its load anew when a client leaves: we neither give up after the first-byte time nor ask a peer."""

    async def main() -> None:
        async with pair("B16=1.5", kind="ollama") as edge:
            heard = await edge.chat()
            assert heard.status == 200
            assert heard.attempts == 1
            assert edge.one.state.loads == 1
            assert edge.one.cancelled.total() == 0
            assert edge.work["two"] == 0

    run(main())


@pytest.mark.parametrize(("kind", "status"), [("ollama", 200), ("vllm", 504)])
def test_headers_may_be_late_where_a_model_is_loaded_on_demand(kind: str, status: int) -> None:
    """B17: Ollama sends no headers until the model is loaded; its limit is its own (timeouts.loading), others keep theirs."""

    async def main() -> None:
        async with alone("B17=1.5", kind=kind) as edge:
            assert (await edge.chat()).status == status

    run(main())


def test_the_whole_time_still_bounds_a_load() -> None:
    """B17: the load's limit is cut by the request's own time; that says nothing against the engine."""

    async def main() -> None:
        async with alone("B17=60", kind="ollama", config=ALONE.replace("total: 60s", "total: 500ms")) as edge:
            heard = await edge.chat()
            assert heard.status == 504
            assert heard.took < 2
            assert edge.verdicts() == ["abandoned"]

    run(main())


def test_loading_goes_to_the_peer() -> None:
    """B22: llama.cpp's 503 "Loading model" is no failure; the peer answers."""

    async def main() -> None:
        async with pair("B22=10", kind="llamacpp") as edge:
            assert (await edge.chat()).attempts == 2
            assert edge.verdicts() == ["answer", "loading"]
            assert edge.state() != "open"

    run(main())


def test_loading_without_a_peer_is_a_503_with_retry_after() -> None:
    """B22: the engine's own words, and when to come back; it is served as soon as it has loaded."""

    async def main() -> None:
        async with alone("B22=2", kind="llamacpp") as edge:
            heard = await edge.chat()
            assert heard.status == 503
            assert heard.error["message"] == "Loading model"
            assert int(heard.headers["retry-after"]) >= 1
            await edge.served()

    run(main())


def test_a_second_request_that_would_wedge_waits_its_turn() -> None:
    """B20: an engine that hangs on two requests at once is safe behind `concurrency: 1`."""

    async def main() -> None:
        config = SERVER + 'upstream_registry:\n  alone: {hosts: ["${ONE}"], concurrency: 1}\n'
        async with alone("B20", config=config, latency=0.02) as edge:
            heard = await asyncio.gather(*(edge.chat() for _ in range(5)))
            assert {one.status for one in heard} == {200}
            assert not edge.one.state.wedged
            await _idle(edge)

    run(main())


async def _idle(edge: Edge) -> None:
    await eventually(lambda: edge.busy == 0)
