"""State in Redis (5 to 8) or Valkey: the store that several machines share.

Rules
- 1 s to connect, 1 s for a command, no retry: a hanging server is lost, and whoever asked goes on without it.
- RESP 2 and commands that Redis 5 knows; nothing of a module. Redis Cluster is not spoken to.
- Leases and counters are scripts: compare and set must be one step.
- A watcher pings its own connection every second. A subscription is silent by nature, so a dead one would never be noticed, and
  IPVS forgets idle connections after 900 s.
- Behind Sentinel (`redis+sentinel://host:port,host:port/service/db`) each new connection asks who the master is; a master that
  became a replica refuses writes, and its connections are given up.
- The server's own words never reach a reason: they may name keys and addresses.

It must not know: what is kept.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from redis import exceptions
from redis.asyncio import BlockingConnectionPool, Redis, Sentinel
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from autohedge.settings.addresses import Sentinels, parse_sentinels
from autohedge.state.contract import Put, StateLost

CONNECT = 1.0  # seconds
COMMAND = 1.0  # seconds
PATIENCE = 3.0  # seconds for one verb altogether: a free connection, the login, the command
CONNECTIONS = 8
PING = 1.0  # seconds between two signs of life of a subscription
SCANNED = 500  # keys looked at in one step

# A key of another type than ours was put there by somebody else: a lease replaces it, a counter lets it be.
_LEASE = """
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'string' and kind ~= 'none' then redis.call('DEL', KEYS[1]) end
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
_COUNT = """
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'string' and kind ~= 'none' then return false end
local held = redis.call('GET', KEYS[1])
if held and not string.match(held, '^-?%d+$') then return false end
local total = redis.call('INCRBY', KEYS[1], ARGV[1])
if ARGV[2] ~= '' and redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return total
"""
# From top to bottom; redis-py's classes inherit from each other.
_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (exceptions.AuthenticationError, "Redis does not accept our credentials"),
    (exceptions.AuthorizationError, "Redis does not accept our credentials"),
    (exceptions.NoPermissionError, "Redis does not permit a command or key to our user"),
    (exceptions.BusyLoadingError, "Redis is loading its data"),
    (exceptions.ReadOnlyError, "Redis is a read-only replica"),
    (exceptions.OutOfMemoryError, "Redis is out of memory"),
    (exceptions.TimeoutError, "Redis does not answer in time"),
    (TimeoutError, "Redis does not answer in time"),
    (ssl.SSLError, "the TLS handshake with Redis failed"),
    (exceptions.ConnectionError, "Redis cannot be reached"),
    (OSError, "Redis cannot be reached"),
    (exceptions.ResponseError, "Redis refuses a command"),
)


class RedisStore:
    """The contract over one Redis. `url` is what `parse_redis` accepts; every key and topic gets `prefix`."""

    def __init__(self, url: str, prefix: str) -> None:
        self._prefix = prefix
        self._closed = False
        self._sentinel: Sentinel | None = None
        common = {
            "decode_responses": True,
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
            "socket_connect_timeout": CONNECT,
            "socket_timeout": COMMAND,
        }
        if "+sentinel://" in url:
            found = parse_sentinels(url)
            self._sentinel = _sentinel(found, common)
            self._client: Redis = self._sentinel.master_for(found.service)
        else:
            pool = BlockingConnectionPool.from_url(url, max_connections=CONNECTIONS, timeout=COMMAND, **common)
            self._client = Redis(connection_pool=pool)

    # --- the verbs ----------------------------------------------------------------------------------------------------

    async def get(self, key: str) -> str | None:
        """See the contract."""
        value: str | None = await self._ask("GET", self._prefix + key)
        return value

    async def put(self, key: str, value: str, ttl: float | None = None) -> None:
        """See the contract."""
        await self.put_all([(key, value, ttl)])

    async def put_all(self, facts: Sequence[Put]) -> None:
        """See the contract."""
        self._check_open()
        async with _translated(), self._client.pipeline(transaction=False) as asked:
            for key, value, ttl in facts:
                name = self._prefix + key
                if ttl is not None and ttl <= 0:
                    asked.delete(name)
                else:
                    asked.set(name, value, px=None if ttl is None else _millis(ttl))
            await asked.execute()

    async def delete(self, key: str) -> None:
        """See the contract."""
        await self._ask("DEL", self._prefix + key)

    async def scan(self, prefix: str) -> dict[str, str]:
        """See the contract."""
        pattern = _literally(self._prefix + prefix) + "*"
        found: dict[str, str] = {}
        cursor: Any = 0
        while True:
            cursor, keys = await self._ask("SCAN", cursor, "MATCH", pattern, "COUNT", SCANNED)
            values = await self._ask("MGET", *keys) if keys else []
            for key, value in zip(keys, values, strict=True):
                if value is not None:  # over meanwhile, or no text
                    found[key[len(self._prefix) :]] = value
            if int(cursor) == 0:
                return found

    async def lease(self, key: str, holder: str, seconds: float) -> bool:
        """See the contract."""
        taken: int = await self._ask("EVAL", _LEASE, 1, self._prefix + key, holder, _millis(seconds))
        return taken == 1

    async def release(self, key: str, holder: str) -> None:
        """See the contract."""
        await self._ask("EVAL", _RELEASE, 1, self._prefix + key, holder)

    async def publish(self, topic: str, message: str) -> None:
        """See the contract."""
        await self._ask("PUBLISH", self._prefix + topic, message)

    async def count(self, key: str, by: int, ttl: float | None = None) -> int:
        """See the contract."""
        lives = "" if ttl is None else _millis(ttl)
        total = await self._ask("EVAL", _COUNT, 1, self._prefix + key, by, lives)
        if total is None:
            raise ValueError("the key holds no number")
        return int(total)

    @asynccontextmanager
    async def watch(self, topic: str) -> AsyncIterator[AsyncIterator[str]]:
        """See the contract."""
        self._check_open()
        subscription = self._client.pubsub()
        try:
            async with _translated():
                await subscription.subscribe(self._prefix + topic)
                if await subscription.get_message(timeout=COMMAND) is None:
                    raise StateLost("Redis does not answer in time")
            yield self._messages(subscription)
        finally:
            with suppress(exceptions.RedisError, OSError):
                await subscription.aclose()  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        """See the contract."""
        self._closed = True
        with suppress(exceptions.RedisError, OSError):
            async with asyncio.timeout(COMMAND):
                await self._client.aclose()
                await self._client.connection_pool.disconnect()
                for client in self._sentinel.sentinels if self._sentinel is not None else ():
                    await client.aclose()

    async def _messages(self, subscription: PubSub) -> AsyncIterator[str]:
        asked = False
        while True:
            self._check_open()
            async with _translated():
                message = await subscription.get_message(timeout=PING)
                if message is None:
                    if asked:
                        raise StateLost("Redis does not answer in time")
                    await subscription.ping()
            asked = message is None
            if message is not None and message["type"] == "message":
                yield message["data"]
            elif message is not None and message["type"] == "subscribe":
                raise StateLost("Redis was connected anew")  # by redis-py itself, which does not say so

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _ask(self, *command: Any) -> Any:
        self._check_open()
        async with _translated():
            return await self._client.execute_command(*command)  # type: ignore[no-untyped-call]

    def _check_open(self) -> None:
        if self._closed:
            raise StateLost("the store is closed")


def _sentinel(found: Sentinels, common: dict[str, Any]) -> Sentinel:
    """The credentials are for Redis: a Sentinel seldom has its own, and theirs are others."""
    tls = {"ssl": True} if found.tls else {}
    asking = {key: value for key, value in common.items() if key != "decode_responses"}
    login = {"username": found.user or None, "password": found.password or None, "db": found.db}
    return Sentinel(found.hosts, sentinel_kwargs={**asking, **tls}, **common, **login, **tls)  # type: ignore[no-untyped-call]


@asynccontextmanager
async def _translated() -> AsyncIterator[None]:
    """One verb's time, and what its failure means."""
    try:
        async with asyncio.timeout(PATIENCE):
            yield
    except (exceptions.RedisError, OSError) as error:
        raise StateLost(_reason(error)) from None


def _reason(error: Exception) -> str:
    return next((reason for kind, reason in _REASONS if isinstance(error, kind)), "Redis is not understood")


def _millis(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _literally(text: str) -> str:
    """`text` as a pattern that means itself."""
    return re.sub(r"([*?\[\]\\^-])", r"\\\1", text)
