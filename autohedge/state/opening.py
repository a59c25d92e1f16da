"""Which store a `state.url` means.

  redis://, rediss://, unix://           one Redis or Valkey
  redis+sentinel://, rediss+sentinel://  the master that Sentinel names: host:port,host:port/service/db
  sqlite:////path/state.db               that file
  ""                                     state.db in the folder given

It must not know: where the url and the folder come from.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from autohedge.settings.addresses import parse_redis, parse_sqlite
from autohedge.state.contract import Store
from autohedge.state.sqlite import SqliteStore

FILE = "state.db"


def open_store(url: str, prefix: str, folder: Path, clock: Callable[[], float]) -> Store:
    """The store that `url` means. `clock` gives epoch seconds.

    Nothing is connected or opened before the first verb, so this never waits and never fails for a store that is away. Raises
    ValueError for a text that is no such URL.
    """
    url = url.strip()
    if not url:
        return SqliteStore(folder / FILE, clock)
    if url.startswith("sqlite:"):
        return SqliteStore(Path(parse_sqlite(url)), clock)
    place = parse_redis(url)
    # Redis' client takes 60 ms and 6 MB: only those who use it pay for it.
    from autohedge.state.redis import RedisStore  # noqa: PLC0415

    return RedisStore(place, prefix)
