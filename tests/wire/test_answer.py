"""Framing without sockets: what the parser makes of bytes, however they are split."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.core.types import Failure
from autohedge.wire.answer import Answer
from autohedge.wire.errors import WireError

CL = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\nx-a: 2\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKS = CHUNKED + b"3\r\nhel\r\n2;ext=1\r\nlo\r\n0\r\nTrailer-X: 1\r\n\r\n"
TO_CLOSE = b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\nhello"
OLD = b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"


class FakeLink:
    """Never waits: a read that would wait is an error of the test."""

    def __init__(self) -> None:
        self.parted = 0
        self.drains = 0

    async def wait(self, seconds: float) -> None:
        raise AssertionError(f"waited {seconds} s")

    def drained(self) -> None:
        self.drains += 1

    def part(self) -> None:
        self.parted += 1


def fed(pieces: Iterable[bytes], *, bodiless: bool = False, max_head: int = 65536) -> Answer:
    answer = Answer(FakeLink(), bodiless=bodiless, stall=1.0, max_head=max_head)
    for piece in pieces:
        if answer.failure is None:
            answer.feed(piece)
    return answer


def bytewise(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def read_all(answer: Answer) -> bytes:
    async def main() -> bytes:
        body = b""
        while piece := await answer.read():
            body += piece
        return body

    return asyncio.run(main())


@pytest.mark.parametrize("message", [CL, CHUNKS, OLD, INTERIM + CL, INTERIM + CHUNKS], ids=range(5))
def test_a_message_split_at_every_byte_reads_the_same(message: bytes) -> None:
    for cut in range(len(message) + 1):
        answer = fed([message[:cut], message[cut:]])
        assert (answer.status, answer.ended, answer.failure) == (200, True, None)
        assert answer.take() == b"hello"
    answer = fed(bytewise(message))
    assert (answer.ended, answer.take()) == (True, b"hello")


def test_header_names_are_lowered_and_order_repeats_and_values_kept() -> None:
    assert fed([CL]).headers == [(b"content-length", b"5"), (b"x-a", b"1"), (b"x-a", b"2")]


def test_trailers_and_headers_of_interim_answers_are_dropped() -> None:
    assert fed(bytewise(INTERIM + CHUNKS)).headers == [(b"transfer-encoding", b"chunked")]


def test_one_piece_of_body_is_handed_on_as_it_came() -> None:
    answer = fed([CL[:-5], b"hello"])
    first = answer._pieces[0]
    assert answer.take() is first
    assert answer.take() == b""


def test_taking_empties_the_buffer_and_tells_the_connection() -> None:
    link = FakeLink()
    answer = Answer(link, bodiless=False, stall=1.0, max_head=100)
    answer.feed(CHUNKS)
    assert answer.held == 5
    assert answer.take() == b"hello"
    assert (answer.held, link.drains) == (0, 1)


@pytest.mark.parametrize(
    ("message", "reusable"),
    [
        (CL, True),
        (CHUNKS, True),
        (OLD, False),
        (OLD.replace(b"\r\n\r\n", b"\r\nConnection: keep-alive\r\n\r\n"), True),
        (CL.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), False),
        (CL.replace(b"\r\n\r\n", b"\r\nConnection: keep-alive, close\r\n\r\n"), False),
        (b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS[len(CHUNKED) :], False),
        (CL + b"x", False),
        (CL + CL, False),
        (CL + b"HTTP/1.1 2", False),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", True),
        (b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", True),
    ],
)
def test_whether_the_connection_may_be_used_again(message: bytes, reusable: bool) -> None:
    for pieces in ([message], bytewise(message)):
        answer = fed(pieces)
        assert (answer.ended, answer.failure, answer.reusable) == (True, None, reusable)


def test_a_head_request_ends_with_the_head_whatever_it_announces() -> None:
    for message in (CL[:-5], CL, CHUNKS, TO_CLOSE):
        answer = fed([message], bodiless=True)
        assert (answer.status, answer.ended, answer.take()) == (200, True, b"")
        assert not answer.reusable
        assert answer.headers


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    answer = fed([TO_CLOSE])
    assert not answer.ended
    answer.close(None)
    assert (answer.ended, answer.reusable, read_all(answer)) == (True, False, b"hello")


def test_a_body_without_a_length_that_is_reset_is_not_complete() -> None:
    answer = fed([TO_CLOSE])
    answer.close(Failure.RESET)
    assert answer.take() == b"hello"
    assert answer.failure is Failure.RESET


def test_our_own_closing_does_not_complete_a_stalled_body() -> None:
    """The abort after a stall also ends the stream; that is no proper end."""
    answer = fed([TO_CLOSE])
    answer.fail(Failure.STALLED)
    answer.close(None)
    assert (answer.ended, answer.failure) == (False, Failure.STALLED)


@pytest.mark.parametrize(
    "message",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 600 Odd\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\r\n folded\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        b"HTTP/1.1 200 OK\r\nX : a\r\n\r\n",
    ],
)
def test_a_doubtful_head_is_malformed(message: bytes) -> None:
    for pieces in ([message], bytewise(message)):
        answer = fed(pieces)
        assert answer.failure is Failure.MALFORMED
        assert (answer.status, answer.ended, answer.reusable) == (0, False, False)


@pytest.mark.parametrize(
    "chunk", [b"zz\r\n", b"-2\r\nhi", b"0x2\r\nhi", b"fffffffffffffffff\r\nhi", b"2\nhi", b"2\r\nhiX"]
)
def test_a_bad_chunk_is_malformed_after_what_came_before_it(chunk: bytes) -> None:
    for pieces in ([CHUNKED + b"1\r\na\r\n" + chunk], bytewise(CHUNKED + b"1\r\na\r\n" + chunk)):
        answer = fed(pieces)
        assert answer.take() in {b"a", b"ahi"}
        with pytest.raises(WireError, match="not valid HTTP"):
            read_all(answer)


@pytest.mark.parametrize("size", [1000, 10])
def test_a_head_over_the_bound_is_too_big_however_it_comes(size: int) -> None:
    message = b"HTTP/1.1 200 OK\r\n" + b"x-header: %b\r\n" % (b"a" * 50) * 20 + b"Content-Length: 2\r\n\r\nhi"
    for pieces in ([message], [message[:800], message[800:]], bytewise(message)):
        assert fed(pieces, max_head=size).failure is Failure.TOO_BIG
        assert fed(pieces, max_head=2000).take() == b"hi"


def test_interim_answers_and_empty_lines_count_as_head() -> None:
    assert fed([INTERIM] * 100, max_head=1000).failure is Failure.TOO_BIG
    assert fed([b"\r\n"] * 1000, max_head=1000).failure is Failure.TOO_BIG


def test_a_long_body_in_the_same_read_is_not_a_big_head() -> None:
    body = b"x" * 5000
    answer = fed([b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + body], max_head=100)
    assert answer.take() == body


def test_endless_chunk_extensions_and_trailers_are_bounded() -> None:
    for start in (b"2;", b"2\r\nhi\r\n0\r\nx: "):
        assert fed([CHUNKED, start, *[b"a" * 100] * 100], max_head=1000).failure is Failure.MALFORMED


@pytest.mark.parametrize(
    ("message", "failure"),
    [
        (b"", Failure.SILENT),
        (CL[:9], Failure.CUT),
        (CL[:-5], Failure.CUT),
        (CL[:-1], Failure.CUT),
        (CHUNKS[:-1], Failure.CUT),
    ],
)
def test_a_message_that_the_peer_closes_on(message: bytes, failure: Failure) -> None:
    """B94: a truncated body is told, not waited for."""
    answer = fed([message] if message else [])
    answer.close(None)
    assert (answer.ended, answer.failure) == (False, failure)


@pytest.mark.parametrize("cut", range(len(CHUNKS)))
def test_a_chunked_answer_cut_anywhere_is_never_complete(cut: int) -> None:
    answer = fed([CHUNKS[:cut]] if cut else [])
    answer.close(None)
    assert not answer.ended


@pytest.mark.parametrize("message", [CL, CHUNKS, CHUNKED + b"zz", CL + b"x"], ids=range(4))
def test_a_finished_answer_leaves_no_work_for_the_collector(message: bytes) -> None:
    """Answer and parser hold each other; the ring is broken when the message ends, not at the next collection."""
    fed([message])
    while gc.collect():
        pass  # what ends in one collection may leave something to the next
    fed([message])
    assert gc.collect() == 0


def test_release_is_idempotent_and_what_arrived_can_still_be_read() -> None:
    link = FakeLink()
    answer = Answer(link, bodiless=False, stall=1.0, max_head=100)
    answer.feed(CHUNKED + b"3\r\nhel\r\n")
    answer.release()
    answer.release()
    assert link.parted == 1

    async def main() -> None:
        assert await answer.read() == b"hel"
        with pytest.raises(WireError) as caught:
            await answer.read()
        assert (caught.value.failure, caught.value.sent) == (Failure.CUT, True)

    asyncio.run(main())


def test_a_complete_answer_can_be_read_after_release() -> None:
    answer = fed([CHUNKS])
    answer.release()
    assert (answer.failure, read_all(answer)) == (None, b"hello")


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=12),
    st.lists(st.integers(min_value=0, max_value=800), max_size=12),
    st.booleans(),
)
def test_chunked_framing_never_changes_the_body(chunks: list[bytes], cuts: list[int], upper: bool) -> None:
    """B83: bodies pass unchanged whatever the chunks and the reads."""
    size = "%X" if upper else "%x"
    message = CHUNKED + b"".join(b"%b\r\n%b\r\n" % ((size % len(c)).encode(), c) for c in chunks) + b"0\r\n\r\n"
    places = sorted({0, len(message), *(cut for cut in cuts if cut < len(message))})
    answer = fed([message[a:b] for a, b in pairwise(places)])
    assert (answer.ended, answer.reusable, answer.take()) == (True, True, b"".join(chunks))


@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_break_the_parser(junk: bytes, chunked: bool) -> None:
    """Any bytes end in an answer, a failure, or waiting; nothing else is raised."""
    answer = fed([CHUNKED, junk] if chunked else [junk])
    answer.close(None)
    assert answer.ended or answer.failure is not None
