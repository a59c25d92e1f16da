"""Reading the Docker API over a real unix socket: versions, whole lists in pieces, refusals, no writes."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.sources.docker_api import AGAIN, DockerApi, Place, _knock, elements
from autohedge.sources.docker_errors import ApiError
from tests.support.docker_stub import DockerStub
from tests.support.swarm import service

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[DockerStub]:
    with DockerStub(tmp_path / "docker.sock") as stub:
        yield stub


@pytest.fixture
def api(engine: DockerStub) -> Iterator[DockerApi]:
    with closing(DockerApi(Place(engine.host))) as client:
        yield client


@pytest.mark.parametrize(
    ("version", "prefix"), [("1.41", "/v1.41"), ("1.24", "/v1.24"), ("1.99", "/v1.45"), ("", ""), ("x", "")]
)
def test_the_version_is_the_engine_s_own_up_to_ours(
    engine: DockerStub, api: DockerApi, version: str, prefix: str
) -> None:
    """20.10 refuses 1.45, 29 refuses 1.41; where nobody tells one, paths have none."""
    engine.version = version
    assert list(api.list("/services")) == []
    assert engine.paths == ["/_ping", f"{prefix}/services"]


def test_a_guard_that_refuses_the_ping_is_asked_without_a_version(engine: DockerStub, api: DockerApi) -> None:
    engine.refusals["/_ping"] = (403, "")
    engine.version = ""
    assert list(api.list("/services")) == []


def test_a_list_comes_whole_and_with_its_filters(engine: DockerStub, api: DockerApi) -> None:
    engine.services = [service("a"), service("b")]
    assert list(api.list("/services")) == engine.services
    assert list(api.list("/tasks", {"desired-state": ["running"]})) == []
    assert "filters=%7B%22desired-state%22" in engine.paths[-1]
    assert engine.asked["/_ping"] == 1


def test_the_environment_s_proxies_and_certificates_do_not_count(
    engine: DockerStub, api: DockerApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "REQUESTS_CA_BUNDLE"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert list(api.list("/nodes")) == engine.nodes


def test_a_refusal_is_an_error_and_the_next_call_works(engine: DockerStub, api: DockerApi) -> None:
    engine.refusals["/tasks"] = (403, "no")
    with pytest.raises(ApiError, match=r"refuses GET /tasks \(403\)"):
        list(api.list("/tasks"))
    engine.refusals.clear()
    assert list(api.list("/tasks")) == []


def test_an_engine_that_hangs_is_left_after_its_time(engine: DockerStub) -> None:
    engine.hangs.add("/services")
    with pytest.raises(ApiError, match=r"no answer to GET /services within 0\.2 s"):
        DockerApi(Place(engine.host, 0.2)).list("/services")


def test_no_socket_no_permission_nobody_there(engine: DockerStub, api: DockerApi) -> None:
    """The three states of a socket file; and the same client works again when the engine is back."""
    list(api.list("/nodes"))
    engine.stop()
    with pytest.raises(ApiError, match="does not exist here"):
        api.list("/nodes")
    engine.path.touch()
    with pytest.raises(ApiError, match="nobody listens"):
        api.list("/nodes")
    engine.path.unlink()
    engine.start()
    assert list(api.list("/nodes")) == engine.nodes


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[tuple[socket.socket, Path]]:
    """An engine with as many callers before its door as it lets wait."""
    path = tmp_path / "crowded.sock"
    with socket.socket(socket.AF_UNIX) as engine, socket.socket(socket.AF_UNIX) as caller:
        engine.bind(str(path))
        engine.listen(0)
        caller.connect(str(path))
        yield engine, path


def test_an_engine_whose_queue_is_full_says_so(crowded: tuple[socket.socket, Path]) -> None:
    """It was said to have closed the connection, and the SDK left its own socket open."""
    with pytest.raises(ApiError, match="takes no more connections"):
        DockerApi(Place(f"unix://{crowded[1]}", 0.1)).list("/nodes")


def test_room_in_a_full_queue_is_waited_for(
    crowded: tuple[socket.socket, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine is busy, not away: during the second pause it takes the caller who waits."""
    engine, path = crowded
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            engine.accept()[0].close()

    monkeypatch.setattr(time, "sleep", pause)
    _knock(Place(f"unix://{path}", 30))
    assert pauses == [AGAIN, AGAIN]


def test_tcp_to_nobody() -> None:
    with pytest.raises(ApiError, match=r"nobody listens at tcp://127\.0\.0\.1:9"):
        DockerApi(Place("tcp://127.0.0.1:9")).list("/nodes")


def test_events_begin_with_the_stream_and_end_with_it(engine: DockerStub, api: DockerApi) -> None:
    turns = api.events({"type": ["service"]})
    next(turns)
    engine.tell()
    next(turns)
    engine.hang_up()
    assert list(turns) == []


def test_a_stream_may_be_closed_from_another_thread(engine: DockerStub, api: DockerApi) -> None:
    turns = api.events({"type": ["service"]})
    next(turns)
    timer = threading.Timer(0.05, api.close)
    timer.start()
    assert list(turns) == []
    timer.join()


def test_events_may_be_refused(engine: DockerStub, api: DockerApi) -> None:
    engine.refusals["/events"] = (403, "no")
    with pytest.raises(ApiError, match=r"refuses GET /events"):
        next(api.events({}))


@given(st.lists(JSON, max_size=6), st.sampled_from([None, 1]))
def test_elements_are_those_of_the_list(values: list[object], indent: int | None) -> None:
    assert list(elements(json.dumps(values, indent=indent), "x")) == values
    assert list(elements(f" \n{json.dumps(values, ensure_ascii=False)}\n", "x")) == values


@pytest.mark.parametrize("text", ["", "{}", "5", "<html>", "[", "[1", "[1,", "[1 2]", "[tru]", '["a]', "[1,,2]"])
def test_what_is_no_list(text: str) -> None:
    with pytest.raises(ApiError, match=r"^x with "):
        list(elements(text, "x"))


def test_null_is_an_empty_list() -> None:
    """Go writes an empty slice so."""
    assert list(elements("null\n", "x")) == []
