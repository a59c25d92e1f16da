"""One raw exchange on a connection of its own: the bytes go out as they are, the answer comes back whole."""

from __future__ import annotations

import http.client
import socket
from dataclasses import dataclass

PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer. `headers` have lower-case names and keep order and repeats."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    @property
    def ours(self) -> bool:
        """Answered by AutoHedge itself: no backend stands behind it."""
        return self.header("x-autohedge-backend") is None


def exchange(port: int, request: bytes, patience: float = PATIENCE) -> Heard:
    """Send a whole request and read the answer to its end; a 100 on the way is skipped."""
    with socket.create_connection(("127.0.0.1", port), patience) as connection:
        connection.sendall(request)
        answer = http.client.HTTPResponse(connection, method=request.split(b" ", 1)[0].decode("ascii", "replace"))
        try:
            answer.begin()
            body = answer.read()
        finally:
            answer.close()
    return Heard(answer.status, tuple((name.lower(), value) for name, value in answer.getheaders()), body)


def post(path: str, body: bytes, *headers: str, mime: str | None = "application/json") -> bytes:
    """A plain POST as most clients send it; `headers` are lines of the head."""
    lines = [f"POST {path} HTTP/1.1", "Host: autohedge.test"]
    if mime is not None:
        lines.append(f"Content-Type: {mime}")
    lines += [f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
