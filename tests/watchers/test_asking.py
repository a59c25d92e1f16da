"""One question to one engine, over real sockets."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from autohedge.core.types import Address, Failure
from autohedge.providers.base import Question, Reply
from autohedge.watchers.asking import MOST, Asker

Serve = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]
MODELS = Question("/v1/models")


@asynccontextmanager
async def engine(serve: Serve) -> AsyncIterator[Address]:
    """A raw server; `serve` gets the head and body of each request and writes what it likes."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
                await serve(head + await reader.readexactly(length), writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        host, port = server.sockets[0].getsockname()
        yield Address(host, port)
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


def ok(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *headers, b"", body]
    return b"\r\n".join(lines)


def asked(serve: Serve, question: Question = MODELS, limit: float = 60.0, **more: str) -> Reply:
    """The reply of a server to one question."""

    async def main() -> Reply:
        async with engine(serve) as address, Asker(limit) as ask:
            headers = [(name.encode(), value.encode()) for name, value in more.items()]
            return await ask(address, question, headers)

    return asyncio.run(main())


def test_an_answer_comes_back_as_it_is() -> None:
    """Status, body and headers in lower case; redirects are answers, not orders."""

    async def serve(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(ok(b'{"data":[]}', b"Location: http://elsewhere.example/", status=b"302 Found"))

    reply = asked(serve)
    assert (reply.status, reply.body, reply.failure) == (302, b'{"data":[]}', "")
    assert reply.headers["location"] == "http://elsewhere.example/"


def test_what_is_sent() -> None:
    """GET without a body, POST with compact JSON; the credential of the backend; nothing of the environment."""
    seen: list[bytes] = []

    async def serve(request: bytes, writer: asyncio.StreamWriter) -> None:
        seen.append(request)
        writer.write(ok(b"{}", b"Set-Cookie: a=1; Path=/"))

    async def main() -> None:
        async with engine(serve) as address, Asker() as ask:
            await ask(Address(address.host, address.port, prefix="/base"), MODELS)
            key = [(b"authorization", b"Bearer k")]
            await ask(address, Question("/tokenize", {"prompt": "\ud800 \u4f60", "n": [1]}), key)

    asyncio.run(main())
    get, post = (request.lower() for request in seen)
    assert get.startswith(b"get /base/v1/models http/1.1\r\n")
    assert b"accept-encoding: identity" in get
    assert b"authorization" not in get
    assert post.startswith(b"post /tokenize http/1.1\r\n")
    assert b"authorization: bearer k" in post
    assert b"content-type: application/json" in post
    assert b"cookie" not in post
    assert json.loads(seen[1].partition(b"\r\n\r\n")[2]) == {"prompt": "\ud800 \u4f60", "n": [1]}


@pytest.mark.parametrize("answer", [ok(b"{}"), ok(b"{}", b"Content-Encoding: gzip"), ok(b"{}")[:-1], b""])
def test_a_question_is_forgotten_when_it_is_answered(answer: bytes) -> None:
    """A question may hold a prompt of two megabytes: nothing of it waits for the cycle collector, which comes rarely."""

    async def serve(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        if answer != ok(b"{}"):
            writer.close()

    async def main() -> int:
        async with engine(serve) as address, Asker() as ask:
            gc.collect()
            gc.disable()
            for _ in range(3):
                await ask(address, Question("/tokenize", {"prompt": "hello"}))
            held = [one for one in gc.get_objects() if isinstance(one, httpx.Request)]
            return sum(one.url.port == address.port for one in held)

    try:
        assert asyncio.run(main()) == 0
    finally:
        gc.enable()


def test_the_environment_does_not_redirect_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy variable of the container must not send questions (and keys) elsewhere."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")

    async def serve(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(ok(b"{}"))

    assert asked(serve).status == 200


def closes(head: bytes = b"") -> Serve:
    async def serve(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        await writer.drain()
        writer.close()

    return serve


def hangs(head: bytes = b"") -> Serve:
    async def serve(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        await writer.drain()
        await asyncio.sleep(60)

    return serve


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"


@pytest.mark.parametrize(
    ("serve", "failure"),
    [
        (closes(), Failure.SILENT),
        (closes(b"SSH-2.0 hello\r\n\r\n"), Failure.MALFORMED),
        (closes(HEAD), Failure.CUT),
        (hangs(), Failure.FIRST_BYTE_TIMEOUT),
        (hangs(HEAD), Failure.STALLED),
    ],
)
def test_what_goes_wrong_has_the_words_of_the_transport(serve: Serve, failure: Failure) -> None:
    """Never an exception: status 0 and why. One silence may last nine tenths of the whole: a busy machine needs some of the rest."""
    assert asked(serve, limit=3.0) == Reply(0, failure=failure)


def test_nobody_listens() -> None:
    """A closed port, a name without address, TLS spoken to a plain server: three different words."""

    async def plain(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def main() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            closed = Address("127.0.0.1", taken.getsockname()[1])
            async with Asker(5) as ask:
                assert (await ask(closed, MODELS)).failure == Failure.REFUSED
                assert (await ask(Address("no-such-host.invalid", 80), MODELS)).failure == Failure.UNREACHABLE
                server = await asyncio.start_server(plain, "127.0.0.1", 0)
                reply = await ask(Address("127.0.0.1", server.sockets[0].getsockname()[1], tls=True), MODELS)
                assert reply.failure == Failure.TLS
                server.close()
                await server.wait_closed()

    asyncio.run(main())


def test_the_limit_bounds_the_whole_exchange() -> None:
    """An engine that sends a byte now and then does not hold the asker for ever."""

    async def drips(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with engine(drips) as address, Asker(60) as ask:
            started = loop.time()
            assert await ask(address, MODELS, (), 0.3) == Reply(0, failure=Failure.DEADLINE)
            assert loop.time() - started < 15  # it drips for twenty seconds

    asyncio.run(main())


def test_an_answer_is_bounded() -> None:
    """Over 4 MiB is no answer; exactly 4 MiB is one."""

    def sized(size: int) -> Serve:
        async def serve(_request: bytes, writer: asyncio.StreamWriter) -> None:
            writer.write(ok(b"x" * size))

        return serve

    assert len(asked(sized(MOST)).body) == MOST
    assert asked(sized(MOST + 1)) == Reply(0, failure="the answer is over 4 MiB")


def test_a_compressed_answer_is_none() -> None:
    """Nothing is decompressed: a few kilobytes could become gigabytes."""

    async def serve(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(ok(b"\x1f\x8b", b"Content-Encoding: gzip"))

    assert asked(serve).failure == "the answer is compressed, which was not asked for"


def test_what_cannot_be_written_is_a_failure_too() -> None:
    """A host that is no host, a body that is no JSON: no exception, and nothing of it in the reason."""

    async def main() -> list[str]:
        deep: list[object] = []
        for _ in range(100_000):
            deep = [deep]
        async with Asker() as ask:
            return [
                (await ask(Address("a..b", 80), MODELS)).failure,
                (await ask(Address("h", 80), Question("/x", {"a": object()}))).failure,
                (await ask(Address("h", 80), Question("/x", {"a": deep}))).failure,
                (await ask(Address("127.0.0.1", 9), MODELS, [(b"x", b"a\r\nb: c")])).failure,
            ]

    for failure in asyncio.run(main()):
        assert failure
        assert "object" not in failure
        assert "a..b" not in failure


def test_unusual_errors_of_httpx_keep_their_name() -> None:
    """Whatever httpx raises besides comes back as the name of it."""

    async def broken(request: httpx.Request) -> httpx.Response:
        raise httpx.UnsupportedProtocol("x", request=request)

    async def main() -> str:
        async with Asker(transport=httpx.MockTransport(broken)) as ask:
            return (await ask(Address("h", 1), MODELS)).failure

    assert asyncio.run(main()) == "UnsupportedProtocol"


def test_several_addresses_that_all_refuse() -> None:
    """A name with IPv4 and IPv6: httpx hides the refusals in a group of causes."""

    async def refused(request: httpx.Request) -> httpx.Response:
        causes = ExceptionGroup("all", [ConnectionRefusedError(111, "v6"), ConnectionRefusedError(111, "v4")])
        attempts = OSError("All connection attempts failed")
        attempts.__cause__ = causes
        raise httpx.ConnectError("x", request=request) from attempts

    async def main() -> str:
        async with Asker(transport=httpx.MockTransport(refused)) as ask:
            return (await ask(Address("h", 1), MODELS)).failure

    assert asyncio.run(main()) == Failure.REFUSED


def test_a_cancel_passes_through() -> None:
    """The one exception that leaves."""

    async def main() -> None:
        async with engine(hangs()) as address, Asker(60) as ask, asyncio.TaskGroup() as group:
            task = group.create_task(ask(address, MODELS))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())


def test_nothing_secret_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """No header values and no bodies in our own log lines."""
    with caplog.at_level(logging.DEBUG, logger="autohedge"):
        asked(closes(), Question("/x", {"prompt": "secret-prompt"}), authorization="Bearer secret-key")
    assert "secret" not in caplog.text


@pytest.mark.parametrize(("allowed", "status"), [(True, 200), (False, 0)])
def test_a_guarded_place_is_asked_at_an_address_that_is_allowed(allowed: bool, status: int) -> None:
    """Its URL came over HTTP (the workers API): its name is looked up and judged for each question; Host stays the name."""
    heads: list[bytes] = []

    async def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        heads.append(head)
        writer.write(ok(b"{}"))

    def guard(address: str) -> bool:
        return allowed and address in ("127.0.0.1", "::1")

    async def main() -> Reply:
        async with engine(serve) as address, Asker(guard=guard) as ask:
            assert (await ask(address, MODELS)).status == 200  # nobody's word but ours
            heads.clear()
            return await ask(Address("localhost", address.port, guarded=True), MODELS)

    heard = asyncio.run(main())
    assert heard.status == status
    assert [b"Host: localhost:" in head for head in heads] == [True] * bool(status)
    assert heard.failure == ("" if status else Failure.UNREACHABLE)


def test_a_guarded_place_that_has_no_address_is_unreachable() -> None:
    async def main() -> Reply:
        async with Asker() as ask:
            return await ask(Address("no-such-host.invalid", 80, guarded=True), MODELS)

    assert asyncio.run(main()).failure == Failure.UNREACHABLE
