"""What a serving process carries: its memory, before and after traffic, and what it has imported for it."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from tests.support.house import CHAT
from tests.support.processes import Child, edge, ending

LISTEN = "server: {listen: '127.0.0.1:0'}\n"
ROUND = 1500
MOST = 80.0  # MiB, issue 2
GROWTH = 1.5  # MiB between two rounds; a leak of one kilobyte per request is more
GOOD = b'{"model":"m","messages":[{"role":"user","content":"hello"}],"max_tokens":4}'
WRONG = b'{"model":"m","messages":[{"role":"user","content":"hello"}],"max_tokens":1000000}'
UNKNOWN = b'{"model":"no-such","messages":[{"role":"user","content":"hello"}]}'


def resident(child: Child) -> float:
    """MiB."""
    status = Path(f"/proc/{child.process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


def ask(port: int, body: bytes, times: int) -> set[bytes]:
    """The status lines of that many requests on one connection."""
    request = b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (CHAT.encode(), len(body), body)
    seen: set[bytes] = set()
    with socket.create_connection(("127.0.0.1", port), 60) as line, line.makefile("rb") as answers:
        for _ in range(times):
            line.sendall(request)
            seen.add(answers.readline().split()[1])
            length = 0
            while (field := answers.readline()) != b"\r\n":
                name, _, value = field.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            assert len(answers.read(length)) == length
    return seen


def children(pid: int) -> list[int]:
    return [
        int(each) for task in Path(f"/proc/{pid}/task").iterdir() for each in (task / "children").read_text().split()
    ]


def carries(pid: int, library: str) -> bool:
    """Whether the process has loaded that library of machine code."""
    return library in Path(f"/proc/{pid}/maps").read_text()


def test_memory_is_small_and_flat(tmp_path: Path) -> None:
    """Issue 2, acceptance 6: whatever the answers are, requests leave nothing behind."""
    engine = Child(["autohedge", "engine", "--kind", "vllm", "--model", "m"], "READY ")
    with ending(engine):
        front = edge(LISTEN + f"upstream_registry: {{one: {{host: '{engine.url}'}}}}\n", tmp_path)
        with ending(front):
            marks = []
            for _ in range(3):
                assert ask(front.port, GOOD, ROUND) == {b"200"}
                assert ask(front.port, WRONG, ROUND // 2) == {b"400"}
                assert ask(front.port, UNKNOWN, ROUND // 2) == {b"404"}
                marks.append(resident(front))
            assert marks[-1] < MOST, marks
            assert marks[2] - marks[0] < 2 * GROWTH, marks


# What only some configurations need, and the configuration that does.
OPTIONAL = {
    "redis": "state: {url: 'redis://127.0.0.1:1'}\n",
    "docker": "sources: {docker: {enabled: true, host: 'tcp://127.0.0.1:1'}}\n",
    "smtplib": "alerts: {mail: {host: 127.0.0.1, to: [a@b.example], sender: c@d.example}}\n",
}
# What belongs to other commands, or to nobody here.
FOREIGN = {"autohedge.engine.sample", "autohedge.guard", "numpy", "unittest", "requests"}


def imported(child: Child) -> set[str]:
    """Every module that was imported before it served (the child wrote them down)."""
    return {line.rpartition("|")[2].strip() for line in child.lines if line.startswith("import time:")}


def test_a_plain_proxy_imports_nothing_that_it_does_not_use(tmp_path: Path) -> None:
    with ending(front := edge(LISTEN, tmp_path, {"PYTHONPROFILEIMPORTTIME": "1"})):
        found = imported(front)
    assert "autohedge.relay" in found
    assert found.isdisjoint({*OPTIONAL, *FOREIGN})


@pytest.mark.parametrize("name", OPTIONAL)
def test_what_is_configured_is_imported_before_the_first_request(name: str, tmp_path: Path) -> None:
    """Not in the middle of traffic, where every other request would wait for it."""
    with ending(front := edge(LISTEN + OPTIONAL[name], tmp_path, {"PYTHONPROFILEIMPORTTIME": "1"})):
        found = imported(front)
    assert {name} == found & set(OPTIONAL)


def test_the_keeper_of_workers_does_not_import_the_proxy(tmp_path: Path) -> None:
    with ending(front := edge("server: {listen: '127.0.0.1:0', workers: 2}\n", tmp_path)):
        workers = children(front.process.pid)
        assert [carries(worker, "httptools") for worker in workers].count(
            True
        ) >= 1  # the other may still be on its way
        assert not carries(front.process.pid, "httptools")


def test_the_process_that_reads_large_bodies_imports_no_server(tmp_path: Path) -> None:
    """It is there from the first such body on, and imports the rules of bodies alone."""
    heavy = b'{"model":"m","messages":[],"x":[%b]}' % b",".join([b"[1]"] * 300_000)
    with ending(front := edge(LISTEN, tmp_path)):
        assert children(front.process.pid) == []
        assert ask(front.port, heavy, 1) == {b"404"}
        helpers = [child for child in children(front.process.pid) if carries(child, "pydantic_core")]
        assert len(helpers) == 1
        assert not carries(helpers[0], "httptools")
