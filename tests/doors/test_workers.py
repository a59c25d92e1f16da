"""The workers API sentence by sentence (seed 000): statuses, bodies, headers, and who may use it."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import httpx
import pytest

from autohedge.core.types import Attempt, Failure, Judgement, Outcome, Verdict
from autohedge.doors.status import Standing, status_app
from autohedge.doors.workers import workers_routes
from autohedge.settings.load import load_text
from autohedge.sources.workers import MOST, WorkersSource
from tests.doors.office import HERE
from tests.sources.test_workers import Store
from tests.support.desk import Desk, run
from tests.support.world import backend

URL = "http://worker3:8000"
UNKNOWN = "7d2f9e0a-1b3c-4d5e-8f90-a1b2c3d4e5f6"


class Counter:
    """The workers API over a desk, asked in memory."""

    def __init__(self, config: str = "") -> None:
        self.desk = Desk(config)
        self.desk.tools.shared.lost = ""
        self.store = Store()
        self.source = WorkersSource(self.store, "boot", lambda: self.desk.now)
        self.source.swept = lambda name, seen: self.desk.tools.registry.apply(name, seen, self.desk.now)
        self.source.reload(self.desk.tools.settings.workers.static, persist=True)
        self.source.swept("workers", self.source.seen())
        self.app = status_app(self.desk.tools, Standing("1"), lambda: b"", lambda: b"id-1")
        self.others: list[dict[str, Any]] = []
        self.app.include_router(workers_routes(self.desk.tools, self.source, lambda: self.others))

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        client: tuple[str, int] = HERE,
    ) -> httpx.Response:
        """One request; a body that is no bytes is sent as JSON."""
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()

        async def main() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, client=client)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as asker:
                return await asker.request(method, path, content=content, headers=headers)

        answer: httpx.Response = run(main())
        return answer

    def register(self, **fields: Any) -> httpx.Response:
        return self.ask("POST", "/workers", {"url": URL, **fields})

    def refused(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, dict[str, str]]:
        """Status and error of a refusal; its code stands in the header as well."""
        answer = self.ask(method, path, body, **more)
        error = answer.json()["error"]
        assert list(error) == ["type", "code", "message"]
        assert answer.headers["x-smg-error-code"] == error["code"]
        return answer.status_code, error


@pytest.fixture(autouse=True)
def resolver(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What names resolve to in these tests; others do not resolve."""
    known: dict[str, list[str]] = {}

    def getaddrinfo(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        if host not in known:
            raise socket.gaierror(-2, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in known[host]]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return known


# --- POST /workers ----------------------------------------------------------------------------------------------------


def test_registering_is_a_202_with_location() -> None:
    """E52, E53: status, worker_id, url, location and message in this order; the id is a UUID."""
    answer = Counter().register(model_id="dex", worker_type="regular", priority=50, labels={})
    assert answer.status_code == 202
    body = answer.json()
    assert list(body) == ["status", "worker_id", "url", "location", "message"]
    assert str(UUID(body["worker_id"])) == body["worker_id"]
    assert (body["status"], body["url"], body["message"]) == ("accepted", URL, "Worker registered")
    assert body["location"] == answer.headers["location"] == f"/workers/{body['worker_id']}"


def test_a_new_worker_is_there_at_once_and_well() -> None:
    """E44: synchronous, optimistic."""
    counter = Counter()
    counter.register(model_id="dex")
    route = counter.desk.snapshot.routes["dex"]
    assert [str(one.replica.address) for one in route.candidates] == [URL]
    assert counter.ask("GET", "/workers").json()["workers"][0]["is_healthy"] is True


@pytest.mark.parametrize("url", ["http://worker3:8000/", "http://worker3:8000///", "HTTP://Worker3:8000"])
def test_slashes_at_the_end_are_cut(url: str) -> None:
    """E46; and a scheme or host in capitals is the same worker."""
    assert Counter().register(url=url).json()["url"] == URL


def test_defaults_and_unknown_fields() -> None:
    """E47 to E51: model_id, worker_type, priority and labels are optional, null is absent, the rest is ignored."""
    for fields in (
        {},
        {"model_id": None, "worker_type": None, "priority": None, "labels": None, "cost": 1.5, "api_key": "x"},
    ):
        counter = Counter()
        worker = counter.ask("GET", counter.register(**fields).headers["location"]).json()
        assert {key: worker[key] for key in ("model_id", "worker_type", "priority", "labels")} == {
            "model_id": "",
            "worker_type": "regular",
            "priority": 50,
            "labels": {},
        }


def test_a_wildcard_answers_for_any_model() -> None:
    """E47: no model_id."""
    counter = Counter()
    counter.register()
    (spec,) = counter.desk.snapshot.backends.values()
    assert spec.takes_any


def test_priority_is_kept_and_used_by_no_policy() -> None:
    """E49."""
    counter = Counter()
    counter.register(priority=1)
    assert counter.ask("GET", "/workers").json()["workers"][0]["priority"] == 1
    (spec,) = counter.desk.snapshot.backends.values()
    assert spec.priority == 50


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "url is required"),
        ({"url": ""}, "url is required"),
        ({"url": "  "}, "url is required"),
        ({"url": None}, "url is required"),
        ({"url": 5}, "url is required"),
        ({"url": "worker3:8000"}, "http:// or https://"),
        ({"url": "ftp://worker3"}, 'unknown scheme "ftp"'),
        ({"url": "http://"}, "no host"),
        ({"url": "http:///path"}, "no host"),
        ({"url": "http://w:99999"}, "invalid port"),
        ({"url": "http://user:pw@w"}, "credentials"),
        ({"url": "http://w?x=1"}, '"?"'),
        ({"url": URL, "worker_type": "prefill"}, "worker_type"),
        ({"url": URL, "worker_type": 5}, "worker_type"),
        ({"url": URL, "model_id": 5}, "model_id"),
        ({"url": URL, "priority": -1}, "priority"),
        ({"url": URL, "priority": True}, "priority"),
        ({"url": URL, "priority": 1.0}, "priority"),
        ({"url": URL, "priority": 2**31}, "priority"),
        ({"url": URL, "labels": {"a": 1}}, "labels"),
        ({"url": URL, "labels": ["a"]}, "labels"),
        ({"url": URL, "labels": []}, "labels"),
        ({"url": URL, "labels": ""}, "labels"),
        ({"url": URL, "labels": 0}, "labels"),
        ({"url": URL, "labels": False}, "labels"),
        ({"url": URL, "labels": {"a": "\ud800"}}, "labels"),
        ({"url": URL, "labels": {"a": "x" * 513}}, "labels"),
        ({"url": URL, "labels": dict.fromkeys(map(str, range(65)), "x")}, "labels"),
        ({"url": URL, "model_id": "\ud800"}, "model_id"),
        ({"url": "http://" + "w" * 3000}, "over 2048 characters"),
        ({"url": "http://w\r\nx: y"}, "invalid url"),
        ({"url": "http://w\ud800"}, "invalid url"),
        ({"url": "http://wörker"}, "invalid url"),
        (b"", "url is required"),
        (b"{", "invalid JSON"),
        (b"[]", "invalid JSON"),
        (b"\xff", "invalid JSON"),
        (b"[" * 100_000, "invalid JSON"),
    ],
)
def test_what_is_wrong_is_a_400(body: Any, said: str) -> None:
    """E54: BAD_REQUEST in the envelope, and nothing is registered."""
    counter = Counter()
    status, error = counter.refused("POST", "/workers", body)
    assert (status, error["type"], error["code"]) == (400, "Bad Request", "BAD_REQUEST")
    assert said in error["message"]
    assert counter.source.all() == []


def test_no_refusal_repeats_a_credential() -> None:
    _, error = Counter().refused("POST", "/workers", {"url": "http://user:hunter2@w"})
    assert "hunter2" not in error["message"]


def test_a_body_over_the_limit_is_a_400_here() -> None:
    """E55: not a 413."""
    counter = Counter("server: {max_body_bytes: 100}")
    status, error = counter.refused("POST", "/workers", {"url": URL, "labels": {"a": "x" * 100}})
    assert (status, error["code"], error["message"]) == (400, "BAD_REQUEST", "request body too large")


def test_the_same_again_is_the_same_worker_and_other_fields_are_a_conflict() -> None:
    """E56."""
    counter = Counter()
    first, again = counter.register(model_id="dex"), counter.register(url=URL + "/", model_id="dex")
    assert (again.status_code, again.json()) == (202, first.json())
    status, error = counter.refused("POST", "/workers", {"url": URL, "model_id": "other"})
    assert (status, error["type"], error["code"]) == (409, "Conflict", "WORKER_ALREADY_EXISTS")
    assert first.json()["worker_id"] in error["message"]
    assert len(counter.source.all()) == 1


def test_more_than_so_many_are_refused() -> None:
    counter = Counter()
    counter.store.kept = {f"worker:{number}": {} for number in range(MOST)}
    status, error = counter.refused("POST", "/workers", {"url": URL})
    assert (status, error["code"]) == (400, "BAD_REQUEST")
    assert str(MOST) in error["message"]


# --- where a worker may be --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254",
        "http://169.254.169.254:80/latest",
        "http://[::ffff:169.254.169.254]",
        "http://[::ffff:a9fe:a9fe]",
        "http://[fe80::1]",
        "http://[fe80::1%25eth0]",
        "http://[fd00:ec2::254]",
        "http://0.0.0.0:8000",
        "http://224.0.0.1",
        "http://0x7f.1",
        "http://0xa9fea9fe",
        "http://2852039166",
        "http://0251.0376.0251.0376",
        "http://169.254.43518",
        "http://metadata",
        "http://both",
        "http://127.0.0.1:8000",
        "http://localhost:8000",
    ],
)
def test_places_that_only_we_can_reach_are_refused(url: str, resolver: dict[str, list[str]]) -> None:
    """E57: metadata and link-local in every spelling and behind names; AutoHedge itself."""
    resolver["metadata"], resolver["both"] = ["169.254.169.254"], ["10.0.0.1", "169.254.1.1"]
    counter = Counter()
    status, error = counter.refused("POST", "/workers", {"url": url})
    assert (status, error["code"]) == (400, "BAD_REQUEST")
    assert counter.source.all() == []


def test_an_address_of_this_machine_is_autohedge_s_own(resolver: dict[str, list[str]]) -> None:
    """One request to a worker that is AutoHedge becomes thousands; the system knows its addresses, also behind a name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect(("203.0.113.1", 9))  # nothing is sent
        own = str(way.getsockname()[0])
    resolver["edge"], resolver["loop"] = [own], ["::1"]
    counter = Counter("server: {listen: ':8000'}")
    for host in (own, f"[::ffff:{own}]", "edge", "loop"):
        _, error = counter.refused("POST", "/workers", {"url": f"http://{host}:8000"})
        assert error["message"] == "invalid url: AutoHedge cannot be a worker of its own"
        assert counter.register(url=f"http://{host}:8001").status_code == 202
    assert counter.register(url="http://10.99.99.99:8000").status_code == 202


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("http://10.1.2.3:8000", 202),
        ("http://inside:8000", 202),
        ("http://192.168.0.1:8000", 400),
        ("http://outside:8000", 400),
        ("http://unknown:8000", 400),
    ],
)
def test_only_allowed_networks(url: str, status: int, resolver: dict[str, list[str]]) -> None:
    """`workers.allow`: a name counts as its addresses, and one without any cannot be judged."""
    resolver |= {"inside": ["10.9.9.9"], "outside": ["10.9.9.9", "8.8.8.8"]}
    assert Counter("workers: {allow: [10.0.0.0/8]}").register(url=url).status_code == status


# --- who may ----------------------------------------------------------------------------------------------------------

FAR = ("10.0.0.99", 4000)
CALLS = [("POST", "/workers"), ("GET", "/workers"), ("GET", f"/workers/{UNKNOWN}"), ("DELETE", f"/workers/{UNKNOWN}")]


@pytest.mark.parametrize(("method", "path"), CALLS)
@pytest.mark.parametrize(
    ("config", "token", "status"),
    [
        ("", "", 403),
        ("workers: {open: true}", "", 200),
        ("admin: {open: true}", "", 200),
        ("admin: {token: sesame}", "", 401),
        ("admin: {token: sesame}\nworkers: {open: true}", "", 401),
        ("admin: {token: sesame}", "Bearer other", 401),
        ("admin: {token: sesame}", "Bearer sesame", 200),
    ],
)
def test_from_elsewhere(method: str, path: str, config: str, token: str, status: int) -> None:
    """E57: an admin act; a token, once set, is always asked for."""
    headers = {"authorization": token} if token else {}
    answer = Counter(config).ask(method, path, {"url": URL}, headers, client=FAR)
    if status == 200:
        assert answer.status_code in (200, 202, 404)
    else:
        assert answer.status_code == status
        assert answer.headers["x-smg-error-code"] == answer.json()["error"]["code"]


# --- GET and DELETE ---------------------------------------------------------------------------------------------------


def test_a_change_is_answered_when_it_is_written() -> None:
    """A process that is killed right after its 202 still has the worker, or has it no more."""
    counter = Counter()
    shelf = counter.desk.shelf
    name = counter.register().json()["worker_id"]
    assert shelf.flushes == 1
    counter.ask("GET", "/workers")
    assert shelf.flushes == 1
    counter.ask("DELETE", f"/workers/{name}")
    assert shelf.flushes == 2


def test_the_list_has_the_gateway_s_form() -> None:
    """E58 to E61: workers, total and stats; every worker with these keys in this order."""
    counter = Counter("workers: [{url: 'http://first', model_id: dex, labels: {zone: a}}]")
    counter.register(url="http://second:1")
    body = counter.ask("GET", "/workers").json()
    assert list(body) == ["workers", "total", "stats"]
    assert body["total"] == 2
    assert body["stats"] == {"prefill_count": 0, "decode_count": 0, "regular_count": 2}
    keys = ["id", "url", "model_id", "worker_type", "priority", "labels", "is_healthy", "load"]
    assert [list(worker) for worker in body["workers"]] == [keys, keys]
    assert [worker["url"] for worker in body["workers"]] == ["http://first", "http://second:1"]
    assert body["workers"][0]["labels"] == {"zone": "a"}


def test_the_empty_list() -> None:
    none = {"prefill_count": 0, "decode_count": 0, "regular_count": 0}
    assert Counter().ask("GET", "/workers").json() == {"workers": [], "total": 0, "stats": none}


def test_a_worker_that_never_answered_is_not_well() -> None:
    """Without a model nobody probes it: that it was silent when it was asked for its models is all that speaks."""
    counter = Counter()
    counter.register()
    assert counter.ask("GET", "/workers").json()["workers"][0]["is_healthy"] is True
    (replica,) = counter.desk.snapshot.replicas
    counter.desk.counter.silent[replica] = "connection refused"
    assert counter.ask("GET", "/workers").json()["workers"][0]["is_healthy"] is False


def test_load_is_what_is_under_way_and_health_is_the_breaker_s() -> None:
    """E58, E60."""
    counter = Counter()
    counter.register(model_id="dex")
    (where,) = counter.desk.candidates("dex")
    where.replica.seat.in_flight = 3
    health, now = counter.desk.tools.health, counter.desk.now
    for _ in range(2):
        stamp = health.entry(where, now).breaker.stamp
        failed = Outcome(failure=Failure.REFUSED)
        health.record(Attempt(where, now, stamp, outcome=failed, judgement=Judgement(Verdict.DEAD)), now)
    (worker,) = counter.ask("GET", "/workers").json()["workers"]
    assert (worker["load"], worker["is_healthy"]) == (3, False)


def test_load_is_that_of_all_processes() -> None:
    """E60: with `server.workers` each process tells the others what it has under way."""
    counter = Counter()
    counter.register(model_id="dex")
    (where,) = counter.desk.candidates("dex")
    where.replica.seat.in_flight = 1
    counter.others = [{"seats": {where.replica.id: 2}}, {"seats": {"other@h:1": 7}}]
    assert counter.ask("GET", "/workers").json()["workers"][0]["load"] == 3


def test_a_worker_whose_address_another_source_found_too_is_told_as_that_replica() -> None:
    counter = Counter()
    counter.desk.add("static", backend("swarm-service", "worker3:8000", models=("dex",)))
    counter.register(model_id="dex")
    (replica,) = counter.desk.snapshot.replicas.values()
    replica.seat.in_flight = 2
    assert counter.ask("GET", "/workers").json()["workers"][0]["load"] == 2


def test_one_worker_has_the_same_form() -> None:
    """E62."""
    counter = Counter()
    location = counter.register(model_id="dex").headers["location"]
    assert counter.ask("GET", location).json() == counter.ask("GET", "/workers").json()["workers"][0]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("name", [UNKNOWN, "nonsense", "a%20b"])
def test_an_unknown_id_is_a_404(method: str, name: str) -> None:
    """E63, E66, E78: also for what is no UUID."""
    status, error = Counter().refused(method, f"/workers/{name}")
    assert status == 404
    assert error == {"type": "Not Found", "code": "WORKER_NOT_FOUND", "message": "worker not found"}


def test_removing_is_a_202() -> None:
    """E64: status, worker_id and message; it is gone at once."""
    counter = Counter()
    name = counter.register(model_id="dex").json()["worker_id"]
    answer = counter.ask("DELETE", f"/workers/{name}")
    assert answer.status_code == 202
    assert answer.json() == {"status": "accepted", "worker_id": name, "message": "Worker removed"}
    assert counter.desk.snapshot.routes == {}
    assert counter.refused("DELETE", f"/workers/{name}")[0] == 404


@pytest.mark.parametrize("path", ["/workers", "/workers/{id}"])
def test_head_is_get_without_a_body(path: str) -> None:
    """E10."""
    counter = Counter()
    path = path.replace("{id}", counter.register().json()["worker_id"])
    got, bare = counter.ask("GET", path), counter.ask("HEAD", path)
    assert (bare.status_code, bare.content) == (200, b"")
    assert bare.headers["content-length"] == got.headers["content-length"]


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/workers", "GET, HEAD, POST"),
        ("DELETE", "/workers", "GET, HEAD, POST"),
        ("POST", f"/workers/{UNKNOWN}", "DELETE, GET, HEAD"),
        ("PATCH", f"/workers/{UNKNOWN}", "DELETE, GET, HEAD"),
    ],
)
def test_another_method_is_a_405_with_allow(method: str, path: str, allow: str) -> None:
    """E79: METHOD_NOT_ALLOWED, and all methods of the path."""
    counter = Counter()
    status, error = counter.refused(method, path, {})
    assert (status, error["type"], error["code"]) == (405, "Method Not Allowed", "METHOD_NOT_ALLOWED")
    assert counter.ask(method, path, {}).headers["allow"] == allow


@pytest.mark.parametrize("path", ["/workers/", f"/workers/{UNKNOWN}/", f"/workers/{UNKNOWN}/x"])
def test_an_unknown_path_below_is_a_404(path: str) -> None:
    """E77: NOT_FOUND, in eidex's words."""
    status, error = Counter().refused("GET", path)
    assert (status, error) == (404, {"type": "Not Found", "code": "NOT_FOUND", "message": "unknown endpoint"})


def test_a_reload_of_the_settings_holds_at_once() -> None:
    counter = Counter()
    assert counter.ask("GET", "/workers", client=FAR).status_code == 403
    counter.desk.tools.settings = load_text("workers: {open: true}", "c.yaml", {}, lambda path: path).settings
    assert counter.ask("GET", "/workers", client=FAR).status_code == 200
