"""llm-katan, a mock that other people wrote, as the side with keys: OpenAI, Azure and Anthropic, and its own failures.

Its 401 names the key that it expected. With a backend's own key that text would tell callers our secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.support.ports import free_port
from tests.support.processes import Child, edge, ending

pytestmark = pytest.mark.real
HELLO: list[Any] = [{"role": "user", "content": "hello"}]
KEYS = {"openai": "sk-own-openai-1", "azure_openai": "own-azure-2", "anthropic": "sk-ant-own-3"}
CONFIG = """
server: {{listen: "127.0.0.1:0", access_log: debug}}
upstream_registry:
  openai-side: {{host: "{url}", provider: openai-compatible, models: [gpt-4o-mini], api_key: "${{OPENAI_SIDE}}"}}
  azure-side:
    host: "{url}"
    provider: azure
    models: [azure-mini]
    deployment: gpt-4o-mini
    api_version: "2024-10-21"
    api_key: "${{AZURE_SIDE}}"
  misled: {{host: "{url}", provider: openai-compatible, models: [misled-mini], api_key: sk-own-but-wrong}}
  azure-misled:
    host: "{url}"
    provider: azure
    models: [azure-misled-mini]
    deployment: gpt-4o-mini
    api_version: "2024-10-21"
    api_key: own-azure-but-wrong
  claude-side: {{host: "{url}", provider: openai-compatible, external: true, models: [claude-own], api_key: "${{CLAUDE_SIDE}}"}}
  guests: {{host: "{url}", provider: openai-compatible, models: [claude-mini]}}
"""


def katan(folder: Path, *words: str) -> Child:
    """A katan in echo mode. It cannot choose a port by itself, so a free one is looked up first."""
    port = free_port()
    command = [
        "llm_katan.cli",
        "--model",
        "gpt-4o-mini",
        "--backend",
        "echo",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    return Child([*command, "--stats-file", str(folder / f"stats-{port}.json"), *words], "running on ")


@dataclass(slots=True)
class Side:
    katan: Child
    edge: Child


@pytest.fixture(scope="module")
def side(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    folder = tmp_path_factory.mktemp("katan")
    keys = ",".join(f"{name}={key}" for name, key in KEYS.items())
    engine = katan(folder, "--providers", "openai,azure_openai,anthropic", "--validate-keys", "--api-keys", keys)
    with ending(engine):
        env = {"OPENAI_SIDE": KEYS["openai"], "AZURE_SIDE": KEYS["azure_openai"], "CLAUDE_SIDE": KEYS["anthropic"]}
        front = edge(CONFIG.format(url=engine.url), folder, env)
        with ending(front):
            yield Side(engine, front)


@pytest.fixture
def client(side: Side) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{side.edge.url}/v1", api_key="sk-of-the-caller", max_retries=0) as made:
        yield made


@pytest.mark.parametrize("model", ["gpt-4o-mini", "azure-mini"])
def test_chat_with_the_backend_s_own_key(client: openai.OpenAI, model: str) -> None:
    """The caller's key is replaced by the backend's, as a bearer or as `api-key` at a deployment's path."""
    answer = client.chat.completions.create(model=model, messages=HELLO)
    assert answer.choices[0].message.content
    pieces = list(client.chat.completions.create(model=model, messages=HELLO, stream=True))
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
    assert pieces[-1].choices[0].finish_reason == "stop"


def test_the_stream_is_katan_s_own(side: Side) -> None:
    """Event by event, but for ids and times; its text holds the time of day."""

    def events(url: str, key: str) -> list[Any]:
        body = {"model": "gpt-4o-mini", "messages": HELLO, "stream": True}
        headers = {"authorization": f"Bearer {key}"}
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, headers=headers) as answer:
            texts = b"".join(answer.iter_raw()).split(b"\n\n")
        read = [
            text if text in (b"", b"data: [DONE]") else json.loads(re.sub(rb"\d", b"1", text[6:])) for text in texts
        ]
        return [{**event, "id": 0, "created": 0} if isinstance(event, dict) else event for event in read]

    assert events(side.edge.url, "sk-of-the-caller") == events(side.katan.url, KEYS["openai"])


def test_an_azure_client_speaks_to_the_azure_side(side: Side) -> None:
    """The SDK's own Azure client: deployment in the path, api-key, api-version."""
    with openai.AzureOpenAI(
        azure_endpoint=side.edge.url, api_key="caller", api_version="2024-06-01", max_retries=0
    ) as azure:
        assert azure.chat.completions.create(model="azure-mini", messages=HELLO).choices[0].message.content


def test_a_guest_brings_its_own_key(side: Side) -> None:
    """A backend without a key gets the caller's: Anthropic's door with x-api-key."""
    body = {"model": "claude-mini", "max_tokens": 9, "messages": HELLO}
    headers = {"x-api-key": KEYS["anthropic"], "anthropic-version": "2023-06-01"}
    answer = httpx.post(f"{side.edge.url}/v1/messages", json=body, headers=headers)
    assert answer.status_code == 200
    assert answer.json()["content"][0]["text"]
    headers["x-api-key"] = "wrong"
    refused = httpx.post(f"{side.edge.url}/v1/messages", json=body, headers=headers)
    assert refused.status_code == 401
    assert refused.json()["type"] == "error"


def test_our_own_key_at_anthropic_s_door(side: Side) -> None:
    """The caller has no key of the provider; ours goes as x-api-key, and the caller's own never arrives."""
    body = {"model": "claude-own", "max_tokens": 9, "messages": HELLO}
    answer = httpx.post(f"{side.edge.url}/v1/messages", json=body, headers={"x-api-key": "sk-of-the-caller"})
    assert answer.status_code == 200
    assert answer.json()["content"][0]["text"]


@pytest.mark.parametrize("model", ["misled-mini", "azure-misled-mini"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_wrong_own_key_is_no_business_of_the_caller(side: Side, model: str, stream: bool) -> None:
    """The operator's mistake: 502, and neither the key that was sent nor the one that was expected in answer or log."""
    body = {"model": model, "messages": HELLO, "stream": stream}
    answer = httpx.post(f"{side.edge.url}/v1/chat/completions", json=body)
    assert answer.status_code in (502, 503)
    told = answer.text + str(answer.headers)
    for secret in (*KEYS.values(), "sk-own-but-wrong", "own-azure-but-wrong"):
        assert secret not in told


def test_no_key_is_logged(side: Side) -> None:
    """The access log runs at debug, with bodies; metrics and models tell no key either."""
    output = side.edge.output()
    for path in ("/metrics", "/v1/models", "/health"):
        output += httpx.get(side.edge.url + path).text
    assert '"tried"' in output
    for secret in ("sk-own-openai-1", "own-azure-2", "sk-own-but-wrong", "own-azure-but-wrong", "sk-of-the-caller"):
        assert secret not in output
    assert "Traceback" not in output


FAILING = """
server: {{listen: "127.0.0.1:0"}}
upstream_registry:
  failing: {{host: "{failing}", provider: openai-compatible, models: [gpt-4o-mini], priority: 1}}
"""
SPARE = '  spare: {{host: "{spare}", provider: openai-compatible, models: [gpt-4o-mini], priority: 9}}\n'
SWITCHES = [("--rate-limit-after", 429), ("--timeout-after", 504)]


@pytest.mark.parametrize(("switch", "status"), SWITCHES, ids=["429", "504"])
def test_a_failing_katan(tmp_path: Path, switch: str, status: int) -> None:
    """After two good answers it fails for ever: alone its own status reaches the caller, with a spare nobody notices."""
    body = {"model": "gpt-4o-mini", "messages": HELLO}
    headers = {"authorization": "Bearer x"}
    with ExitStack() as stack:
        failing, spare = katan(tmp_path, switch, "2"), katan(tmp_path)
        stack.enter_context(ending(failing, spare))
        alone = edge(FAILING.format(failing=failing.url), tmp_path)
        stack.enter_context(ending(alone))
        for _ in range(3):
            answer = httpx.post(f"{alone.url}/v1/chat/completions", json=body, headers=headers)
        assert answer.status_code == status
        assert answer.headers["x-should-retry"] == "false"
        assert answer.json()["error"]["message"]
        pair = edge((FAILING + SPARE).format(failing=failing.url, spare=spare.url), tmp_path)
        stack.enter_context(ending(pair))
        backends = []
        for stream in (False, True, False, True):
            answer = httpx.post(f"{pair.url}/v1/chat/completions", json=body | {"stream": stream}, headers=headers)
            assert answer.status_code == 200
            backends.append(answer.headers["x-autohedge-backend"])
        assert backends == ["spare"] * 4


def test_a_full_katan(tmp_path: Path) -> None:
    """503 above one request in flight: of three at once two go to the spare, and nobody hears of it."""
    body = {"model": "gpt-4o-mini", "messages": HELLO}
    headers = {"authorization": "Bearer x"}
    with ExitStack() as stack:
        failing = katan(tmp_path, "--max-inflight", "1", "--latency-ms", "3000", "--max-concurrent", "5")
        spare = katan(tmp_path)
        stack.enter_context(ending(failing, spare))
        pair = edge((FAILING + SPARE).format(failing=failing.url, spare=spare.url), tmp_path)
        stack.enter_context(ending(pair))
        threads = stack.enter_context(ThreadPoolExecutor(3))

        def ask(_: int) -> httpx.Response:
            return httpx.post(f"{pair.url}/v1/chat/completions", json=body, headers=headers)

        answers = list(threads.map(ask, range(3)))
        assert [answer.status_code for answer in answers] == [200] * 3
        assert sorted(answer.headers["x-autohedge-backend"] for answer in answers) == ["failing", "spare", "spare"]
