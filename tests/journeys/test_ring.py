"""Journeys of affinity: documents and conversations that come again find their KV cache (issue 5, acceptance 3 in small)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from autohedge.engine.sample import SampleEngine
from tests.support.canned import Canned
from tests.support.house import SERVER, TIMES, Edge, Heard, house, run

PATH = "/v1/systemone"
BODY: dict[str, Any] = {
    "model": "dex",
    "state": "I was charged twice.",
    "questions": {"q": {"type": "noul", "instructions": "Is it about money?"}},
}


async def ask(edge: Edge, **fields: Any) -> Heard:
    return await edge.post({key: value for key, value in (BODY | fields).items() if value is not ...}, PATH)


THREE = (
    SERVER
    + TIMES
    + "routing: {ROUTING}\nupstream_registry:\n"
    + "".join(f'  w{n}: {{host: "${{{name}}}", model: dex}}\n' for n, name in enumerate(("ONE", "TWO", "SIX")))
)


@asynccontextmanager
async def three(routing: str = "{}") -> AsyncIterator[tuple[Edge, dict[str, Canned]]]:
    workers = {name: Canned() for name in ("one", "two", "six")}
    config = THREE.replace("{ROUTING}", routing)
    one, two, six = (worker.engine for worker in workers.values())
    async with house(config, one=one, two=two, six=six) as edge:
        yield edge, workers


async def homes(edge: Edge, documents: int) -> list[str]:
    """Who answers for each document."""
    return [(await ask(edge, state=f"document {n}")).backend for n in range(documents)]


def test_a_document_stays_on_its_worker_and_only_a_lost_worker_s_documents_move() -> None:
    """E3, E36, E65, acceptance 3 in small, over real sockets."""

    async def main() -> None:
        async with three() as (edge, workers):
            first = await homes(edge, 120)
            assert min(first.count(name) for name in ("w0", "w1", "w2")) > 15
            assert await homes(edge, 120) == first
            await workers["two"].stop()
            after = await homes(edge, 120)
            assert [new for old, new in zip(first, after, strict=True) if old != "w1"] == [
                old for old in first if old != "w1"
            ]
            metrics = (await edge.get("/metrics")).text
            assert 'autohedge_affinity_total{backend="w0",replica="w0@' in metrics
            assert 'result="home"' in metrics

    run(main())


@pytest.mark.parametrize("state", [..., None, 5, True])
def test_without_a_document_the_least_loaded_is_asked(state: Any) -> None:
    """E6: they take turns instead of crowding one worker."""

    async def main() -> None:
        async with three() as (edge, workers):
            edge.house.tools.settings = edge.house.settings.model_copy(
                update={"validation": edge.house.settings.validation.model_copy(update={"mode": False})}
            )
            for _ in range(9):
                assert (await ask(edge, state=state)).status == 200
            assert [len(worker.requests) for worker in workers.values()] == [3, 3, 3]
            assert 'result="none"' in (await edge.get("/metrics")).text

    run(main())


def test_spelling_does_not_part_a_document_from_its_worker() -> None:
    """E5: an object with and without blanks, a text with and without escapes."""

    async def main() -> None:
        async with three() as (edge, _):
            for n in range(10):
                one = (
                    b'{"model":"dex","state":{"a": "\\u00fc%d" },"questions":{"q":{"type":"noul","instructions":"x"}}}'
                    % n
                )
                two = (
                    b'{"state":{"a":"\xc3\xbc%d"},"questions":{"q":{"type":"noul","instructions":"x"}}, "model":"dex"}'
                    % n
                )
                assert (await edge.post(one, PATH)).backend == (await edge.post(two, PATH)).backend

    run(main())


@pytest.mark.parametrize("policy", ["round_robin", "least_outstanding"])
def test_the_other_policies_take_turns(policy: str) -> None:
    """E94."""

    async def main() -> None:
        async with three(f"{{policy: {policy}}}") as (edge, workers):
            for _ in range(9):
                assert (await ask(edge)).status == 200
            assert [len(worker.requests) for worker in workers.values()] == [3, 3, 3]
            assert "autohedge_affinity_total{" not in (await edge.get("/metrics")).text

    run(main())


def test_a_hot_document_spills_over_and_comes_home() -> None:
    """Acceptance 3: under one hot key nobody works on much more than its share, and the bound can be switched off."""

    async def main(bound: str) -> list[int]:
        async with three(f"{{bounded_load: {bound}}}") as (edge, workers):
            for worker in workers.values():
                worker.wait = 0.3
            await asyncio.gather(*(ask(edge) for _ in range(30)))
            return sorted(len(worker.requests) for worker in workers.values())

    assert run(main("1.25"))[-1] <= 13  # ceil(1.25 x 30 / 3)
    assert run(main("off")) == [0, 0, 30]


def test_chats_with_the_same_beginning_go_to_one_replica() -> None:
    """Issue 5: `routing.affinity: prefix`; off by default, and then nothing of it runs."""
    config = SERVER + TIMES + 'ROUTING\nupstream_registry:\n  pair: {hosts: ["${ONE}", "${TWO}"]}\n'

    async def main(routing: str) -> list[set[str]]:
        async with house(
            config.replace("ROUTING", routing), one=SampleEngine("vllm", model="m"), two=SampleEngine("vllm", model="m")
        ) as edge:
            found = []
            for n in range(12):
                turns: list[dict[str, str]] = [
                    {"role": "system", "content": "Be kind."},
                    {"role": "user", "content": f"talk {n}"},
                ]
                by = set()
                for _ in range(3):
                    heard = await edge.chat(messages=turns)
                    by.add(str(heard.headers["x-sample-engine"]))
                    turns = [*turns, {"role": "assistant", "content": "yes"}, {"role": "user", "content": "more"}]
                found.append(by)
            counted = "autohedge_affinity_total{" in (await edge.get("/metrics")).text
            assert counted is bool(routing)
            return found

    kept = run(main("routing: {affinity: prefix}"))
    assert all(len(by) == 1 for by in kept)
    assert len(set.union(*kept)) == 2
    assert any(len(by) == 2 for by in run(main("")))


def test_documents_stay_while_workers_are_first_heard() -> None:
    """Facts 8.14: workers begin well. Whoever is probed first gets no documents of the others, not even for a moment."""

    async def main() -> None:
        workers = [SampleEngine("systemone", model="dex", latency=0.02) for _ in range(3)]
        config = THREE.replace("{ROUTING}", "{}") + "probe: {interval: 100ms, timeout: 20s}\n"
        async with house(
            config, env={"AUTOHEDGE_PROBE_ENABLED": "true"}, one=workers[0], two=workers[1], six=workers[2]
        ) as edge:
            rounds = [await homes(edge, 30) for _ in range(4)]
            assert all(one == rounds[0] for one in rounds)
            assert set(rounds[0]) == {"w0", "w1", "w2"}

    run(main())


def test_registering_and_removing_moves_only_the_documents_of_that_worker() -> None:
    """E3, E65 by the workers API: what a new one gets it takes from all, what a removed one had goes to all."""

    async def main() -> None:
        one, two, six = Canned(), Canned(), Canned()
        async with house(SERVER + TIMES, one=one.engine, two=two.engine, six=six.engine) as edge:
            names = {}
            for worker in (one, two):
                heard = await edge.post({"url": worker.url}, "/workers")
                names[worker.url] = heard.json["worker_id"]
            before = await homes(edge, 60)
            heard = await edge.post({"url": six.url}, "/workers")
            new = f"worker-{heard.json['worker_id'][:8]}"
            with_six = await homes(edge, 60)
            assert {now for was, now in zip(before, with_six, strict=True) if was != now} == {new}
            await edge.client.delete(f"{edge.url}/workers/{heard.json['worker_id']}")
            assert await homes(edge, 60) == before

    run(main())
