"""Records what a client really sends: runs a command and writes each request that comes, byte for byte.

    python -m tests.e2e.habits.record FOLDER NAME -- COMMAND...

The command finds the server's address in BASE_URL. Each request becomes FOLDER/NAME-N.http, with its Host set to a fixed one
so that two recordings of one client are equal. Answers are just good enough to keep a client going.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.e2e.habits.engines import ANSWER, STREAM

HOST = re.compile(rb"(?im)^(host: ).*?(\r?)$")


class Recorder:
    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._count = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as reader:
            while line := reader.readline():
                head = line
                while (line := reader.readline()) not in (b"\r\n", b"\n", b""):
                    head += line
                head += line
                fields = {
                    name.strip().lower(): value.strip()
                    for name, _, value in (text.partition(b":") for text in head.split(b"\r\n")[1:])
                }
                if fields.get(b"expect"):
                    connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                raw, body = _body(reader, fields)
                self._keep(HOST.sub(rb"\g<1>127.0.0.1:8000\2", head, count=1) + raw)
                connection.sendall(_answer(head.split(b" ")[1].decode(), body))
                if b"close" in fields.get(b"connection", b"").lower():
                    return

    def _keep(self, request: bytes) -> None:
        with self._lock:
            self._count += 1
            (self._folder / f"{self._name}-{self._count}.http").write_bytes(request)


def _body(reader: Any, fields: dict[bytes, bytes]) -> tuple[bytes, bytes]:
    """The body as it stood on the wire, and as it was meant."""
    if b"transfer-encoding" not in fields:
        body = reader.read(int(fields.get(b"content-length", b"0")))
        return body, body
    raw = body = b""
    while True:
        line = reader.readline()
        piece = reader.read(int(line.partition(b";")[0], 16) + 2)
        raw, body = raw + line + piece, body + piece[:-2]
        if len(piece) == 2:
            return raw, body


def _answer(path: str, body: bytes) -> bytes:
    try:
        asked = json.loads(body or b"{}")
    except ValueError:
        asked = {}
    mime, text = "application/json", ANSWER
    if "embeddings" in path:
        many = len(asked["input"]) if isinstance(asked.get("input"), list) else 1
        vector: Any = "AACAPwAAAEA=" if asked.get("encoding_format") == "base64" else [1.0, 2.0]
        data = [{"object": "embedding", "index": i, "embedding": vector} for i in range(many)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        text = json.dumps({"object": "list", "model": "vectors", "data": data, "usage": usage}).encode()
    elif path.endswith("/messages") or "/messages?" in path:
        content = [{"type": "text", "text": "kept"}]
        usage = {"input_tokens": 1, "output_tokens": 1}
        said = {"id": "m", "type": "message", "role": "assistant", "model": "tiny", "content": content, "usage": usage}
        text = json.dumps(said | {"stop_reason": "end_turn", "stop_sequence": None}).encode()
    elif "models" in path:
        card = {"id": "tiny", "object": "model", "created": 1, "owned_by": "a"}
        text = json.dumps({"object": "list", "data": [card]} if path.rstrip("/").endswith("models") else card).encode()
    elif "responses" in path:
        part = {"type": "output_text", "text": "kept", "annotations": []}
        item = {"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": [part]}
        begun: dict[str, Any] = {
            "id": "r",
            "object": "response",
            "created_at": 1,
            "status": "completed",
            "model": "tiny",
        }
        text = json.dumps(
            begun | {"output": [item], "parallel_tool_calls": True, "tools": [], "tool_choice": "auto"}
        ).encode()
    elif "chat" not in path and "completions" in path:
        text = ANSWER.replace(b'"message":{"role":"assistant","content":"kept"}', b'"text":"kept"')
    elif asked.get("stream"):
        mime, text = "text/event-stream", STREAM
    return f"HTTP/1.1 200 OK\r\ncontent-type: {mime}\r\ncontent-length: {len(text)}\r\n\r\n".encode() + text


def main(folder: str, name: str, *command: str) -> int:
    recorder = Recorder(Path(folder), name)
    return subprocess.run(command, env={**os.environ, "BASE_URL": recorder.url}, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], sys.argv[2], *sys.argv[4:]))
