"""Journeys of clients: slow ones, those that leave, and two hundred at once."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from autohedge.engine.sample import SampleEngine
from tests.support.house import CHAT, HELLO, PATIENCE, SERVER, UNHURRIED, Edge, alone, eventually, house, pair, run

MIB = 1 << 20
Answerer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def raw_engine(answerer: Answerer) -> AsyncIterator[Edge]:
    """AutoHedge before an engine that does with its socket what `answerer` says; other paths are a 404."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"POST " + CHAT.encode()):
                await answerer(writer)
            else:
                writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    config = SERVER + "timeouts: {stall: 60s}\nupstream_registry:\n"
    config += f'  raw: {{host: "http://127.0.0.1:{port}", provider: openai-compatible, model: m}}\n'
    async with server, house(config) as edge:
        yield edge


def _request(**fields: object) -> bytes:
    body = json.dumps(HELLO | fields).encode()
    return b"POST %b HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n%b" % (CHAT.encode(), len(body), body)


def _rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_a_slow_client_slows_the_engine() -> None:
    """Back-pressure: who does not read stops the engine's socket; what AutoHedge holds is bounded, and nothing is lost."""

    def event(number: int) -> bytes:  # no two alike: a stream that says one thing again and again is no answer
        content = f"{number:06d}" + "x" * 65_000
        return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": content}}]}).encode() + b"\n\n"

    size = len(event(0))
    count = 40 * MIB // size
    sent = 0

    async def answerer(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.transport.set_write_buffer_limits(0)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        for number in range(count):
            writer.write(event(number))
            await writer.drain()
            sent += size
        writer.write(b"data: [DONE]\n\n")

    async def main() -> None:
        async with raw_engine(answerer) as edge:
            reader, writer = await asyncio.open_connection("127.0.0.1", edge.port, limit=1 << 16)
            writer.write(_request(stream=True))
            before = _rss()
            await eventually(lambda: sent > 0)
            last = -1
            while last != sent:  # until nothing moves any more
                last = sent
                await asyncio.sleep(0.15)
            assert sent < 20 * MIB  # two kernels' buffers and a little of ours
            assert _rss() - before < 4 * MIB
            got = 0
            async with asyncio.timeout(PATIENCE):
                tail = b""
                while b"[DONE]" not in tail:
                    piece = await reader.read(1 << 16)
                    got += len(piece)
                    tail = tail[-20:] + piece
            assert got > count * size
            assert edge.verdicts() in (["answer"], [])
            writer.close()

    run(main())


def test_a_large_plain_answer_that_breaks_off_is_seen_to() -> None:
    """A33: over a mebibyte the answer is committed; when it dies then, the client sees the cut and no short 200."""

    async def answerer(writer: asyncio.StreamWriter) -> None:
        body = b'{"object": "list", "data": [{"embedding": [' + b"0.25, " * (MIB // 2)
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (len(body) + 99)
        )
        writer.write(body)
        await writer.drain()

    async def main() -> None:
        async with raw_engine(answerer) as edge:
            heard = await edge.chat()
            assert heard.status == 200
            assert heard.cut
            assert edge.verdicts() == ["sick"]

    run(main())


def test_a_stream_with_a_length_is_cut_in_band() -> None:
    """B82, B94: an engine that announced a length and broke off: the error event still fits, since we do not repeat the length."""

    async def answerer(writer: asyncio.StreamWriter) -> None:
        event = b'data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n" + event)
        await writer.drain()

    async def main() -> None:
        async with raw_engine(answerer) as edge:
            heard = await edge.stream()
            assert (heard.status, heard.cut, heard.text) == (200, False, "hi")
            assert "body cut short" in heard.errors[-1]["message"]
            assert "content-length" not in heard.headers

    run(main())


def test_a_large_error_is_an_error() -> None:
    """A 500 with a mebibyte of traceback is a failed attempt like any other, not an answer to commit."""

    async def answerer(writer: asyncio.StreamWriter) -> None:
        body = json.dumps({"error": {"message": "x" * 2 * MIB}}).encode()
        writer.write(
            b"HTTP/1.1 500 No\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )
        await writer.drain()

    async def main() -> None:
        async with raw_engine(answerer) as edge:
            heard = await edge.chat()
            assert heard.status == 502
            assert heard.error["code"] == "upstream_failed"
            assert edge.verdicts() == ["sick"]
            assert edge.busy == 0

    run(main())


def test_a_stream_is_not_buffered() -> None:
    """A32: an engine that says its next word when the client has the last one: whoever kept a word back would wait for ever."""
    word = b'data: {"choices":[{"index":0,"delta":{"content":"word"}}]}\n\n'
    had = asyncio.Semaphore(0)

    async def answerer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        for _ in range(20):
            writer.write(word)
            await had.acquire()
        writer.write(b"data: [DONE]\n\n")

    async def main() -> None:
        async with raw_engine(answerer) as edge:
            reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
            writer.write(_request(stream=True))
            async with asyncio.timeout(PATIENCE):
                while b"[DONE]" not in (line := await reader.readline()):
                    if line == word[:-1]:
                        had.release()
            writer.close()

    run(main())


@pytest.mark.parametrize("seed", [1, 2])
def test_clients_that_leave_at_any_moment(seed: int) -> None:
    """A35, A36: 400 requests, each left after a random moment: seats, sockets and tasks are where they were, nothing counted
    against an engine, and the next request is served.
    """
    draw = random.Random(seed)

    async def main() -> None:
        async with pair(config=UNHURRIED, pace=300, latency=0.005) as edge:

            async def leave(number: int) -> None:
                await asyncio.sleep(draw.random() * 0.2)
                _, writer = await asyncio.open_connection("127.0.0.1", edge.port)
                whole = _request(stream=number % 2 == 0)
                writer.write(whole[: draw.randrange(len(whole)) if number % 5 == 0 else len(whole)])
                await asyncio.sleep(draw.random() * 0.06)
                writer.transport.abort() if number % 3 == 0 else writer.close()

            await asyncio.gather(*(leave(number) for number in range(400)))
            await eventually(lambda: edge.busy == 0 and edge.house.meters.in_flight == 0)
            assert set(edge.verdicts()) <= {"answer", "abandoned"}
            assert edge.state(0) == edge.state(1) == "closed"
            for number in (0, 1):
                await eventually(lambda: edge.pool(number).open == edge.pool(number).idle)  # noqa: B023 - awaited here
            assert (await edge.chat()).status == 200
            running = [task for task in asyncio.all_tasks() if task.get_name() == "exchange"]
            assert len(running) <= 1

    run(main())


def test_two_hundred_clients_get_their_own_answers() -> None:
    """T28: streams and plain answers over shared connections, some clients leaving: everybody gets what answers its question."""

    async def main() -> None:
        one, two = (SampleEngine("vllm", model="m", faults=["echo"], latency=0.01) for _ in range(2))
        config = (
            SERVER + 'upstream_registry:\n  pair: {hosts: ["${ONE}", "${TWO}"], concurrency: 20}\nqueue: {size: 400}\n'
        )
        async with house(config, one=one, two=two) as edge:

            async def ask(number: int) -> None:
                mark = f"question-{number}-{number * 7919}"
                body = HELLO | {"stream": number % 2 == 0, "messages": [{"role": "user", "content": mark}]}
                head = f"POST {CHAT} HTTP/1.1\r\nhost: h\r\nx-request-id: {mark}\r\nconnection: close\r\n"
                sent = json.dumps(body).encode()
                task = asyncio.create_task(edge.raw(f"{head}content-length: {len(sent)}\r\n\r\n".encode() + sent))
                if number % 10 == 9:
                    await asyncio.sleep(0.02)
                    task.cancel()
                    return
                got = await task
                assert got.startswith(b"HTTP/1.1 200 ")
                assert set(_marks(got)) == {mark.encode()}

            for _ in range(2):
                async with asyncio.TaskGroup() as group:
                    for number in range(200):
                        group.create_task(ask(number))
            await eventually(lambda: edge.busy == 0)

    run(main())


def _marks(body: bytes) -> list[bytes]:
    return re.findall(rb"question-\d+-\d+", body)


def test_pipelined_requests_are_answered_in_order() -> None:
    """RFC 9112: two requests in one write: two answers, the first one first."""

    async def main() -> None:
        async with alone("echo") as edge:
            two = b"".join(_request(messages=[{"role": "user", "content": f"question-{n}"}]) for n in (1, 2))
            reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
            writer.write(two)
            got = b""
            async with asyncio.timeout(PATIENCE):
                while got.count(b"HTTP/1.1 200") < 2 or not got.endswith(b"}"):
                    got += await reader.read(1 << 16)
            writer.close()
            assert 0 < got.index(b"question-1") < got.index(b"question-2")

    run(main())
