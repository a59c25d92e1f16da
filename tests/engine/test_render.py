"""From an answer to bytes."""

from __future__ import annotations

from autohedge.engine.messages import Answer, Ending, Piece, Request, What, plain
from autohedge.engine.render import immediate, opening, script, whole


def request(method: str = "POST", version: str = "1.1") -> Request:
    found = Request(1)
    found.method, found.version = method, version
    return found


def test_opening() -> None:
    head = opening(plain({}, 404, [(b"x-a", b"1")]), b"uvicorn", "me", b"application/json; charset=utf-8")
    assert head == (
        b"HTTP/1.1 404 Not Found\r\nserver: uvicorn\r\nx-sample-engine: me\r\n"
        b"content-type: application/json; charset=utf-8\r\nx-a: 1\r\n"
    )


def test_a_status_without_a_phrase() -> None:
    """B34: 529 is outside http.HTTPStatus."""
    assert opening(plain({}, 529), b"", "me", b"").startswith(b"HTTP/1.1 529 \r\n")


def test_whole_and_its_framing() -> None:
    answer = plain({"a": 1})
    assert whole(answer, b"H\r\n", request()) == b'H\r\ncontent-length: 7\r\n\r\n{"a":1}'
    assert whole(answer, b"H\r\n", request("HEAD")) == b"H\r\ncontent-length: 7\r\n\r\n"
    answer.close = True
    assert b"connection: close\r\n" in whole(answer, b"H\r\n", request())
    answer.unframed = True
    assert whole(answer, b"H\r\n", request()) == b'H\r\nconnection: close\r\n\r\n{"a":1}'


def test_a_stream_is_chunked_and_ended() -> None:
    answer = Answer(pieces=[Piece(b"one", What.CONTENT), Piece(b"two" * 6, What.DONE, 0.5)])
    assert [piece.data for piece in script(answer, b"H\r\n", request())] == [
        b"H\r\ntransfer-encoding: chunked\r\n\r\n",
        b"3\r\none\r\n",
        b"12\r\n" + b"two" * 6 + b"\r\n",
        b"0\r\n\r\n",
    ]
    assert [piece.pause for piece in script(answer, b"", request())] == [0, 0, 0.5, 0]


def test_a_cut_stream_has_no_end() -> None:
    answer = Answer(pieces=[Piece(b"one")], ending=Ending.CUT)
    assert script(answer, b"", request())[-1].data == b"3\r\none\r\n"


def test_http_1_0_is_not_chunked() -> None:
    sent = b"".join(piece.data for piece in script(Answer(pieces=[Piece(b"one")]), b"H\r\n", request(version="1.0")))
    assert sent == b"H\r\nconnection: close\r\n\r\none"


def test_the_wait_comes_before_the_head() -> None:
    answer = plain({})
    answer.wait = 2.0
    assert script(answer, b"", request())[0].pause == 2.0
    assert [piece.pause for piece in script(Answer(raw=[], wait=3.0), b"", request())] == [3.0]


def test_dribble_is_one_byte_at_a_time() -> None:
    answer = plain({})
    answer.dribble = 0.1
    pieces = script(answer, b"H\r\n", request())
    assert {len(piece.data) for piece in pieces} == {0, 1}
    assert b"".join(piece.data for piece in pieces) == whole(answer, b"H\r\n", request())


def test_what_can_be_sent_at_once() -> None:
    assert immediate(plain({}))
    assert immediate(Answer(pieces=[Piece(b"a")]))
    assert not immediate(Answer(pieces=[Piece(b"a", pause=0.1)]))
    assert not immediate(Answer(wait=1.0))
    assert not immediate(Answer(ending=Ending.RESET))
    assert not immediate(Answer(raw=[]))
