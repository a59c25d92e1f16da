"""Faults of HTTP and TCP, where one line of the table does not tell everything."""

from __future__ import annotations

import gzip
import time

import httpx
import pytest

from tests.engine.calls import CHAT, HELLO, LONG, Patience, Serve, ask, dial, listen, request, stream, talk


def test_close_on_reuse(serve: Serve) -> None:
    """B91: the second request of a connection gets FIN without a byte; httpx says so."""
    engine = serve("vllm", faults=["B91"])
    with dial(engine) as link:
        link.sendall(request(CHAT, HELLO))
        assert listen(link).status == 200
        link.sendall(request(CHAT, HELLO))
        second = listen(link)
        assert (second.data, second.end) == (b"", "closed")
    with httpx.Client() as client:
        assert client.post(engine.url + CHAT, json=HELLO).status_code == 200
        with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
            client.post(engine.url + CHAT, json=HELLO)


def test_idle_connections_are_closed(serve: Serve) -> None:
    """B92: FIN after the idle time, not before; a busy connection stays."""
    engine = serve("vllm", faults=["idle-close=1"])
    with dial(engine) as link:
        for _ in range(3):
            link.sendall(request(CHAT, HELLO))
            assert listen(link, Patience(fin=0.02)).end == "open"
        begun = time.monotonic()
        assert listen(link, LONG).end == "closed"
        assert time.monotonic() - begun > 0.9


def test_gzip_in_plain_and_stream(serve: Serve) -> None:
    """B95: the bytes are compressed, and a stream is readable chunk by chunk."""
    engine = serve("vllm", faults=["gzip"])
    assert ask(engine, CHAT, HELLO).json()["choices"]
    heard = stream(engine)
    assert b"content-encoding: gzip" in heard.head
    assert gzip.decompress(heard.body).endswith(b"data: [DONE]\n\n")


def test_false_lengths(serve: Serve) -> None:
    """B94: httpx sees an incomplete body; the short length leaves bytes where the next answer should begin."""
    engine = serve("vllm", faults=["B94"])
    with pytest.raises(httpx.RemoteProtocolError):
        ask(engine, CHAT, HELLO)
    engine.set_faults("short-content-length")
    assert ask(engine, CHAT, HELLO).content == b'{"'


@pytest.mark.parametrize("fault", ["garbage", "bad-chunk", "length-and-chunked"])
def test_no_client_accepts_broken_http(serve: Serve, fault: str) -> None:
    engine = serve("vllm", faults=[fault])
    if fault == "length-and-chunked":  # h11 lets the chunks win; what matters is that both framings are there
        assert talk(engine, request(CHAT, HELLO)).head.count(b"content-length: 2") == 1
        return
    with pytest.raises(httpx.RemoteProtocolError):
        ask(engine, CHAT, HELLO)


def test_early_413_comes_before_the_body(serve: Serve) -> None:
    """B104's other half: the answer is there while the client still sends."""
    engine = serve("vllm", faults=["early-413"])
    data = request(CHAT, {**HELLO, "pad": "x" * 200_000})
    with dial(engine) as link:
        link.sendall(data[:500])
        heard = listen(link)
        assert heard.status == 413
        link.sendall(data[500:])
        assert listen(link, LONG).end == "closed"
    assert engine.received[CHAT] == 1


def test_dribble_comes_in_many_reads(serve: Serve) -> None:
    """The gap is above one millisecond: below it uvloop writes the bytes together."""
    heard = talk(
        serve("vllm", faults=["dribble=0.002:times=1"]),
        request("/v1/completions", {"prompt": "a", "max_tokens": 1}),
    )
    assert heard.status == 200
    assert len(heard.reads) > 50


def test_resets_everywhere(serve: Serve) -> None:
    """RST before the head, and in the middle of plain and streamed answers."""
    engine = serve("vllm", faults=["reset"])
    assert talk(engine, request(CHAT, HELLO)).end == "reset"
    engine.set_faults("reset-after=1")
    assert talk(engine, request(CHAT, HELLO)).end == "reset"
    assert stream(engine).end == "reset"
