"""`autohedge docker-guard`: stands before a Docker engine's socket and lets discovery read what it needs, and nothing else.

Whoever reaches a Docker socket is root on that machine, read-only mount or not. So the edge never gets it: this small server
does, on the managers, on an internal network. What may be asked is decided by `rules/guarding.py`, what leaves by
`rules/stripping.py`; here is only the way between.

Rules
- A question is written anew; no byte of the caller's request reaches the engine.
- An answer is read whole, up to a bound, and stripped. One that cannot be read is a 502, never passed on as it is. Most are
  those of a second ago, byte for byte; then what was made of them serves again.
- Event streams run until somebody ends them, so they have no time limit, but a number; a stop ends them at once.
- Errors of the engine keep their status and message: discovery reads them.
- Refusals are logged by method and path, no more than some a minute.

It must not know: what discovery does with the answers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from autohedge.listening import Server, tell_ready
from autohedge.rules.guarding import ALLOWED, Question, Refused, Subject, decide
from autohedge.rules.keeping import DEFAULT_ENV
from autohedge.rules.stripping import event, stripper
from autohedge.settings.addresses import parse_listen
from autohedge.wire.binding import BACKLOG, listen
from autohedge.wire.server import EdgeProtocol

LOGGER = logging.getLogger("autohedge.guard")
SOCKET = "/var/run/docker.sock"
LARGEST = 64 << 20  # bytes of an answer
LONGEST_EVENT = 256 << 10  # bytes of one event
QUESTIONS = 16  # asked of the engine at once; more wait
WAITING = 64  # more than these are turned away
STREAMS = 64
REMEMBERED = 16  # answers
TOLD_A_MINUTE = 20  # refusals
Send = Callable[[dict[str, Any]], Any]


def run(argv: Sequence[str], _env: Mapping[str, str]) -> int:
    """Serve until SIGTERM or SIGINT. 1 when the port is taken; a wrong command line ends with 2 (SystemExit)."""
    parser = argparse.ArgumentParser(
        "autohedge docker-guard", description=f"Let discovery read a Docker engine and nothing else: GET of {ALLOWED}."
    )
    parser.add_argument("--listen", default="0.0.0.0:2375", help="host:port (0.0.0.0:2375); never publish it")
    parser.add_argument("--socket", default=SOCKET, help=f"the engine's socket ({SOCKET})")
    parser.add_argument("--allow-env", default=",".join(sorted(DEFAULT_ENV)), metavar="NAME,...", help="(%(default)s)")
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds for one answer of the engine (10)")
    asked = parser.parse_args(argv)
    try:
        bind = parse_listen(asked.listen)
    except ValueError as error:
        parser.error(str(error))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    allowed = frozenset(name.strip() for name in asked.allow_env.split(",") if name.strip())
    try:
        return asyncio.run(_serve(bind, lambda: Guard(asked.socket, allowed, asked.timeout, time.monotonic)))
    except OSError as error:
        LOGGER.error("cannot listen on %s: %s", asked.listen, error.strerror)
        return 1


async def _serve(bind: tuple[str, int], make: Callable[[], Guard]) -> int:
    listener = listen(bind)
    guard = make()
    config = uvicorn.Config(
        guard, http=EdgeProtocol, ws="none", lifespan="off", loop="none", log_config=None, access_log=False,
        proxy_headers=False, server_header=False, date_header=False, backlog=BACKLOG, timeout_graceful_shutdown=5,
    )  # fmt: skip
    loop = asyncio.get_running_loop()

    def ended() -> None:
        loop.call_soon_threadsafe(guard.stop)

    server = Server(config, ended)
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises what it caught once more when all is done
        signal.signal(number, lambda _number, _frame: None)
    reach = await guard.reach()
    if reach:
        LOGGER.warning("%s", reach)
    say = asyncio.create_task(tell_ready(server, listener.getsockname(), lambda url: LOGGER.info("listens on %s", url)))
    try:
        await server.serve([listener])
    finally:
        say.cancel()
        await guard.close()
    return 0


class Guard:
    """The ASGI app."""

    def __init__(self, socket: str, allowed: frozenset[str], timeout: float, clock: Callable[[], float]) -> None:
        self._socket = socket
        self._clock = clock
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        transport = httpx.AsyncHTTPTransport(uds=socket, limits=limits)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://engine", timeout=timeout)
        self._forever = httpx.Timeout(timeout, read=None)
        self._timeout = timeout
        self._strip = {subject: stripper(subject, allowed) for subject in Subject if subject not in _BARE}
        self._turns = asyncio.Semaphore(QUESTIONS)
        self._waiting = 0
        self._streams: set[asyncio.Task[None]] = set()
        self._over = asyncio.Event()
        self._told: list[float] = []
        self._last: dict[str, tuple[bytes, bytes]] = {}  # target: what the engine said last, and what of it left

    async def __call__(self, scope: Mapping[str, Any], _receive: Any, send: Send) -> None:
        headers = dict(scope["headers"])
        body = headers.get(b"content-length", b"0").strip(b"0") != b"" or b"transfer-encoding" in headers
        method, path = scope["method"], scope["raw_path"].decode("latin-1")
        query = scope["query_string"].decode("latin-1")
        try:
            question = decide(method, path, query, upgrade=b"upgrade" in headers, body=body)
        except Refused as reason:
            self._tell(method, path)
            await _problem(send, 403, str(reason))
            return
        try:
            if question.subject is Subject.EVENTS:
                await self._events(question, send)
            else:
                await self._answer(question, send)
        except Unreachable as error:
            await _problem(send, error.status, str(error))

    def stop(self) -> None:
        """End the event streams, and begin no others."""
        self._over.set()
        for stream in self._streams:
            stream.cancel()

    async def close(self) -> None:
        await self._client.aclose()

    async def reach(self) -> str:
        """Why the engine does not answer, in one line; empty when it does."""
        try:
            await self._ask(Question(Subject.PING, "GET", "/_ping"))
        except Unreachable as error:
            return str(error)
        return ""

    def _tell(self, method: str, path: str) -> None:
        """One line about a refusal, unless many were told lately."""
        now = self._clock()
        self._told = [at for at in self._told if now - at < 60]
        if len(self._told) < TOLD_A_MINUTE:
            self._told.append(now)
            LOGGER.warning("refused: %.16r %.200r", method, path)

    # --- one answer -------------------------------------------------------------------------------------------------

    async def _answer(self, question: Question, send: Send) -> None:
        if self._waiting >= WAITING:
            raise Unreachable(503, "too many questions at once")
        self._waiting += 1
        try:
            async with self._turns:
                response, found = await self._ask(question)
        finally:
            self._waiting -= 1
        if response.status_code >= 300:
            await _problem(send, response.status_code if response.status_code >= 400 else 502, _message(found))
        elif question.subject in _BARE:
            await _whole(send, response.status_code, b"OK", b"text/plain; charset=utf-8", _kept(response.headers))
        elif question.method == "HEAD":
            await _whole(send, response.status_code, b"", b"application/json", ())
        else:
            await _whole(send, response.status_code, self._stripped(question, found), b"application/json", ())

    def _stripped(self, question: Question, found: bytes) -> bytes:
        before, made = self._last.pop(question.target, (b"", b""))
        if found != before or not found:
            try:
                made = json.dumps(self._strip[question.subject](json.loads(found)), separators=(",", ":")).encode()
            except (ValueError, RecursionError):
                raise Unreachable(502, "the engine's answer is no JSON") from None
        if len(found) <= LARGEST // 8:
            self._last[question.target] = found, made
        if len(self._last) > REMEMBERED:
            del self._last[next(iter(self._last))]
        return made

    async def _ask(self, question: Question) -> tuple[httpx.Response, bytes]:
        """The engine's answer, whole."""
        found = bytearray()
        try:
            async with (
                asyncio.timeout(self._timeout),
                self._client.stream(question.method, question.target) as response,
            ):
                async for piece in response.aiter_raw():
                    found += piece
                    if len(found) > LARGEST:
                        raise Unreachable(502, f"the engine's answer is over {LARGEST} bytes")
        except (httpx.HTTPError, OSError) as error:
            raise self._unreachable(error) from None
        return response, bytes(found)

    def _unreachable(self, error: Exception) -> Unreachable:
        if isinstance(error, TimeoutError | httpx.TimeoutException):
            return Unreachable(504, f"the engine did not answer within {self._timeout:g} s")
        try:
            group = Path(self._socket).stat().st_gid
        except OSError as missing:
            return Unreachable(502, f"there is no socket at {self._socket}: {missing.strerror}")
        if not os.access(self._socket, os.R_OK | os.W_OK, effective_ids=True):
            return Unreachable(502, f"no permission for {self._socket}: run as root or with its group, {group}")
        return Unreachable(502, f"the engine at {self._socket} does not answer: {type(error).__name__}")

    # --- events -----------------------------------------------------------------------------------------------------

    async def _events(self, question: Question, send: Send) -> None:
        if self._over.is_set() or len(self._streams) >= STREAMS:
            raise Unreachable(503, "too many event streams, or the guard is stopping")
        stream = asyncio.create_task(self._follow(question, send))
        self._streams.add(stream)
        try:
            await stream
        except asyncio.CancelledError:
            if not self._over.is_set():
                raise
            await send({"type": "http.response.body"})
        finally:
            self._streams.discard(stream)

    async def _follow(self, question: Question, send: Send) -> None:
        try:
            async with self._client.stream("GET", question.target, timeout=self._forever) as response:
                if response.status_code != 200:
                    raise Unreachable(max(response.status_code, 400), "the engine refuses its events")
                await send(_head(200, b"application/json", ()))
                await send({"type": "http.response.body", "more_body": True})
                async for line in _lines(response):
                    kept = _event(line)
                    if kept is not None:
                        piece = json.dumps(kept).encode() + b"\n"
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
        except httpx.ConnectError as error:
            raise self._unreachable(error) from None
        except httpx.HTTPError as error:
            LOGGER.warning("the engine broke its event stream off: %s", type(error).__name__)
        await send({"type": "http.response.body"})


_BARE = frozenset({Subject.PING, Subject.EVENTS})  # whose answers are no JSON document
_VERSIONS = ("api-version", "ostype", "server")  # headers of a ping by which a client finds its version


class Unreachable(Exception):  # noqa: N818 - becomes an answer
    """Why there is no answer of the engine."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def _lines(response: httpx.Response) -> AsyncIterator[bytes]:
    """The lines of a stream; one that is too long is left out."""
    rest, skipping = b"", False
    async for piece in response.aiter_raw():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if not skipping and line:
                yield line
            skipping = False
        if len(rest) > LONGEST_EVENT:
            rest, skipping = b"", True


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        return event(json.loads(line))
    except (ValueError, RecursionError):
        return None


def _message(found: bytes) -> str:
    """The engine's own words of an error."""
    try:
        said = json.loads(found)
    except (ValueError, RecursionError):
        said = None
    message = said.get("message") if isinstance(said, dict) else None
    return message[:1000] if isinstance(message, str) else "the engine refuses"


def _kept(headers: httpx.Headers) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.encode(), headers[name].encode("latin-1")) for name in _VERSIONS if name in headers)


def _head(status: int, kind: bytes, more: tuple[tuple[bytes, bytes], ...]) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": [(b"content-type", kind), *more]}


async def _whole(send: Send, status: int, body: bytes, kind: bytes, more: tuple[tuple[bytes, bytes], ...]) -> None:
    await send(_head(status, kind, more))
    await send({"type": "http.response.body", "body": body})


async def _problem(send: Send, status: int, message: str) -> None:
    """In Docker's own form, so that its clients show the message."""
    await _whole(send, status, json.dumps({"message": f"docker-guard: {message}"}).encode(), b"application/json", ())
