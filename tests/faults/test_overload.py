"""Bug log (f), crash texts and overload: engines that say what is wrong with them, in their own words."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.support.house import CHAT, SERVER, UNHURRIED, alone, eventually, pair, run


@pytest.mark.parametrize(
    ("fault", "kind", "verdict"),
    [
        pytest.param("B23", "ollama", "dead", id="B23"),
        pytest.param("B25=0.1", "ollama", "sick", id="B25"),
        pytest.param("llama-server-gone", "ollama", "dead", id="B23-2026"),
        pytest.param("cuda-oom", "vllm", "dead", id="B04-oom"),
        pytest.param("generation-424", "tgi", "dead", id="d2-424"),
    ],
)
def test_a_crash_fails_over(fault: str, kind: str, verdict: str) -> None:
    """B23, B25 and relatives: the engine's failure, also where it comes as a 4xx (TGI's 424): the peer answers."""

    async def main() -> None:
        async with pair(fault, kind=kind) as edge:
            heard = await edge.chat()
            assert heard.status == 200
            assert heard.attempts == 2
            assert edge.verdicts() == sorted(["answer", verdict])

    run(main())


def test_a_crash_of_one_model_leaves_the_others() -> None:
    """B23: the breaker belongs to (replica, model): out of memory for one model says nothing of another."""

    async def main() -> None:
        async with alone("B23", kind="ollama") as edge:
            heard = await edge.chat()
            assert heard.status == 500
            assert "llama runner process has terminated" in heard.error["message"]
            assert edge.state() == "open"
            other = replace(edge.candidate(), served="other")
            assert edge.house.health.look(other, edge.house.clock()).allowed

    run(main())


def test_a_crash_while_it_decodes() -> None:
    """B26: two chunks, an error event, [DONE]: the bytes pass as they are, and it is counted as a failure all the same."""

    async def main() -> None:
        async with alone("B26", pace=100) as edge:
            heard = await edge.stream()
            assert heard.status == 200
            assert heard.text
            assert len(heard.errors) == 1  # the engine's own, none of ours
            assert "EngineCore" in heard.errors[0]["message"]
            assert heard.body.endswith(b"data: [DONE]\n\n")
            assert "answer" not in edge.verdicts()

    run(main())


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        pytest.param("B28", "ollama", id="B28"),
        pytest.param("B31", "openai-compatible", id="B31"),
        pytest.param("B32", "openai-compatible", id="B32"),
        pytest.param("B34", "openai-compatible", id="B34"),
        pytest.param("overloaded", "tgi", id="d2-tgi-429"),
        pytest.param("overloaded", "sglang", id="d2-sglang-503"),
    ],
)
def test_a_full_queue_goes_to_the_peer(fault: str, kind: str) -> None:
    """B28, B31, B32, B34: 503 with the engine's text, 429 always or once, 529: the next candidate, no breaker."""

    async def main() -> None:
        async with pair(fault, kind=kind) as edge:
            for _ in range(4):
                assert (await edge.chat()).status == 200
            assert set(edge.verdicts()) == {"answer", "busy"}
            assert edge.state() == "closed"

    run(main())


@pytest.mark.parametrize(
    ("fault", "kind", "status", "after"),
    [
        pytest.param("B28", "ollama", 503, "1", id="B28"),
        pytest.param("B31=7", "openai-compatible", 429, "7", id="B31"),
        pytest.param("B32", "openai-compatible", 429, "1", id="B32"),
        pytest.param("B34", "openai-compatible", 529, None, id="B34"),
    ],
)
def test_a_full_queue_without_a_peer_is_told(fault: str, kind: str, status: int, after: str | None) -> None:
    """B28, B31, B34: the engine's own status and words; its Retry-After where it gave one, ours where it did not."""

    async def main() -> None:
        async with alone(fault, kind=kind) as edge:
            heard = await edge.chat()
            assert heard.status == status
            assert heard.error["message"]
            assert heard.headers.get("retry-after") == after
            assert heard.headers["x-should-retry"] == "false"
            assert edge.state() == "closed"

    run(main())


def test_an_unbounded_queue_gets_a_bound() -> None:
    """B29: the engine's queue grows for ever; with a cap of ours it never works on more than that."""

    async def main() -> None:
        config = SERVER + 'upstream_registry:\n  alone: {hosts: ["${ONE}"], concurrency: 2}\n'
        async with alone("B29=0.02", config=config, kind="ollama") as edge:
            most = 0

            async def watch() -> None:
                nonlocal most
                while True:
                    most = max(most, edge.one.state.running + edge.one.state.waiting)
                    await asyncio.sleep(0.001)

            watching = asyncio.create_task(watch())
            heard = await asyncio.gather(*(edge.chat() for _ in range(12)))
            watching.cancel()
            assert {one.status for one in heard} == {200}
            assert most == 2

    run(main())


def test_a_longer_retry_after_stands() -> None:
    """B35: 429 with Retry-After 1, then 60: until then the replica is not asked."""

    async def main() -> None:
        async with pair("B35=1,60", kind="openai-compatible") as edge:
            for _ in range(6):
                assert (await edge.chat()).status == 200
            assert edge.work["one"] <= 2

    run(main())


def test_an_impatient_client_is_not_the_engine_s_fault() -> None:
    """B37: the engine takes a minute, the client gives up before: neutral, and the engine is free again at once."""

    async def main() -> None:
        async with alone("B37=60", config=UNHURRIED.replace(', "${TWO}"', "")) as edge:
            for number in range(5):
                impatient = asyncio.create_task(edge.chat())
                await eventually(lambda: edge.work["one"] == number + 1)  # noqa: B023 - awaited here
                impatient.cancel()
            await eventually(lambda: edge.busy == 0)
            assert edge.verdicts() == ["abandoned"] * 5
            assert edge.state() == "closed"
            await eventually(lambda: edge.one.cancelled[CHAT] == 5)  # the engine hears of it a moment later

    run(main())


def test_an_empty_account_is_the_provider_s_matter() -> None:
    """B38: a 400 "credit balance is too low" is no fault of this client: the next candidate answers."""

    async def main() -> None:
        async with pair("B38", kind="openai-compatible") as edge:
            assert (await edge.chat()).status == 200
            assert edge.verdicts() == ["answer", "misconfigured"]
            assert (await edge.chat()).attempts == 1

    run(main())
