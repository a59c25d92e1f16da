"""Alerts on their way, in virtual time: pace, channels that fail, and several workers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from autohedge.rules.alerts import Event, Phase, Topic, exhausted, state
from autohedge.rules.letters import Letter
from autohedge.settings.people import Alerts
from autohedge.watchers.alerting import FIRST, LONGEST, Alerting, channels
from autohedge.watchers.asking import Asker
from tests.support.fair import slowness
from tests.support.vtime import now, run

HOUR = 3600.0


def out(name: str = "r1", at: float = 0.0) -> Event:
    text = "a replica is out of the pool: 6/10 succeeded"
    return Event(Topic.BREAKER, f"b@10.0.0.7:8000|{name}", True, f"backend b, model {name}", text, at, name)


def back(name: str = "r1", at: float = 0.0) -> Event:
    text = "the replica is back: 2 trials answered"
    return Event(Topic.BREAKER, f"b@10.0.0.7:8000|{name}", False, f"backend b, model {name}", text, at, name)


@dataclass
class Channel:
    """Takes letters, or says why not; `reasons` are used up first."""

    reasons: list[str] = field(default_factory=list)
    letters: list[tuple[float, Letter]] = field(default_factory=list)
    tried: list[float] = field(default_factory=list)

    async def __call__(self, letter: Letter) -> str:
        self.tried.append(now())
        await asyncio.sleep(1.0)
        if self.reasons:
            reason = self.reasons.pop(0)
            if reason == "fault":
                raise RuntimeError(reason)
            return reason
        self.letters.append((now(), letter))
        return ""

    @property
    def subjects(self) -> list[str]:
        return [letter.subject.removeprefix("[AutoHedge] ") for _, letter in self.letters]


def alerting(*sends: Channel, **more: Any) -> Alerting:
    settings = Alerts.model_validate(more.pop("settings", {}))
    return Alerting(settings, {f"c{n}": send for n, send in enumerate(sends)}, now, "edge-1", **more)


async def during(seconds: float, *ones: Alerting, then: Callable[[], object] = lambda: None) -> None:
    """Let them run for so long."""
    tasks = [asyncio.ensure_future(one.run()) for one in ones]
    await asyncio.sleep(seconds)
    then()
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task


def virtual(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run(main())


# --- pace -------------------------------------------------------------------------------------------------------------


def test_the_first_alert_goes_at_once_and_the_next_ones_together() -> None:
    """min_interval: one message a minute, with all that happened meanwhile."""
    channel = Channel()

    async def main() -> None:
        one = alerting(channel)
        one.tell(out())
        await asyncio.gather(during(300.0, one), later(one, 10.0, out("r2", 10.0), out("r3", 10.0)))

    async def later(one: Alerting, seconds: float, *events: Event) -> None:
        await asyncio.sleep(seconds)
        one.tell(*events)

    virtual(main)
    assert [round(at) for at, _ in channel.letters] == [1, 62]
    assert [len(letter.alerts) for _, letter in channel.letters] == [1, 2]


def test_nothing_is_told_twice_and_an_idle_night_is_silent() -> None:
    channel = Channel()

    async def main() -> None:
        one = alerting(channel)
        for _ in range(100):
            one.tell(out())
        one.tell(back(at=1.0))
        await during(12 * HOUR, one)

    virtual(main)
    assert len(channel.letters) == 1


def test_without_a_channel_it_ends_and_takes_everything() -> None:
    async def main() -> None:
        one = alerting()
        one.tell(out())
        one.keep_only(())
        await one.run()
        assert (one.lost, one.dropped) == ("", 0)

    virtual(main)


def test_owners_that_are_gone_end_their_facts() -> None:
    channel = Channel()

    async def main() -> None:
        one = alerting(channel)
        one.tell(out())
        await during(90.0, one, then=lambda: one.keep_only({"r2"}))
        await during(90.0, one)

    virtual(main)
    assert channel.subjects[1].startswith("backend b, model r1: it is gone")


# --- lost channels ----------------------------------------------------------------------------------------------------


def test_a_lost_channel_is_tried_again_later_each_time(caplog: pytest.LogCaptureFixture) -> None:
    """5 s, 10 s ... 5 min; the reason is visible meanwhile, logged once, and the alert arrives in the end."""
    channel = Channel(["nobody listens"] * 9)
    seen: list[str] = []

    async def main() -> None:
        one = alerting(channel)
        one.tell(out())
        await during(600.0, one, then=lambda: seen.append(one.lost))
        await during(1200.0, one, then=lambda: seen.append(one.lost))

    with caplog.at_level(logging.WARNING):
        virtual(main)
    waits = [round(later - earlier - 1.0) for earlier, later in zip(channel.tried, channel.tried[1:], strict=False)]
    assert waits[:6] == [FIRST, 10, 20, 40, 80, 160]
    assert max(waits) <= LONGEST
    assert seen == ["c0: nobody listens", ""]
    assert len(channel.letters) == 1
    assert caplog.text.count("are lost, everything else goes on: nobody listens") == 1
    assert caplog.text.count("get through again") == 1


def test_one_lost_channel_does_not_hold_up_the_other() -> None:
    """And the one that comes back gets what it missed, in one message."""
    mail, hook = Channel(["no"] * 8), Channel()

    async def main() -> None:
        one = alerting(mail, hook)
        one.tell(out())
        await during(70.0, one, then=lambda: one.tell(back(at=70.0), out("r2", 70.0)))
        await during(1000.0, one)

    virtual(main)
    assert [len(letter.alerts) for _, letter in hook.letters] == [1, 2]
    assert [len(letter.alerts) for _, letter in mail.letters] == [2]
    assert "over after" in mail.letters[0][1].text


def test_a_fault_of_our_own_is_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    channel = Channel(["fault"])

    async def main() -> None:
        one = alerting(channel)
        one.tell(out())
        await during(60.0, one)

    virtual(main)
    assert len(channel.letters) == 1
    assert "a fault of AutoHedge" in caplog.text


def test_a_long_loss_costs_alerts_only() -> None:
    """The queue is bounded; what was dropped is counted and told."""
    channel = Channel(["no"] * 3)

    async def main() -> None:
        one = alerting(channel, settings={"queue": 10})
        for number in range(500):
            one.tell(out(f"r{number}"))
        await during(60.0, one)
        assert one.dropped == 490

    virtual(main)
    ((_, letter),) = channel.letters
    assert len(letter.alerts) == 10
    assert "490 alerts were dropped" in letter.text


def test_telling_is_cheap() -> None:
    """A request tells that its chain was exhausted: under 100 us each, however many facts are known."""
    one = alerting(Channel(), Channel())
    for number in range(300):
        one.tell(out(f"r{number}"))
    event = exhausted("m", "every backend of model m failed", 1.0)
    began = time.process_time()
    for _ in range(1000):
        one.tell(event)
    assert (time.process_time() - began) / 1000 < 1e-4 * slowness()


# --- several workers --------------------------------------------------------------------------------------------------


class Leases:
    """Leases of one store for several holders, as `Shared.lease` gives them."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[str, float]] = {}

    def of(self, holder: str) -> Callable[[str, float], Awaitable[bool]]:
        async def lease(key: str, seconds: float) -> bool:
            assert "10.0.0.7" not in key
            who, until = self.held.get(key, (holder, 0.0))
            if who != holder and until > now():
                return False
            self.held[key] = (holder, now() + seconds)
            return True

        return lease


def test_four_workers_send_one_message() -> None:
    """Each hears the same fact; beginning, reminder and end come once."""
    shared = [Channel() for _ in range(4)]
    leases = Leases()

    async def main() -> None:
        workers = [alerting(channel, lease=leases.of(f"w{n}")) for n, channel in enumerate(shared)]

        def tell(event: Event) -> None:
            for worker in workers:
                worker.tell(event)

        tell(out())
        tell(exhausted("m", "x", 0.0))
        await during(1.5 * HOUR, *workers, then=lambda: tell(back(at=1.5 * HOUR)))
        await during(600.0, *workers)

    virtual(main)
    told = sorted(alert["phase"] for channel in shared for _, letter in channel.letters for alert in letter.alerts)
    assert told == ["began", "began", "over", "still"]


def test_workers_that_find_out_at_different_times_send_one_message_per_repeat() -> None:
    """A chain is found exhausted by each worker when a caller asks it."""
    shared = [Channel() for _ in range(4)]
    leases = Leases()

    async def main() -> None:
        workers = [alerting(channel, lease=leases.of(f"w{n}")) for n, channel in enumerate(shared)]
        for minute in range(50):
            workers[minute % 4].tell(exhausted("m", "x", now()))
            await during(60.0, *workers)

    virtual(main)
    assert sum(len(channel.letters) for channel in shared) == 1


def test_a_worker_that_sends_in_vain_keeps_its_lease() -> None:
    """The others count the item as told; whoever tries tells in the end."""
    first, second = Channel(["no"] * 5), Channel()
    leases = Leases()

    async def main() -> None:
        workers = [alerting(first, lease=leases.of("a")), alerting(second, lease=leases.of("b"))]
        for worker in workers:
            worker.tell(out())
        await during(600.0, *workers)

    virtual(main)
    assert (len(first.letters), len(second.letters)) == (1, 0)


def test_state_that_is_lost_is_told_by_the_speaker_alone() -> None:
    """No lease can be had then: `Shared.lease` says yes to everybody."""
    shared = [Channel() for _ in range(3)]

    async def main() -> None:
        workers = [alerting(channel, speaker=n == 0) for n, channel in enumerate(shared)]
        for worker in workers:
            worker.tell(state("no answer in time", 0.0))
        await during(100.0, *workers)

    virtual(main)
    assert [len(channel.letters) for channel in shared] == [1, 0, 0]


def test_only_what_is_configured_is_a_channel() -> None:
    async def main() -> None:
        async with Asker() as asker:
            assert channels(Alerts(), asker, time.time, "x") == {}
            both = {
                "mail": {"host": "h", "sender": "a@b", "to": ["c@d"]},
                "webhook": {"url": "https://hooks.example/x"},
            }
            assert set(channels(Alerts.model_validate(both), asker, time.time, "x")) == {"mail", "webhook"}

    asyncio.run(main())


def test_every_phase_has_a_lease_of_its_own() -> None:
    """A beginning that was told must not silence the end."""
    keys: list[str] = []

    async def lease(key: str, _seconds: float) -> bool:
        keys.append(key)
        return True

    async def main() -> None:
        one = alerting(Channel(), lease=lease)
        one.tell(out())
        await during(100.0, one, then=lambda: one.tell(back(at=100.0)))
        await during(100.0, one)

    virtual(main)
    assert len(set(keys)) == 2
    assert {key.rpartition(":")[2] for key in keys} == {Phase.BEGAN.value, Phase.OVER.value}
