"""Whom a TLS peer must be vouched for by."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from autohedge.core.types import Address
from autohedge.providers.base import Question
from autohedge.watchers.asking import Asker
from autohedge.wire.connection import Options
from autohedge.wire.pool import Pool
from autohedge.wire.trust import trusted
from tests.wire.raw import BODY, HEAD, OK, answering, serve, tls_contexts


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    trusted.cache_clear()
    yield
    trusted.cache_clear()


async def exchanged(address: Address) -> bytes:
    """What the data path reads there."""
    pool = Pool(address, Options())
    answer = await pool.exchange(HEAD, BODY, first_byte=5.0, stall=5.0)
    body = await answer.read()
    answer.release()
    pool.close()
    return body


def test_the_data_path_and_the_probes_believe_the_same_peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An authority that the system knows (here by SSL_CERT_FILE) is enough for both; one context serves them."""
    server_context, _ = tls_contexts(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))

    async def main() -> None:
        async with serve(answering(OK), tls=server_context) as server, Asker() as ask:
            assert await exchanged(server.address) == b"hi"
            assert (await ask(server.address, Question("/"))).body == b"hi"

    asyncio.run(main())
    assert trusted.cache_info().misses == 1


def test_plain_http_reads_no_certificates() -> None:
    """That takes 20 ms and a megabyte."""

    async def main() -> None:
        async with serve(answering(OK)) as server, Asker() as ask:
            assert await exchanged(server.address) == b"hi"
            assert (await ask(server.address, Question("/"))).body == b"hi"

    asyncio.run(main())
    assert trusted.cache_info().misses == 0
