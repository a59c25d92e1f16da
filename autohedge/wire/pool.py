"""The connections to one replica, kept for reuse.

Rules
- The connection that rested last is used first, so that the others can expire.
- A connection that the peer closed at rest is dropped when the loop tells. When the request crosses the close, nothing
  comes back; then, and only then, it is sent once more on a fresh connection (B91): it was reused, and not one byte of
  an answer had come. The first-byte time goes on counting.
- There is no cap on the connections in use: in-flight requests are counted where candidates are chosen.
- A closed pool still serves who holds it; nothing rests in it any more.

It must not know: what the request means, or whether another replica could serve it.
"""

from __future__ import annotations

import asyncio

from autohedge.core.types import Address, Failure
from autohedge.wire.answer import Answer
from autohedge.wire.connection import Connection, Options
from autohedge.wire.errors import WireError, connect_failure
from autohedge.wire.trust import trusted


class Pool:
    """All connections to one replica. Not for use from several event loops."""

    def __init__(self, address: Address, options: Options) -> None:
        """Opens nothing. A TLS address without a context in `options` gets that of the system."""
        self._address = address
        self._options = options
        self._ssl = (options.ssl or trusted()) if address.tls else None
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._closed = False

    @property
    def idle(self) -> int:
        """Connections that wait for use."""
        return len(self._idle)

    @property
    def open(self) -> int:
        """Connections that are up, in use or idle. One that is still being opened does not count yet."""
        return len(self._open)

    async def exchange(
        self, head: bytes, body: bytes, *, method: bytes = b"POST", first_byte: float, stall: float
    ) -> Answer:
        """Send a request and wait for the final head of its answer.

        `first_byte` and `stall` are seconds: until the complete head, and between two pieces. The time that it takes to connect,
        itself bounded, is part of the first.
        The caller owns the answer and releases it. Raises WireError.
        """
        bodiless = method == b"HEAD"
        connection = self._warm()
        if connection is not None:
            answer = connection.send(head, body, bodiless=bodiless, stall=stall)
            try:
                return await answer.begin(first_byte)
            except WireError as error:
                if answer.heard or error.failure not in {Failure.SILENT, Failure.RESET}:
                    raise
                first_byte = connection.left
        loop = asyncio.get_running_loop()
        began = loop.time()
        connection = await self._connect(min(self._options.connect, first_byte))
        first_byte -= loop.time() - began
        return await connection.send(head, body, bodiless=bodiless, stall=stall).begin(first_byte)

    def close(self) -> None:
        """Close what is idle; what is in use closes when it is released. Sockets go in the loop's next round."""
        self._closed = True
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    # --- for the connections ---

    def rest(self, connection: Connection) -> bool:
        if self._closed or len(self._idle) >= self._options.max_idle:
            return False
        self._idle.append(connection)
        return True

    def lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    # --- within ---

    def _warm(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.fresh:
                return connection
            connection.close()
        return None

    async def _connect(self, patience: float) -> Connection:
        loop = asyncio.get_running_loop()
        connection = Connection(self, self._options, loop)
        try:
            async with asyncio.timeout(patience):
                await loop.create_connection(lambda: connection, self._address.host, self._address.port, ssl=self._ssl)
        except BaseException as error:
            connection.close()  # at once; the loop's own close would wait for the farewell of a TLS peer
            if isinstance(error, (OSError, UnicodeError)):  # UnicodeError: a host name that IDNA cannot encode
                raise WireError(connect_failure(error, tls=self._address.tls), sent=False) from None
            raise
        if not connection.alive:  # accepted and dropped at once, as a proxy without a backend does
            raise WireError(Failure.SILENT, sent=False)
        if self._options.guard is not None and not self._options.guard(connection.peer):
            connection.close()
            raise WireError(Failure.UNREACHABLE, sent=False)
        self._open.add(connection)
        return connection
