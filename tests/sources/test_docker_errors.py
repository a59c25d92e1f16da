"""The sentence for every way in which the Docker API fails; the texts are those of a real engine (swarm facts, error table)."""

from __future__ import annotations

import json

import pytest
import requests
import urllib3

from autohedge.sources.docker_errors import refused, unreachable

HOST = "unix:///run/docker.sock"
WORKER = (
    "This node is not a swarm manager. Worker nodes can't be used to view or modify cluster state. Please run this command "
    "on a manager node or promote the current node to a manager."
)
OUTSIDE = 'This node is not a swarm manager. Use "docker swarm init" or "docker swarm join" to connect this node to swarm and try again.'


def told(status: int, message: str, path: str = "/services") -> str:
    return refused(status, json.dumps({"message": message}).encode(), HOST, path)


@pytest.mark.parametrize(
    ("status", "message", "words"),
    [
        (503, WORKER, "is a worker of its swarm, only managers list services"),
        (503, OUTSIDE, "is not part of a swarm (docker swarm init"),
        (500, "rpc error: code = Unknown desc = The swarm does not have a leader. It's possible that", "has no leader"),
        (503, "rpc error: code = Unavailable desc = all SubConns are in TransientFailure, transport", "do not answer"),
        (400, "client version 1.41 is too old. Minimum supported API version is 1.44", "does not speak our version"),
        (500, "something\n else", "answered GET /services with 500: something else"),
        (502, "", "answered GET /services with 502: no message"),
    ],
)
def test_refusals(status: int, message: str, words: str) -> None:
    assert words in told(status, message)
    assert "\n" not in told(status, message)


@pytest.mark.parametrize("path", ["/services", "/tasks", "/nodes", "/networks"])
def test_a_guard_s_refusal_names_what_it_should_allow(path: str) -> None:
    """docker-socket-proxy without TASKS=1; its 403 is HTML."""
    said = refused(403, b"<html><body><h1>403 Forbidden</h1>", HOST, path)
    assert said == (
        f"the guard or socket proxy at {HOST} refuses GET {path} (403); let it pass ({path[1:].upper()}=1 in a socket proxy)"
    )


def hidden(error: BaseException) -> requests.exceptions.ConnectionError:
    """An error as requests hides it."""
    return requests.exceptions.ConnectionError(urllib3.exceptions.ProtocolError("Connection aborted.", error))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (hidden(FileNotFoundError(2, "No such file")), "the Docker socket /run/docker.sock does not exist here"),
        (hidden(PermissionError(13, "denied")), "this process needs its group (gid 105)"),
        (hidden(ConnectionRefusedError(111, "refused")), "nobody listens at unix:///run/docker.sock"),
        (hidden(ConnectionResetError(104, "reset")), "closed the connection during GET /tasks"),
        (hidden(OSError("odd")), "closed the connection"),
        (requests.exceptions.ReadTimeout("x"), "gave no answer to GET /tasks within 4 s"),
        (TimeoutError(), "gave no answer to GET /tasks within 4 s"),
        (requests.exceptions.SSLError("certificate verify failed"), "TLS with unix:///run/docker.sock failed"),
        (requests.exceptions.ConnectionError("Name or service not known"), "cannot be reached: Name or service"),
    ],
)
def test_no_answer(error: BaseException, words: str) -> None:
    assert words in unreachable(error, HOST, "/tasks", 4.0, 105)


def test_a_name_that_is_not_known() -> None:
    reason = urllib3.exceptions.NameResolutionError("guard", None, OSError(-2, "x"))  # type: ignore[arg-type]
    error = requests.exceptions.ConnectionError(urllib3.exceptions.MaxRetryError(None, "/x", reason))  # type: ignore[arg-type]
    assert "the host name in tcp://guard:2375 cannot be resolved" in unreachable(
        error, "tcp://guard:2375", "/tasks", 4.0
    )
