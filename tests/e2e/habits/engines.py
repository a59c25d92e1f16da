"""Counterparts of the end-to-end tests: the sample engine as a process, and a server that keeps what it was sent."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tests.support.processes import Child


def sample(*words: str) -> Child:
    """`autohedge engine` with these words, on a port of its own."""
    return Child(["autohedge", "engine", *words], "READY ")


@dataclass(frozen=True, slots=True)
class Kept:
    """A request as it arrived. `headers` have lower-case names and keep order and repeats."""

    line: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


ANSWER = (
    b'{"id":"1","object":"chat.completion","created":1,"model":"tiny","choices":[{"index":0,"finish_reason":"stop",'
    b'"message":{"role":"assistant","content":"kept"}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}'
)
STREAM = (
    b'data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"tiny","choices":[{"index":0,'
    b'"delta":{"content":"kept"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


class Keeper:
    """A server on plain sockets: reads by Content-Length, keeps every byte, answers a chat whatever the path is."""

    def __init__(self) -> None:
        self.kept: list[Kept] = []
        self.rest = b""  # bytes that came behind a request before it was answered: nobody may send those
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads: list[threading.Thread] = []
        self._connections: list[socket.socket] = []
        self._begin(self._accept)

    def _begin(self, work: object, *given: object) -> None:
        assert callable(work)
        thread = threading.Thread(target=work, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            self._begin(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        data = b""
        try:
            while True:
                while b"\r\n\r\n" not in data:
                    data += (piece := connection.recv(65536))
                    if not piece:
                        return
                head, _, data = data.partition(b"\r\n\r\n")
                line, *lines = head.split(b"\r\n")
                headers = tuple((name.lower(), value.strip()) for name, _, value in (x.partition(b":") for x in lines))
                length = int(dict(headers).get(b"content-length", b"0"))
                while len(data) < length:
                    data += (piece := connection.recv(65536))
                    if not piece:
                        return
                body, data = data[:length], data[length:]
                self.rest += data
                self.kept.append(Kept(line, headers, body))
                streamed = b'"stream":true' in body.replace(b" ", b"")
                text = STREAM if streamed else ANSWER
                mime = b"text/event-stream" if streamed else b"application/json"
                connection.sendall(
                    b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (mime, len(text), text)
                )
        except OSError:
            return

    def close(self) -> None:
        # a listener that is only closed leaves its accept waiting
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        for thread in self._threads:
            thread.join(5)

    def last(self) -> Kept:
        return self.kept[-1]


@contextmanager
def keeper() -> Iterator[Keeper]:
    made = Keeper()
    try:
        yield made
    finally:
        made.close()
