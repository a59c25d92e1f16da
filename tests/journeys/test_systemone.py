"""Journeys through POST /v1/systemone: what eidex's document says of its data path, sentence by sentence (docs/parity.md)."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from autohedge.engine.sample import SampleEngine
from autohedge.rules.standing import Wish
from tests.support.canned import Canned
from tests.support.house import SERVER, TIMES, Edge, Heard, eventually, house, run

PATH = "/v1/systemone"
QUESTIONS = {"q": {"type": "noul", "instructions": "Is it about money?"}}
BODY: dict[str, Any] = {"model": "dex", "state": "I was charged twice.", "questions": QUESTIONS}
ROUTING = "routing: {request_timeout: 60s}\n"
TWO = (
    "upstream_registry:\n"
    '  w1: {host: "${ONE}", model: dex, priority: 1, provider: systemone}\n'
    '  w2: {host: "${TWO}", model: dex, provider: systemone}\n'
)
PAIR = SERVER + TIMES + ROUTING + TWO  # w1 is asked first
ALONE = PAIR.replace('  w2: {host: "${TWO}", model: dex, provider: systemone}\n', "")
NOBODY = SERVER + TIMES


@asynccontextmanager
async def behind(config: str = PAIR, **settings: Any) -> AsyncIterator[tuple[Edge, Canned, Canned]]:
    """AutoHedge before two workers; `settings` are the first one's."""
    one, two = Canned(), Canned()
    for name, value in settings.items():
        setattr(one, name, value)
    async with house(config, one=one.engine, two=two.engine) as edge:
        yield edge, one, two


async def ask(edge: Edge, headers: dict[str, str] | None = None, **fields: Any) -> Heard:
    return await edge.post({key: value for key, value in (BODY | fields).items() if value is not ...}, PATH, headers)


def smg(heard: Heard | httpx.Response, status: int, code: str, kind: str) -> str:
    """The message of an error in eidex's envelope; all else of it is checked."""
    body = heard.json if isinstance(heard, Heard) else heard.json()
    assert (heard.status if isinstance(heard, Heard) else heard.status_code) == status
    assert heard.headers["x-smg-error-code"] == code
    error = body["error"]
    assert (error["type"], error["code"]) == (kind, code)
    return str(error["message"])


# --- what reaches the worker --------------------------------------------------------------------------------------------

ODD = b'{ "state":"Gr\\u00fc\xc3\x9fe" ,\n"questions": {"q":{"instructions":"x","type":"noul"}}, "x":1.0e2,"model" : "dex" }\r\n'


def test_the_body_travels_byte_by_byte_and_authorization_unread() -> None:
    """E2, E18, E27, E157: nothing is rewritten, whatever the credential looks like; query and X-Request-ID go along."""

    async def main() -> None:
        async with behind() as (edge, one, _):
            for given in ("Bearer sk-1", "Basic dXNlcjpwdw==", "anything at all"):
                headers = {"authorization": given, "x-request-id": "r-1", "api-key": "k"}
                heard = await edge.post(ODD, PATH + "?trace=1", headers)
                assert heard.status == 200
                head, body = one.requests[-1]
                assert body == ODD
                assert head.startswith(b"POST /v1/systemone?trace=1 HTTP/1.1\r\n")
                assert b"\r\nauthorization: " + given.encode() + b"\r\n" in head
                assert b"\r\nx-request-id: r-1\r\n" in head
                assert b"\r\napi-key: k\r\n" in head

    run(main())


def test_a_worker_s_own_name_does_not_touch_the_body() -> None:
    """E2: SGLang is called otherwise than the operator calls the model; it does not look at the name."""
    config = PAIR.replace("provider: systemone", "provider: sglang")

    async def main() -> None:
        async with house(
            config, one=SampleEngine("sglang", model="/models/x"), two=SampleEngine("sglang", model="y")
        ) as edge:
            heard = await edge.post(ODD, PATH)
            assert heard.status == 200
            assert edge.one.last_request is not None
            assert edge.one.last_request.body == ODD
            assert heard.json["model"] == "dex"  # and the answer says what was asked for

    run(main())


def test_a_worker_behind_a_path_has_it_before_the_door() -> None:
    """E18: the worker's URL with /v1/systemone behind it."""

    async def main() -> None:
        async with behind(ALONE.replace("${ONE}", "${ONE}/gpu1")) as (edge, one, _):
            assert (await ask(edge)).status == 200
            assert one.requests[0][0].startswith(b"POST /gpu1/v1/systemone ")

    run(main())


# --- what comes back ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "status", [200, 201, 204, 302, 400, 401, 403, 404, 405, 409, 410, 413, 422, 429, 500, 501, 505, 529]
)
def test_a_worker_s_answer_is_committed_at_once_and_unchanged(status: int) -> None:
    """E19, E35, E84, E85, E158: every status but 502, 503 and 504, also 404, 405 and 501; no other worker is asked. E139: the
    header that tells an error of the router's own is not the worker's to set.
    """
    body = b"" if status == 204 else b'{"detail": [{"loc":["body"] ,"msg":"no"}]}'

    async def main() -> None:
        headers = [
            ("content-type", "application/problem+json"),
            ("retry-after", "7"),
            ("x-own", "1"),
            ("x-smg-error-code", "x"),
        ]
        async with behind(status=status, headers=headers, body=body) as (edge, one, two):
            heard = await ask(edge)
            assert (heard.status, heard.body) == (status, body)
            assert heard.headers["content-type"] == "application/problem+json"
            assert (heard.headers["retry-after"], heard.headers["x-own"]) == ("7", "1")
            assert "x-smg-error-code" not in heard.headers
            assert heard.headers["x-autohedge-backend"] == "w1"
            assert (len(one.requests), len(two.requests)) == (1, 0)

    run(main())


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ([("content-type", "text/html")], b"<html>504</html>"),
        ([("content-type", "text/event-stream")], b"data: x\n\n"),
        ([("content-type", "application/json")], b'{"error": "inside a 200"}'),
        ([], b""),
    ],
)
def test_a_good_status_is_good_whatever_stands_in_the_body(headers: list[tuple[str, str]], body: bytes) -> None:
    """E35: eidex reads no bodies; what such an answer proves is the breaker's business alone."""

    async def main() -> None:
        async with behind(headers=headers, body=body) as (edge, _, two):
            heard = await ask(edge)
            assert (heard.status, heard.body) == (200, body)
            assert two.requests == []

    run(main())


SERVED = b'{"answers":{"q":1.0},"model" : "served","usage":{}}'
NAMED = b'{"answers":{"q":1.0},"model" : "%b","usage":{}}'


@pytest.mark.parametrize("status", [200, 400, 422])
@pytest.mark.parametrize(
    ("override", "model", "shown"),
    [
        ("", "dex", b"dex"),  # E21: the request's
        ("model_override: {model: fixed-name}", "dex", b"fixed-name"),
        ("model_override: {enabled: false}", "dex", b"served"),
        ("model_override: {enabled: false, model: fixed-name}", "dex", b"served"),
        ("", ..., b"served"),  # the request names none
        ("model_override: {model: fixed-name}", ..., b"fixed-name"),
    ],
)
def test_the_name_in_the_answer(status: int, override: str, model: Any, shown: bytes) -> None:
    """E20, E21, E24, E98, E99: 2xx and passed-on 4xx alike, one span of bytes, the length true."""
    config = PAIR.replace("request_timeout: 60s", f"request_timeout: 60s, {override}".rstrip(", "))

    async def main() -> None:
        async with behind(config, status=status, body=SERVED) as (edge, _, _two):
            heard = await ask(edge, model=model)
            assert heard.status == status
            assert heard.body == NAMED % shown
            assert int(heard.headers["content-length"]) == len(heard.body)

    run(main())


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":null,"a":1}',
        b'{"model": "dex" }',
        b'["served"]',
        b'{"model":"served"',
        b"served",
        b'{"a":{"model":"served"}}',
    ],
)
def test_answers_without_another_name_stay_as_they_are(body: bytes) -> None:
    """E22, E23."""

    async def main() -> None:
        async with behind(body=body) as (edge, _, _two):
            assert (await ask(edge)).body == body

    run(main())


def test_a_compressed_answer_is_left_alone() -> None:
    """E25."""
    packed = gzip.compress(SERVED)

    async def main() -> None:
        headers = [("content-type", "application/json"), ("content-encoding", "gzip")]
        async with behind(headers=headers, body=packed) as (edge, _, _two):
            heard = await ask(edge)
            assert heard.body == packed
            assert heard.headers["content-encoding"] == "gzip"

    run(main())


def test_a_large_answer_is_renamed_too() -> None:
    """E20: hundreds of questions with hundreds of options; here 3 MiB, which the other doors would stream."""
    body = b'{"answers":"' + b"x" * (3 << 20) + b'","model":"served"}'

    async def main() -> None:
        async with behind(body=body) as (edge, _, _two):
            assert (await ask(edge)).body == body.replace(b"served", b"dex")

    run(main())


# --- who is asked -------------------------------------------------------------------------------------------------------


async def wildcards(edge: Edge, *engines: Canned) -> None:
    """Register workers without a model_id."""
    for engine in engines:
        assert (await edge.post({"url": engine.url}, "/workers")).status == 202


def backend_is(edge: Edge, number: int, *, open_: bool) -> None:
    """Take a worker out, or bring it back, as the operator does."""
    replica = list(edge.house.registry.snapshot.replicas)[number]
    edge.house.health.force(replica, Wish.OPEN if open_ else Wish.NONE)


def test_exact_ones_before_wildcards_and_these_when_all_exact_ones_are_out() -> None:
    """E28, E29."""

    async def main() -> None:
        async with behind(ALONE) as (edge, one, two):
            await wildcards(edge, two)
            assert (await ask(edge)).backend == "w1"
            assert (await ask(edge, model="other")).backend.startswith("worker-")
            backend_is(edge, 0, open_=True)
            assert (await ask(edge)).backend.startswith("worker-")
            assert two.requests[-1][1] == two.requests[0][1].replace(b'"other"', b'"dex"')
            assert len(one.requests) == 1

    run(main())


def test_a_failed_exact_worker_is_not_replaced_by_a_wildcard() -> None:
    """E28: wildcards are for the case that no exact one is healthy; this one is, and fails."""

    async def main() -> None:
        async with behind(ALONE, status=503) as (edge, one, two):
            await wildcards(edge, two)
            message = smg(await ask(edge), 502, "workers_unreachable", "Bad Gateway")
            assert message == f"all worker attempts failed (last: 503 from {one.url})"
            assert two.requests == []

    run(main())


@pytest.mark.parametrize("model", [..., None, "", 5, True, ["dex"], {"a": 1}])
def test_without_a_model_every_healthy_worker_may_answer(model: Any) -> None:
    """E30, E31: missing, null, empty or no string; the body still travels as it came."""
    config = PAIR + "validation: {mode: off}\n"

    async def main() -> None:
        async with behind(config) as (edge, one, two):
            heard = await ask(edge, model=model)
            assert heard.status == 200
            backend_is(edge, 0, open_=True)
            assert (await ask(edge, model=model)).status == 200
            sent = {key: value for key, value in (BODY | {"model": model}).items() if value is not ...}
            assert [json.loads(body) for _, body in one.requests + two.requests] == [sent, sent]

    run(main())


def test_nobody_to_ask() -> None:
    """E37, E38, E82, E84, E160: 503 with eidex's two messages and a time to come back; an unknown model is no 404."""

    async def main() -> None:
        async with house(NOBODY) as edge:
            heard = await ask(edge)
            assert smg(heard, 503, "no_workers", "Service Unavailable") == "No available workers for model 'dex'"
            assert int(heard.headers["retry-after"]) >= 1
            heard = await ask(edge, model=...)
            assert smg(heard, 503, "no_workers", "Service Unavailable") == "No available workers"
        async with behind() as (edge, _, _two):
            heard = await ask(edge, model="unheard-of")
            assert smg(heard, 503, "no_workers", "Service Unavailable") == "No available workers for model 'unheard-of'"
            for number in (0, 1):
                backend_is(edge, number, open_=True)
            heard = await ask(edge)
            assert smg(heard, 503, "no_workers", "Service Unavailable") == "No available workers for model 'dex'"

    run(main())


def test_probes_that_say_no_are_believed() -> None:
    """E160 with eidex's judge: a worker that its probes call unhealthy gets no request, also when there is no other."""
    config = ALONE + (
        "health: {judge: streak, health_check_interval: 40ms, health_gen_check_interval: 0, health_timeout: 20s}\n"
    )

    async def main() -> None:
        async with behind(config) as (edge, one, _):
            assert (await ask(edge)).status == 200
            one.healthy = 500
            await eventually(lambda: edge.state(model="dex") == "open")
            assert smg(await ask(edge), 503, "no_workers", "Service Unavailable")
            assert len(one.requests) == 1
            one.healthy = 200
            await eventually(lambda: edge.state(model="dex") == "closed")
            assert (await ask(edge)).status == 200

    run(main())


# --- failover -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [502, 503, 504])
def test_another_worker_is_asked_after_502_503_and_504(status: int) -> None:
    """E26, E33, E36: the failed answer is dropped, never seen and never rewritten."""

    async def main() -> None:
        async with behind(status=status, body=b'{"model":"of the failed one"}') as (edge, one, two):
            heard = await ask(edge)
            assert (heard.status, heard.backend, heard.attempts) == (200, "w2", 2)
            assert b"of the failed one" not in heard.body
            assert [len(one.requests), len(two.requests)] == [1, 1]
            assert one.requests[0][1] == two.requests[0][1]

    run(main())


@pytest.mark.parametrize("fault", ["silent-close", "reset", "hang", "refused", "cut-after"])
def test_another_worker_is_asked_after_a_failure_of_transport(fault: str) -> None:
    """E32, E96: closed, reset, refused, cut inside the answer, and silent for `routing.request_timeout`."""

    async def main() -> None:
        one, two = (SampleEngine("systemone", model="dex") for _ in range(2))
        config = PAIR.replace("60s", "500ms") if fault == "hang" else PAIR
        async with house(config, one=one, two=two) as edge:
            if fault == "refused":
                await one.stop()
            else:
                one.set_faults("wrong-content-length" if fault == "cut-after" else fault)
            heard = await ask(edge)
            assert (heard.status, heard.backend, heard.attempts) == (200, "w2", 2)

    run(main())


def test_the_time_of_one_attempt_is_request_timeout_and_nothing_else() -> None:
    """E96: a worker may think longer than the other doors' first_byte allows."""

    async def main() -> None:
        async with behind(wait=1.5) as (edge, _, two):  # TIMES: first_byte 1s, stall 800ms
            heard = await ask(edge)
            assert (heard.status, heard.backend) == (200, "w1")
            assert two.requests == []

    run(main())


@pytest.mark.parametrize(("retry", "asked"), [(0, 1), (1, 2), (2, 3), (9, 3)])
def test_at_most_retry_further_workers_and_none_twice(retry: int, asked: int) -> None:
    """E34, E39, E81, E97: three workers, all failing."""
    config = SERVER + TIMES + f"routing: {{retry: {retry}}}\nupstream_registry:\n"
    config += "".join(
        f'  w{n}: {{host: "${{{name}}}", model: dex, priority: {n}}}\n' for n, name in enumerate(("ONE", "TWO", "SIX"))
    )

    async def main() -> None:
        workers = {name: Canned() for name in ("one", "two", "six")}
        for worker in workers.values():
            worker.status = 503
        one, two, six = (worker.engine for worker in workers.values())
        async with house(config, one=one, two=two, six=six) as edge:
            message = smg(await ask(edge), 502, "workers_unreachable", "Bad Gateway")
            assert [len(worker.requests) for worker in workers.values()] == [1] * asked + [0] * (3 - asked)
            last = list(workers.values())[asked - 1]
            assert message == f"all worker attempts failed (last: 503 from {last.url})"

    run(main())


def test_the_last_error_of_a_dead_worker_is_told() -> None:
    """E39, E81: what went wrong, and where."""

    async def main() -> None:
        async with behind(ALONE) as (edge, one, _):
            url = one.url
            await one.stop()
            message = smg(await ask(edge), 502, "workers_unreachable", "Bad Gateway")
            assert message == f"all worker attempts failed (last: connection refused from {url})"

    run(main())


def test_many_failing_requests_are_all_tried_again() -> None:
    """E33: eidex has no budget of retries; a worker that answers 503 for ever costs nobody an answer."""

    async def main() -> None:
        async with behind(PAIR + "breaker: {min_samples: 10}\n", status=503) as (edge, _, _two):
            found = await asyncio.gather(*(ask(edge) for _ in range(40)))
            assert {heard.status for heard in found} == {200}

    run(main())


def test_the_chain_follows_when_the_workers_failed() -> None:
    """Issue 5: the fallback chain works here; the answer names who gave it, and its rung."""
    config = (
        SERVER
        + TIMES
        + 'upstream_registry:\n  w1: {host: "${ONE}", model: dex, provider: systemone}\n'
        + '  other: {host: "${TWO}", model: nimble, provider: systemone}\n'
        + "fallback_chain: [{provider: static, model: nimble}]\n"
    )

    async def main() -> None:
        one, two = Canned(), Canned("nimble")
        one.status = 503
        async with house(config, one=one.engine, two=two.engine) as edge:
            heard = await ask(edge)
            assert (heard.status, heard.backend) == (200, "other")
            assert heard.headers["x-autohedge-rung"] == "1"
            assert json.loads(two.requests[0][1])["model"] == "nimble"
            assert heard.json["model"] == "dex"
            message = smg(await ask(edge, {"x-autohedge-no-fallback": "1"}), 502, "workers_unreachable", "Bad Gateway")
            assert one.url in message

    run(main())


# --- errors of our own --------------------------------------------------------------------------------------------------


def test_a_body_over_the_limit() -> None:
    """E40, E80: strictly more, with Content-Length and without."""
    config = PAIR.replace("grace: 1s", "grace: 1s, max_body_bytes: 400")

    async def main() -> None:
        async with behind(config) as (edge, one, _):
            body = json.dumps(BODY).encode()
            body += b" " * (400 - len(body))
            assert (await edge.post(body, PATH)).status == 200
            message = smg(
                await edge.post(body + b" ", PATH), 413, "REQUEST_ENTITY_TOO_LARGE", "Request Entity Too Large"
            )
            assert message == "request body exceeds max_body_bytes"

            async def pieces() -> AsyncIterator[bytes]:
                yield body
                yield b" "

            answer = await edge.client.post(edge.url + PATH, content=pieces())
            smg(answer, 413, "REQUEST_ENTITY_TOO_LARGE", "Request Entity Too Large")
            assert len(one.requests) == 1

    run(main())


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])
def test_another_method_is_a_405_with_allow(method: str) -> None:
    """E79 at this door."""

    async def main() -> None:
        async with house(NOBODY) as edge:
            answer = await edge.get(PATH, method)
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
            assert answer.headers["x-smg-error-code"] == "METHOD_NOT_ALLOWED"
            if method != "HEAD":
                smg(answer, 405, "METHOD_NOT_ALLOWED", "Method Not Allowed")

    run(main())


def test_the_log_tells_attempts_worker_and_code(caplog: pytest.LogCaptureFixture) -> None:
    """E139 to E142: whose answer was committed, whatever its status, and the code as the caller saw it."""
    config = PAIR.replace("grace: 1s", "grace: 1s, access_log: info")

    def line() -> Any:
        found = [json.loads(record.getMessage()) for record in caplog.records if record.name == "autohedge.access"]
        return next(one for one in reversed(found) if one["path"] == PATH)

    async def main() -> None:
        async with behind(config, status=503) as (edge, one, two):
            two.status = 500
            assert (await ask(edge)).status == 500
            said = line()
            assert (said["attempts"], said["worker"], said["status"]) == (2, two.url, 500)
            assert "error_code" not in said
            one.status = two.status = 503
            assert (await ask(edge)).status == 502
            said = line()
            assert (said["attempts"], said["error_code"]) == (2, "workers_unreachable")
            assert "worker" not in said
            await edge.get(PATH)
            assert line()["error_code"] == "METHOD_NOT_ALLOWED"

    access = logging.getLogger("autohedge.access")
    caplog.set_level(logging.INFO, "autohedge.access")
    access.propagate, before = True, access.propagate
    try:
        run(main())
    finally:
        access.propagate = before


def test_bad_json_is_refused_here_with_its_place() -> None:
    """E43: better than eidex, which lets the worker find it."""

    async def main() -> None:
        async with behind() as (edge, one, _):
            heard = await edge.post(b'{"model":"dex",', PATH)
            assert heard.status == 400
            assert heard.json["error"]["type"] == "Bad Request"
            assert heard.headers["x-smg-error-code"] == heard.json["error"]["code"]
            assert one.requests == []

    run(main())
