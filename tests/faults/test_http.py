"""Bug log (f), the HTTP layer: connections, framing, encodings, credentials."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib

import httpx
import pytest

from autohedge.engine.sample import SampleEngine
from tests.support.house import CHAT, HELLO, SERVER, TIMES, UNHURRIED, alone, eventually, house, pair, run, vllm


def test_a_connection_closed_on_reuse_is_replaced() -> None:
    """B91: the engine closes on the second request of every connection: one fresh connection, no error, no failure counted."""

    async def main() -> None:
        async with alone("B91") as edge:
            for _ in range(6):
                heard = await edge.chat()
                assert (heard.status, heard.attempts) == (200, 1)
            assert edge.verdicts() == ["answer"] * 6

    run(main())


def test_a_connection_closed_at_rest_is_noticed() -> None:
    """B92: an idle FIN between two requests costs nothing."""

    async def main() -> None:
        async with alone("B92=0.05") as edge:
            for _ in range(3):
                assert (await edge.chat()).status == 200
                await eventually(lambda: edge.pool().open == 0)
            assert edge.verdicts() == ["answer"] * 3

    run(main())


@pytest.mark.parametrize("fault", ["B94", "B94=open"])
def test_a_false_content_length_is_a_502(fault: str) -> None:
    """B94: 999 announced, two came: a clear error at once where the engine closed, after the stall time where it did not."""

    async def main() -> None:
        async with alone(fault) as edge:
            heard = await edge.chat()
            assert heard.status == (502 if fault == "B94" else 504)
            assert heard.took < 5
            assert edge.verdicts() == ["sick"]

    run(main())


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_a_compressed_answer_passes_raw(stream: bool) -> None:
    """B95: bytes, Content-Encoding and length are those of the engine; also for a stream, which nobody can look into."""

    async def main() -> None:
        async with alone("B95", config=UNHURRIED.replace(', "${TWO}"', ""), pace=20) as edge:
            heard = await edge.post(HELLO | {"stream": stream}, headers={"accept-encoding": "gzip"})
            assert heard.status == 200
            assert heard.headers["content-encoding"] == "gzip"
            plain = zlib.decompressobj(31).decompress(heard.body) if stream else gzip.decompress(heard.body)
            assert b"answers:" in plain
            assert heard.last - heard.first > 0.05 or not stream  # unbuffered
            assert edge.verdicts() == ["answer"]

    run(main())


def test_a_compressed_stream_that_breaks_off_is_cut() -> None:
    """B95, B82: no event of ours can stand inside of gzip; the client sees the cut, and it counts as a failure."""

    async def main() -> None:
        async with alone("B95", "B82") as edge:
            heard = await edge.post(HELLO | {"stream": True}, headers={"accept-encoding": "gzip"})
            assert heard.status == 200
            assert heard.cut
            assert edge.verdicts() == ["sick"]

    run(main())


@pytest.mark.parametrize("stream", [False, True], ids=["B97", "B98"])
def test_a_client_that_leaves_cancels_the_engine(stream: bool) -> None:
    """B97, B98, A35: the engine sees its client go within 200 ms, streamed or not; no failure, nothing left behind."""

    async def main() -> None:
        async with pair(config=UNHURRIED, pace=2) as edge:
            reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
            body = json.dumps(HELLO | {"stream": stream}).encode()
            writer.write(
                b"POST %b HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n" % (CHAT.encode(), len(body)) + body
            )
            if stream:
                await reader.readuntil(b"answers:")
            else:
                await eventually(lambda: edge.one.received[CHAT] == 1)
            writer.close()
            assert await eventually(lambda: edge.one.cancelled[CHAT] == 1) < 0.2
            await eventually(lambda: edge.verdicts() == ["abandoned"])
            assert edge.busy == 0
            assert edge.work["two"] == 0
            assert edge.state() == "closed"

    run(main())


EXTERNAL = SERVER + TIMES + 'upstream_registry:\n  paid: {host: "${ONE}", model: m, external: true, priority: 1KEY}\n'


def _headers(engine: SampleEngine) -> dict[str, str]:
    assert engine.last_request is not None
    return {name.decode().lower(): value.decode() for name, value in engine.last_request.headers}


@pytest.mark.parametrize("key", ["", ", api_key: sk-ours"], ids=["no key", "own key"])
def test_an_external_provider_never_sees_the_client_s_credentials(key: str) -> None:
    """B100: not in Authorization, not in api-key, x-api-key or any other header that may hold a second secret; the backend's
    own key goes where there is one.
    """
    secrets = {
        "authorization": "Bearer sk-client",
        "x-api-key": "sk-client",
        "x-portkey-api-key": "sk-client",
        "cookie": "sk-client",
        "x-local-path": "/home/sk-client",
    }

    async def main() -> None:
        async with alone(kind="openai-compatible", config=EXTERNAL.replace("KEY", key)) as edge:
            assert (await edge.post(headers=secrets)).status == 200
            seen = _headers(edge.one)
            assert "sk-client" not in json.dumps(seen)
            assert seen.get("authorization") == ("Bearer sk-ours" if key else None)
            assert seen["content-type"] == "application/json"

    run(main())


def test_a_missing_key_moves_on() -> None:
    """B100: an external provider that wants a key of ours which is missing: its 401 is our matter, the next entry serves."""
    both = EXTERNAL.replace("KEY", "") + '  house: {host: "${TWO}"}\n'

    async def main() -> None:
        one = SampleEngine("openai-compatible", model="m", key="sk-theirs")
        async with house(both, one=one, two=vllm()) as edge:
            heard = await edge.post(headers={"authorization": "Bearer sk-client"})
            assert (heard.status, heard.backend) == (200, "house")
            assert edge.verdicts() == ["answer", "misconfigured"]

    run(main())


@pytest.mark.parametrize(
    ("key", "sent", "seen"),
    [
        ("", {"authorization": "Bearer sk-client"}, {"authorization": "Bearer sk-client"}),
        ("", {"api-key": "sk-client"}, {"authorization": "Bearer sk-client"}),
        ("", {}, {}),
        (", api_key: sk-ours", {"authorization": "Bearer sk-client"}, {"authorization": "Bearer sk-ours"}),
        (", api_key: sk-ours", {"api-key": "sk-client", "x-api-key": "sk-client"}, {"authorization": "Bearer sk-ours"}),
    ],
    ids=["passthrough", "api-key is the bearer", "none", "inject", "inject replaces all"],
)
def test_each_backend_has_its_way_of_authorisation(key: str, sent: dict[str, str], seen: dict[str, str]) -> None:
    """B101: the client's token reaches an engine of ours that checks tokens itself; a backend's own key replaces it."""

    async def main() -> None:
        config = SERVER + TIMES + f'upstream_registry:\n  alone: {{host: "${{ONE}}"{key}}}\n'
        async with alone(config=config) as edge:
            assert (await edge.post(headers=sent)).status == 200
            got = _headers(edge.one)
            shown = {name: got[name] for name in ("authorization", "api-key", "x-api-key") if name in got}
            assert shown == seen

    run(main())


def test_a_base_url_with_a_path_and_a_slash() -> None:
    """B103: ".../base/" is the same as ".../base": no doubled slash reaches the engine."""

    async def main() -> None:
        config = SERVER + TIMES + 'upstream_registry:\n  alone: {host: "${ONE}/base/", provider: vllm, model: m}\n'
        async with alone(config=config) as edge:
            await edge.chat()
            request = edge.one.last_request
            assert request is not None
            assert request.target == b"/base/v1/chat/completions"

    run(main())


@pytest.mark.parametrize("row", ["B104", "early-413"])
def test_a_413_of_a_backend_is_json(row: str) -> None:
    """B104: HTML 413, after the body or while it is still being sent: 413 in the envelope; no retry."""

    async def main() -> None:
        async with pair(row, config=UNHURRIED) as edge:
            heard = await edge.chat(messages=[{"role": "user", "content": "x" * 2_000_000}])
            assert heard.status == 413
            assert heard.error["type"] == "invalid_request_error"
            assert "pair" in heard.error["message"]
            assert b"<html" not in heard.body
            assert edge.work == {"one": 1, "two": 0}
            assert edge.busy == 0

    run(main())


@pytest.mark.parametrize(
    "row",
    [
        "silent-close",
        "reset",
        "garbage",
        "bad-chunk",
        "length-and-chunked",
        "big-head",
        "short-content-length",
        "html-502",
    ],
)
def test_broken_http_fails_over(row: str) -> None:
    """Bytes that are no HTTP, two framings at once, a head of 70 kB, a page of HTML: the peer answers, nothing leaks."""

    async def main() -> None:
        async with pair(row) as edge:
            for stream in (False, True):
                heard = await edge.chat(stream=stream)
                assert (heard.status, heard.errors if stream else []) == (200, [])
                assert heard.headers["x-sample-engine"].endswith(str(edge.two.port))
            assert edge.busy == 0

    run(main())


def test_no_html_when_all_fail() -> None:
    """A40: a page of HTML from a proxy before the engine is no answer; the composed error names backends, not addresses."""

    async def main() -> None:
        async with alone("html-502") as edge:
            heard = await edge.chat()
            assert heard.status == 502
            assert heard.error["details"][0]["message"].startswith("alone: 502")
            assert str(edge.one.port).encode() not in heard.body

    run(main())


def test_a_slow_body_does_not_outlast_the_request() -> None:
    """B94, design 5: a body that trickles is stopped by the time for the whole request, not by the stall alone."""

    async def main() -> None:
        async with alone(
            "dribble=0.02", config=SERVER + "timeouts: {total: 600ms}\n" + 'upstream_registry: {a: {host: "${ONE}"}}'
        ) as edge:
            heard = await edge.chat()
            assert heard.status == 504
            assert heard.last > 0.5
            assert heard.took < 2
            assert edge.verdicts() == ["abandoned"]
            await eventually(lambda: edge.one.cancelled[CHAT] == 1)

    run(main())


def test_one_client_s_cookies_are_not_another_s() -> None:
    """A26, A29: both Set-Cookie lines of an engine arrive; no Cookie goes upstream with the next client."""

    async def main() -> None:
        async with alone("set-cookie") as edge:
            heard = await edge.chat()
            assert heard.headers.get_list("set-cookie") == ["a=1; Path=/", "b=2; Path=/"]
            async with httpx.AsyncClient() as other:
                await other.post(edge.url + CHAT, json=HELLO)
            assert "cookie" not in _headers(edge.one)

    run(main())
