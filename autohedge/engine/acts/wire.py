"""Faults of HTTP and TCP: closed and reset connections, false lengths, encodings, odd heads."""

from __future__ import annotations

import gzip
import zlib

from autohedge.engine.acts.scene import Act, Scene, parts
from autohedge.engine.messages import FOREVER, Answer, Ending, Piece, What, text


def close_silently(_: Scene) -> Answer:
    """FIN without one byte."""
    return Answer(raw=[], ending=Ending.CUT)


def close_on_reuse(scene: Scene) -> Answer:
    """The first request of a connection is answered, the second gets FIN without one byte (B91)."""
    return close_silently(scene) if scene.request.turn > 1 else scene.answer()


def reset(_: Scene) -> Answer:
    """RST without one byte."""
    return Answer(raw=[], ending=Ending.RESET)


def long_length(scene: Scene) -> Answer:
    """Content-Length 999 and two bytes; then FIN, or silence with `arg` "open" (B94)."""
    pieces = [Piece(b"{}", What.CONTENT)]
    if scene.arg == "open":
        return Answer(pieces=[*pieces, Piece(b"", pause=FOREVER)], claimed=999)
    return Answer(pieces=pieces, claimed=999, ending=Ending.CUT)


def short_length(scene: Scene) -> Answer:
    """A Content-Length of two and a longer body: the rest stands where the next answer is expected."""
    answer = scene.answer()
    answer.claimed = 2
    return answer


def encoded(scene: Scene) -> Answer:
    """The answer with Content-Encoding gzip; a stream is flushed after every chunk (B95)."""
    answer = scene.answer()
    answer.headers.append((b"content-encoding", b"gzip"))
    if answer.pieces is None:
        answer.body = gzip.compress(answer.body, mtime=0)
        return answer
    packer = zlib.compressobj(wbits=31)
    for piece in answer.pieces:
        piece.data = packer.compress(piece.data) + packer.flush(zlib.Z_SYNC_FLUSH)
    answer.pieces.append(Piece(packer.flush()))
    return answer


def headers(*pairs: tuple[bytes, bytes]) -> Act:
    """More headers on the healthy answer."""

    def act(scene: Scene) -> Answer:
        answer = scene.answer()
        answer.headers += pairs
        return answer

    return act


def big_head(scene: Scene) -> Answer:
    """A header of `arg` bytes."""
    return headers((b"x-big", b"x" * int(scene.number())))(scene)


def until_close(scene: Scene) -> Answer:
    """No length and no chunks: the body ends when the connection closes (HTTP/1.0 style)."""
    answer = scene.answer()
    answer.unframed = True
    return answer


def informational(scene: Scene) -> Answer:
    """103 Early Hints ahead of the answer."""
    answer = scene.answer()
    answer.before = b"HTTP/1.1 103 Early Hints\r\nlink: </x>; rel=preload\r\n\r\n"
    return answer


def trailers(scene: Scene) -> Answer:
    """A chunked body with a trailer."""
    answer = parts(scene.answer())
    answer.claimed, answer.trailers = None, b"x-trailer: kept\r\n"
    return answer


def raw(data: bytes) -> Act:
    """These bytes instead of HTTP, then FIN."""

    def act(_: Scene) -> Answer:
        return Answer(raw=[Piece(data)], ending=Ending.CUT)

    return act


def dribble(scene: Scene) -> Answer:
    """Head and body one byte at a time, `arg` seconds between."""
    answer = scene.answer()
    answer.dribble = scene.number()
    return answer


def early_413(_: Scene) -> Answer:
    """413 as soon as the head is read: the body is still on its way."""
    answer = text("<html><body><h1>413 Request Entity Too Large</h1></body></html>", 413, b"text/html")
    answer.close = True
    return answer
