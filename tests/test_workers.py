"""Several processes on one port, as real processes."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import httpx
import pytest

from tests.support.fair import Watch
from tests.support.processes import Child, edge, ending, llama

CONFIG = """
server: {{listen: "127.0.0.1:0", workers: 3}}
probe: {{enabled: false}}
upstream_registry: {{tiny: {{host: "{url}"}}}}
"""


def pids(front: Child) -> list[int]:
    """The workers of a parent."""
    children = Path(f"/proc/{front.process.pid}/task/{front.process.pid}/children").read_text()
    return [int(pid) for pid in children.split()]


def until(true: object, seconds: float = 60.0) -> None:
    assert callable(true)
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def ask(front: Child) -> int:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    with httpx.Client(timeout=60) as client:  # a connection of its own: the kernel picks the worker
        return client.post(f"{front.url}/v1/chat/completions", json=body).status_code


@pytest.mark.real
def test_workers_share_one_port_and_are_replaced(tmp_path: Path) -> None:
    """Three workers serve; one is killed and replaced; all counts are in one scrape; SIGTERM ends everything with 0."""
    engine = llama("--alias", "tiny")
    with ending(engine):
        front = edge(CONFIG.format(url=engine.url), tmp_path)
        with ending(front):
            until(lambda: front.output().count(" listens on ") == 3)
            assert [ask(front) for _ in range(12)] == [200] * 12
            first = set(pids(front))
            assert len(first) == 3
            victim = next(iter(first))
            os.kill(victim, signal.SIGKILL)
            until(lambda: len(set(pids(front)) - first) == 1)
            until(lambda: front.output().count(" listens on ") == 4)
            assert [ask(front) for _ in range(12)] == [200] * 12
            front.send(signal.SIGTERM)
            assert front.process.wait(60) == 0


@pytest.mark.real
def test_one_scrape_counts_all_workers(tmp_path: Path) -> None:
    """T77: whichever worker is asked, the figures are those of all, at most two seconds old."""
    engine = llama("--alias", "tiny")
    with ending(engine):
        front = edge(CONFIG.format(url=engine.url), tmp_path)
        with ending(front):
            until(lambda: front.output().count(" listens on ") == 3)
            assert [ask(front) for _ in range(20)] == [200] * 20

            def counted() -> bool:
                line = 'autohedge_requests_total{backend="tiny",door="chat",model="tiny",status="200"} 20.0'
                return line in httpx.get(f"{front.url}/metrics", timeout=60).text

            until(counted)


@pytest.mark.real
def test_a_retirement_seen_by_one_is_obeyed_by_all(tmp_path: Path) -> None:
    """An operator's retirement through whichever worker: within a second every worker answers 410 (acceptance 4)."""
    engine = llama("--alias", "tiny")
    with ending(engine):
        front = edge(CONFIG.format(url=engine.url), tmp_path)
        with ending(front):
            until(lambda: front.output().count(" listens on ") == 3)
            body = {"provider": "tiny", "model": "tiny"}
            watch = Watch(engine.process.pid, front.process.pid, *pids(front))
            httpx.post(f"{front.url}/admin/retired", json=body, timeout=60).raise_for_status()
            until(lambda: {ask(front) for _ in range(12)} == {410})
            assert watch.seconds < 2


def test_two_services_with_workers_do_not_share_a_port(tmp_path: Path) -> None:
    """Each would get the other's callers; who comes second is refused, as without workers."""
    config = 'server: {{listen: "127.0.0.1:{}", workers: 2}}'
    first = edge(config.format(0), tmp_path)
    second = tmp_path / "second"
    second.mkdir()
    with ending(first), pytest.raises(RuntimeError, match="cannot listen"):
        edge(config.format(first.port), second)


def test_a_taken_port_is_told_once(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(RuntimeError, match="cannot listen"):
            edge(f'server: {{listen: "127.0.0.1:{port}", workers: 2}}', tmp_path)
