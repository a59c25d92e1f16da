"""The socket that requests come to."""

from __future__ import annotations

import socket

import pytest

from autohedge.wire.binding import listen, ours
from autohedge.wire.lifeline import to_caller


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_it_listens_on_a_free_port(host: str) -> None:
    with listen((host, 0)) as listener:
        port = listener.getsockname()[1]
        socket.create_connection((host, port), 1).close()


def test_a_caller_whose_machine_vanished_is_noticed() -> None:
    """Nobody would send it anything while its answer is long in coming: what is accepted asks its kernel, after a minute."""
    with listen(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname(), 1):
        accepted, _ = listener.accept()
        with accepted:
            for level, name, value in to_caller():
                assert accepted.getsockopt(level, name) == value
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 120_000


def test_a_taken_port_is_an_error_and_leaves_no_socket() -> None:
    with listen(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        listen(("127.0.0.1", taken.getsockname()[1]))


def test_a_port_that_others_share_is_not_ours() -> None:
    with (
        ours(("127.0.0.1", 0)) as first,
        listen(first.getsockname(), shared=True) as worker,
        pytest.raises(OSError, match="in use"),
    ):
        ours(worker.getsockname())
