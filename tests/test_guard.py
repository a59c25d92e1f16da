"""docker-guard as a process before a stub of a Docker engine on a Unix socket: what arrives there, and what comes back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import httpx
import pytest

from autohedge import guard
from tests.rules.test_stripping import NETWORK, NODE, SERVICE, TASK
from tests.support.fair import Watch
from tests.support.house import eventually, run
from tests.support.processes import Child

ANSWERS: dict[str, Any] = {
    "/version": {"ApiVersion": "1.41", "Version": "20.10.24", "KernelVersion": "SECRET"},
    "/services": [SERVICE],
    "/tasks": [TASK],
    "/nodes": [NODE],
    "/networks": [NETWORK],
    "/networks/net": NETWORK,
}
EVENT = {
    "Type": "service",
    "Action": "update",
    "Actor": {"ID": "s1", "Attributes": {"name": "SECRET?no"}},
    "x": "SECRET",
}


@dataclass
class Stub:
    """An engine: every head that came, and what it answers instead of the usual."""

    path: Path
    heads: list[str] = field(default_factory=list)
    instead: Callable[[str], bytes] | None = None
    gone: int = 0  # event streams whose reader left
    hang: bool = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            target = head.split()[1]
            if self.hang:
                await reader.read()
            elif self.instead is not None:
                writer.write(self.instead(target))
            elif "/events" in target:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
                for text in (
                    json.dumps(EVENT),
                    "no json",
                    json.dumps({"Type": "secret"}),
                    "x" * (guard.LONGEST_EVENT + 9),
                ):
                    piece = text.encode() + b"\n"
                    writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                writer.write(answer_chunk(EVENT))
                await writer.drain()
                await reader.read()  # until the other side leaves
                self.gone += 1
            else:
                writer.write(answer(target))
            writer.close()
            await writer.wait_closed()


def answer_chunk(found: Any) -> bytes:
    piece = json.dumps(found).encode() + b"\n"
    return f"{len(piece):x}\r\n".encode() + piece + b"\r\n"


def answer(target: str) -> bytes:
    path = target.partition("?")[0]
    path = path[path.index("/", 1) :] if path.startswith("/v1.") else path
    if path == "/_ping":
        return said(200, b"OK", "Api-Version: 1.41\r\nSecret-Header: SECRET\r\n")
    if path not in ANSWERS:
        return said(404, b'{"message": "network not found"}')
    return said(200, json.dumps(ANSWERS[path]).encode())


def said(status: int, body: bytes, more: str = "") -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{more}\r\n".encode() + body


@asynccontextmanager
async def standing(folder: Path, *words: str) -> AsyncIterator[tuple[Stub, Child, httpx.AsyncClient]]:
    stub = Stub(folder / "engine.sock")
    server = await asyncio.start_unix_server(stub.serve, stub.path, limit=1 << 20)
    command = ["autohedge", "docker-guard", "--listen", "127.0.0.1:0", "--socket", str(stub.path), *words]
    child = await asyncio.to_thread(Child, command, " listens on ")
    try:
        async with httpx.AsyncClient(base_url=child.url, timeout=60) as client:
            yield stub, child, client
    finally:
        await asyncio.to_thread(child.stop)
        server.close()


def test_answers_come_back_stripped(tmp_path: Path) -> None:
    """facts swarm 2b: what discovery needs, without the environment of everybody."""

    async def main() -> None:
        async with standing(tmp_path) as (_, child, client):
            for path, found in ANSWERS.items():
                answered = await client.get("/v1.41" + path)
                assert (answered.status_code, answered.headers["content-type"]) == (200, "application/json")
                assert "SECRET" in json.dumps(found)
                assert "SECRET" not in answered.text
                assert type(answered.json()) is type(found)
            ping = await client.get("/_ping")
            assert (ping.text, ping.headers["api-version"]) == ("OK", "1.41")
            assert "secret-header" not in ping.headers
            assert (await client.head("/_ping")).status_code == 200
            assert "SECRET" not in child.output()

    run(main())


def test_an_answer_that_changed_is_stripped_anew(tmp_path: Path) -> None:
    """The same bytes serve again; other bytes, and other questions, never get what was made of them."""

    async def main() -> None:
        async with standing(tmp_path) as (stub, _, client):
            for name in ("one", "one", "two", "one"):
                stub.instead = lambda _target, name=name: said(200, json.dumps([SERVICE | {"ID": name}]).encode())
                for path in ("/services", "/services?status=true"):
                    (found,) = (await client.get(path)).json()
                    assert found["ID"] == name
            for number in range(guard.REMEMBERED * 2):
                assert (await client.get(f"/services?filters={number}")).status_code == 200

    run(main())


def test_only_questions_that_are_understood_reach_the_engine(tmp_path: Path) -> None:
    """Refused in Docker's own form of an error; nothing of the caller's headers travels on."""

    async def main() -> None:
        async with standing(tmp_path) as (stub, child, client):
            stub.heads.clear()
            bad = [
                ("GET", "/info"),
                ("GET", "/services/s1/logs"),
                ("GET", "/containers/json"),
                ("POST", "/services/create"),
            ]
            for method, path in [*bad, ("DELETE", "/services/s1"), ("GET", "/services?follow=1")]:
                refused = await client.request(method, path)
                assert refused.status_code == 403
                assert refused.json()["message"].startswith("docker-guard: ")
            for headers in ({"upgrade": "tcp", "connection": "upgrade"}, {"content-length": "2"}):
                body = b"{}" if "content-length" in headers else None
                assert (await client.request("GET", "/services", headers=headers, content=body)).status_code == 403
            assert stub.heads == []
            asked = await client.get("/v1.41/tasks?filters=%7B%7D", headers={"x-registry-auth": "S", "cookie": "S=1"})
            assert asked.status_code == 200
            (head,) = stub.heads
            assert head.startswith("GET /v1.41/tasks?filters=%7B%7D HTTP/1.1\r\n")
            assert "registry" not in head.lower()
            assert "cookie" not in head.lower()
            await eventually(lambda: "refused: 'POST' '/services/create'" in child.output())

    run(main())


@pytest.mark.parametrize(
    "head",
    [
        b"GET http://docker/info HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT docker:2375 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /services/../info HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET //info HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /%69nfo HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /services HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /services HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_tricks_of_the_wire_reach_no_engine(tmp_path: Path, head: bytes) -> None:
    async def main() -> None:
        async with standing(tmp_path) as (stub, child, _):
            stub.heads.clear()
            reader, writer = await asyncio.open_connection("127.0.0.1", child.port)
            writer.write(head)
            line = await reader.readline()
            writer.close()
            await writer.wait_closed()
            assert line.split()[1] in {b"400", b"403", b"405", b"505"}
            assert stub.heads == []

    run(main())


def test_the_docker_sdk_speaks_through_it(tmp_path: Path) -> None:
    """The client that discovery uses: its constructor, its lists, its errors."""

    async def main() -> None:
        async with standing(tmp_path) as (_, child, _client):
            await asyncio.to_thread(spoken, f"tcp://127.0.0.1:{child.port}")

    def spoken(url: str) -> None:
        client: Any
        with contextlib.closing(docker.APIClient(base_url=url, version="auto", timeout=60)) as client:
            assert client.api_version == "1.41"
            assert client.services(filters={"label": "autohedge.enable=true"})[0]["ID"] == "s1"
            assert client.tasks(filters={"desired-state": "running"})[0]["ServiceID"] == "s1"
            assert client.nodes()[0]["Status"]["State"] == "ready"
            assert client.networks(names=["net"])[0]["Id"] == "net"
            assert client.inspect_network("net", verbose=True)["Services"]["llm_vllm"]["VIP"] == "10.0.1.4"
            with pytest.raises(docker.errors.APIError, match=r"docker-guard: /v1\.41/info is not allowed") as told:
                client.info()
            assert told.value.status_code == 403
            with pytest.raises(docker.errors.NotFound, match="network not found"):
                client.inspect_network("other")

    run(main())


def test_errors_of_the_engine_keep_their_status_and_words(tmp_path: Path) -> None:
    """facts swarm 1: discovery reads "This node is not a swarm manager" in a 503."""

    async def main() -> None:
        async with standing(tmp_path) as (stub, _, client):
            stub.instead = lambda _target: said(503, b'{"message": "This node is not a swarm manager.", "x": "SECRET"}')
            told = await client.get("/services")
            assert (told.status_code, told.json()) == (
                503,
                {"message": "docker-guard: This node is not a swarm manager."},
            )
            stub.instead = lambda _target: said(500, b"<html>SECRET</html>")
            told = await client.get("/services")
            assert (told.status_code, told.json()["message"]) == (500, "docker-guard: the engine refuses")
            stub.instead = lambda _target: said(301, b"", "Location: /info\r\n")
            assert (await client.get("/services")).status_code == 502
            for body in (b"SECRET no json", b"[" * 100_000, b'[{"ID": '):
                stub.instead = lambda _target, body=body: said(200, body)
                told = await client.get("/services")
                assert (told.status_code, "SECRET" in told.text) == (502, False)

    run(main())


def test_a_hung_engine_is_a_504_in_time(tmp_path: Path) -> None:
    async def main() -> None:
        async with standing(tmp_path, "--timeout", "0.3") as (stub, child, client):
            stub.hang = True
            watch = Watch(child.process.pid)
            told = await client.get("/tasks")
            assert told.status_code == 504
            assert watch.seconds < 9

    run(main())


def test_an_engine_that_is_away_is_said_in_words(tmp_path: Path) -> None:
    """No socket: the guard starts all the same, says so, and is well as soon as there is an engine."""

    async def main() -> None:
        async with standing(tmp_path) as (stub, _, client):
            stub.path.unlink()
            told = await client.get("/services")
            assert told.status_code == 502
            assert "there is no socket at" in told.json()["message"]
            server = await asyncio.start_unix_server(stub.serve, stub.path)
            assert (await client.get("/services")).status_code == 200
            server.close()

    run(main())


def test_a_socket_that_is_not_ours_to_open_names_its_group() -> None:
    """facts swarm 1: PermissionError, mended by the socket's group."""

    async def main(path: Path) -> str:
        server = await asyncio.start_unix_server(lambda _r, w: w.close(), path)
        path.chmod(0)  # noqa: ASYNC240
        made = guard.Guard(str(path), frozenset(), 1.0, time.monotonic)
        mine = os.geteuid()
        if mine == 0:
            os.seteuid(65534)
        try:
            return await made.reach()
        finally:
            os.seteuid(mine)
            server.close()
            await made.close()

    with tempfile.TemporaryDirectory() as folder:  # one that others may enter
        Path(folder).chmod(0o755)
        assert f"run as root or with its group, {os.getgid()}" in run(main(Path(folder) / "engine.sock"))


def test_events_stream_and_end_with_their_reader(tmp_path: Path) -> None:
    """Line by line, stripped; what is no event or too long is left out; the engine's stream ends when the reader leaves."""

    async def main() -> None:
        async with standing(tmp_path) as (stub, _, client):
            async with client.stream("GET", '/v1.41/events?filters={"type":["service"]}') as stream:
                lines = stream.aiter_lines()
                found = [json.loads(await anext(lines)) for _ in range(2)]
            assert found[0]["Actor"] == {"ID": "s1", "Attributes": {"name": "SECRET?no"}}
            assert all("x" not in one for one in found)
            await eventually(lambda: stub.gone == 1)

    run(main())


def test_a_stop_ends_event_streams_at_once(tmp_path: Path) -> None:
    """docker-socket-proxy never stops while a stream is open (its issue 181)."""

    async def main() -> None:
        async with standing(tmp_path) as (stub, child, client):
            async with client.stream("GET", "/events") as stream:
                lines = stream.aiter_lines()
                for _ in range(2):
                    await anext(lines)
                child.send(signal.SIGTERM)
                assert [line async for line in lines] == []  # a proper end, no break
            assert await asyncio.to_thread(child.process.wait, 20) == 0
            assert stub.gone == 1

    run(main())


def test_too_many_streams_are_turned_away(tmp_path: Path) -> None:
    async def main() -> None:
        async with standing(tmp_path) as (_, _child, client), contextlib.AsyncExitStack() as open_:
            for _ in range(guard.STREAMS):
                stream = await open_.enter_async_context(client.stream("GET", "/events"))
                assert stream.status_code == 200
            assert (await client.get("/events")).status_code == 503
            assert (await client.get("/services")).status_code == 200

    run(main())


def test_refusals_do_not_fill_the_log(tmp_path: Path) -> None:
    async def main() -> None:
        async with standing(tmp_path) as (_, child, client):
            for _ in range(guard.TOLD_A_MINUTE * 3):
                await client.get("/info")
            assert child.output().count("refused:") <= guard.TOLD_A_MINUTE

    run(main())


def test_allowed_variables_are_the_operator_s(tmp_path: Path) -> None:
    async def main() -> None:
        async with standing(tmp_path, "--allow-env", "OTHER") as (_, _child, client):
            container = (await client.get("/services")).json()[0]["Spec"]["TaskTemplate"]["ContainerSpec"]
            assert container["Env"] == []

    run(main())


@pytest.mark.parametrize("words", [["--listen", "nowhere"], ["--nothing"]])
def test_a_wrong_command_line_is_a_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        guard.run(words, {})
    assert raised.value.code == 2
