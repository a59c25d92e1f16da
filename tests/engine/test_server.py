"""The engine's HTTP: keep-alive, pipelining, bodies in pieces, clients that leave, and slots."""

from __future__ import annotations

import json
import threading
import time

import pytest

from tests.engine.calls import CHAT, HELLO, Patience, Serve, ask, dial, listen, request, stream, talk, until
from tests.support.fair import Watch


def test_a_connection_is_used_again(serve: Serve) -> None:
    engine = serve("vllm")
    with dial(engine) as link:
        for _ in range(3):
            link.sendall(request(CHAT, HELLO))
            assert listen(link).status == 200
    assert engine.state.connections == 1
    assert engine.completed[CHAT] == 3


def test_pipelined_requests_are_answered_in_order(serve: Serve) -> None:
    """Three requests at once, the first of them slow."""
    engine = serve("vllm", faults=["slow=0.1:times=1"])
    heard = talk(engine, request(CHAT, HELLO) + request("/version") + request("/health"))
    places = [heard.data.find(text) for text in (b"chat.completion", b'"version"', b"content-length: 0")]
    assert places == sorted(places)
    assert -1 not in places


def test_a_body_may_come_byte_by_byte_and_chunked(serve: Serve) -> None:
    engine = serve("vllm")
    with dial(engine) as link:
        for byte in request(CHAT, HELLO):
            link.sendall(bytes([byte]))
        assert listen(link).status == 200
        body = json.dumps(HELLO).encode()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        link.sendall(head + b"%x\r\n%s\r\n" % (20, body[:20]) + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body) - 20, body[20:]))
        assert listen(link).status == 200
    assert engine.last_request is not None
    assert engine.last_request.body == body


def test_expect_is_answered_before_the_body(serve: Serve) -> None:
    """Facts 00b: real clients send Expect: 100-continue."""
    whole = request(CHAT, HELLO, headers={"Expect": "100-continue"})
    head, _, body = whole.partition(b"\r\n\r\n")
    with dial(serve("vllm")) as link:
        link.sendall(head + b"\r\n\r\n")
        assert listen(link).data == b"HTTP/1.1 100 Continue\r\n\r\n"
        link.sendall(body)
        assert listen(link).status == 200


def test_http_1_0_gets_a_stream_that_ends_by_closing(serve: Serve) -> None:
    data = request(CHAT, {**HELLO, "stream": True}).replace(b"HTTP/1.1", b"HTTP/1.0")
    heard = talk(serve("vllm"), data)
    assert heard.end == "closed"
    assert b"chunked" not in heard.head
    assert heard.events[-1] == "[DONE]"


def test_connection_close_is_obeyed(serve: Serve) -> None:
    heard = talk(serve("vllm"), request(CHAT, HELLO, headers={"Connection": "close"}))
    assert heard.end == "closed"
    assert b"connection: close" in heard.head


def test_head_has_a_head_only(serve: Serve) -> None:
    heard = talk(serve("vllm"), request("/v1/models", method="HEAD"))
    assert heard.status == 200
    assert heard.body == b""


def test_what_is_no_http_gets_400(serve: Serve) -> None:
    heard = talk(serve("vllm"), b"NONSENSE\r\n\r\n")
    assert (heard.status, heard.end) == (400, "closed")


def test_a_client_that_leaves_a_plain_answer_cancels_it(serve: Serve) -> None:
    """B97: the engine knows that nobody waits any more, and when."""
    engine = serve("vllm", latency=60.0)
    with dial(engine) as link:
        link.sendall(request(CHAT, HELLO))
        assert until(lambda: engine.state.running == 1)
    assert until(lambda: engine.cancelled[CHAT] == 1)
    assert until(lambda: engine.state.running == 0)
    assert engine.completed[CHAT] == 0
    assert engine.state.cancel_times[0][1] < 30.0


def test_a_client_that_leaves_a_stream_cancels_it(serve: Serve) -> None:
    """B98: the same in the middle of a stream."""
    engine = serve("vllm", pace=20.0)
    with dial(engine) as link:
        link.sendall(request(CHAT, {**HELLO, "stream": True}))
        assert link.recv(100)
    assert until(lambda: engine.cancelled[CHAT] == 1)
    assert until(lambda: engine.state.running == 0)


def test_pace_spreads_the_tokens(serve: Serve) -> None:
    """14 tokens at 20 per second: about 0.7 s, plain and streamed; the stream begins at once."""
    engine = serve("vllm", pace=20.0)
    watch = Watch()
    heard = stream(engine)
    assert watch.seconds < 5
    assert heard.first < heard.whole - 0.3
    assert heard.whole >= 0.6
    assert len(heard.reads) > 5
    plain = talk(engine, request(CHAT, HELLO))
    assert plain.first >= 0.6


def test_more_work_than_slots_waits_without_a_byte(serve: Serve) -> None:
    """real_backends 5: a queued stream of llama.cpp sends nothing, not even a head; health stays well."""
    engine = serve("llamacpp", slots=1, latency=3.0)
    with dial(engine) as first, dial(engine) as second:
        first.sendall(request(CHAT, HELLO))
        assert until(lambda: engine.state.running == 1)
        engine.state.latency = 0.0  # of the second
        second.sendall(request(CHAT, {**HELLO, "stream": True}))
        assert until(lambda: engine.state.waiting == 1)
        assert ask(engine, "/health").status_code == 200
        assert ask(engine, "/slots?fail_on_no_slot=1").status_code == 503
        assert listen(second, Patience(first=0.1)).data == b""
        assert listen(first).status == 200
        assert listen(second).status == 200


def test_a_waiting_client_that_leaves_frees_its_place(serve: Serve) -> None:
    engine = serve("llamacpp", slots=1, latency=3.0)
    with dial(engine) as first:
        first.sendall(request(CHAT, HELLO))
        assert until(lambda: engine.state.running == 1)
        with dial(engine) as second:
            second.sendall(request(CHAT, HELLO))
            assert until(lambda: engine.state.waiting == 1)
        assert until(lambda: engine.state.waiting == 0)
    assert until(lambda: engine.state.running == 0)
    engine.state.latency = 0.0
    assert ask(engine, CHAT, HELLO).status_code == 200


def test_a_slow_reader_gets_everything(serve: Serve) -> None:
    """A long stream waits for its reader instead of filling memory."""
    engine = serve("vllm", context=20_000, pace=1e6)
    body = {**HELLO, "stream": True, "max_tokens": 3000, "ignore_eos": True}
    with dial(engine) as link:
        link.sendall(request(CHAT, body))
        time.sleep(0.3)
        heard = listen(link)
    assert heard.events[-1] == "[DONE]"
    assert len(heard.text.split()) == 3000


@pytest.mark.parametrize("kind", ["vllm", "ollama"])
def test_many_clients_at_once(serve: Serve, kind: str) -> None:
    engine = serve(kind, latency=0.01)
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(ask(engine, CHAT, HELLO).status_code)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 20
