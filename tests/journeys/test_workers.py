"""Journeys of eidex's workers API: registered at a running AutoHedge, asked at once, removed in peace, known after a restart."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typesafe_sdk import TypeSafeClient

from tests.state.servers import RedisServer
from tests.support.canned import Canned, held
from tests.support.house import HELLO, SERVER, TIMES, Edge, eventually, house, run, vllm

EMPTY = SERVER + TIMES + "upstream_registry: {}\n"


async def register(edge: Edge, url: str, **fields: Any) -> str:
    heard = await edge.post({"url": url, **fields}, "/workers")
    assert heard.status == 202, heard.body
    return str(heard.json["worker_id"])


async def workers(edge: Edge) -> list[dict[str, Any]]:
    return list((await edge.get("/workers")).json()["workers"])


def test_a_registered_worker_answers_the_very_next_request() -> None:
    """E44: known before anybody asked it anything."""

    async def main() -> None:
        async with house(EMPTY, one=vllm()) as edge:
            assert (await edge.chat()).status == 404
            await register(edge, edge.one.url, model_id="m")
            assert (await edge.chat()).status == 200
            assert (await edge.get("/health")).json() == {"status": "ok", "healthy_workers": 1, "total_workers": 1}

    run(main())


def test_a_worker_keeps_the_name_that_it_was_registered_for() -> None:
    """E2, E28: the name goes out as it came in, whatever the engine calls its model; that name leads nowhere."""

    async def main() -> None:
        async with house(EMPTY, one=vllm()) as edge:
            name = await register(edge, edge.one.url, model_id="dex")
            await eventually(lambda: bool(edge.house.registry.snapshot.lessons))
            assert list(edge.house.registry.snapshot.routes) == ["dex"]
            assert edge.candidate(model="dex").served == "dex"
            assert edge.candidate(model="dex").backend.name == f"worker-{name[:8]}"

    run(main())


def test_a_removed_worker_ends_what_it_is_answering() -> None:
    """E67: removed in the middle of a stream, which comes to its end; nothing new goes there."""

    async def main() -> None:
        worker = held(stream=True)
        async with house(EMPTY.replace(TIMES, ""), one=worker.engine) as edge:
            name = await register(edge, edge.one.url, model_id="m")
            stream = asyncio.create_task(edge.stream())
            await eventually(lambda: edge.busy == 1)
            assert (await workers(edge))[0]["load"] == 1
            assert (await edge.client.delete(f"{edge.url}/workers/{name}")).status_code == 202
            assert (await edge.chat()).status == 404
            assert await workers(edge) == []
            worker.free.set()
            heard = await stream
            assert (heard.status, heard.cut, heard.errors) == (200, False, [])
            assert heard.events[-1] == b"data: [DONE]"

    run(main())


@pytest.mark.parametrize("persist", [True, False])
def test_after_a_restart(persist: bool, tmp_path: Path) -> None:
    """E161: registered workers are kept in the state; with `workers.persist: false` the file holds again."""
    config = EMPTY + f"workers: {{persist: {str(persist).lower()}}}\n"
    env = {"AUTOHEDGE_DATA": str(tmp_path)}

    async def main() -> None:
        engine = vllm()
        url = await engine.start()
        async with house(config, env=env) as edge:
            await register(edge, url, model_id="m", labels={"zone": "a"}, priority=3)
            before = await workers(edge)
        async with house(config, env=env) as edge:
            assert await workers(edge) == (before if persist else [])
            assert (await edge.chat()).status == (200 if persist else 404)
        await engine.stop()

    run(main())


def test_workers_of_the_file_are_there_and_come_back_with_a_restart(tmp_path: Path) -> None:
    """E107: removed at run time, they stay away until the next start (eidex)."""
    config = SERVER + TIMES + "workers: [{url: '${ONE}', model_id: m}]\n"
    env = {"AUTOHEDGE_DATA": str(tmp_path)}

    async def main() -> None:
        async with house(config, env=env, one=vllm()) as edge:
            (worker,) = await workers(edge)
            assert (await edge.chat()).status == 200
            assert (await edge.client.delete(f"{edge.url}/workers/{worker['id']}")).status_code == 202
            assert (await edge.chat()).status == 404
        async with house(config, env=env, one=vllm()) as edge:
            assert (await edge.chat()).status == 200

    run(main())


@pytest.mark.parametrize("store", ["file", "redis"])
def test_what_one_process_registers_the_others_know_within_a_second(store: str, tmp_path: Path) -> None:
    """One state for two AutoHedge, a file or a real Redis: registering and removing is heard by the other one."""
    env = {"AUTOHEDGE_DATA": str(tmp_path)}
    redis = RedisServer(tmp_path) if store == "redis" else None
    if redis is not None:
        env = {"AUTOHEDGE_STATE_URL": redis.url}

    async def main() -> None:
        async with house(EMPTY, env=env, one=vllm()) as here, house(EMPTY, env=env) as there:
            name = await register(here, here.one.url, model_id="m")
            assert await eventually(lambda: "m" in there.house.registry.snapshot.routes) < 1.5
            assert (await there.post(HELLO)).status == 200
            assert [worker["id"] for worker in await workers(there)] == [name]
            assert (await there.client.delete(f"{there.url}/workers/{name}")).status_code == 202
            assert await eventually(lambda: "m" not in here.house.registry.snapshot.routes) < 1.5

    try:
        run(main())
    finally:
        if redis is not None:
            redis.stop()


def test_what_one_process_has_accepted_holds_at_the_others_at_once(tmp_path: Path) -> None:
    """Connections of one client may lead to several processes: 57 of 200 workers that were removed right after they had been
    registered were unknown there, and stayed.
    """
    env = {"AUTOHEDGE_DATA": str(tmp_path)}

    async def main() -> None:
        async with house(EMPTY, env=env) as here, house(EMPTY, env=env) as there:
            for number in range(20):
                url = f"http://127.0.0.1:{number + 1}"
                path = f"/workers/{await register(here, url, model_id='m')}"
                assert (await there.get(path)).status_code == 200
                assert (await there.post({"url": url, "model_id": "other"}, "/workers")).status == 409
                assert [(await edge.get(path, "DELETE")).status_code for edge in (there, here)] == [202, 404]
                assert [(await edge.get(path)).status_code for edge in (there, here)] == [404, 404]

    run(main())


def test_a_token_is_asked_for_and_no_secret_is_told() -> None:
    """E57: `admin.token` guards the workers API; neither it nor a body stands in an answer."""
    config = EMPTY + "admin: {token: sesame}\n"

    async def main() -> None:
        async with house(config, one=vllm()) as edge:
            heard = await edge.post({"url": edge.one.url}, "/workers")
            assert (heard.status, heard.headers["x-smg-error-code"]) == (401, "unauthorized")
            heard = await edge.post({"url": edge.one.url}, "/workers", {"authorization": "Bearer sesame"})
            assert heard.status == 202
            assert "sesame" not in json.dumps(heard.json)

    run(main())


def test_a_name_that_leads_elsewhere_is_not_followed() -> None:
    """E57: the address is judged whenever a connection is made, by requests and by our own questions."""
    config = EMPTY + "learning: {interval: 100ms}\nworkers: {allow: [127.0.0.0/8, '::1']}\n"

    async def main() -> None:
        async with house(config, one=vllm()) as edge:
            await register(edge, f"http://localhost:{edge.one.port}", model_id="m")
            assert (await edge.chat()).status == 200
            await eventually(lambda: bool(edge.house.registry.snapshot.lessons))
            moved = edge.house.settings.workers.model_copy(update={"allow": ("10.0.0.0/8",)})
            edge.house.settings = edge.house.settings.model_copy(update={"workers": moved})
            edge.pool().close()  # connections that stand are from before
            await eventually(lambda: "unreachable" in str(edge.house.learner.silent))
            heard = edge.one.received["/v1/models"]
            failed = await edge.chat()
            assert failed.status in (502, 503)
            await asyncio.sleep(0.3)
            assert edge.one.received["/v1/models"] == heard

    run(main())


def test_removing_a_worker_moves_only_its_documents() -> None:
    """E65: the ring is built anew; registered again, it has its documents back."""
    decision = {"model": "dex", "questions": {"q": {"type": "noul", "instructions": "Is it?"}}}

    async def main() -> None:
        canned = {name: Canned() for name in ("one", "two", "six")}
        one, two, six = (worker.engine for worker in canned.values())
        async with house(EMPTY, one=one, two=two, six=six) as edge:
            names = [await register(edge, worker.url, model_id="dex") for worker in canned.values()]

            async def homes() -> list[str]:
                answers = [await edge.post(decision | {"state": f"document {n}"}, "/v1/systemone") for n in range(60)]
                return [answer.backend for answer in answers]

            first = await homes()
            assert len(set(first)) == 3
            await edge.client.delete(f"{edge.url}/workers/{names[1]}")
            lost = f"worker-{names[1][:8]}"
            after = await homes()
            assert lost not in after
            assert [new for old, new in zip(first, after, strict=True) if old != lost] == [
                old for old in first if old != lost
            ]
            await register(edge, canned["two"].url, model_id="dex")
            assert await homes() == first

    run(main())


def test_workers_come_and_go_under_load_and_no_request_fails() -> None:
    """E44, E67: one of three is removed and registered again while requests run; every one of them is answered."""
    decision = {"model": "dex", "questions": {"q": {"type": "noul", "instructions": "Is it?"}}}

    async def main() -> None:
        canned = {name: Canned() for name in ("one", "two", "six")}
        for worker in canned.values():
            worker.wait = 0.02  # so that some are always under way
        one, two, six = (worker.engine for worker in canned.values())
        async with house(EMPTY, one=one, two=two, six=six) as edge:
            names = [await register(edge, worker.url, model_id="dex") for worker in canned.values()]
            over = asyncio.Event()
            statuses: list[int] = []

            async def caller(number: int) -> None:
                while not over.is_set():
                    document = f"document {number} {len(statuses) % 50}"
                    statuses.append((await edge.post(decision | {"state": document}, "/v1/systemone")).status)

            async with asyncio.TaskGroup() as group:
                for number in range(8):
                    group.create_task(caller(number))
                for _ in range(10):
                    before = len(canned["two"].requests)
                    await eventually(lambda: len(canned["two"].requests) > before)  # noqa: B023 - awaited here
                    assert (await edge.client.delete(f"{edge.url}/workers/{names[1]}")).status_code == 202
                    without = len(statuses)
                    await eventually(lambda: len(statuses) > without + 5)  # noqa: B023 - awaited here
                    await register(edge, canned["two"].url, model_id="dex")
                over.set()
            assert len(statuses) > 50
            assert set(statuses) == {200}
            assert edge.busy == 0

    run(main())


ENDPOINTS = [
    ("/v1/models", "GET, HEAD"),
    ("/v1/systemone", "POST"),
    ("/workers", "GET, HEAD, POST"),
    ("/workers/{id}", "DELETE, GET, HEAD"),
    ("/liveness", "GET, HEAD"),
    ("/health", "GET, HEAD"),
    ("/readiness", "GET, HEAD"),
    ("/version", "GET, HEAD"),
]


@pytest.mark.parametrize(("path", "allow"), ENDPOINTS)
def test_the_ten_endpoints_of_eidex(path: str, allow: str) -> None:
    """E9, E10, E11, E12, E79: each with its methods; HEAD is GET without its body; any other one is a 405 in the envelope."""

    async def main() -> None:
        async with house("mode: eidex\n" + EMPTY, one=vllm()) as edge:
            name = await register(edge, edge.one.url)
            where = path.replace("{id}", name)
            if "GET" in allow:
                got, bare = await edge.get(where), await edge.get(where, "HEAD")
                assert (got.status_code, bare.status_code, bare.content) == (200, 200, b"")
                assert {**bare.headers, "x-request-id": ""} == {**got.headers, "x-request-id": ""}
            for method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - set(allow.split(", ")):
                answer = await edge.get(where, method)
                assert (answer.status_code, answer.headers["allow"]) == (405, allow), method
                assert answer.headers["x-smg-error-code"] == "METHOD_NOT_ALLOWED"
                if method != "HEAD":
                    error = answer.json()["error"]
                    assert (error["type"], error["code"]) == ("Method Not Allowed", "METHOD_NOT_ALLOWED")

    run(main())


def test_typesafe_sdk_lists_the_models() -> None:
    """Facts 7: one body serves OpenAI clients and `models.list()`, which wants another list beside it."""
    config = "models: [{id: dex, created: 1790921023}]\n" + EMPTY

    async def main() -> None:
        async with house(config, one=vllm()) as edge:
            await register(edge, edge.one.url, model_id="m")

            def listed() -> list[str]:
                with TypeSafeClient(api_key="k", base_url=edge.url) as client:
                    return [model.name for model in client.models.list().models]

            assert await asyncio.to_thread(listed) == ["dex", "m"]

    run(main())
