"""The engine in this process: its life, its counters, its control page."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from autohedge.engine.sample import SampleEngine
from tests.engine.calls import CHAT, HELLO, Serve, ask, dial, listen, reachable, request, talk, until


def test_every_kind_starts_and_answers(serve: Serve) -> None:
    kinds = ["openai-compatible", "vllm", "sglang", "ollama", "tgi", "llamacpp", "azure", "systemone"]
    assert {serve(kind).url.startswith("http://127.0.0.1:") for kind in kinds} == {True}


def test_auto_is_no_engine() -> None:
    with pytest.raises(ValueError, match="no sample engine"):
        SampleEngine("auto")


def test_the_answer_tells_who_gave_it(serve: Serve) -> None:
    """The name is the first word, so that even one token tells; a header tells it for answers without text."""
    engine = serve("vllm", name="node-a")
    answer = ask(engine, CHAT, {**HELLO, "max_tokens": 1})
    assert answer.json()["choices"][0]["message"]["content"] == "node-a"
    assert ask(engine, "/v1/embeddings", {"input": "a"}).headers["x-sample-engine"] == "node-a"


def test_the_same_question_has_the_same_answer(serve: Serve) -> None:
    """Independent of temperature and seed."""
    engine = serve("vllm")
    texts = {
        ask(engine, CHAT, {**HELLO, "temperature": heat}).json()["choices"][0]["message"]["content"] for heat in (0, 1)
    }
    assert len(texts) == 1


def test_counters_and_requests(serve: Serve) -> None:
    engine = serve("vllm")
    ask(engine, CHAT, HELLO, headers={"X-Odd": "1"})
    ask(engine, "/v1/models")
    assert engine.received == {CHAT: 1, "/v1/models": 1}
    assert engine.completed == engine.received
    assert engine.requests[0].head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert b"X-Odd: 1\r\n" in engine.requests[0].head
    assert engine.requests[0].json() == HELLO
    assert engine.last_request is engine.requests[0]  # a question about the engine is none


def test_faults_change_while_it_runs(serve: Serve) -> None:
    engine = serve("vllm")
    engine.set_faults("status=500")
    assert ask(engine, CHAT, HELLO).status_code == 500
    engine.set_faults()
    assert ask(engine, CHAT, HELLO).status_code == 200


def test_settings_change_while_it_runs(serve: Serve) -> None:
    """T6: a restart with another window, without the restart. The memory of bodies does not hide it."""
    engine = serve("vllm", context=400)
    assert ask(engine, CHAT, HELLO).status_code == 200
    engine.state.context = 6
    assert ask(engine, CHAT, HELLO).status_code == 400
    assert ask(engine, "/v1/models").json()["data"][0]["max_model_len"] == 6


def test_control_page(serve: Serve) -> None:
    """Counters and faults over HTTP, for engines in other processes and containers."""
    engine = serve("vllm")
    ask(engine, CHAT, HELLO)
    told = ask(engine, "/_engine").json()
    assert (told["kind"], told["model"], told["received"]) == ("vllm", "m", {CHAT: 1})
    assert ask(engine, "/_engine", ["B04"], method="PUT").json()["faults"] == ["B04"]
    assert ask(engine, CHAT, HELLO).status_code == 500
    assert ask(engine, "/_engine", ["nope"], method="PUT").status_code == 400
    assert ask(engine, "/_engine", [], method="PUT").json()["faults"] == []


def test_stop_refuses_connections_and_start_returns_to_the_port() -> None:
    """A stopped engine is a refused connection; started again it has the same address."""

    async def life() -> None:
        engine = SampleEngine("vllm")
        url = await engine.start()
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"{url}/health")).status_code == 200
        await engine.stop()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(engine.host, engine.port)
        assert await engine.start() == url
        assert engine.state.name == f"vllm@{engine.port}"
        await engine.stop()

    asyncio.run(life())


def test_stop_does_not_wait_for_work() -> None:
    """Work that hangs is dropped at once and is not counted as the client's leaving."""

    async def life() -> SampleEngine:
        engine = SampleEngine("vllm", faults=["hang"])
        await engine.start()
        reader, writer = await asyncio.open_connection(engine.host, engine.port)
        writer.write(request(CHAT, HELLO))
        await asyncio.to_thread(until, lambda: engine.received[CHAT] == 1)
        async with asyncio.timeout(30):
            await engine.stop()
            assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        return engine

    assert asyncio.run(life()).cancelled == {}


def test_engine_dead_closes_the_port_and_comes_back(serve: Serve) -> None:
    """B05: 500 once, then refused, then well again on the same port."""
    engine = serve("vllm", faults=["engine-dead=2"])
    assert talk(engine, request(CHAT, HELLO)).status == 500
    assert until(lambda: not reachable(engine))
    assert until(lambda: reachable(engine))
    assert ask(engine, CHAT, HELLO).status_code == 200


def test_engine_dead_stays_dead(serve: Serve) -> None:
    """B05 without a time: nothing listens until somebody starts it; connections of others end too."""
    engine = serve("vllm", faults=["engine-dead"])
    with dial(engine) as other:
        assert talk(engine, request(CHAT, HELLO)).end == "closed"
        assert listen(other).end == "closed"
    assert not reachable(engine)
