"""`autohedge serve` until the proxy runs."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from autohedge.starting import serve


def test_a_wrong_configuration_is_exit_code_1(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("server: {listen: 5}\n")
    assert serve(str(path), {}) == 1
    assert "c.yaml:1" in caplog.text


def test_a_taken_port_is_exit_code_1(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "c.yaml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        path.write_text(f"server: {{listen: '127.0.0.1:{taken.getsockname()[1]}'}}\n")
        assert serve(str(path), {"AUTOHEDGE_DATA": str(tmp_path)}) == 1
    assert "cannot listen on" in caplog.text
