"""Why the Docker API could not be read, in one sentence that tells an operator what to do.

What it decides: the sentence for every way in which the API fails (swarm facts, error table). None of them holds more of
Docker's own answer than its message.

It must not know: how the API is asked again.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator

import requests
import urllib3

LONGEST = 200  # characters of Docker's own message
# What a docker-socket-proxy calls the permission for a path.
PERMISSIONS = {
    "/services": "SERVICES",
    "/tasks": "TASKS",
    "/nodes": "NODES",
    "/networks": "NETWORKS",
    "/events": "EVENTS",
    "/containers": "CONTAINERS",
}


class ApiError(Exception):
    """The API could not be read; the text is the whole story. `status` is that of the answer, 0 when there was none."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


# What Docker says when it cannot list a Swarm, and what that means.
_STATES = (
    (
        ("docker swarm init",),
        "the Docker engine at {host} is not part of a swarm (docker swarm init, or docker swarm join)",
    ),
    (
        ("not a swarm manager", "worker node"),
        "the Docker engine at {host} is a worker of its swarm, only managers list services; let sources.swarm.host be a manager's",
    ),
    (("does not have a leader", "no elected"), "the swarm has no leader (too few managers are up), says {host}"),
    (
        ("code = unavailable", "code = deadlineexceeded"),
        "the swarm's managers do not answer {host}; they may be stopping or starting",
    ),
)


def unreachable(error: BaseException, host: str, path: str, timeout: float, gid: int | None = None) -> str:
    """Why a request got no answer. `gid` is the group of the socket file, where there is one."""
    causes = list(_causes(error))
    number = next((cause.errno for cause in causes if isinstance(cause, OSError) and cause.errno), 0)
    socket, last = host.removeprefix("unix://"), _short(str(causes[-1]) or type(error).__name__)
    group = f" (gid {gid})" if gid is not None else ""

    def one(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    cases = (
        (
            number in {errno.ENOENT, errno.ENOTDIR} and host.startswith("unix:"),
            f"the Docker socket {socket} does not exist here; mount it or point sources.swarm.host to docker-guard",
        ),
        (
            number in {errno.EACCES, errno.EPERM},
            f"no permission for the Docker socket {socket}: this process needs its group{group}, or use docker-guard",
        ),
        (
            number == errno.ECONNREFUSED,
            f"nobody listens at {host}: the Docker engine or the guard in front of it is down",
        ),
        (
            number == errno.EAGAIN,
            f"the Docker API at {host} takes no more connections: too many wait there already",
        ),
        (
            one(requests.exceptions.SSLError, urllib3.exceptions.SSLError),
            f"TLS with {host} failed; look at sources.swarm.tls: {last}",
        ),
        (one(urllib3.exceptions.NameResolutionError), f"the host name in {host} cannot be resolved"),
        (
            one(requests.exceptions.Timeout, urllib3.exceptions.TimeoutError, TimeoutError),
            f"the Docker API at {host} gave no answer to GET {path} within {timeout:g} s",
        ),
        (
            number in {errno.ECONNRESET, errno.EPIPE} or one(ConnectionError, urllib3.exceptions.ProtocolError),
            f"the Docker API at {host} closed the connection during GET {path}; it may be restarting",
        ),
    )
    return next((told for true, told in cases if true), f"the Docker API at {host} cannot be reached: {last}")


def refused(status: int, body: bytes, host: str, path: str) -> str:
    """Why an answer is no list."""
    message = _message(body)
    low = message.lower()
    for words, told in _STATES:
        if any(word in low for word in words):
            return told.format(host=host)
    if status in {401, 403}:
        name = PERMISSIONS.get(f"/{path.split('/')[1]}", path)
        return f"the guard or socket proxy at {host} refuses GET {path} ({status}); let it pass ({name}=1 in a socket proxy)"
    if "client version" in low:
        return f"the Docker engine at {host} does not speak our version of its API: {_short(message)}"
    return f"the Docker API at {host} answered GET {path} with {status}: {_short(message) or 'no message'}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and all that led to it; requests and urllib3 hide the cause in their arguments."""
    seen: list[BaseException] = []
    left = [error]
    while left and len(seen) < 20:
        one = left.pop(0)
        if one in seen:
            continue
        seen.append(one)
        yield one
        reason = getattr(one, "reason", None)
        left += [
            each for each in (one.__cause__, one.__context__, reason, *one.args) if isinstance(each, BaseException)
        ]


def _message(body: bytes) -> str:
    try:
        said = json.loads(body)
    except ValueError:
        return body[:LONGEST].decode("utf-8", "replace")
    return str(said.get("message", "")) if isinstance(said, dict) else ""


def _short(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:LONGEST]
