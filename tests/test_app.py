"""The house as a whole: it is built from a configuration, says that it is ready, and ends with a word."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path

import pytest

from autohedge.app import FIRST_LOOK, House
from autohedge.engine.sample import SampleEngine
from autohedge.settings.load import load_text
from tests.support.fair import Watch, slowness
from tests.support.house import ALONE, CHAT, HELLO, SERVER, alone, eventually, house, pair, run, started, vllm
from tests.support.processes import Child, ending


def built(text: str = SERVER) -> House:
    return House(load_text(text, "house.yaml", {}, lambda path: path).settings, None, {})


def test_ids_are_its_own() -> None:
    """Unique within a process by a counter, between processes by a prefix."""
    one, two = built(), built()
    ids = [one.new_id() for _ in range(100)] + [two.new_id() for _ in range(100)]
    assert len(set(ids)) == 200
    assert len({made.partition(b"-")[0] for made in ids}) == 2


def test_engines_that_answer_at_once_are_known_to_the_first_request() -> None:
    """Who starts AutoHedge with its engines need not wait: the first request finds its model."""

    async def main() -> None:
        async with pair() as edge:
            assert (await edge.chat()).status == 200
            assert len(edge.house.registry.snapshot.lessons) == 2

    run(main())


def test_an_engine_that_hangs_does_not_hold_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections wait in the backlog for a moment only; the others are served."""
    config = SERVER + 'upstream_registry:\n  slow: {host: "${ONE}"}\n  fast: {host: "${TWO}"}\n'

    monkeypatch.setattr("tests.support.house.FIRST_LOOK", FIRST_LOOK)

    async def main() -> None:
        watch = Watch()
        slow = SampleEngine("vllm", model="n", faults=["B17=30:on=all"])
        async with house(config, one=slow, two=vllm()) as edge:
            assert watch.seconds < 5
            assert (await edge.chat()).status == 200
            assert (await edge.get("/health")).status_code == 200

    run(main())


def test_an_engine_that_comes_later_is_found() -> None:
    """Nobody restarts AutoHedge because an engine was late; meanwhile a request is told what is missing."""

    async def main() -> None:
        engine = vllm()
        await started(engine)
        await engine.stop()
        async with house(SERVER + f'upstream_registry:\n  late: {{host: "{engine.url}"}}\n') as edge:
            assert (await edge.chat()).status == 503
            await engine.start()
            await eventually(lambda: "m" in edge.house.registry.snapshot.routes)
            assert (await edge.chat()).status == 200
            await engine.stop()

    run(main())


def test_an_engine_behind_a_name_is_known_to_the_first_request() -> None:
    """R3, R62: the name is resolved in the first look, and what is behind it serves."""

    async def main() -> None:
        engine = vllm()
        name = (await engine.start()).replace("127.0.0.1", "localhost")
        async with house(SERVER + f'upstream_registry:\n  named: {{host: "{name}", resolve: true}}\n') as edge:
            heard = await edge.chat()
            assert (heard.status, heard.backend) == (200, "named")
            assert [str(one.address.host) for one in edge.house.registry.snapshot.replicas.values()] == ["127.0.0.1"]
        await engine.stop()

    run(main())


def test_connections_of_a_vanished_replica_are_closed(tmp_path: Path) -> None:
    """A backend that leaves the configuration leaves no socket behind."""
    one = ALONE
    two = ALONE.replace("${ONE}", "${TWO}")

    async def main() -> None:
        path = tmp_path / "c.yaml"
        async with house(one, path, one=vllm(), two=vllm()) as edge:
            await edge.chat()
            pool = edge.pool()
            assert pool.idle == 1
            path.write_text(two)
            await eventually(lambda: pool.open == 0)

    run(main())


def test_it_starts_within_a_second_and_a_half() -> None:
    """Issue 2: ready 1.5 s after start, imports and all; SIGTERM right after the start is not lost."""
    child = Child(["autohedge", "serve"], " listens on ", {"AUTOHEDGE_SERVER_LISTEN": "127.0.0.1:0"})
    with ending(child):
        worked = child.worked  # nothing is waited for: on a machine that does nothing else that is the time it took
        child.send(signal.SIGTERM)
        assert child.process.wait(60) == 0
        assert worked < 1.5 * slowness(), f"{worked:.1f} s"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_it_listens_is_obeyed(number: signal.Signals) -> None:
    """While engines are waited for, a stop is a stop."""

    async def main() -> None:
        one = built(SERVER + 'upstream_registry:\n  slow: {host: "http://127.0.0.1:9"}\n')
        handlers = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
        life = asyncio.create_task(one.run(lambda _url: None))
        await eventually(lambda: hasattr(one, "server"))
        signal.raise_signal(number)
        async with asyncio.timeout(30):
            assert await life == 0
        for each, handler in handlers.items():
            signal.signal(each, handler)

    run(main())


def test_health_changes_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """One line with the reason when a replica goes, whatever the number of requests that met it."""

    async def main() -> None:
        async with alone("B04") as edge:
            for _ in range(3):
                await edge.chat()

    with caplog.at_level(logging.WARNING, "autohedge"):
        run(main())
    told = [record.getMessage() for record in caplog.records if "health changed" in record.getMessage()]
    assert len(told) == 1
    assert "closed -> open" in told[0]


def test_the_body_time_is_the_configured_one() -> None:
    """`timeouts.body`: a client that stops sending its body is told after that time."""
    config = SERVER + 'timeouts: {body: 200ms}\nupstream_registry:\n  alone: {host: "${ONE}"}\n'

    async def main() -> None:
        async with alone(config=config) as edge:
            watch = Watch()
            got = await edge.raw(f"POST {CHAT} HTTP/1.1\r\nhost: h\r\ncontent-length: 10\r\n\r\n{{".encode())
            assert got.startswith(b"HTTP/1.1 408 ")
            assert watch.wall > 0.15
            assert watch.seconds < 5
            assert (await edge.post(HELLO)).status == 200

    run(main())
