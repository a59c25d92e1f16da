"""An engine that streams at a steady pace and writes into each chunk when it left (nanoseconds of the system's monotonic clock).

    python -m tests.e2e.habits.ticking

It serves the model "tick". A stream has `max_tokens` chunks, `seed` of them per second; its last chunk holds the CRC of all
bytes before it, so that a reader can tell that none was lost or changed.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import time
import zlib
from typing import cast

import uvloop

from autohedge.parent import announce

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
START = b'data: {"id":"t","object":"chat.completion.chunk","created":1,"model":"tick","choices":[{"index":0,"delta":{"content":"'
LAST = b'"},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
MODELS = b'{"object":"list","data":[{"id":"tick","object":"model","created":1,"owned_by":"tests"}]}'
REST = b'"},"finish_reason":null}]}\n\n'


class Ticking(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, found, body = self._data.partition(b"\r\n\r\n")
        if not found:
            return
        length = next((int(x[15:]) for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:")), 0)
        if len(body) < length:
            return
        self._data = body[length:]
        if head.startswith(b"POST /v1/chat"):
            asked = json.loads(body[:length])
            self._left, self._gap = asked["max_tokens"], 1 / asked["seed"]
            self._crc = 0
            self._transport.write(HEAD)
            self._due = time.monotonic() + random.random() * self._gap
            self._next()
        else:
            status, text = (b"200 OK", MODELS) if b"/v1/models" in head[:20] else (b"404 Not Found", b"{}")
            self._transport.write(
                b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
                % (status, len(text), text)
            )

    def connection_lost(self, _exc: Exception | None) -> None:
        self._left = -1

    def _next(self) -> None:
        asyncio.get_running_loop().call_later(max(0.0, self._due - time.monotonic()), self._tick)

    def _tick(self) -> None:
        if self._left < 0:
            return
        self._left -= 1
        if self._left:
            event = START + b"%d" % time.monotonic_ns() + REST
            self._crc = zlib.crc32(event, self._crc)
            self._transport.write(b"%x\r\n%b\r\n" % (len(event), event))
            self._due += self._gap
            self._next()
        else:
            event = START + b"crc %d" % self._crc + LAST + DONE
            self._transport.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(event), event))


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Ticking, "127.0.0.1", 0, backlog=4096)
    announce(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()


if __name__ == "__main__":
    uvloop.run(main())
