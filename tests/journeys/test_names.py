"""Journeys of model names: aliases, deployments in the path, names in answers; every other byte of a body stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autohedge.engine.sample import SampleEngine
from tests.support.house import CHAT, HELLO, SERVER, TIMES, alone, house, pair, run, started, vllm

ALIASED = SERVER + TIMES + 'upstream_registry:\n  alone: {host: "${ONE}", aliases: {gpt-4o: m}}\n'
SPELLED = (
    b'{ "stream" :false,\n"messages":[{"role":"user","content":"the \\"model\\": gpt-4o"}],"model" : "gpt-4o" ,"n":1e0}'
)


def test_an_alias_changes_one_span_of_bytes() -> None:
    """Design 4.1: only the name differs at the engine; a second "model" inside a text stays, blanks and all."""

    async def main() -> None:
        async with alone(config=ALIASED) as edge:
            heard = await edge.post(SPELLED)
            assert heard.status == 200
            request = edge.one.last_request
            assert request is not None
            assert request.body == SPELLED.replace(b'"model" : "gpt-4o"', b'"model" : "m"')
            assert heard.json["model"] == "m"  # the answer is the engine's own
            assert heard.headers["x-autohedge-model"] == "m"

    run(main())


@pytest.mark.parametrize(("override", "shown"), [("request", "gpt-4o"), ("house-model", "house-model")])
def test_the_name_in_the_answer_may_be_replaced(override: str, shown: str) -> None:
    """`openai.model_override`: in a plain answer and in every event of a stream; the rest are the engine's bytes."""

    async def main() -> None:
        async with house(
            ALIASED + f"openai: {{model_override: {override}}}\n", one=vllm(name="x"), two=vllm(name="x")
        ) as edge:
            for stream in (False, True):
                body = HELLO | {"stream": stream}
                direct = (await edge.client.post(edge.two.url + CHAT, json=body)).content
                heard = await edge.post(body | {"model": "gpt-4o"})
                assert heard.body == direct.replace(b'"model":"m"', b'"model":"%b"' % shown.encode())
                assert heard.body.count(shown.encode()) == (1 if not stream else direct.count(b'"model":"m"'))

    run(main())


def test_a_replaced_name_keeps_the_length_true() -> None:
    """A plain answer whose name grew has the new length; a compressed one keeps its name and its bytes."""

    async def main() -> None:
        async with alone("B95:after=1", config=ALIASED + "openai: {model_override: a-much-longer-name}\n") as edge:
            heard = await edge.chat()
            assert int(heard.headers["content-length"]) == len(heard.body)
            heard = await edge.chat()
            assert heard.headers["content-encoding"] == "gzip"
            assert int(heard.headers["content-length"]) == len(heard.body)

    run(main())


@pytest.mark.parametrize("named", [{}, {"model": None}, {"model": "something"}], ids=["absent", "null", "other"])
@pytest.mark.parametrize("path", ["/openai/deployments/m/chat/completions?api-version=2025-01-01&x=1"])
def test_an_azure_flavoured_client(named: dict[str, Any], path: str) -> None:
    """Facts 00b: the deployment in the path is the model, the body need not name it, api-key is the bearer, and
    api-version goes to nobody but Azure.
    """

    async def main() -> None:
        async with pair() as edge:
            body = {"messages": HELLO["messages"]} | named
            heard = await edge.post(body, path, {"api-key": "sk-1"})
            assert heard.status == 200
            request = edge.one.last_request
            assert request is not None
            assert request.target == b"/v1/chat/completions?x=1"
            assert request.header("authorization") == "Bearer sk-1"
            assert request.header("api-key") is None
            assert json.loads(request.body)["model"] == "m"

    run(main())


def test_a_deployment_is_the_model_that_is_asked_for() -> None:
    """Facts 00b: an engine of several models (vLLM with adapters) must hear the name from the path, or it takes its base."""
    config = (
        SERVER + TIMES + 'upstream_registry:\n  a: {host: "${ONE}", aliases: {adapter: m}}\n  b: {host: "${TWO}"}\n'
    )

    async def main() -> None:
        async with house(config, one=vllm(), two=SampleEngine("vllm", model="base")) as edge:
            heard = await edge.post({"messages": HELLO["messages"]}, "/openai/deployments/adapter/chat/completions")
            assert heard.status == 200
            assert edge.one.last_request is not None
            assert json.loads(edge.one.last_request.body)["model"] == "m"

    run(main())


def test_without_a_name_the_only_model_serves() -> None:
    """vLLM and llama.cpp take a body without a model: where there is only one, so do we, and not a byte is added."""

    async def main() -> None:
        async with alone() as edge:
            body = json.dumps({"messages": HELLO["messages"]}).encode()
            assert (await edge.post(body)).status == 200
            assert edge.one.last_request is not None
            assert edge.one.last_request.body == body

    run(main())


def test_without_a_name_and_with_two_models() -> None:
    """Nobody guesses: 400 on `model`, with the names."""
    config = SERVER + 'upstream_registry:\n  a: {host: "${ONE}"}\n  b: {host: "${TWO}"}\n'

    async def main() -> None:
        async with house(config, one=vllm(), two=SampleEngine("vllm", model="other")) as edge:
            heard = await edge.post({"messages": HELLO["messages"]})
            assert (heard.status, heard.error["param"]) == (400, "model")
            assert "other" in heard.error["message"]

    run(main())


AZURE = (
    SERVER
    + TIMES
    + 'upstream_registry:\n  azure: {provider: azure, host: "${ONE}", model: gpt-4o, deployment: DEP, '
    + 'api_version: "2025-01-01", api_key: sk-azure}\n'
)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_an_azure_upstream(stream: bool) -> None:
    """Its deployment stands in the path, its key in api-key, its version in the query; the client's Authorization stays here."""

    async def main() -> None:
        engine = SampleEngine("azure", model="gpt-4o", key="sk-azure")
        async with house(AZURE.replace("DEP", "gpt-4o"), one=engine) as edge:
            heard = await edge.post(
                HELLO | {"model": "gpt-4o", "stream": stream}, headers={"authorization": "Bearer sk-client"}
            )
            assert heard.status == 200
            request = edge.one.last_request
            assert request is not None
            assert request.target == b"/openai/deployments/gpt-4o/chat/completions?api-version=2025-01-01"
            assert request.header("api-key") == "sk-azure"
            assert request.header("authorization") is None
            assert b"sk-client" not in request.head

    run(main())


def test_an_azure_client_and_an_azure_upstream() -> None:
    """The client's api-version is replaced by the backend's; its query otherwise travels on."""

    async def main() -> None:
        engine = SampleEngine("azure", model="gpt-4o", key="sk-azure")
        async with house(AZURE.replace("DEP", "gpt-4o"), one=engine) as edge:
            path = "/openai/deployments/gpt-4o/chat/completions?api-version=2020-01-01&trace=1"
            heard = await edge.post({"messages": HELLO["messages"]}, path, {"api-key": "sk-client"})
            assert heard.status == 200
            request = edge.one.last_request
            assert request is not None
            assert request.target.endswith(b"?api-version=2025-01-01&trace=1")

    run(main())


@pytest.mark.parametrize("path", ["/openai/v1/chat/completions", "/v1/chat/completions/", "/v1/embeddings%3Aboth"])
def test_other_spellings_of_a_path(path: str) -> None:
    """Groq's flavour, a trailing slash, an encoded colon: the engine gets the path it knows."""

    async def main() -> None:
        async with alone() as edge:
            heard = await edge.post(HELLO | {"input": "hi"}, path)
            assert heard.status == 200
            assert edge.one.last_request is not None
            assert edge.one.last_request.path in ("/v1/chat/completions", "/v1/embeddings:both")

    run(main())


@pytest.mark.parametrize("door", ["completions", "embeddings", "responses", "messages", "rerank", "sparse-embeddings"])
def test_every_door_leads_to_its_path(door: str) -> None:
    """Each door's request reaches the same path of the engine, bytes unchanged."""
    bodies: dict[str, dict[str, Any]] = {
        "completions": {"prompt": "hi"},
        "embeddings": {"input": ["hi"]},
        "responses": {"input": "hi"},
        "messages": {"messages": HELLO["messages"], "max_tokens": 5},
        "rerank": {"query": "hi", "documents": ["a", "b"]},
        "sparse-embeddings": {"input": "hi"},
    }

    async def main() -> None:
        async with alone() as edge:
            body = json.dumps({"model": "m", **bodies[door]}, indent=1).encode()
            heard = await edge.post(body, f"/v1/{door}")
            assert heard.status == 200
            assert edge.one.received[f"/v1/{door}"] == 1
            assert edge.one.last_request is not None
            assert edge.one.last_request.body == body

    run(main())


@pytest.mark.parametrize("models", ["", ", models: [m]"], ids=["undeclared", "declared"])
def test_a_model_of_a_backend_that_was_never_heard_is_no_404(models: str) -> None:
    """R40: nobody listens there yet, so any name may be its model, and a declared one surely is; then the engine comes up."""

    async def main() -> None:
        engine = vllm()
        url = await started(engine)
        await engine.stop()
        config = SERVER + TIMES + f'upstream_registry: {{late: {{host: "{url}"{models}}}}}\n'
        async with house(config) as edge:
            heard = await edge.chat()
            assert heard.status == (502 if models else 503)
            assert heard.headers["retry-after"]
            assert "late" in heard.error["message"]
            await engine.start()
            await edge.served()
            assert (await edge.chat(model="other")).status == 404
        await engine.stop()

    run(main())
