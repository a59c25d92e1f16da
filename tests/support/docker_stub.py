"""A Docker API of a manager on a real unix socket, in threads of its own: what it lists is given, its troubles as well.

    with DockerStub(tmp_path / "docker.sock") as engine:
        engine.services = [service("vllm-a")]
        engine.tell()                                     # an event for everybody who listens
        engine.refusals["/tasks"] = (503, "This node is not a swarm manager. ...")

Everything that is not GET is counted in `writes` and refused, and so is GET /info.
"""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingMixIn, UnixStreamServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.support.swarm import network, node

EVENT = {"Type": "service", "Action": "update", "scope": "swarm", "time": 1}


class DockerStub:
    """Starts when it is entered; `stop` and `start` are an engine that goes away and comes back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.services: list[Any] = []
        self.tasks: list[Any] = []
        self.nodes: list[Any] = [node()]
        self.networks: list[Any] = [network()]
        self.raw: dict[str, bytes] = {}  # answers that are given as they are
        self.refusals: dict[str, tuple[int, str]] = {}
        self.hangs: set[str] = set()
        self.version = "1.41"
        self.asked: Counter[str] = Counter()
        self.paths: list[str] = []
        self.writes: list[str] = []
        self.streams: list[socket.socket] = []
        self.lock = threading.Lock()
        self._server: _Server | None = None
        self._ended = threading.Event()

    @property
    def host(self) -> str:
        return f"unix://{self.path}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self._ended = threading.Event()
        server = self._server = _Server(self)
        threading.Thread(target=server.serve_forever, args=(0.01,), name="docker stub", daemon=True).start()

    def stop(self) -> None:
        """Every connection is cut and the socket goes."""
        self._ended.set()
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            for one in list(server.sockets):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
        self.path.unlink(missing_ok=True)

    def tell(self) -> None:
        """Send one event."""
        line = json.dumps(EVENT).encode() + b"\n"
        with self.lock:
            streams = list(self.streams)
        for stream in streams:
            with suppress(OSError):
                stream.sendall(f"{len(line):x}\r\n".encode() + line + b"\r\n")

    def hang_up(self) -> None:
        """End all event streams, as an engine that restarts does."""
        with self.lock:
            streams = list(self.streams)
        for stream in streams:
            with suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, bytes]:
        if path in self.hangs:
            self._ended.wait(30)
        if path in self.refusals:
            status, message = self.refusals[path]
            return status, json.dumps({"message": message}).encode()
        if path in self.raw:
            return 200, self.raw[path]
        filters = json.loads(query.get("filters", ["{}"])[0])
        if path == "/tasks":
            wanted = filters.get("desired-state")
            return 200, json.dumps([one for one in self.tasks if not wanted or one["DesiredState"] in wanted]).encode()
        if path == "/networks":
            name = filters.get("name", [""])[0]
            return 200, json.dumps([one for one in self.networks if name in one["Name"]]).encode()
        if path in {"/services", "/nodes"}:
            return 200, json.dumps(self.services if path == "/services" else self.nodes).encode()
        return (200, b"OK") if path == "/_ping" else (404, b'{"message":"page not found"}')


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128  # an engine's is longer still; a unix socket whose queue is full refuses at once

    def __init__(self, stub: DockerStub) -> None:
        self.stub = stub
        self.sockets: set[socket.socket] = set()
        super().__init__(str(stub.path), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A peer that goes away is no fault of a test."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def setup(self) -> None:
        StreamRequestHandler.setup(self)
        self.server.sockets.add(self.connection)

    def finish(self) -> None:
        self.server.sockets.discard(self.connection)
        StreamRequestHandler.finish(self)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
        """Nothing is logged."""

    def do_GET(self) -> None:
        stub: DockerStub = self.server.stub
        parts = urlsplit(self.path)
        stub.paths.append(self.path)
        first = parts.path.split("/")[1]
        path = parts.path.removeprefix(f"/{first}") if first.startswith("v1.") else parts.path
        stub.asked[path] += 1
        if path == "/info":
            stub.writes.append(path)
        if path == "/events" and path not in stub.refusals:
            self._events(stub)
            return
        status, body = stub.answer(path, parse_qs(parts.query))
        self.send_response(status)
        self.send_header("Api-Version", stub.version)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _refuse(self) -> None:
        self.server.stub.writes.append(f"{self.command} {self.path}")
        self.send_error(405)

    def do_POST(self) -> None:
        self._refuse()

    def do_PUT(self) -> None:
        self._refuse()

    def do_DELETE(self) -> None:
        self._refuse()

    def _events(self, stub: DockerStub) -> None:
        with stub.lock:  # who sees the head may tell at once
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.flush()
            stub.streams.append(self.connection)
        try:
            while self.connection.recv(1024):  # until the peer or the stub hangs up
                pass
        finally:
            stub.streams.remove(self.connection)
            self.close_connection = True
