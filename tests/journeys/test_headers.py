"""Journeys of headers: what ends at this hop, what travels on, and what is ours. Heads are compared as bytes."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from tests.support.house import CHAT, HELLO, Edge, alone, run

BODY = json.dumps(HELLO).encode()


async def _sent(
    edge: Edge, *lines: str, path: str = CHAT, framing: str = ""
) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Send a request with exactly these header lines; the whole answer, and the headers that the engine saw."""
    framing = framing or f"content-length: {len(BODY)}"
    head = "\r\n".join([f"POST {path} HTTP/1.1", "Host: client.example", *lines, framing, "connection: close"])
    body = BODY
    if "chunked" in framing:
        body = b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (10, BODY[:10], len(BODY) - 10, BODY[10:])
    got = await edge.raw(head.encode("latin-1") + b"\r\n\r\n" + body)
    request = edge.one.last_request
    assert request is not None
    return got, request.headers


def test_a_bare_request_stays_bare() -> None:
    """A27, A28: Host is the engine's own, the length is right, and nothing is added but the mark that ends circles."""

    async def main() -> None:
        async with alone() as edge:
            _, seen = await _sent(edge)
            assert seen == [
                (b"host", f"127.0.0.1:{edge.one.port}".encode()),
                (b"cdn-loop", f"autohedge-{edge.house.boot}".encode()),
                (b"content-length", str(len(BODY)).encode()),
            ]

    run(main())


def test_a_chunked_request_goes_up_with_its_length() -> None:
    """A27: a correct Content-Length, no second framing, the same bytes."""

    async def main() -> None:
        async with alone() as edge:
            _, seen = await _sent(edge, framing="transfer-encoding: chunked")
            names = [name for name, _ in seen]
            assert names.count(b"content-length") == 1
            assert b"transfer-encoding" not in names
            request = edge.one.last_request
            assert request is not None
            assert request.body == BODY

    run(main())


HOP = (
    "Keep-Alive: timeout=5",
    "Proxy-Authenticate: x",
    "Proxy-Authorization: x",
    "TE: trailers",
    "Trailer: x",
    "Upgrade: h2c",
)


def test_hop_by_hop_headers_end_here_on_the_way_up() -> None:
    """A25: the eight names, Proxy-Connection, and what Connection names (X-Foo)."""

    async def main() -> None:
        async with alone() as edge:
            _, seen = await _sent(
                edge, *HOP, "Proxy-Connection: keep-alive", "Connection: X-Foo", "X-Foo: hop", "X-Bar: end"
            )
            kept = {name.lower() for name, _ in seen}
            assert kept == {b"host", b"content-length", b"x-bar", b"cdn-loop"}

    run(main())


def test_hop_by_hop_headers_end_here_on_the_way_down() -> None:
    """A25: Connection: x-foo, X-Foo and Keep-Alive of the engine do not arrive."""

    async def main() -> None:
        async with alone("connection-header") as edge:
            heard = await edge.chat()
            assert heard.status == 200
            assert not {"x-foo", "keep-alive"} & set(heard.headers)
            assert heard.headers.get("connection") in (None, "keep-alive")

    run(main())


def test_repeated_headers_arrive_repeated() -> None:
    """A26: two X-A of the client, in their order."""

    async def main() -> None:
        async with alone() as edge:
            _, seen = await _sent(edge, "X-A: 1", "X-B: x", "X-A: 2")
            assert [value for name, value in seen if name == b"x-a"] == [b"1", b"2"]

    run(main())


def test_trace_headers_and_the_query_travel_on() -> None:
    """W3C trace context, an SDK's own headers and ?v=1 arrive as they came."""

    async def main() -> None:
        async with alone() as edge:
            lines = (
                "traceparent: 00-a-b-01",
                "tracestate: x=1",
                "X-Stainless-Lang: python",
                "User-Agent: OpenAI/Python",
            )
            _, seen = await _sent(edge, *lines, path=CHAT + "?v=1&x=%20")
            assert [name for name, _ in seen][1:-1] == [
                b"traceparent",
                b"tracestate",
                b"x-stainless-lang",
                b"user-agent",
                b"cdn-loop",
            ]
            assert edge.one.requests[-1].target == b"/v1/chat/completions?v=1&x=%20"

    run(main())


def test_an_answer_names_its_request_and_its_backend() -> None:
    """A24: X-Request-ID is made, or the client's own is echoed; backend, model and attempts stand beside it."""

    async def main() -> None:
        async with alone() as edge:
            first, second = await edge.chat(), await edge.chat()
            assert re.fullmatch(r"[0-9a-f]{16}-\w+", first.headers["x-request-id"])
            assert first.headers["x-request-id"] != second.headers["x-request-id"]
            assert (first.backend, first.headers["x-autohedge-model"], first.attempts) == ("alone", "m", 1)
            assert "x-autohedge-rung" not in first.headers
            for answer in (
                await edge.post(headers={"x-request-id": "mine-1"}),
                await edge.post(b"{", headers={"x-request-id": "mine-1"}),
                await edge.get("/nowhere", headers={"x-request-id": "mine-1"}),
            ):
                assert answer.headers["x-request-id"] == "mine-1"
                assert answer.headers.get_list("x-request-id") == ["mine-1"]

    run(main())


def test_an_expectation_is_answered_here() -> None:
    """`Expect: 100-continue` (curl): the client hears 100 from us; the engine never sees the header."""

    async def main() -> None:
        async with alone() as edge:
            reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
            head = f"POST {CHAT} HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: {len(BODY)}\r\n\r\n"
            writer.write(head.encode())
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
            writer.write(BODY)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            writer.close()
            assert edge.one.last_request is not None
            assert edge.one.last_request.header("expect") is None

    run(main())


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_an_old_client_is_served(stream: bool) -> None:
    """HTTP/1.0: never chunked, the connection ends with the answer."""

    async def main() -> None:
        async with alone() as edge:
            body = json.dumps(HELLO | {"stream": stream}).encode()
            got = await edge.raw(b"POST %b HTTP/1.0\r\ncontent-length: %d\r\n\r\n%b" % (CHAT.encode(), len(body), body))
            head, _, rest = got.partition(b"\r\n\r\n")
            assert b" 200 " in head.partition(b"\r\n")[0]
            assert b"chunked" not in head.lower()
            assert rest.endswith(b"[DONE]\n\n") if stream else json.loads(rest)["choices"]

    run(main())


def test_an_engine_s_own_autohedge_headers_are_not_doubled() -> None:
    """Another AutoHedge may stand behind this one: the outer one's names stand, once."""

    async def main() -> None:
        async with alone() as inner:
            config = (
                f'server: {{listen: "127.0.0.1:0"}}\nupstream_registry: {{outer: {{host: "{inner.url}", model: m}}}}\n'
            )
            async with alone(config=config) as outer:
                heard = await outer.chat()
                assert heard.status == 200
                assert heard.headers.get_list("x-autohedge-backend") == ["outer"]
                assert heard.headers.get_list("x-request-id") == [heard.headers["x-request-id"]]

    run(main())
