"""Servers that tests of the state share."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autohedge.state.contract import Store
from autohedge.state.opening import open_store
from tests.state.servers import RedisServer


@pytest.fixture(scope="session")
def quiet_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One server for the tests that leave it alone."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A server for one test that stops, freezes or fills it."""
    server = RedisServer(tmp_path)
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "redis"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """Makes stores that mean the same place: what every implementation must do is tested once."""
    url = "" if request.param == "sqlite" else request.getfixturevalue("quiet_redis").url
    prefix = f"{uuid.uuid4().hex}:"
    return lambda: open_store(url, prefix, tmp_path, time.time)
