"""Redis: real servers that are away, hang, refuse, fail over; and reasons that tell nothing to strangers."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import exceptions

from autohedge.state import redis
from autohedge.state.contract import StateLost
from autohedge.state.redis import RedisStore
from tests.state.helpers import opened, run, until
from tests.state.servers import PATIENCE, RedisServer, redis_program
from tests.support.fair import Watch
from tests.support.ports import free_port


async def loss(store: RedisStore) -> str:
    """The reason why the store is lost, and that it came in time."""
    watch = Watch()
    with pytest.raises(StateLost) as caught:
        await store.put("k", "v")
    assert watch.seconds < redis.PATIENCE + 0.5
    assert "127.0.0.1" not in caught.value.reason
    assert "pw" not in caught.value.reason
    return caught.value.reason


def test_every_key_has_the_prefix(quiet_redis: RedisServer) -> None:
    """Several AutoHedge and other programs may share one Redis; a time to live is set in milliseconds."""

    async def main() -> None:
        store = RedisStore(quiet_redis.url, "mine[*]:")
        other = RedisStore(quiet_redis.url, "other:")
        async with opened(store, other):
            await store.put("k", "v", 100.5)
            await other.put("k", "w")
            assert quiet_redis.say("GET", "mine[*]:k") == b"$1\r\nv\r\n"
            assert 10_000 < int(quiet_redis.say("PTTL", "mine[*]:k")[1:]) <= 100_500
            assert await store.scan("") == {"k": "v"}

    run(main())


def test_foreign_types_are_passed_over(quiet_redis: RedisServer) -> None:
    """A list under our prefix is no text; asked for by name it is refused."""

    async def main() -> None:
        store = RedisStore(quiet_redis.url, "types:")
        async with opened(store):
            quiet_redis.say("RPUSH", "types:list", "a")
            await store.put("k", "v")
            assert await store.scan("") == {"k": "v"}
            with pytest.raises(StateLost, match="refuses a command"):
                await store.get("list")

    run(main())


def test_foreign_types_take_no_lease_and_no_counter_away(quiet_redis: RedisServer) -> None:
    """A hash where the lease should be would leave every process without one, or with one, for ever."""

    async def main() -> None:
        store = RedisStore(quiet_redis.url, "taken:")
        async with opened(store):
            quiet_redis.say("HSET", "taken:lease", "a", "b")
            assert await store.lease("lease", "me", 10)
            assert not await store.lease("lease", "other", 10)
            quiet_redis.say("RPUSH", "taken:counter", "a")
            with pytest.raises(ValueError, match="no number"):
                await store.count("counter", 1)

    run(main())


def test_nobody_there() -> None:
    async def main() -> None:
        store = RedisStore(f"redis://127.0.0.1:{free_port()}", "p:")
        async with opened(store):
            assert await loss(store) == "Redis cannot be reached"
            with pytest.raises(StateLost, match="cannot be reached"):
                async with store.watch("t"):
                    pass

    run(main())


def test_a_name_that_nobody_knows() -> None:
    async def main() -> None:
        store = RedisStore("redis://u:pw@redis.invalid", "p:")
        async with opened(store):
            assert await loss(store) in {"Redis cannot be reached", "Redis does not answer in time"}

    run(main())


def test_a_server_that_hangs(own_redis: RedisServer) -> None:
    """SIGSTOP: commands are lost in about 1 s, a watcher notices by itself, and both work again afterwards."""

    async def main() -> None:
        store = RedisStore(own_redis.url, "p:")
        async with opened(store), store.watch("t") as messages:
            await store.put("k", "v")
            own_redis.send(signal.SIGSTOP)
            assert await loss(store) == "Redis does not answer in time"
            with pytest.raises(StateLost, match="in time"):
                async with asyncio.timeout(PATIENCE):
                    await anext(messages)
            own_redis.send(signal.SIGCONT)
            await store.put("k", "w")
            assert await store.get("k") == "w"
            async with store.watch("t") as again:
                await store.publish("t", "m")
                assert await anext(again) == "m"

    run(main())


def test_a_server_that_is_restarted(own_redis: RedisServer) -> None:
    """A watcher ends at once; the next verb finds the new server by itself."""

    async def main() -> None:
        store = RedisStore(own_redis.url, "p:")
        async with opened(store), store.watch("t") as messages:
            await store.put("k", "v")
            own_redis.stop()
            with pytest.raises(StateLost):
                async with asyncio.timeout(PATIENCE):
                    await anext(messages)
            assert await loss(store) == "Redis cannot be reached"
            own_redis.start()
            assert await store.get("k") is None

    run(main())


def test_a_silent_subscription_is_kept_alive(quiet_redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pings on its own connection; the answers are no messages."""
    monkeypatch.setattr(redis, "PING", 0.1)

    async def main() -> None:
        store = RedisStore(quiet_redis.url, "silent:")
        async with opened(store), store.watch("t") as messages:
            heard: list[str] = []

            async def hear() -> None:
                heard.append(await anext(messages))

            hearing = asyncio.create_task(hear())
            await asyncio.wait([hearing], timeout=0.5)
            assert not heard
            await store.publish("t", "m")
            await hearing
            assert heard == ["m"]

    run(main())


def test_a_subscription_that_was_renewed_behind_our_back_is_lost(own_redis: RedisServer) -> None:
    """redis-py connects anew by itself and does not say that messages were missed."""

    async def main() -> None:
        store = RedisStore(own_redis.url, "p:")
        async with opened(store), store.watch("t") as messages:
            own_redis.say("CLIENT", "KILL", "TYPE", "pubsub")
            with pytest.raises(StateLost):
                async with asyncio.timeout(PATIENCE):
                    await anext(messages)

    run(main())


def test_credentials(tmp_path: Path) -> None:
    """The right ones are used, wrong ones are told without being repeated."""
    server = RedisServer(tmp_path, password="right")

    async def main() -> None:
        good = RedisStore(server.url.replace("://", "://:right@"), "p:")
        bad = RedisStore(server.url.replace("://", "://:pw@"), "p:")
        none = RedisStore(server.url, "p:")
        async with opened(good, bad, none):
            await good.put("k", "v")
            assert await loss(bad) == "Redis does not accept our credentials"
            assert await loss(none) == "Redis does not accept our credentials"

    try:
        run(main())
    finally:
        server.stop()


def test_a_server_that_may_not_or_cannot_take_writes(own_redis: RedisServer) -> None:
    """A replica, a full memory, a user without rights: each has its word."""

    async def main() -> None:
        store = RedisStore(own_redis.url, "p:")
        async with opened(store):
            own_redis.say("CONFIG", "SET", "maxmemory", "1")
            assert await loss(store) == "Redis is out of memory"
            own_redis.say("CONFIG", "SET", "maxmemory", "0")
            own_redis.say("REPLICAOF", "127.0.0.1", str(free_port()))
            assert await loss(store) == "Redis is a read-only replica"
            own_redis.say("REPLICAOF", "NO", "ONE")
            own_redis.say("ACL", "SETUSER", "reader", "on", "nopass", "~*", "&*", "+@read", "+@connection")
            reader = RedisStore(own_redis.url.replace("://", "://reader:x@"), "p:")
            async with opened(reader):
                assert await loss(reader) == "Redis does not permit a command or key to our user"
            await store.put("k", "v")

    run(main())


def test_a_unix_socket(tmp_path: Path) -> None:
    server = RedisServer(tmp_path, ["--unixsocket", str(tmp_path / "r.sock")])

    async def main() -> None:
        store = RedisStore(f"unix://{tmp_path}/r.sock", "p:")
        async with opened(store):
            await store.put("k", "v")
            assert await store.get("k") == "v"

    try:
        run(main())
    finally:
        server.stop()


def certificates(folder: Path) -> tuple[str, str]:
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*words, "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


def test_tls(tmp_path: Path) -> None:
    """rediss:// checks the certificate; an unknown one is a loss, not a plain connection."""
    cert, key = certificates(tmp_path)
    port = free_port()
    words = ["--tls-port", str(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no"]
    server = RedisServer(tmp_path, words)

    async def main() -> None:
        store = RedisStore(f"rediss://127.0.0.1:{port}?ssl_ca_certs={cert}", "p:")
        wary = RedisStore(f"rediss://127.0.0.1:{port}", "p:")
        async with opened(store, wary):
            await store.put("k", "v")
            async with store.watch("t") as messages:
                await store.publish("t", "m")
                assert await anext(messages) == "m"
            assert await loss(wary) in {"Redis cannot be reached", "the TLS handshake with Redis failed"}

    try:
        run(main())
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (exceptions.BusyLoadingError("x"), "Redis is loading its data"),
        (exceptions.AuthenticationError("x"), "Redis does not accept our credentials"),
        (exceptions.ResponseError("key secret"), "Redis refuses a command"),
        (exceptions.TimeoutError("10.0.0.1"), "Redis does not answer in time"),
        (TimeoutError(), "Redis does not answer in time"),
        (exceptions.DataError("x"), "Redis is not understood"),
        (ConnectionResetError("x"), "Redis cannot be reached"),
    ],
)
def test_reasons_are_our_own_words(error: Exception, reason: str) -> None:
    assert redis._reason(error) == reason


# --- Sentinel ---------------------------------------------------------------------------------------------------------


class Watched:
    """A master, its replica and one Sentinel that watches them."""

    def __init__(self, folder: Path) -> None:
        self.servers: list[RedisServer] = []
        for name in ("one", "two"):
            (folder / name).mkdir()
            words = ["--repl-diskless-sync-delay", "0"]
            words += ["--replicaof", "127.0.0.1", str(self.servers[0].port)] if self.servers else []
            self.servers.append(RedisServer(folder / name, words))
        self.port = free_port()
        config = folder / "sentinel.conf"
        config.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {folder}\nsentinel monitor main 127.0.0.1 {self.servers[0].port} 1\n"
            "sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 2000\n"
        )
        command = [redis_program(), str(config), "--sentinel", "--logfile", str(folder / "sentinel.log")]
        self.sentinel = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def stop(self) -> None:
        self.sentinel.kill()
        self.sentinel.wait()
        for server in self.servers:
            server.stop()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    place = Watched(tmp_path)
    yield place
    place.stop()


def test_the_master_is_found_through_sentinel_also_after_a_failover(watched: Watched) -> None:
    """The first Sentinel of the list is away; the master dies, the replica takes over, and writes go there."""

    async def main() -> None:
        url = f"redis+sentinel://127.0.0.1:{free_port()},127.0.0.1:{watched.port}/main/0"
        store = RedisStore(url, "p:")
        async with opened(store):
            await works(store, "v")
            assert watched.servers[0].say("GET", "p:k") == b"$1\r\nv\r\n"
            await replicated(watched.servers[1])
            watched.servers[0].stop()
            await works(store, "w")
            assert watched.servers[1].say("GET", "p:k") == b"$1\r\nw\r\n"

    run(main())


async def works(store: RedisStore, value: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await store.put("k", value)
            except StateLost:
                await asyncio.sleep(0.05)
            else:
                return


async def replicated(replica: RedisServer) -> None:
    """Until the Sentinel can have seen the replica: it asks the master every 10 s, and at once in the beginning."""
    await until(lambda: replica.say("GET", "p:k") == b"$1\r\nv\r\n")
