"""From an answer to bytes: head, framing, and the script of pauses and chunks that the connection plays.

Rules
- A plain answer without pauses is one buffer, so that it costs one write.
- Streams are chunked for HTTP/1.1 and ended by closing for HTTP/1.0.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from http import HTTPStatus

from autohedge.engine.messages import Answer, Ending, Piece, Request

END = b"0\r\n\r\n"


@lru_cache(maxsize=256)
def _opening(status: int, server: bytes, name: str, kind: bytes) -> bytes:
    phrase = HTTPStatus(status).phrase if status in HTTPStatus.__members__.values() else ""
    lines = [b"HTTP/1.1 %d %s" % (status, phrase.encode())]
    if server:
        lines.append(b"server: " + server)
    lines.append(b"x-sample-engine: " + name.encode())
    if kind:
        lines.append(b"content-type: " + kind)
    return b"\r\n".join(lines) + b"\r\n"


def opening(answer: Answer, server: bytes, name: str, json_type: bytes) -> bytes:
    """Status line and headers, without the framing's own and the blank line."""
    kind = json_type if answer.type == b"application/json" else answer.type
    head = _opening(answer.status, server, name, kind)
    for pair in answer.headers:
        head += b"%s: %s\r\n" % pair
    return head


def whole(answer: Answer, head: bytes, request: Request) -> bytes:
    """A plain answer as one buffer."""
    size = len(answer.body) if answer.claimed is None else answer.claimed
    if answer.unframed:
        return b"%sconnection: close\r\n\r\n%s" % (head, answer.body)
    keep = b"" if request.keep_alive and not answer.close else b"connection: close\r\n"
    body = b"" if request.method == "HEAD" or answer.status in (204, 304) else answer.body
    return b"%s%s%scontent-length: %d\r\n\r\n%s" % (answer.before, head, keep, size, body)


def script(answer: Answer, head: bytes, request: Request) -> list[Piece]:
    """Everything to send, in order, each with the pause before it. The first pause is the answer's `wait`."""
    if answer.raw is not None:
        pieces = list(answer.raw)
    elif answer.pieces is None:
        pieces = [Piece(whole(answer, head, request))]
    else:
        pieces = _stream(answer, head, request)
    if answer.dribble is not None:
        pieces = list(_single_bytes(pieces, answer.dribble))
    if answer.wait and pieces:
        pieces[0] = Piece(pieces[0].data, pieces[0].what, pieces[0].pause + answer.wait)
    elif answer.wait:
        pieces = [Piece(b"", pause=answer.wait)]
    return pieces


def _stream(answer: Answer, head: bytes, request: Request) -> list[Piece]:
    sized = answer.claimed is not None
    chunked = request.version == "1.1" and not answer.unframed and not sized
    keep = b"" if (chunked or sized) and request.keep_alive and not answer.close else b"connection: close\r\n"
    framing = b"transfer-encoding: chunked\r\n" if chunked else b""
    framing = b"content-length: %d\r\n" % answer.claimed if answer.claimed is not None else framing
    pieces = [Piece(answer.before + head + keep + framing + b"\r\n")]
    if request.method == "HEAD":
        return pieces
    for piece in answer.pieces or ():
        data = b"%x\r\n%s\r\n" % (len(piece.data), piece.data) if chunked and piece.data else piece.data
        pieces.append(Piece(data, piece.what, piece.pause))
    if chunked and answer.ending is Ending.KEEP:
        pieces.append(Piece(b"0\r\n%s\r\n" % answer.trailers if answer.trailers else END))
    return pieces


def _single_bytes(pieces: Iterable[Piece], gap: float) -> Iterable[Piece]:
    for piece in pieces:
        yield Piece(b"", piece.what, piece.pause)
        for place in range(len(piece.data)):
            yield Piece(piece.data[place : place + 1], piece.what, gap)


def immediate(answer: Answer) -> bool:
    """Whether the answer can be sent in one go: nothing waits, and it ends properly."""
    if answer.wait or answer.raw is not None or answer.dribble is not None or answer.ending is not Ending.KEEP:
        return False
    return answer.pieces is None or not any(piece.pause for piece in answer.pieces)
