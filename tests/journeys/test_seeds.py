"""Journeys that hold sentences of the four seeds: rows of docs/parity.md that no other test holds from end to end."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from autohedge.engine.sample import SampleEngine
from autohedge.settings.load import load_text
from tests.support.house import (
    ALONE,
    APART,
    CHAT,
    HELLO,
    PAIR,
    PATIENCE,
    SERVER,
    TIMES,
    Edge,
    alone,
    eventually,
    house,
    pair,
    run,
    started,
    vllm,
)

NOBODY = SERVER + "upstream_registry: {}\n"


# --- eidex: the shared paths ------------------------------------------------------------------------------------------


def test_liveness_speaks_of_the_process_only() -> None:
    """eidex: 200, text/plain, OK, whatever the workers do; HEAD has the same head and no body."""

    async def main() -> None:
        async with house(NOBODY) as edge:
            heard = await edge.get("/liveness")
            assert (heard.status_code, heard.text) == (200, "OK")
            assert heard.headers["content-type"].startswith("text/plain")
            bare = await edge.get("/liveness", "HEAD")
            assert (bare.status_code, bare.content, bare.headers["content-length"]) == (200, b"", "2")

    run(main())


def test_version_is_told() -> None:
    """eidex: {"version": ...}, also by HEAD."""

    async def main() -> None:
        async with house(NOBODY) as edge:
            heard = await edge.get("/version")
            assert heard.status_code == 200
            assert list(heard.json()) == ["version"]
            assert heard.json()["version"]
            assert (await edge.get("/version", "HEAD")).status_code == 200

    run(main())


@pytest.mark.parametrize("path", ["/health", "/readiness"])
def test_health_counts_the_workers(path: str) -> None:
    """eidex: 200 and ok while one worker is usable, 503 with the reason when none is; /readiness is the same answer."""

    async def main() -> None:
        async with pair() as edge:
            heard = await edge.get(path)
            assert heard.status_code == 200
            assert heard.json() == {"status": "ok", "healthy_workers": 2, "total_workers": 2}
            bare = await edge.get(path, "HEAD")
            assert (bare.status_code, bare.content) == (200, b"")
            assert bare.headers["content-length"] == heard.headers["content-length"]
            for engine in (edge.one, edge.two):
                engine.set_faults("cuda-error")
            for _ in range(4):
                await edge.chat()
            heard = await edge.get(path)
            assert heard.status_code == 503
            assert heard.json() == {
                "status": "unhealthy",
                "healthy_workers": 0,
                "total_workers": 2,
                "reason": "insufficient healthy workers",
            }

    run(main())


def test_health_without_any_worker() -> None:
    """eidex, facts 8.27: nothing registered is unhealthy, 0 of 0, for the same reason."""

    async def main() -> None:
        async with house(NOBODY) as edge:
            heard = await edge.get("/health")
            assert heard.status_code == 503
            assert heard.json()["reason"] == "insufficient healthy workers"
            assert heard.json()["total_workers"] == 0

    run(main())


# --- eidex: the access log --------------------------------------------------------------------------------------------


def _lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    found = [record.getMessage() for record in caplog.records if record.name == "autohedge.access"]
    caplog.clear()
    return [json.loads(text) for text in found]


@pytest.fixture
def heard_log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The access log reaches caplog, whatever an earlier test did to its logger."""
    logger = logging.getLogger("autohedge.access")
    logger.propagate = True
    caplog.set_level(logging.INFO, "autohedge.access")
    return caplog


def test_one_line_tells_the_way_of_a_request(heard_log: pytest.LogCaptureFixture) -> None:
    """eidex: method, path, status, times and sizes; on the data path the attempts that were made and who answered."""
    config = PAIR.replace("grace: 1s", "grace: 1s, access_log: info")
    sent = {
        "authorization": "Bearer sk-secret",
        "x-forwarded-for": "10.0.0.9",
        "x-request-id": "mine",
        "user-agent": "curl",
    }

    async def main() -> None:
        async with pair("status=500:times=1", config=config) as edge:
            body = json.dumps(HELLO | {"user": "é"}, ensure_ascii=False).encode()
            heard = await edge.post(body, headers=sent)
            assert heard.status == 200
            (line,) = _lines(heard_log)
            assert (line["level"], line["msg"], line["method"], line["path"]) == ("INFO", "request", "POST", CHAT)
            assert (line["status"], line["attempts"]) == (200, 2)
            assert line["duration_ms"] > 0
            assert (line["request_bytes"], line["request_chars"]) == (len(body), len(body) - 1)
            assert (line["response_bytes"], line["response_chars"]) == (len(heard.body), len(heard.body.decode()))
            assert line["remote"].startswith("127.0.0.1:")
            assert (line["request_id"], line["x_forwarded_for"], line["user_agent"]) == ("mine", "10.0.0.9", "curl")
            assert line["worker"] == edge.two.url
            assert "error_code" not in line
            assert "sk-secret" not in json.dumps(line)
            assert edge.two.last_request is not None
            assert edge.two.last_request.header("x-request-id") == "mine"

    run(main())


def test_an_error_line_has_its_level_and_its_code(heard_log: pytest.LogCaptureFixture) -> None:
    """eidex: 4xx are WARN, 5xx ERROR; an error of our own carries its code."""

    async def main() -> None:
        async with alone(config=ALONE.replace("grace: 1s", "grace: 1s, access_log: warning")) as edge:
            await edge.chat()
            await edge.chat(model="nope")
            await edge.one.stop()
            await edge.chat()

    run(main())
    told = [(line["status"], line["level"], line["error_code"]) for line in _lines(heard_log)]
    assert told == [(404, "WARN", "model_not_found"), (502, "ERROR", "upstream_failed")]


def test_a_debug_line_holds_both_bodies(heard_log: pytest.LogCaptureFixture) -> None:
    """eidex: request_body and response_body, without flags where nothing was cut."""

    async def main() -> None:
        async with alone(config=ALONE.replace("grace: 1s", "grace: 1s, access_log: debug")) as edge:
            heard = await edge.chat()
            (line,) = _lines(heard_log)
            assert json.loads(line["request_body"]) == HELLO
            assert line["response_body"] == heard.body.decode()
            assert not {"request_truncated", "response_truncated"} & line.keys()

    run(main())


@pytest.mark.parametrize("word", ["Debug", "DEBUG", "debug"])
def test_the_level_of_the_environment_is_read_in_any_case(word: str) -> None:
    """eidex: the variable stands over the file."""
    loaded = load_text("server: {access_log: error}", "c.yaml", {"AUTOHEDGE_SERVER_ACCESS_LOG": word}, str)
    assert loaded.settings.server.access_log == "debug"


@pytest.mark.parametrize("command", ["serve", "check"])
def test_a_wrong_configuration_ends_with_1(tmp_path: Path, command: str) -> None:
    """eidex: exit 1; the line is told."""
    path = tmp_path / "config.yaml"
    path.write_text("server:\n  max_body_bytes: many\n")
    words = [sys.executable, "-m", "autohedge", command, "--config", str(path)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 1
    assert "config.yaml:2: server.max_body_bytes" in ended.stdout + ended.stderr


# --- AIBrix discovery ---------------------------------------------------------------------------------------------------


def test_an_endpoints_file_is_followed(tmp_path: Path) -> None:
    """AIBrix (B2, B26): its file is a source; an edit is taken over, a broken one changes nothing and is told in /health."""
    path = tmp_path / "endpoints.yaml"
    config = SERVER + TIMES + f'sources: {{file: {{path: "{path}", interval: 20ms}}}}\n'

    def written(engine: SampleEngine) -> str:
        return f'models:\n- name: m\n  endpoints: ["127.0.0.1:{engine.port}"]\n'

    async def main() -> None:
        one, two = vllm(), vllm()
        await started(one)  # it keeps its port
        await one.stop()
        path.write_text(written(one))
        async with house(config, one=one, two=two) as edge:
            assert (await edge.chat()).status == 200
            assert edge.work == {"one": 1, "two": 0}
            path.write_text(written(two))
            replicas = edge.house.registry
            await eventually(lambda: f"m@127.0.0.1:{two.port}" in replicas.snapshot.replicas)
            assert (await edge.chat()).status == 200
            assert edge.work == {"one": 1, "two": 1}
            path.write_text("models: [")
            await eventually(lambda: bool(replicas.snapshot.sources["file"].blind))
            assert (await edge.chat()).status == 200
            health = (await edge.get("/health")).json()
            assert health["status"] == "degraded"
            assert "cannot be parsed" in health["blind_sources"]["file"]

    run(main())


# --- the article --------------------------------------------------------------------------------------------------------

CHAIN = """
upstream_registry:
  vllm-qwen2-7b: {host: "${ONE}", model_limits: {max_tokens: 32768, max_input_length: 16384}}
  ollama-llama3: {host: "${TWO}", provider: ollama, model_limits: {max_tokens: 8192}}
fallback_chain:
  - {provider: swarm, models: [vllm-qwen2-7b]}
  - {provider: ollama, model: "llama3:8b"}
"""


def _article() -> AbstractAsyncContextManager[Edge]:
    return house(
        SERVER + TIMES + CHAIN,
        one=SampleEngine("vllm", model="/models/qwen2-7b-instruct", context=32768),
        two=SampleEngine("ollama", model="llama3:8b"),
    )


def test_the_service_s_name_is_a_model_and_ollama_follows_it() -> None:
    """The article, 3.4, 4.2, 4.4: its two backends, asked for by the service's name; a failing vLLM is followed by Ollama
    at once, and the answer says so.
    """

    async def main() -> None:
        async with _article() as edge:
            heard = await edge.chat(model="vllm-qwen2-7b")
            assert (heard.status, heard.backend) == (200, "vllm-qwen2-7b")
            assert heard.headers["x-autohedge-model"] == "/models/qwen2-7b-instruct"
            assert "x-autohedge-rung" not in heard.headers
            edge.one.set_faults("cuda-oom")
            for attempts in (2, 1):  # the second request finds the breaker open
                heard = await edge.chat(model="vllm-qwen2-7b")
                assert (heard.status, heard.backend, heard.attempts) == (200, "ollama-llama3", attempts)
                assert heard.headers["x-autohedge-model"] == "llama3:8b"
                assert heard.headers["x-autohedge-rung"] == "2"

    run(main())


def test_a_million_tokens_never_reach_an_engine() -> None:
    """The article, 4.3: max_tokens 1000000 is a 400 that names field, value, limit and origin."""

    async def main() -> None:
        async with _article() as edge:
            heard = await edge.chat(model="vllm-qwen2-7b", max_tokens=1_000_000)
            # its own backend refuses; the chain's Ollama takes any max_tokens, but the operator bounded it to 8192
            assert heard.status == 400
            assert heard.error["type"] == "invalid_request_error"
            assert heard.error["param"] == "max_tokens"
            (detail,) = [one for one in heard.error["details"] if one["limit"] == 32768]
            assert detail["value"] == 1_000_000
            assert "max_model_len, read from /v1/models" in detail["source"]
            assert sum(edge.work.values()) == 0

    run(main())


def test_an_operator_s_bound_of_the_prompt_holds() -> None:
    """The article, 4.2: max_input_length bounds the prompt, by the engine's own count, below a larger window."""

    async def main() -> None:
        async with _article() as edge:
            long = {"model": "vllm-qwen2-7b", "messages": [{"role": "user", "content": "word " * 17_000}]}
            heard = await edge.post(long, headers={"x-autohedge-no-fallback": "1"})
            assert (heard.status, heard.error["code"]) == (400, "context_length_exceeded")
            assert "16384" in heard.error["message"]
            assert "model_limits.max_input_length" in heard.error["message"]
            assert sum(edge.work.values()) == 0

    run(main())


def test_a_change_of_health_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """eidex, and the article 4.4: worker health changed, from which state to which, and why; told once."""

    async def main() -> None:
        async with pair("cuda-oom") as edge:
            for _ in range(3):
                assert (await edge.chat()).status == 200

    with caplog.at_level(logging.WARNING, "autohedge"):
        run(main())
    (line,) = [record.getMessage() for record in caplog.records if "worker health changed" in record.getMessage()]
    assert "model m: closed -> open" in line


def test_a_provider_that_is_gone_stays_gone_after_a_restart(tmp_path: Path) -> None:
    """The article, 3.4: the 410 with "retired" takes the provider out at once, for good, and a restart does not forget it."""
    config = APART.replace(
        'first: {host: "${ONE}", ', 'walkai: {host: "${ONE}", provider: openai-compatible, model: m, '
    )
    env = {"AUTOHEDGE_DATA": str(tmp_path)}

    async def main() -> None:
        one = SampleEngine("openai-compatible", model="m", faults=["B107"])
        async with house(config, env=env, one=one, two=vllm()) as edge:
            for attempts in (2, 1, 1):
                heard = await edge.chat()
                assert (heard.status, heard.backend, heard.attempts) == (200, "second", attempts)
            assert edge.work["one"] == 1
        one = SampleEngine("openai-compatible", model="m")  # well again, but nobody looked yet
        async with house(config, env=env, one=one, two=vllm()) as edge:
            assert (await edge.chat()).backend == "second"
            assert edge.work["one"] == 0

    run(main())


def test_a_new_limit_needs_no_restart(tmp_path: Path) -> None:
    """The article, 2.2: a rule that changed today holds today: the file is edited, requests meanwhile are not disturbed."""
    path = tmp_path / "config.yaml"
    text = ALONE.replace('hosts: ["${ONE}"]', 'hosts: ["${ONE}"], model_limits: {max_tokens: LIMIT}')

    async def main() -> None:
        async with house(text.replace("LIMIT", "1000"), path, one=vllm(latency=0.01)) as edge:
            assert (await edge.chat(max_tokens=500)).status == 200
            path.write_text(text.replace("LIMIT", "100"))
            statuses = []
            until = time.monotonic() + PATIENCE
            while 400 not in statuses:
                assert time.monotonic() < until
                statuses.append((await edge.chat(max_tokens=500)).status)
                await asyncio.sleep(0.05)
            assert set(statuses) == {200, 400}
            heard = await edge.chat(max_tokens=500)
            assert heard.error["details"][0]["limit"] == 100
            assert (await edge.chat(max_tokens=50)).status == 200

    run(main())
