"""An eidex user changes the image and nothing else: his file, his variables and his flag, with real processes (seed 000)."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.processes import Child, ending

FILE = """\
server:
  listen: "127.0.0.1:1"   # the environment stands over it
  access_log: "off"
  colour: red             # a key of an older version
models:
  - {{id: dex, created: 1790921023, owned_by: sglang, root: dex, parent: null, max_model_len: 262144}}
routing:
  policy: state_hash
  retry: 1
health:
  health_endpoint: /health
  health_gen_endpoint: /health_generate
  health_check_interval: "300ms"
  health_gen_check_interval: "700ms"
  health_timeout: "1500ms"
workers:
  - url: {one}/
    model_id: dex
"""
BODY = {
    "model": "dex",
    "state": "I was charged twice.",
    "questions": {"q": {"type": "noul", "instructions": "Is it about money?"}},
}


@pytest.fixture(scope="module")
def engines() -> Iterator[tuple[Child, Child]]:
    command = ["autohedge", "engine", "--kind", "systemone", "--model"]
    one, two = Child([*command, "dex"], "READY "), Child([*command, "nimble"], "READY ")
    with ending(one, two):
        yield one, two


def started(folder: Path, one: str, *words: str, **env: str) -> Child:
    path = folder / "config.yaml"
    path.write_text(FILE.format(one=one))
    command = [word.replace("FILE", str(path)) for word in words]
    given = {name: value.replace("FILE", str(path)) for name, value in env.items()}
    listen = {"EIDEX_SERVER_LISTEN": "127.0.0.1:0", "AUTOHEDGE_DATA": str(folder)}
    return Child(["autohedge", *command], " listens on ", listen | given)


def until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def logged(edge: Child) -> list[dict[str, Any]]:
    """The whole log: every line is JSON."""
    return [json.loads(line) for line in edge.lines]


def lines(edge: Child) -> list[dict[str, Any]]:
    return [told for told in logged(edge) if told["msg"] == "request"]


def changes(edge: Child) -> list[dict[str, Any]]:
    return [told for told in logged(edge) if told["msg"] == "worker health changed"]


def decide(client: httpx.Client, **fields: Any) -> httpx.Response:
    return client.post("/v1/systemone", json=BODY | fields)


def test_the_whole_way_of_an_eidex_user(engines: tuple[Child, Child], tmp_path: Path) -> None:
    """Loaded by EIDEX_CONFIG; asked, registered, decided, removed, started again: statuses and bodies as eidex has them."""
    one, two = engines
    env = {"EIDEX_CONFIG": "FILE", "EIDEX_SERVER_ACCESS_LOG": "Info"}
    edge = started(tmp_path, one.url, "serve", **env)
    with ending(edge), httpx.Client(base_url=edge.url) as client:
        assert "server.colour" in edge.output()  # ignored with a warning
        assert client.get("/liveness").text == "OK"
        assert list(client.get("/version").json()) == ["version"]
        assert client.get("/health").json() == {"status": "ok", "healthy_workers": 1, "total_workers": 1}
        first = client.get("/v1/models").json()["data"][0]
        assert (first["id"], first["parent"], first["max_model_len"]) == ("dex", None, 262144)

        answer = decide(client)
        assert (answer.status_code, answer.json()["model"]) == (200, "dex")
        assert 0 <= answer.json()["answers"]["q"]["noul"] <= 1

        got = client.post(
            "/workers", json={"url": two.url + "/", "worker_type": "regular", "priority": 50, "labels": {}}
        )
        assert (got.status_code, got.json()["status"], got.json()["url"]) == (202, "accepted", two.url)
        assert decide(client, model="nimble").status_code == 200  # nobody has it, so the wildcard is asked
        listed = client.get("/workers").json()
        assert [(worker["url"], worker["model_id"]) for worker in listed["workers"]] == [
            (one.url, "dex"),
            (two.url, ""),
        ]
        assert (listed["total"], listed["stats"]["regular_count"]) == (2, 2)

        assert client.get("/nowhere").json()["error"]["code"] == "NOT_FOUND"
        wrong = client.put("/workers")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, HEAD, POST")
        assert wrong.headers["x-smg-error-code"] == "METHOD_NOT_ALLOWED"
        until(lambda: any(line["status"] == 405 for line in lines(edge)))

    told = [line for line in lines(edge) if line["path"] == "/v1/systemone"]
    assert [(line["status"], line["attempts"], line["worker"]) for line in told] == [
        (200, 1, one.url),
        (200, 1, two.url),
    ]
    refused = [line for line in lines(edge) if line["status"] >= 400]
    assert [(line["level"], line["error_code"]) for line in refused] == [
        ("WARN", "NOT_FOUND"),
        ("WARN", "METHOD_NOT_ALLOWED"),
    ]

    edge = started(tmp_path, one.url, "serve", **env)  # what was registered is there, and goes for good
    with ending(edge), httpx.Client(base_url=edge.url) as client:
        until(lambda: client.get("/workers").json()["total"] == 2)  # a busy machine may read its state a moment later
        worker = client.get("/workers").json()["workers"][1]
        assert (worker["url"], worker["is_healthy"]) == (two.url, True)
        gone = client.delete(f"/workers/{worker['id']}")
        assert (gone.status_code, gone.json()["message"]) == (202, "Worker removed")
        nobody = decide(client, model="nimble")
        assert (nobody.status_code, nobody.headers["x-smg-error-code"]) == (503, "no_workers")
        assert nobody.json()["error"]["message"] == "No available workers for model 'nimble'"
        assert client.get(f"/workers/{worker['id']}").json()["error"]["code"] == "WORKER_NOT_FOUND"


def test_the_health_manager_of_eidex_decides(engines: tuple[Child, Child], tmp_path: Path) -> None:
    """A worker that hangs goes after two failed probes and comes back after one good one; so does a wildcard."""
    one, two = engines
    edge = started(tmp_path, one.url, "-config", "FILE", AUTOHEDGE_WORKERS_PERSIST="false")
    with ending(edge), httpx.Client(base_url=edge.url) as client:
        client.post("/workers", json={"url": two.url})

        def well() -> list[bool]:
            return [worker["is_healthy"] for worker in client.get("/workers").json()["workers"]]

        assert well() == [True, True]
        for number, engine in enumerate((one, two)):
            engine.send(signal.SIGSTOP)
            try:
                until(lambda: well() != [True, True])
                assert well() == [number != 0, number != 1]
                assert client.get("/health").json()["healthy_workers"] == 1
            finally:
                engine.send(signal.SIGCONT)
            until(lambda: well() == [True, True])
        until(lambda: len(changes(edge)) >= 4)
        assert [(told["worker"], told["model"], told["new"]) for told in changes(edge)] == [
            (engine.url, name, state)
            for engine, name in ((one, "dex"), (two, "nimble"))
            for state in ("open", "closed")
        ]
        for engine in engines:
            engine.send(signal.SIGSTOP)
        try:
            until(lambda: well() == [False, False])
            sick = client.get("/readiness")
            reason = {
                "status": "unhealthy",
                "healthy_workers": 0,
                "total_workers": 2,
                "reason": "insufficient healthy workers",
            }
            assert (sick.status_code, sick.json()) == (503, reason)
            assert decide(client).status_code == 503
        finally:
            for engine in engines:
                engine.send(signal.SIGCONT)


def test_without_any_file_it_starts_with_defaults(tmp_path: Path) -> None:
    """E87: a warning, and /health says that there is nobody."""
    edge = Child(
        ["autohedge", "-config", str(tmp_path / "none.yaml")],
        " listens on ",
        {"EIDEX_SERVER_LISTEN": "127.0.0.1:0", "AUTOHEDGE_DATA": str(tmp_path)},
    )
    with ending(edge):
        assert "defaults hold" in edge.output()
        answer = httpx.get(edge.url + "/health")
        assert (answer.status_code, answer.json()["total_workers"]) == (503, 0)


def test_several_processes_know_the_same_workers(engines: tuple[Child, Child], tmp_path: Path) -> None:
    """`server.workers`: what one process registers the others know, although nothing is to outlive them."""
    env = {"AUTOHEDGE_SERVER_WORKERS": "2", "AUTOHEDGE_WORKERS_PERSIST": "false", "EIDEX_CONFIG": "FILE"}
    edge = started(tmp_path, engines[0].url, "serve", **env)
    with ending(edge):
        until(lambda: httpx.get(edge.url + "/liveness").status_code == 200)
        assert httpx.post(edge.url + "/workers", json={"url": engines[1].url, "model_id": "nimble"}).status_code == 202

        def totals() -> set[int]:
            return {httpx.get(edge.url + "/workers").json()["total"] for _ in range(12)}  # each by its own connection

        until(lambda: totals() == {2})
        edge.send(signal.SIGTERM)
        edge.process.wait(60)
