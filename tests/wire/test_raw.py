"""The runner of the tests of real sockets: what it takes for a leak."""

from __future__ import annotations

import socket

from tests.wire.raw import open_sockets, run


def test_a_socket_of_an_earlier_test_may_end_meanwhile() -> None:
    """The collector closes it when it likes; the sockets were counted, and the count never came back."""
    earlier = socket.socket()

    async def main() -> None:
        earlier.close()

    run("asyncio", main())


def test_a_socket_that_takes_the_place_of_an_earlier_one_is_seen() -> None:
    earlier = socket.socket()
    before = open_sockets()
    earlier.close()
    with socket.socket():
        assert not open_sockets() <= before
    assert open_sockets() <= before
