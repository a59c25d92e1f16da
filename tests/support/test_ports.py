"""Unit tests of the ports of the tests."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.support import ports
from tests.support.ports import HIGHEST, free_port


def test_nobody_gets_one_by_chance() -> None:
    """The system chooses from another range."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert free_port() < HIGHEST <= lowest


def test_a_taken_one_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them, one is taken."""
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(ports, "LOWEST", port)
        monkeypatch.setattr(ports, "HIGHEST", port + 2)
        monkeypatch.setattr(ports, "PARTS", 1)
        assert {free_port() for _ in range(20)} == {port + 1}
