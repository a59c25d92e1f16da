"""A client that hides nothing: it sends bytes, and tells every byte that came, when, and how it ended."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from autohedge.engine.sample import SampleEngine
from tests.support.fair import Watch

Serve = Callable[..., SampleEngine]
CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hello there"}]}
ASKED: dict[str, Any] = {
    "model": "m",
    "state": "I was charged twice.",
    "questions": {
        "b": {"type": "noul", "instructions": "Billing?"},
        "t": {"type": "choice", "instructions": "Tone?", "criteria": {"calm": None, "angry": "hostile"}},
        "s": {"type": "score", "instructions": "Severity?", "criteria": ["low", "high"]},
    },
}


def words(number: int) -> dict[str, Any]:
    """A chat whose prompt has exactly `number` tokens: two for the template, three for the message, the rest words."""
    return {"model": "m", "messages": [{"role": "user", "content": "a " * (number - 5)}]}


@dataclass
class Heard:
    """What came back. `end` is "open" (nothing more for a while), "closed" (FIN) or "reset" (RST)."""

    data: bytes = b""
    end: str = "open"
    first: float = 0.0  # seconds until the first byte
    whole: float = 0.0  # seconds until the last byte
    reads: list[bytes] = field(default_factory=list)

    @property
    def status(self) -> int:
        return int(self.data[9:12])

    @property
    def head(self) -> bytes:
        return self.data.partition(b"\r\n\r\n")[0].lower()

    @property
    def complete(self) -> bool:
        """Whether the answer has its length, or its last chunk."""
        found = re.search(rb"content-length: (\d+)", self.head)
        if found is None:
            return self.data.endswith(b"\r\n0\r\n\r\n")
        return len(self.data.partition(b"\r\n\r\n")[2]) == int(found[1])

    @property
    def chunks(self) -> list[bytes]:
        """The chunks of a chunked body, the empty last one too."""
        rest, found = self.data.partition(b"\r\n\r\n")[2], []
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            length = int(size, 16)
            found.append(rest[:length])
            rest = rest[length + 2 :]
        return found

    @property
    def body(self) -> bytes:
        if b"transfer-encoding: chunked" in self.head:
            return b"".join(self.chunks)
        return self.data.partition(b"\r\n\r\n")[2]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The data of every event, parsed where it is JSON."""
        found: list[Any] = []
        for line in self.body.decode().replace("\r\n", "\n").split("\n"):
            if line.startswith("data:"):
                text = line[5:].strip()
                found.append(json.loads(text) if text.startswith("{") else text)
        return found

    @property
    def text(self) -> str:
        """The text of a chat stream."""
        choices = [choice for event in self.events if isinstance(event, dict) for choice in event.get("choices") or ()]
        return "".join((choice.get("delta") or {}).get("content") or "" for choice in choices)


def request(path: str, obj: Any = None, method: str = "", headers: Mapping[str, str] | None = None) -> bytes:
    """A request as bytes: a POST of JSON when there is an object."""
    body = b"" if obj is None else json.dumps(obj).encode()
    lines = [f"{method or ('GET' if obj is None else 'POST')} {path} HTTP/1.1", "Host: engine"]
    if obj is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def dial(engine: SampleEngine) -> socket.socket:
    return socket.create_connection((engine.host, engine.port), timeout=60)


@dataclass(frozen=True)
class Patience:
    """How long to wait, in seconds: for the first byte, between bytes, and for a FIN after a complete answer. What a busy machine
    adds does not count.
    """

    first: float = 5.0
    between: float = 0.5
    fin: float = 0.05


NORMAL = Patience()
SHORT = Patience(first=0.2)  # where nothing must come
LONG = Patience(fin=30.0)  # where the end must come


def listen(link: socket.socket, patience: Patience = NORMAL) -> Heard:
    """Read until the answer is complete, the peer closes, or nothing comes any more."""
    heard, begun = Heard(), time.monotonic()
    wait = patience.first
    while True:
        try:
            piece = _within(link, wait)
        except TimeoutError:
            return heard
        except ConnectionResetError:
            heard.end = "reset"
            return heard
        if not piece:
            heard.end = "closed"
            return heard
        if not heard.data:
            heard.first = time.monotonic() - begun
        heard.reads.append(piece)
        heard.data += piece
        heard.whole = time.monotonic() - begun
        wait = patience.fin if heard.complete else patience.between
        if b"connection: close" in heard.head:  # a FIN must come
            wait = LONG.fin


def _within(link: socket.socket, seconds: float) -> bytes:
    """The next bytes; TimeoutError where none came."""
    watch = Watch()
    while True:
        link.settimeout(max(0.01, seconds - watch.seconds))
        try:
            return link.recv(65536)
        except TimeoutError:
            if watch.seconds >= seconds or watch.wall > LONG.fin:
                raise


def talk(engine: SampleEngine, data: bytes, patience: Patience = NORMAL) -> Heard:
    """One request on a connection of its own."""
    with dial(engine) as link:
        link.sendall(data)
        return listen(link, patience)


def stream(engine: SampleEngine, obj: dict[str, Any] | None = None, path: str = CHAT) -> Heard:
    return talk(engine, request(path, {**(obj or HELLO), "stream": True}))


def ask(engine: SampleEngine, path: str, obj: Any = None, **more: Any) -> httpx.Response:
    """An ordinary call."""
    method = more.pop("method", "GET" if obj is None else "POST")
    return httpx.request(method, engine.url + path, json=obj, timeout=60, verify=False, trust_env=False, **more)


def until(true: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Wait for something that another thread does."""
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.005)
    return true()


def reachable(engine: SampleEngine) -> bool:
    """Whether something listens there."""
    try:
        dial(engine).close()
    except (ConnectionRefusedError, ConnectionResetError):  # reset: it closed between the two steps of the handshake
        return False
    return True
