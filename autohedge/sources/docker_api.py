"""The Docker API read only: lists, piece by piece, and the stream of events. Blocking; for threads of our own.

Rules
- GET only, and never /info: a guard need not allow more than /services, /tasks, /nodes, /networks, /events and /_ping.
- The version is the engine's own, at most `NEWEST`: an old engine refuses a newer one, a new engine refuses an old one. Where a
  guard refuses /_ping, paths go without a version.
- Proxies and certificates of the environment do not count: REQUESTS_CA_BUNDLE would take the place of the configured one.
- A list is decoded one element at a time, with rests between (own_thread.py): decoding holds the interpreter, and the
  event loop must not wait for megabytes. A list over `LIMIT` bytes is refused.
- Every failure is an `ApiError` with one sentence (docker_errors.py).

It must not know: what a service is, the event loop.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import requests
from docker.tls import TLSConfig
from docker.types import CancellableStream
from urllib3.exceptions import HTTPError

from autohedge.sources.docker_errors import ApiError, refused, unreachable
from autohedge.sources.own_thread import Breath

NEWEST = (1, 45)
LAZY = "1.41"  # any version keeps the SDK from asking in its constructor
LIMIT = 256 << 20  # bytes of one list
PIECE = 1 << 16
AGAIN = 0.02  # seconds until a full queue of callers is tried again
QUIET = 90.0  # seconds without an event after which the stream is opened anew: a dead peer looks the same

_FAILURES = (requests.exceptions.RequestException, HTTPError, OSError, docker.errors.DockerException)
_BLANK = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the API is and how patient we are; `ca`, `cert` and `key` are paths, "" where there is none."""

    host: str
    timeout: float = 4.0
    ca: str = ""
    cert: str = ""
    key: str = ""


class DockerApi:
    """One client. Not for two threads at once, but for `close`, which ends a stream that another thread reads."""

    def __init__(self, place: Place) -> None:
        """Contacts nobody."""
        self._place = place
        self._client: docker.APIClient | None = None
        self._base = ""
        self._stream: CancellableStream[bytes] | None = None

    def list(self, path: str, filters: Mapping[str, Sequence[str]] | None = None) -> Iterator[Any]:
        """The elements of a list, decoded as they are taken. The request is made at once."""
        params = {"filters": json.dumps(filters)} if filters else None
        return elements(self._read(path, params).decode("utf-8", "replace"), self.who(path))

    def read(self, path: str, filters: Mapping[str, Sequence[str]] | None = None) -> bytes:
        """A list as it came."""
        return self._read(path, {"filters": json.dumps(filters)} if filters else None)

    def who(self, path: str) -> str:
        """The beginning of a sentence about an answer."""
        return f"the Docker API at {self._place.host} answered GET {path}"

    def one(self, path: str, params: Mapping[str, str] | None = None) -> Mapping[str, Any]:
        """The object that a path shows."""
        who = self.who(path)
        try:
            found = json.loads(self._read(path, params))
        except ValueError:
            raise ApiError(f"{who} with something that is no JSON") from None
        if not isinstance(found, dict):
            raise ApiError(f"{who} with something that is no object")
        return found

    def events(self, filters: Mapping[str, Sequence[str]]) -> Iterator[None]:
        """One turn when the stream stands, and one for every piece of it. Ends when the stream ends or is closed."""
        path = "/events"
        try:
            self._connected()
            with self._get(path, {"filters": json.dumps(filters)}, QUIET) as response:
                if response.status_code != 200:
                    raise ApiError(refused(response.status_code, response.content, self._place.host, path))
                self._stream = CancellableStream(response.iter_content(None), response)
                yield None
                for _ in self._stream:
                    yield None
        except _FAILURES as error:
            raise self._failed(error, path) from None

    def close(self) -> None:
        """Close everything; the next call connects anew."""
        stream, self._stream = self._stream, None
        if stream is not None:
            with suppress(OSError, AttributeError):  # it ended by itself
                stream.close()
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _read(self, path: str, params: Mapping[str, str] | None) -> bytes:
        """The whole body of an answer 200."""
        deadline = time.monotonic() + 2 * self._place.timeout
        body = bytearray()
        try:
            self._connected()
            with self._get(path, params, self._place.timeout) as response:
                for piece in response.iter_content(PIECE):
                    body += piece
                    if len(body) > LIMIT:
                        raise ApiError(f"the Docker API answered GET {path} with more than {LIMIT >> 20} MiB")
                    if time.monotonic() > deadline:
                        raise TimeoutError
        except _FAILURES as error:
            raise self._failed(error, path) from None
        if response.status_code != 200:
            raise ApiError(refused(response.status_code, bytes(body), self._place.host, path), response.status_code)
        return bytes(body)

    def _get(self, path: str, params: Mapping[str, str] | None, patience: float) -> requests.Response:
        assert self._client is not None
        timeouts = (self._place.timeout, patience)
        return self._client.get(self._base + path, params=params, timeout=timeouts, stream=True, allow_redirects=False)

    def _connected(self) -> None:
        """Make a client and agree on a version, unless that is done."""
        place = self._place
        if place.host.startswith("unix://"):
            _knock(place)
        if self._client is not None:
            return
        tls: TLSConfig | bool = False
        if place.ca or place.cert or place.host.startswith("https:"):
            pair = (place.cert, place.key) if place.cert else None
            tls = TLSConfig(client_cert=pair, ca_cert=place.ca or None, verify=True)
        client = docker.APIClient(base_url=place.host, version=LAZY, timeout=place.timeout, tls=tls)  # type: ignore[arg-type]
        client.trust_env = False
        self._client, self._base = client, client.base_url
        try:
            with self._get("/_ping", None, place.timeout) as answer:
                version = answer.headers.get("Api-Version", "")
        except BaseException:
            self.close()
            raise
        found = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})", version)
        if found is not None:
            major, minor = min((int(found[1]), int(found[2])), NEWEST)
            self._base += f"/v{major}.{minor}"

    def _failed(self, error: BaseException, path: str) -> ApiError:
        self.close()
        place = self._place
        gid = None
        with suppress(OSError):
            gid = Path(place.host.removeprefix("unix://")).stat().st_gid if place.host.startswith("unix:") else None
        return ApiError(unreachable(error, place.host, path, place.timeout, gid))


def _knock(place: Place) -> None:
    """Whether somebody is behind a socket file. Where nobody is, the SDK would leave its own socket open until a collection. Room
    in a full queue of callers is waited for: a socket with a timeout is refused there at once (connect(2), EAGAIN).
    """
    deadline = time.monotonic() + place.timeout
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(place.timeout)
        while True:
            try:
                return probe.connect(place.host.removeprefix("unix://"))
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(AGAIN)


def elements(text: str, who: str) -> Iterator[Any]:
    """The elements of a JSON list, one by one, with rests between. Raises ApiError, `who` saying whose answer it is."""
    decode = json.JSONDecoder().raw_decode
    at = _blank(text, 0)
    if text.startswith("null", at):  # Go's empty list
        return
    if not text.startswith("[", at):
        raise ApiError(f"{who} with something that is no list")
    at = _blank(text, at + 1)
    breathe = Breath()
    try:
        while not text.startswith("]", at):
            element, at = decode(text, at)
            yield element
            at = _blank(text, at)
            if text.startswith(",", at):
                at = _blank(text, at + 1)
            elif not text.startswith("]", at):
                raise ApiError(f"{who} with a list that is cut short")
            breathe()
    except ValueError:
        raise ApiError(f"{who} with something that is no JSON") from None


def _blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found is not None else at
