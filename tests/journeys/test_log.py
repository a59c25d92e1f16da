"""Journeys as the access log tells them: levels, bodies cut at a mebibyte, and never a secret."""

from __future__ import annotations

import json
import logging
from typing import Any

import httpx
import pytest

from tests.support.house import CHAT, HELLO, SERVER, Edge, alone, body_of, eventually, pair, run

SECRETS = {
    "authorization": "Bearer sk-secret",
    "x-api-key": "sk-secret",
    "x-portkey-api-key": "sk-secret",
    "cookie": "sk-secret",
}


def _config(level: str, hosts: str = '"${ONE}"') -> str:
    server = SERVER.replace("grace", f'access_log: "{level}", grace')
    return server + f"timeouts: {{first_byte: 60s, stall: 60s}}\nupstream_registry:\n  all: {{hosts: [{hosts}]}}\n"


@pytest.fixture(autouse=True)
def access(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "autohedge.access")
    logging.getLogger("autohedge.access").propagate = True


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(record.getMessage()) for record in caplog.records if record.name == "autohedge.access"]


async def _three(edge: Edge) -> None:
    """A good request, a client's mistake, a failure."""
    await edge.post(headers=SECRETS)
    await edge.post(b"{")
    edge.one.set_faults("reset")
    await edge.chat()


@pytest.mark.parametrize(
    ("level", "written"),
    [("off", []), ("error", [502]), ("warning", [400, 502]), ("info", [200, 400, 502]), ("debug", [200, 400, 502])],
)
def test_levels(level: str, written: list[int], caplog: pytest.LogCaptureFixture) -> None:
    """off nothing, error 5xx, warning 4xx too, info and debug everything; bodies only at debug; never a credential (A43)."""

    async def main() -> None:
        async with alone(config=_config(level)) as edge:
            await _three(edge)

    run(main())
    told = lines(caplog)
    assert [line["status"] for line in told] == written
    assert "sk-secret" not in caplog.text
    assert all(("request_body" in line) == (level == "debug") for line in told)


def test_one_line_tells_the_way(caplog: pytest.LogCaptureFixture) -> None:
    """Model, attempts with their verdicts, the backend, sizes, times, the id; B82's cause is in it."""

    took: list[float] = []

    async def main() -> None:
        async with pair("B82", config=_config("info", '"${ONE}", "${TWO}"')) as edge:
            heard = await edge.post(
                headers={"x-request-id": "id-1", "user-agent": "test/1", "x-forwarded-for": "10.0.0.9"}
            )
            took.append(heard.last)
            took.append((await edge.stream()).last)

    run(main())
    plain, stream = lines(caplog)
    assert (plain["request_id"], plain["user_agent"], plain["x_forwarded_for"]) == ("id-1", "test/1", "10.0.0.9")
    assert (plain["method"], plain["path"], plain["status"], plain["model"]) == ("POST", CHAT, 200, "m")
    assert plain["request_bytes"] == len(json.dumps(HELLO))
    assert plain["response_bytes"] > plain["response_chars"] > 100
    assert [one["verdict"] for one in plain["tried"]] == ["sick", "answer"]
    assert [one["backend"] for one in plain["tried"]] == ["all", "all"]
    assert plain["attempts"] == 2
    assert 0 < plain["duration_ms"] <= took[0] * 1000 + 5
    assert stream["status"] == 200


def test_a_cut_stream_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """B82: the client's status is 200; that it was cut stands in the verdict."""

    async def main() -> None:
        async with alone("B82", config=_config("info")) as edge:
            await edge.stream()

    run(main())
    (line,) = lines(caplog)
    assert (line["status"], line["tried"][0]["verdict"]) == (200, "sick")
    assert line["tried"][0]["reason"] == "body cut short"


def test_a_client_that_left_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """499, as nginx says it, with the attempt that was given up."""

    async def main() -> None:
        async with alone("hang", config=_config("warning")) as edge:
            with pytest.raises(httpx.ReadTimeout):
                await edge.client.post(edge.url + CHAT, json=HELLO, timeout=httpx.Timeout(60, read=0.1))
            await eventually(lambda: bool(lines(caplog)))

    run(main())
    (line,) = lines(caplog)
    assert (line["status"], line["tried"][0]["verdict"]) == (499, "abandoned")


def test_bodies_are_cut_at_one_mebibyte(caplog: pytest.LogCaptureFixture) -> None:
    """debug: what is longer is cut and flagged, the count is of all of it; both ways."""

    async def main() -> None:
        async with alone("long-event=1500000", config=_config("debug"), context=1 << 20) as edge:
            body = body_of(1_200_000)
            await edge.post(body.replace(b'{"model"', b'{"stream": true, "model"'))

    run(main())
    (line,) = lines(caplog)
    assert line["status"] == 200
    assert len(line["request_body"]) == 1 << 20
    assert line["request_truncated"] is True
    assert line["request_bytes"] > 1_200_000
    assert len(line["response_body"]) <= 1 << 20
    assert line["response_truncated"] is True
    assert line["response_bytes"] > 1_500_000


def test_management_requests_are_told_too(caplog: pytest.LogCaptureFixture) -> None:
    """info has a line for /health; a 404 is a warning."""

    async def main() -> None:
        async with alone(config=_config("info")) as edge:
            await edge.get("/health", headers=SECRETS)
            await edge.get("/nowhere?key=sk-secret")

    run(main())
    assert [(line["path"], line["status"]) for line in lines(caplog)] == [("/health", 200), ("/nowhere", 404)]
    assert "sk-secret" not in caplog.text


def test_all_of_it_holds_for_every_path(caplog: pytest.LogCaptureFixture) -> None:
    """E146, E139: other paths than the data path have sizes, characters, bodies and the code of a refusal as well."""
    body = json.dumps({"url": "ftp://wörker"}, ensure_ascii=False).encode()

    async def main() -> None:
        async with alone(config=_config("debug")) as edge:
            await edge.post(body, "/workers", {"x-request-id": "mine", "x-forwarded-for": "10.0.0.1"})
            await edge.post(body, "/workers", {"user-agent": "bifrost"})
            await edge.get("/nowhere")
            await edge.get("/liveness")

    run(main())
    far, here, nowhere, alive = lines(caplog)
    assert (far["status"], far["error_code"], far["request_id"]) == (403, "forbidden", "mine")
    assert far["x_forwarded_for"] == "10.0.0.1"
    assert (here["status"], here["error_code"], here["level"]) == (400, "BAD_REQUEST", "WARN")
    assert here["user_agent"] == "bifrost"
    assert "request_id" not in here
    assert (here["request_bytes"], here["request_chars"]) == (len(body), len(body) - 1)
    assert here["request_body"] == body.decode()
    assert json.loads(here["response_body"])["error"]["code"] == "BAD_REQUEST"
    assert here["response_bytes"] == here["response_chars"] == len(here["response_body"])
    assert (nowhere["status"], nowhere["error_code"]) == (404, "not_found")
    assert (alive["response_body"], alive["response_chars"]) == ("OK", 2)
    assert "error_code" not in alive
    assert all("response_truncated" not in line and "request_truncated" not in line for line in lines(caplog))
    assert all("attempts" not in line and "worker" not in line for line in lines(caplog))


@pytest.mark.parametrize(("fault", "named"), [("status=400", True), ("reset", False), ("status=500", False)])
def test_only_who_answered_is_the_worker(fault: str, named: bool, caplog: pytest.LogCaptureFixture) -> None:
    """eidex: no worker where no answer was committed; who was tried stands in `tried`."""

    async def main() -> None:
        async with alone(config=_config("info")) as edge:
            edge.one.set_faults(fault)
            await edge.chat()

    run(main())
    (line,) = lines(caplog)
    assert ("worker" in line) == named
    assert line["tried"]
