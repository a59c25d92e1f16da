"""How a connection is opened, and how it fails to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from autohedge.core.types import Address, Failure
from autohedge.wire.connection import Connection, Options
from autohedge.wire.errors import WireError
from autohedge.wire.pool import Pool
from tests.support.ports import free_port
from tests.wire.raw import OK, answering, ask, both_loops, once, run, serve

pytestmark = both_loops


def test_a_connection_that_is_lost_before_it_is_used(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy in between that has no engine accepts and drops; nothing was sent."""

    async def dropped(factory: Callable[[], Connection], *_: object, **__: object) -> None:
        factory().connection_lost(None)

    async def main() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", dropped)
        pool = Pool(Address("127.0.0.1", 9), Options())
        with pytest.raises(WireError) as caught:
            await ask(pool)
        assert (caught.value.failure, caught.value.sent, pool.open) == (Failure.SILENT, False, 0)

    run(loop, main())


def test_a_name_is_looked_up(loop: str) -> None:
    async def main() -> None:
        async with serve(answering(OK)) as server:
            pool = Pool(Address("localhost", server.address.port), Options())
            assert await once(pool) == 200
            pool.close()

    run(loop, main())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_refused_connection(loop: str, host: str) -> None:
    async def main() -> None:
        pool = Pool(Address(host, free_port()), Options())
        with pytest.raises(WireError) as caught:
            await ask(pool)
        assert (caught.value.failure, caught.value.sent) == (Failure.REFUSED, False)
        assert host not in str(caught.value)

    run(loop, main())


@pytest.mark.parametrize("host", ["no such host", "a" * 70, "a..b"])
def test_an_address_that_leads_nowhere(loop: str, host: str) -> None:
    async def main() -> None:
        pool = Pool(Address(host, 9), Options(connect=1.0))
        with pytest.raises(WireError) as caught:
            await ask(pool)
        assert caught.value.failure in {Failure.UNREACHABLE, Failure.CONNECT_TIMEOUT}
        assert not caught.value.sent

    run(loop, main())


@pytest.mark.parametrize(
    ("connect", "first_byte"), [(0.2, 90.0), (90.0, 0.2)], ids=["its own time", "the request's time"]
)
def test_a_connect_that_hangs_is_bounded(loop: str, connect: float, first_byte: float) -> None:
    """A listener with a full backlog drops the SYN, as a dead host does. What is left of the request ends the wait as well."""

    async def main() -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            port = listener.getsockname()[1]
            fillers = [socket.socket() for _ in range(3)]
            try:
                for filler in fillers:
                    filler.setblocking(False)
                    filler.connect_ex(("127.0.0.1", port))
                pool = Pool(Address("127.0.0.1", port), Options(connect=connect))
                with pytest.raises(WireError) as caught:
                    async with asyncio.timeout(60):
                        await ask(pool, first_byte=first_byte)
                assert (caught.value.failure, caught.value.sent) == (Failure.CONNECT_TIMEOUT, False)
            finally:
                for filler in fillers:
                    filler.close()

    run(loop, main())


def test_the_sockets_options(loop: str) -> None:
    async def main() -> None:
        async with serve(answering(OK)) as server:
            pool = Pool(server.address, Options())
            await once(pool)
            transport = pool._idle[0]._transport
            assert transport is not None
            sock = transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            pool.close()

    run(loop, main())
