"""The loop around a source, in virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator

import pytest

from autohedge.core.types import Blind, Seen, Sweep
from autohedge.sources.watch import watch
from tests.support.vtime import now, run
from tests.support.world import backend

GOOD = Seen((backend("a", "t1"),))
BAD = Blind("docker.sock: connection refused")


class Fake:
    """A source that follows a script; after its end the last entry stays. Notes when it was looked at."""

    name = "fake"

    def __init__(self, *script: Sweep | Exception, hint: Callable[[], Awaitable[None]] | None = None) -> None:
        self._script = script
        self._hint = hint
        self.looks: list[float] = []

    async def look(self) -> Sweep:
        self.looks.append(round(now(), 3))
        entry = self._script[min(len(self.looks), len(self._script)) - 1]
        if isinstance(entry, Exception):
            raise entry
        return entry

    async def hint(self) -> None:
        if self._hint is None:
            await asyncio.Event().wait()
        else:
            await self._hint()


def watched(
    source: Fake, seconds: float, interval: float = 10, handler: Callable[[Sweep], None] | None = None
) -> list[Sweep]:
    """What the handler was told while `source` was watched for `seconds` of virtual time."""
    told: list[Sweep] = []

    def on_sweep(name: str, sweep: Sweep) -> None:
        assert name == "fake"
        told.append(sweep)
        if handler is not None:
            handler(sweep)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(seconds):
                await watch(source, interval, on_sweep)

    run(main())
    return told


def test_it_looks_at_once_and_then_every_interval() -> None:
    """B1: the first picture comes without waiting."""
    source = Fake(GOOD)
    assert watched(source, 35) == [GOOD] * 4
    assert source.looks == [0, 10, 20, 30]


def test_a_blind_source_is_asked_less_and_less() -> None:
    """B29: 2, 4, 8, 16, 30, 30 seconds; every blind look is told, so that its age can be shown."""
    source = Fake(BAD)
    assert watched(source, 95) == [BAD] * 7
    assert source.looks == [0, 2, 6, 14, 30, 60, 90]


def test_a_source_may_be_blind_for_days() -> None:
    """T22: the back-off stays at 30 seconds and the loop alive, however long it takes."""
    source = Fake(BAD)
    watched(source, 86400)
    assert len(source.looks) > 2800
    assert source.looks[-1] - source.looks[-2] == pytest.approx(30)


def test_the_back_off_ends_with_the_first_good_look() -> None:
    """B29: it sees again, and the next trouble starts from 2 seconds."""
    source = Fake(BAD, BAD, GOOD, BAD, BAD, GOOD)
    watched(source, 30, interval=5)
    assert source.looks == [0, 2, 6, 11, 13, 17, 22, 27]


def test_a_hint_brings_the_next_look_forward() -> None:
    """B26: a change shows before the interval is over."""

    async def after_three_seconds() -> None:
        await asyncio.sleep(3)

    source = Fake(GOOD, hint=after_three_seconds)
    watched(source, 10)
    assert source.looks == [0, 3.2, 6.4, 9.6]


def test_a_source_that_hints_all_the_time_does_not_spin() -> None:
    """A storm of events, or a socket that fails at once: 5 looks a second when it sees, one per 2 s when it is blind."""

    async def at_once() -> None:
        return

    good, bad = Fake(GOOD, hint=at_once), Fake(BAD, hint=at_once)
    watched(good, 1.1)
    watched(bad, 7)
    assert good.looks == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert bad.looks == [0, 2, 4, 6]


def test_an_exception_in_a_look_is_a_blind_one(caplog: pytest.LogCaptureFixture) -> None:
    """T22: the watch goes on after a fault of the source, whatever it is; the reason shows no content."""
    source = Fake(RuntimeError("key=secret"), TimeoutError(), GOOD)
    with caplog.at_level(logging.INFO):
        told = watched(source, 7)
    assert told == [Blind("failed to look: RuntimeError"), Blind("failed to look: TimeoutError"), GOOD]
    assert source.looks == [0, 2, 6]
    assert "source fake failed to look" in caplog.text
    assert "source fake sees again" in caplog.text


def test_an_exception_in_the_handler_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """B32: later sweeps are still delivered."""

    def broken(sweep: Sweep) -> None:
        raise KeyError(sweep)

    assert watched(Fake(GOOD), 25, handler=broken) == [GOOD] * 3
    assert "could not be taken in" in caplog.text


def test_an_exception_in_a_hint_waits_for_the_turn(caplog: pytest.LogCaptureFixture) -> None:
    """T22: a broken hint costs speed, not sight."""
    reasons: Iterator[Exception] = iter([OSError("gone"), TimeoutError()])

    async def broken() -> None:
        raise next(reasons, OSError())

    source = Fake(GOOD, hint=broken)
    watched(source, 25)
    assert source.looks == [0, 10, 20]
    assert "failed to wait for changes" in caplog.text


def test_a_look_that_hangs_is_blind() -> None:
    """T22: a socket that never answers is told after 30 seconds, and asked again."""

    class Hanging(Fake):
        async def look(self) -> Sweep:
            self.looks.append(round(now(), 3))
            await asyncio.Event().wait()
            return GOOD

    source = Hanging(GOOD)
    assert watched(source, 63) == [Blind("no answer within 30 s")] * 2
    assert source.looks == [0, 32]


def test_the_log_tells_changes_only(caplog: pytest.LogCaptureFixture) -> None:
    """B29: a WARNING when it goes blind or for another reason, not one per look."""
    with caplog.at_level(logging.INFO):
        watched(Fake(BAD, BAD, BAD, Blind(""), GOOD), 40)
    messages = [record.message for record in caplog.records]
    assert messages == [
        "source fake is blind, its last picture stays: docker.sock: connection refused",
        "source fake is blind, its last picture stays: no reason given",
        "source fake sees again",
    ]


def test_it_ends_when_it_is_cancelled() -> None:
    """Cancel passes through a look, a wait and a hint."""

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(watch(Fake(GOOD), 10, lambda _name, _sweep: None))
            await asyncio.sleep(5)
            task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert task.cancelled()

    run(main())
