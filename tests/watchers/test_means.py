"""What all probers share: fairness towards engines when we are slow ourselves, and whose key goes along."""

from __future__ import annotations

import asyncio

from autohedge.core.types import Judgement, Kind, Secret, Verdict
from autohedge.watchers.means import Hooks, Means, headers_for
from tests.support.vtime import now, run
from tests.watchers.scripted import World, blocked


def test_a_verdict_against_a_replica_is_thrown_away_when_we_were_late() -> None:
    """T89: a starved event loop takes its own slowness for a dead engine. A good answer is good."""

    async def main() -> None:
        world = World()
        means = Means(world.registry, world.health, world.ask, world.draws)
        sick, good = Judgement(Verdict.SICK, "no first byte in time"), Judgement(Verdict.ANSWER)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(means.pulse.run())
            await asyncio.sleep(1.0)
            began = now()
            await asyncio.sleep(2.0)
            assert means.fair(sick, began, now()) is sick
            blocked(2.0)
            thrown = means.fair(sick, began, now())
            assert (thrown.verdict, thrown.certain) == (Verdict.ABANDONED, False)
            assert "our own event loop" in thrown.reason
            assert means.fair(good, began, now()) is good
            task.cancel()

    run(main())


def test_the_backend_s_own_key() -> None:
    """As its kind wants it; none where it has none."""
    world = World()
    world.add("open", "h1")
    world.add("vllm", "h2", key=Secret("k1"))
    world.add("cloud", "h3", kind=Kind.AZURE, key=Secret("k2"), external=True, models=("gpt",))
    assert headers_for(world.candidate("open@h1:8000")) == ()
    assert headers_for(world.candidate("vllm@h2:8000")) == ((b"authorization", b"Bearer k1"),)
    assert headers_for(world.candidate("cloud@h3:8000", "gpt")) == ((b"api-key", b"k2"),)


def test_hooks_do_nothing_unless_given() -> None:
    """One process alone may probe everything."""
    assert Hooks().lease("probe:x") is True
