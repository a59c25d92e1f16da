"""How the control plane asks an engine one question: httpx, bounded in time and in bytes, and never an exception.

Rules
- What went wrong comes back as `Reply(status=0, failure=...)`, in the words of the transport (`Failure`) where one fits. Only a
  cancel passes through.
- `limit` bounds the whole exchange. The single waits inside end a little earlier, so that a silent engine is a time-out of
  httpx and not a cancel in the middle of its pool (httpx 0.28 loses connections that are cancelled while they are made).
- No environment proxies, no redirects, no cookies, nothing decompressed: an answer is what this address said, at most `MOST`
  bytes of it. More is no answer: half a JSON teaches nothing.
- A guarded place (its URL came over HTTP) is asked at an address that `guard` allows, which its name has now.
- Neither questions nor credentials are logged or named in a failure.

It must not know: what a question means, who is asked next.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import Callable, Sequence
from http.cookiejar import CookieJar, DefaultCookiePolicy
from types import MappingProxyType, TracebackType
from typing import Protocol, Self

import httpx

from autohedge.core.types import Address, Failure
from autohedge.providers.base import Question, Reply
from autohedge.watchers.apart import Apart
from autohedge.wire.trust import trusted

MOST = 4 << 20  # bytes of one answer
# In the place of a read stream: that and its response hold each other, and with them the question, which may be a whole prompt.
NOTHING_MORE = httpx.ByteStream(b"")
KEEP = 2.0  # seconds an idle connection is kept: under every engine's own limit
TRUSTLESS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # for plain HTTP: it trusts nobody and reads no certificates

Headers = Sequence[tuple[bytes, bytes]]


class Asking(Protocol):
    """Put `question` to the engine at `address` within `limit` seconds (None: the asker's own limit)."""

    async def __call__(
        self, address: Address, question: Question, headers: Headers = (), limit: float | None = None
    ) -> Reply: ...


class Asker:
    """The one asker of the process. `timeout` is seconds for a question that brings no limit of its own.

    Used as an async context manager by whoever owns it; `transport` replaces the network in tests.
    """

    def __init__(
        self,
        timeout: float = 5.0,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        guard: Callable[[str], bool] = lambda _address: True,
    ) -> None:
        self._timeout = timeout
        self._guard = guard
        self._client = httpx.AsyncClient(
            transport=Apart(_connections, KEEP) if transport is None else transport,
            trust_env=False,
            follow_redirects=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            headers={"accept": "application/json", "accept-encoding": "identity", "user-agent": "autohedge"},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def __call__(
        self, address: Address, question: Question, headers: Headers = (), limit: float | None = None
    ) -> Reply:
        """The engine's reply, or one with status 0 that says why there is none."""
        limit = self._timeout if limit is None else limit
        try:
            request = _request(self._client, address, question, headers, limit * 0.9)
        except (httpx.InvalidURL, TypeError, ValueError, RecursionError):
            return Reply(0, failure="the question cannot be written")
        heard: list[httpx.Response] = []
        try:
            async with asyncio.timeout(limit):
                if address.guarded:
                    return await self._guarded(request, address, heard)
                return await _exchange(self._client, request, heard)
        except TimeoutError:
            return Reply(0, failure=Failure.DEADLINE)
        except httpx.HTTPError as error:
            return Reply(0, failure=_failure(error, heard=bool(heard)))

    async def _guarded(self, request: httpx.Request, address: Address, heard: list[httpx.Response]) -> Reply:
        """The exchange at an address that the host has now, under the host's own name; none where one of them is not allowed."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return Reply(0, failure=Failure.UNREACHABLE)
        places = list(dict.fromkeys(str(place[0]) for *_, place in found))
        if not all(self._guard(place) for place in places):
            return Reply(0, failure=Failure.UNREACHABLE)
        request.extensions = {**request.extensions, "sni_hostname": address.host}
        for place in places[:-1]:
            request.url = request.url.copy_with(host=place)  # the Host header is written already
            with contextlib.suppress(httpx.ConnectError):
                return await _exchange(self._client, request, heard)
        request.url = request.url.copy_with(host=places[-1])
        return await _exchange(self._client, request, heard)


def _connections(tls: bool) -> httpx.AsyncBaseTransport:
    """None yet, to one place."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEEP)
    trust = trusted() if tls else TRUSTLESS
    return httpx.AsyncHTTPTransport(verify=trust, trust_env=False, limits=limits)


def _request(
    client: httpx.AsyncClient, address: Address, question: Question, headers: Headers, patience: float
) -> httpx.Request:
    content = None
    sent = list(headers)
    if question.json is not None:
        # Not httpx's own writer: it fails on lone surrogates, which a client's prompt may hold.
        content = json.dumps(dict(question.json), separators=(",", ":")).encode()
        sent.append((b"content-type", b"application/json"))
    return client.build_request(
        "GET" if content is None else "POST",
        f"{address}{question.path}",
        content=content,
        headers=sent,
        timeout=httpx.Timeout(patience),
    )


async def _exchange(client: httpx.AsyncClient, request: httpx.Request, heard: list[httpx.Response]) -> Reply:
    response = await client.send(request, stream=True)
    heard.append(response)
    try:
        if response.headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
            return Reply(0, failure="the answer is compressed, which was not asked for")
        body = bytearray()
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > MOST:
                return Reply(0, failure=f"the answer is over {MOST >> 20} MiB")
    finally:
        await response.aclose()
        response.stream = NOTHING_MORE
    return Reply(response.status_code, bytes(body), MappingProxyType(dict(response.headers)))


# What httpx raises, in the transport's words: before and after the head of the answer. The first row that fits decides.
_WORDS: tuple[tuple[type[httpx.HTTPError], Failure, Failure], ...] = (
    (httpx.ConnectTimeout, Failure.CONNECT_TIMEOUT, Failure.CONNECT_TIMEOUT),
    (httpx.ReadTimeout, Failure.FIRST_BYTE_TIMEOUT, Failure.STALLED),
    (httpx.TimeoutException, Failure.STALLED, Failure.STALLED),
    (httpx.RemoteProtocolError, Failure.MALFORMED, Failure.CUT),
    (httpx.NetworkError, Failure.RESET, Failure.RESET),
)


def _failure(error: httpx.HTTPError, *, heard: bool) -> str:
    """The transport's word for what went wrong. `heard`: the head of the answer had come."""
    if isinstance(error, httpx.ConnectError):
        return _not_connected(error)
    if "without sending a response" in str(error):
        return Failure.SILENT
    for kind, before, after in _WORDS:
        if isinstance(error, kind):
            return after if heard else before
    return type(error).__name__


def _not_connected(error: BaseException) -> Failure:
    """Refused, TLS or unreachable: httpx hides it behind several layers of causes and groups."""
    below: BaseException | None = error
    for _ in range(10):
        if isinstance(below, ConnectionRefusedError):
            return Failure.REFUSED
        if isinstance(below, ssl.SSLError):
            return Failure.TLS
        if isinstance(below, BaseExceptionGroup) and below.exceptions:
            below = below.exceptions[0]
        elif below is not None:
            below = below.__cause__ or below.__context__
    return Failure.UNREACHABLE
