"""Hostile input against the real process (acceptance 5): mutated bodies in bulk, smuggling, injection, path tricks."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.habits.attacks import FRAMING, HEADS, INNER, PATHS
from tests.e2e.habits.engines import Keeper, keeper, sample
from tests.e2e.habits.exchange import exchange, post
from tests.e2e.habits.made import CHAT, HELLO
from tests.e2e.habits.mutants import requests
from tests.support.fair import slowness
from tests.support.processes import Child, edge, ending

CONFIG = """
server: {{listen: "127.0.0.1:0", access_log: off}}
probe: {{enabled: false}}
upstream_registry:
  tiny: {{host: "{url}", provider: {kind}, models: [tiny]}}
"""
BODIES, WARM, LINES, BATCH = 10_000, 3000, 16, 8
GROWTH = 20 << 20


# --- bodies in bulk -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    head: bytes
    body: bytes

    @property
    def ours(self) -> bool:
        return b"\r\nx-autohedge-backend:" not in self.head


async def answer_from(reader: asyncio.StreamReader) -> Answer:
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head[9:12])
    fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
    if b"content-length" in fields:
        return Answer(status, head, await reader.readexactly(int(fields[b"content-length"])))
    assert fields.get(b"transfer-encoding") == b"chunked", head
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)
    return Answer(status, head, body)


async def client(port: int, pending: Iterator[bytes], seen: list[tuple[bytes, Answer]]) -> None:
    """One keep-alive connection: sends a batch at once, reads the answers in order; a closed one is opened again."""
    batch: list[bytes] = []
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while True:
                while len(batch) < BATCH and (request := next(pending, None)) is not None:
                    batch.append(request)
                if not batch:
                    return
                writer.write(b"".join(batch))
                while batch:
                    answer = await asyncio.wait_for(answer_from(reader), 100)
                    seen.append((batch.pop(0), answer))
                    if b"\r\nconnection: close" in answer.head:
                        raise EOFError
        except EOFError:
            continue
        finally:
            writer.close()


def resident(pid: int) -> int:
    """Bytes of memory that a process holds."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def test_ten_thousand_bodies(tmp_path: Path) -> None:
    """No 5xx of our own, no traceback, no hang, no growth of memory; and what is refused is refused in the envelope."""
    engine = sample("--kind", "vllm", "--model", "tiny", "--words", "2")
    with ending(engine):
        front = edge(CONFIG.format(url=engine.url, kind="vllm"), tmp_path)
        with ending(front):

            async def main(pending: Iterator[bytes]) -> list[tuple[bytes, Answer]]:
                seen: list[tuple[bytes, Answer]] = []
                async with asyncio.TaskGroup() as group:
                    for _ in range(LINES):
                        group.create_task(client(front.port, pending, seen))
                return seen

            began = time.monotonic()
            seen = asyncio.run(main(requests(1, WARM)))
            before = resident(front.process.pid)
            seen += asyncio.run(main(requests(2, BODIES - WARM)))
            took, growth = time.monotonic() - began, resident(front.process.pid) - before
            assert exchange(front.port, post(CHAT, HELLO)).status == 200
            assert front.process.poll() is None
            worked = front.worked
            output = front.output() + engine.output()
    statuses = Counter((answer.status, "edge" if answer.ours else "engine") for _, answer in seen)
    print(
        f"{len(seen)} bodies in {took:.1f} s, RSS {before >> 20} MiB after {WARM}, then {growth / (1 << 20):+.1f} MiB"
    )
    print(sorted(statuses.items()))
    assert len(seen) == BODIES
    assert [(request, answer) for request, answer in seen if answer.ours and answer.status >= 500] == []
    for request, answer in seen:
        assert b"x-evil" not in answer.head.lower(), request
        if answer.ours:
            error = json.loads(answer.body)["error"]
            assert error["message"], request
            assert error["code"], request
            assert error["type"], request
            assert len(answer.body) < 64 << 10, request
    assert "Traceback" not in output
    assert growth < GROWTH
    assert worked < 60 * slowness()


def offspring(pid: int) -> list[int]:
    """The processes that a process started."""
    return [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]


def test_a_killed_edge_leaves_no_helper(tmp_path: Path) -> None:
    """The process that reads heavy bodies ends with the edge, even when that is killed with -9."""
    with keeper() as kept:
        front = edge(CONFIG.format(url=kept.url, kind="llamacpp"), tmp_path)
        heavy = HELLO[:-1] + b',"x":[' + b"0," * 1_000_000 + b"0]}"
        with ending(front):
            assert exchange(front.port, post(CHAT, heavy)).status == 200
            helpers = offspring(front.process.pid)
            front.process.kill()
            until = time.monotonic() + 60
            while any(Path(f"/proc/{helper}").exists() for helper in helpers):
                assert time.monotonic() < until
                time.sleep(0.02)
    assert helpers


# --- raw sockets --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Gate:
    keeper: Keeper
    front: Child


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    with keeper() as kept:
        front = edge(CONFIG.format(url=kept.url, kind="llamacpp"), Path(tmp_path_factory.mktemp("gate")))
        with ending(front):
            yield Gate(kept, front)


def spoken(port: int, data: bytes, patience: float = 10) -> bytes:
    """Everything that comes back until the other side is done; we say that we are done right after sending."""
    with socket.create_connection(("127.0.0.1", port), patience) as connection:
        heard = b""
        try:
            connection.sendall(data)
            while piece := connection.recv(65536):
                heard += piece
        except (ConnectionResetError, BrokenPipeError):
            pass
        return heard


def reached(gate: Gate) -> list[bytes]:
    """The request lines of work that the backend saw; what AutoHedge asks by itself is left out."""
    return [kept.line for kept in gate.keeper.kept if kept.line.startswith(b"POST") and b"probe" not in kept.line]


def statuses_of(heard: bytes) -> list[int]:
    """The statuses of all answers in a conversation."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", heard)]


@pytest.mark.parametrize("name", FRAMING)
def test_no_request_is_smuggled(gate: Gate, name: str) -> None:
    """Refused with a 4xx, the connection ended, and the backend has seen neither the hidden request nor a stray byte."""
    before = len(reached(gate))
    heard = spoken(gate.front.port, FRAMING[name])
    assert statuses_of(heard)[-1:] in ([400], [413], [431]), heard
    assert len(statuses_of(heard)) == 1, heard
    assert b"\r\nconnection: close\r\n" in heard
    lines = reached(gate)[before:]
    assert lines == []
    assert all(INNER not in line for line in reached(gate))
    assert gate.keeper.rest == b""


@pytest.mark.parametrize("name", HEADS)
def test_a_broken_head_is_refused(gate: Gate, name: str) -> None:
    before = len(reached(gate))
    heard = spoken(gate.front.port, HEADS[name])
    assert statuses_of(heard)[:1] in ([400], [414], [431], [505]), heard
    assert len(statuses_of(heard)) == 1, heard
    assert b"x-evil" not in heard.lower().partition(b"\r\n\r\n")[0]
    assert json.loads(heard.partition(b"\r\n\r\n")[2])["error"]["message"]
    assert reached(gate)[before:] == []


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:50])
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_path_tricks_are_neutral(gate: Gate, path: str, method: str) -> None:
    """The backend is asked under a door's own path or not at all; nothing of a path becomes a header or another host."""
    before = len(gate.keeper.kept)
    line = f"{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nConnection: close\r\n"
    heard = spoken(gate.front.port, line.encode() + b"Content-Length: %d\r\n\r\n" % len(HELLO) + HELLO)
    assert len(statuses_of(heard)) == 1, heard
    assert statuses_of(heard)[0] < 500, heard
    assert b"\r\nx-evil" not in heard.lower()
    for kept in gate.keeper.kept[before:]:
        assert kept.line.partition(b"?")[0].split(b" ")[:2] in (
            [b"POST", b"/v1/chat/completions"],
            [b"GET", b"/v1/models"],
            [b"GET", b"/props"],
        )
        assert b"x-evil" not in dict(kept.headers)
    if method == "GET":
        assert statuses_of(heard)[0] in (400, 404, 405)


NAMES = (
    "tiny\\r\\nX-Evil: 1",
    "tiny\\nX-Evil: 1",
    "tiny\\u0000",
    "\\u000d\\u000aX-Evil: 1",
    "tiny\\u2028",
    "\\ud800",
    "../tiny",
    "t" * 9000,
)


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/embeddings"])
def test_a_model_s_name_never_reaches_a_head(gate: Gate, name: str, path: str) -> None:
    """CR and LF in a JSON string stay in JSON, in the 404 too."""
    before = len(reached(gate))
    body = f'{{"model":"{name}","messages":[{{"role":"user","content":"a"}}],"input":"a","max_tokens":1}}'.encode()
    heard = exchange(gate.front.port, post(path, body))
    assert heard.status in (400, 404)
    assert heard.header("x-evil") is None
    assert heard.ours
    assert len(heard.body) < 4000
    assert json.loads(heard.body)["error"]["message"]
    assert reached(gate)[before:] == []


def test_a_request_id_is_echoed_and_bounded(gate: Gate) -> None:
    """What a client calls its request comes back as it came, cut to 200 bytes; it never starts a line."""
    for sent, expected in (
        ("abc-1", "abc-1"),
        ("a" * 500, "a" * 200),
        ("a\tb; c=\xe9", "a\tb; c=\xe9"),
        ("%0d%0aX-Evil: 1", "%0d%0aX-Evil: 1"),
    ):
        for body in (HELLO, b"{"):
            heard = exchange(gate.front.port, post(CHAT, body, f"X-Request-ID: {sent}"))
            assert heard.header("x-request-id") == expected
            assert heard.header("x-evil") is None


def test_a_request_behind_a_good_one_is_a_request_of_its_own(gate: Gate) -> None:
    """Honest pipelining: two requests, two answers in order, and the backend sees the two with their own bodies."""
    before = len(gate.keeper.kept)
    two = post(CHAT, HELLO, "X-N: 1") + post(CHAT, HELLO + b" ", "X-N: 2", "Connection: close")
    heard = spoken(gate.front.port, two)
    assert statuses_of(heard) == [200, 200]
    kept = [kept for kept in gate.keeper.kept[before:] if b"x-n" in dict(kept.headers)]
    assert [(dict(one.headers)[b"x-n"], one.body) for one in kept] == [(b"1", HELLO), (b"2", HELLO + b" ")]


def test_a_body_over_the_bound_is_a_413(tmp_path: Path, gate: Gate) -> None:
    """Said before it is read when its length says so, and at the bound when it is chunked."""
    config = 'server: {{listen: "127.0.0.1:0", max_body_bytes: 1000}}\nupstream_registry: {{tiny: {{host: "{url}", models: [tiny]}}}}'
    front = edge(config.format(url=gate.keeper.url), tmp_path)
    with ending(front):
        before = len(reached(gate))
        big = b"{" + b" " * 5000 + b"}"
        assert exchange(front.port, post(CHAT, big)).status == 413
        chunk = b"%x\r\n%b\r\n" % (len(big), big)
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert statuses_of(spoken(front.port, head + chunk * 50 + b"0\r\n\r\n")) == [413]
        assert reached(gate)[before:] == []
    assert "Traceback" not in front.output()


def test_nothing_failed_on_the_way(gate: Gate) -> None:
    """After all of the above the edge serves, and its output holds no traceback."""
    assert exchange(gate.front.port, post(CHAT, HELLO)).status == 200
    assert "Traceback" not in gate.front.output()
