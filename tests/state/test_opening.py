"""Which store a URL means."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from autohedge.state.opening import open_store
from autohedge.state.redis import RedisStore
from autohedge.state.sqlite import SqliteStore
from tests.state.helpers import run


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("", "folder/state.db"),
        (" ", "folder/state.db"),
        ("sqlite:////data/my.db", "/data/my.db"),
        ("sqlite:////data/a%20b.db", "/data/a b.db"),
    ],
)
def test_a_file(url: str, path: str) -> None:
    """None given: state.db in the folder. Nothing is opened yet."""
    store = open_store(url, "p:", Path("folder"), time.time)
    assert isinstance(store, SqliteStore)
    assert store._path == Path(path)
    run(store.close())


@pytest.mark.parametrize(
    "url",
    [
        "redis://h",
        "rediss://u:pw@h:6380/1",
        "unix:///run/redis.sock",
        "redis+sentinel://a:1,b:2/service/3",
        "rediss+sentinel://u:pw@a/service",
    ],
)
def test_a_redis(url: str) -> None:
    """No connection is made yet."""

    async def main() -> None:
        store = open_store(url, "p:", Path("folder"), time.time)
        assert isinstance(store, RedisStore)
        assert "pw" not in repr(store)
        await store.close()

    run(main())


@pytest.mark.parametrize("url", ["http://u:pw@h", "redis://u:pw@h/x", "sqlite://relative.db", "sqlite:///relative.db"])
def test_what_is_neither_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValueError, match="must") as caught:
        open_store(url, "p:", Path("folder"), time.time)
    assert "pw" not in str(caught.value)
