"""Bug log (f), context and parameter errors, retirement: what an engine refuses, who hears it, and what is learned."""

from __future__ import annotations

from typing import Any

import pytest

from autohedge.engine.sample import SampleEngine
from tests.support.house import ALONE, APART, HELLO, SERVER, TIMES, alone, house, pair, run

TOOL: dict[str, Any] = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("fault", "kind", "status", "words"),
    [
        pytest.param("B40", "vllm", 400, "max_tokens must be at least 1, got -7584.", id="B40"),
        pytest.param("B41", "sglang", 400, "longer than the model's context length (40960 tokens)", id="B41"),
        pytest.param("B43", "openai-compatible", 400, "context window exceeds limit", id="B43"),
        pytest.param("B44", "tgi", 422, "`inputs` must have less than 4095 tokens", id="B44"),
        pytest.param("names-model-400", "openai-compatible", 400, "Invalid value for model", id="B116"),
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_client_s_fault_is_the_client_s(fault: str, kind: str, status: int, words: str, stream: bool) -> None:
    """B40, B41, B43, B44: the engine's own words in JSON under a 4xx, also where they came under 200 or as the first event of
    a stream; no peer is asked and no breaker hears of it.
    """

    async def main() -> None:
        async with pair(fault, kind=kind) as edge:
            heard = await edge.chat(stream=stream)
            assert heard.status == status
            assert heard.headers["content-type"].startswith("application/json")
            error = heard.json.get("error", heard.json)
            assert words in (error if isinstance(error, str) else error["message"])
            assert edge.work == {"one": 1, "two": 0}
            assert edge.verdicts() == ["client_fault"]
            assert edge.state() == "closed"

    run(main())


def test_a_refusal_teaches_the_window() -> None:
    """B41: the limit in SGLang's words holds from then on, and our own 400 names it and where it was learned."""

    async def main() -> None:
        async with alone("B41:times=1", kind="sglang", context=100_000) as edge:
            assert (await edge.chat()).status == 400
            heard = await edge.chat(max_tokens=50_000)
            assert heard.status == 400
            assert heard.error["details"][0]["limit"] == 40_960
            assert heard.error["details"][0]["param"] == "max_tokens"
            assert heard.error["code"] in {"limit_exceeded", "context_length_exceeded"}
            assert edge.work["one"] == 1  # the second one never left
            assert (await edge.chat(max_tokens=30_000)).status == 200

    run(main())


def test_a_valid_range_is_passed_on_and_learned() -> None:
    """B50: DeepSeek's "[1, 8192]" reaches the client as it is; the next such request is ours to refuse, naming 8192."""

    async def main() -> None:
        async with alone("B50", kind="openai-compatible", context=100_000) as edge:
            first = await edge.chat(max_tokens=9000)
            assert "valid range of max_tokens is [1, 8192]" in first.error["message"]
            second = await edge.chat(max_tokens=9000)
            assert second.status == 400
            assert second.error["details"][0]["limit"] == 8192
            assert "8192" in second.error["message"]
            assert edge.work["one"] == 1
            assert (await edge.chat(max_tokens=8192)).status == 200

    run(main())


def test_a_cut_prompt_is_passed_as_it_is() -> None:
    """B46: usage says 2048 exactly for a longer prompt: nothing to be done by a relay but to change nothing."""

    async def main() -> None:
        async with alone("B46=2048", kind="ollama", context=100_000) as edge:
            heard = await edge.chat(messages=[{"role": "user", "content": "word " * 3000}])
            assert heard.status == 200
            assert heard.json["usage"]["prompt_tokens"] == 2048

    run(main())


def test_characters_are_no_tokens() -> None:
    """B49: 5,000 characters are 2,000 tokens here and fit a window of 4,096."""

    async def main() -> None:
        async with alone(context=4096) as edge:
            text = "ab " * 1000 + "a " * 1000
            assert len(text) == 5000
            assert (await edge.chat(messages=[{"role": "user", "content": text}])).status == 200
            assert (await edge.chat(messages=[{"role": "user", "content": text * 3}])).status == 400

    run(main())


def test_an_unsupported_parameter_is_passed_on() -> None:
    """B52: the code and the parameter of a provider's 400 arrive, so that the SDK's own handling of it works."""

    async def main() -> None:
        async with alone("B52", kind="openai-compatible") as edge:
            heard = await edge.chat(max_tokens=5)
            assert heard.status == 400
            assert (heard.error["code"], heard.error["param"]) == ("unsupported_parameter", "max_tokens")
            assert (await edge.chat(max_completion_tokens=5)).status == 200

    run(main())


def test_tools_go_where_tools_are_served() -> None:
    """B55: vLLM without a parser refuses tools; a peer may take them, and the replica stays in use for all else."""

    async def main() -> None:
        async with pair("B55") as edge:
            heard = await edge.chat(tools=[TOOL])
            assert heard.status == 200
            assert edge.verdicts() == ["answer", "capability"]
            assert edge.state() == "closed"

    run(main())


def test_tools_nowhere_is_the_engine_s_word() -> None:
    """B55: without such a peer the client reads why."""

    async def main() -> None:
        async with alone("B55") as edge:
            heard = await edge.chat(tools=[TOOL])
            assert heard.status == 400
            assert "--tool-call-parser" in heard.error["message"]

    run(main())


def test_the_developer_role_is_no_matter_of_ours() -> None:
    """B58: it is forwarded; an engine that refuses it is heard, one that takes it serves it."""

    async def main() -> None:
        messages = [{"role": "developer", "content": "be brief"}, *HELLO["messages"]]
        async with alone("B58:times=1") as edge:
            heard = await edge.chat(messages=messages)
            assert (heard.status, heard.error["message"]) == (400, "Unexpected message role.")
            assert (await edge.chat(messages=messages)).status == 200

    run(main())


@pytest.mark.parametrize(
    ("fault", "kind", "verdict", "status"),
    [
        pytest.param("B106", "openai-compatible", "retired", 410, id="B106"),
        pytest.param("B107", "openai-compatible", "retired", 410, id="B107"),
        pytest.param("B109", "openai-compatible", "retired", 404, id="B109"),
        pytest.param("decommissioned-400", "openai-compatible", "retired", 400, id="d3-groq"),
        pytest.param("B110", "openai-compatible", "capability", 404, id="B110"),
        pytest.param("B112", "openai-compatible", "capability", 400, id="B112"),
        pytest.param("B113", "openai-compatible", "capability", 404, id="B113"),
        pytest.param("B115", "openai-compatible", "capability", 404, id="B115"),
    ],
)
def test_a_model_that_is_gone(fault: str, kind: str, verdict: str, status: int) -> None:
    """B106 to B115: retired or unknown there: the next backend serves it, one attempt each, no breaker; without one the
    provider's own words arrive, and an SDK is told not to repeat them.
    """

    async def main() -> None:
        async with pair(fault, kind=kind, config=APART) as edge:
            heard = await edge.chat()
            assert (heard.status, heard.attempts) == (200, 2)
            assert edge.verdicts() == sorted(["answer", verdict])
            assert edge.state() == "closed"
        async with alone(fault, kind=kind) as edge:
            heard = await edge.chat()
            assert heard.status == status
            assert heard.body.startswith(b'{"')
            assert heard.headers["x-should-retry"] == "false"
            assert edge.work["one"] == 1

    run(main())


def test_a_deployment_may_heal() -> None:
    """B115: DeploymentNotFound is true for some minutes after a creation; the next request is served."""

    async def main() -> None:
        async with alone("B115=2", kind="openai-compatible") as edge:
            assert (await edge.chat()).status == 404
            await edge.served()

    run(main())


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_text_that_speaks_of_a_retirement_retires_nothing(stream: bool) -> None:
    """B116: "410 gone api access has been retired" as the content of a good answer is a good answer."""

    async def main() -> None:
        async with alone("B116", kind="openai-compatible") as edge:
            for _ in range(2):
                heard = await edge.chat(stream=stream)
                assert heard.status == 200
                assert b"410 gone api access has been retired" in heard.body
            assert edge.verdicts() == ["answer", "answer"]

    run(main())


def test_a_model_name_that_speaks_of_a_retirement_retires_nothing() -> None:
    """B116: an engine's 400 that repeats a name which the caller chose is a 400."""
    name = "x has been retired. The model has been decommissioned and is no longer supported"
    config = SERVER + TIMES + f'upstream_registry:\n  alone: {{host: "${{ONE}}", models: ["{name}"]}}\n'

    async def main() -> None:
        engine = SampleEngine("openai-compatible", model=name, faults=["names-model-400"])
        async with house(config, one=engine) as edge:
            heard = await edge.chat(model=name)
            assert heard.status == 400
            assert name in heard.error["message"]
            assert edge.verdicts() == ["client_fault"]

    run(main())


def test_a_policy_error_in_a_200_is_an_error() -> None:
    """B76: 200 with choices [] and an error of code 502: no 200 for the client, and no endless trying."""

    async def main() -> None:
        async with pair("B76", kind="openai-compatible") as edge:
            edge.two.set_faults("B76")
            for stream in (False, True):
                heard = await edge.chat(stream=stream)
                assert heard.status == 502
                assert heard.error["code"] == "upstream_failed"
                assert len(heard.error["details"]) == 2
            assert edge.work == {"one": 2, "two": 2}

    run(main())


def test_the_real_window_of_ollama_is_the_allocated_one() -> None:
    """B47: /v1 ignores num_ctx; what is allocated stands in /api/ps, and it is what a prompt is measured by."""

    async def main() -> None:
        async with alone(kind="ollama", context=4096, config=ALONE) as edge:
            context = edge.candidate().limits.context
            assert context is not None
            assert context.value == 4096
            assert "/api/ps" in context.source

    run(main())
