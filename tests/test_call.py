"""The way back to the client: what was sent, counted and kept."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pytest

from autohedge.call import Call, Out
from autohedge.core.types import Door
from tests.support.vtime import run


class Client:
    def __init__(self) -> None:
        self.messages: list[MutableMapping[str, Any]] = []

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.messages.append(message)


def test_a_whole_answer_is_two_messages() -> None:
    client = Client()
    out = Out(client.send)
    run(out.whole(404, [(b"a", b"b")], b"body"))
    assert client.messages == [
        {"type": "http.response.start", "status": 404, "headers": [(b"a", b"b")]},
        {"type": "http.response.body", "body": b"body", "more_body": False},
    ]
    assert (out.status, out.started, out.ended, out.sent) == (404, True, True, 4)


def test_a_stream_is_a_start_and_its_pieces() -> None:
    client = Client()
    out = Out(client.send)

    async def main() -> None:
        await out.start(200, [])
        assert out.started
        assert not out.ended
        await out.write(b"one")
        assert not out.ended
        await out.write(b"", more=False)

    run(main())
    assert [message.get("body") for message in client.messages] == [None, b"one", b""]
    assert (out.sent, out.ended) == (3, True)


@pytest.mark.parametrize(("count", "chars"), [(False, 0), (True, 3)])
def test_characters_are_counted_where_a_log_wants_them(count: bool, chars: int) -> None:
    out = Out(Client().send, count=count)
    run(out.whole(200, [], "a你🌍".encode()))
    assert (out.chars, out.sent) == (chars, 8)


def test_no_more_than_so_much_is_kept() -> None:
    """debug keeps the beginning of a body; without it nothing is."""
    out, none = Out(Client().send, keep=5), Out(Client().send)

    async def main() -> None:
        for one in (out, none):
            await one.start(200, [])
            for piece in (b"abc", b"def", b"ghi"):
                await one.write(piece)

    run(main())
    assert (bytes(out.kept), bytes(none.kept), out.sent) == (b"abcde", b"", 9)


def test_two_calls_share_nothing() -> None:
    one, two = (Call(Door.CHAT, "/", b"", [], [], b"", "", b"", 0.0, 1.0) for _ in range(2))
    assert one.attempts is not two.attempts
    assert not one.poured


def test_a_character_cut_in_two_pieces_is_one() -> None:
    """E135: characters are counted whole, however a stream cuts them."""
    client, text = Client(), "aé€🙂".encode()
    for cut in range(len(text)):
        out = Out(client.send, count=True)
        run(out.write(text[:cut]))
        run(out.write(text[cut:]))
        assert out.chars == 4


def test_a_piece_that_somebody_else_sends_is_counted_and_kept() -> None:
    client = Client()
    out = Out(client.send, keep=3, count=True)
    out.passed("ähm".encode())
    assert (out.sent, out.chars, bytes(out.kept)) == (4, 3, "äh".encode())
    assert client.messages == []
