"""A server that plays byte scripts, and the runner that proves nothing was left open."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
import struct
import subprocess
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from autohedge.core.types import Address
from autohedge.wire.answer import Answer
from autohedge.wire.heads import request_head
from autohedge.wire.pool import Pool
from tests.support.cables import cut

both_loops = pytest.mark.parametrize("loop", ["uvloop", "asyncio"])

BODY = b'{"model":"m"}'
HEAD = request_head(b"POST", b"/v1/x", [(b"host", b"x"), (b"content-length", str(len(BODY)).encode())])
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def open_sockets() -> set[str]:
    """The sockets that this process holds, each by its inode: those of an earlier test may end meanwhile, none may be added."""
    held = set()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the listing's own descriptor
            held.add(str(link.readlink()))
    return {each for each in held if each.startswith("socket:")}


def run(loop: str, main: Coroutine[Any, Any, None]) -> None:
    """Run on the named loop; fail when a callback of the loop failed or a socket stayed open."""
    complaints: list[dict[str, Any]] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        before = open_sockets()
        async with asyncio.timeout(100):
            await main
        gc.collect()
        await until(lambda: open_sockets() <= before)

    with warnings.catch_warnings():
        # After a failed test uvloop never finishes its close when this is an error; sockets are counted instead.
        warnings.simplefilter("ignore", ResourceWarning)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop if loop == "uvloop" else None) as runner:
            runner.run(watched())
    assert complaints == []


async def until(true: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for a state that real sockets reach by themselves; so long only where it is never reached."""
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 - the state has no event
            await asyncio.sleep(0.001)


def hold_up(meanwhile: Callable[[], None]) -> None:
    """Call this where the running loop has just come back from its sockets: what comes meanwhile is seen after its timers."""
    loop = asyncio.get_running_loop()
    here, there = socket.socketpair()

    def rung() -> None:
        loop.remove_reader(here)
        here.close()
        there.close()
        meanwhile()

    loop.add_reader(here, rung)
    there.send(b"!")


class Peer:
    """The server's end of one connection."""

    def __init__(self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._server = server
        self.reader = reader
        self.writer = writer

    async def request(self) -> bytes:
        """Read one request whole; IncompleteReadError when the client closed instead."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(v) for n, _, v in (x.partition(b":") for x in head.split(b"\r\n")) if n.lower() == b"content-length"),
            0,
        )
        body = await self.reader.readexactly(length)
        self._server.requests.append(head + body)
        return head + body

    async def send(self, *pieces: bytes, gap: float = 0.0) -> None:
        """Send each piece by itself, `gap` seconds apart."""
        for number, piece in enumerate(pieces):
            if number:
                await asyncio.sleep(gap)
            self.writer.write(piece)
            await self.writer.drain()

    async def gone(self) -> None:
        """Until the client has closed."""
        with contextlib.suppress(OSError):
            while await self.reader.read(65536):
                pass

    def close(self) -> None:
        """A proper end."""
        self.writer.close()

    def reset(self) -> None:
        """A reset."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def vanish(self) -> None:
        """The cable is cut."""
        await cut(self.writer.transport)


Play = Callable[[Peer], Awaitable[None]]


class Server:
    """Plays `plays[n]` on the n-th connection, the last one on all later ones."""

    def __init__(self, plays: tuple[Play, ...]) -> None:
        self.plays = plays
        self._tasks: set[asyncio.Task[None]] = set()
        self.requests: list[bytes] = []
        self.peers: list[Peer] = []
        self.accepted = 0
        self.address = Address("127.0.0.1", 0)

    @property
    def busy(self) -> int:
        """Connections that are open here."""
        return len(self._tasks)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        play = self.plays[min(self.accepted, len(self.plays) - 1)]
        self.accepted += 1
        self.peers.append(Peer(self, reader, writer))
        task = asyncio.get_running_loop().create_task(self._serve(play, self.peers[-1]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, play: Play, peer: Peer) -> None:
        try:
            await play(peer)
            await peer.gone()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client closed
        finally:
            peer.writer.transport.abort()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def ask(pool: Pool, first_byte: float = 5.0, *, stall: float = 5.0, method: bytes = b"POST") -> Answer:
    return await pool.exchange(HEAD, BODY, method=method, first_byte=first_byte, stall=stall)


async def whole(answer: Answer) -> bytes:
    body = b""
    while piece := await answer.read():
        body += piece
    return body


async def once(pool: Pool) -> int:
    answer = await ask(pool)
    while await answer.read():
        pass
    answer.release()
    return answer.status


async def settled(pool: Pool, server: Server) -> None:
    """Nothing is open on either side."""
    pool.close()
    await until(lambda: pool.open == 0 and server.busy == 0)


@contextlib.asynccontextmanager
async def serve(*plays: Play, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """A server on a port of its own, for as long as the block lasts."""
    server = Server(plays)
    listener = await asyncio.start_server(server.accept, "127.0.0.1", 0, ssl=tls)
    port = listener.sockets[0].getsockname()[1]
    server.address = Address("localhost", port, tls=True) if tls else Address("127.0.0.1", port)
    try:
        yield server
    finally:
        listener.close()
        await server.stop()
        await asyncio.sleep(0.01)  # aborted transports close their sockets in the next rounds


def answering(*pieces: bytes, gap: float = 0.0, then: str = "") -> Play:
    """Answer each request with `pieces`; `then` is "close" or "reset" after the first answer."""

    async def play(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(*pieces, gap=gap)
            if then:
                peer.close() if then == "close" else peer.reset()
                return

    return play


Contexts = tuple[ssl.SSLContext, ssl.SSLContext]


def tls_contexts(folder: Path) -> Contexts:
    """A server's context with a certificate for localhost made just now, and a client's that trusts it."""
    key, cert = str(folder / "key.pem"), str(folder / "cert.pem")
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    named = ["-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert]
    subprocess.run([*made.split(), *named], check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cert, key)
    return server, ssl.create_default_context(cafile=cert)
