"""The front of the house as an ASGI app: what it admits, what it refuses, and what it tells afterwards."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from autohedge.call import Call, Out
from autohedge.core.problems import BadRequest, Problem, Unavailable
from autohedge.core.types import Door
from autohedge.doors.access_log import AccessLog
from autohedge.doors.edge import ID_LIMIT, Edge
from autohedge.memory.meters import PROBLEMS, REQUESTS
from autohedge.relay import Relay
from autohedge.wire.server import AbortResponse
from tests.support.desk import Desk

pytestmark = pytest.mark.sources

CHAT = "/v1/chat/completions"
MARK = b"autohedge-1"
MARKED = (b"cdn-loop", MARK)
Message = MutableMapping[str, Any]
Serve = Callable[[Call, Out], Awaitable[None]]


class Way:
    """In the place of the relay: notes the call, then does what it is told."""

    def __init__(self, serve: Serve | None = None, config: str = "") -> None:
        self.desk = Desk(config)
        self.tools = self.desk.tools
        self.calls: list[Call] = []
        self._serve = serve

    async def serve(self, call: Call, out: Out) -> None:
        self.calls.append(call)
        if self._serve is not None:
            await self._serve(call, out)
        else:
            await out.whole(200, [(b"content-length", b"2")], b"ok")


class Client:
    """Sends a request in `pieces` and keeps what comes back. `leaves`: it goes away instead of finishing."""

    def __init__(self, *pieces: bytes, leaves: bool = False) -> None:
        self.pieces = list(pieces) or [b"{}"]
        self.leaves = leaves
        self.taken = 0
        self.messages: list[Message] = []

    async def receive(self) -> Message:
        self.taken += 1
        if not self.pieces:
            return {"type": "http.disconnect"}
        piece = self.pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(self.pieces) or self.leaves}

    async def send(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.messages[0]["headers"])

    @property
    def error(self) -> Any:
        return json.loads(self.messages[1]["body"])["error"]


async def _managed(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def asked(
    way: Way,
    client: Client,
    path: str = CHAT,
    method: str = "POST",
    log: str = "off",
    query: bytes = b"",
    **headers: str,
) -> None:
    """One request through the edge. Header names are written with _ for -."""
    pairs = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "headers": pairs,
        "client": ("127.0.0.1", 5),
    }
    edge = Edge(cast("Relay", way), _managed, AccessLog(log), lambda: b"made-1", MARK)
    asyncio.run(edge(scope, client.receive, client.send))


def test_a_request_is_admitted() -> None:
    """Door, target, id, deadline; what may travel on is what is left of the headers."""
    way, client = Way(), Client(b"body")
    asked(
        way, client, host="h", content_length="4", expect="x", accept="*/*", x_request_id="mine", te="x", query=b"v=1"
    )
    (call,) = way.calls
    assert (call.door, call.target, call.query, call.body, call.id) == (Door.CHAT, CHAT, b"v=1", b"body", b"mine")
    assert call.forwarded == [(b"accept", b"*/*"), (b"x-request-id", b"mine"), MARKED]
    assert call.deadline - call.started == way.tools.settings.timeouts.total
    assert client.status == 200


@pytest.mark.parametrize(
    ("said", "goes_on"),
    [
        ("autohedge-1", False),
        ("fastly, autohedge-1; x=1,autohedge-2", False),
        ("autohedge-2", True),
        ("fastly", True),
    ],
)
@pytest.mark.parametrize("path", [CHAT, "/v1/systemone"])
def test_a_request_that_has_been_here_goes_no_further(path: str, said: str, goes_on: bool) -> None:
    """RFC 8586: who finds its own mark in CDN-Loop is part of a circle. Who sent it here may ask somebody else."""
    way, client = Way(), Client()
    asked(way, client, path, cdn_loop=said)
    if goes_on:
        assert way.calls[0].forwarded == [(b"cdn-loop", said.encode()), MARKED]
    else:
        assert (client.status, client.error["code"], way.calls) == (503, "request_loop", [])
        assert client.headers[b"retry-after"] == b"1"


def test_an_id_is_made_or_cut() -> None:
    way = Way()
    asked(way, Client())
    asked(way, Client(), x_request_id="x" * 999)
    assert [len(call.id) for call in way.calls] == [6, ID_LIMIT]


def test_pieces_are_one_body() -> None:
    way = Way()
    asked(way, Client(b"a", b"", b"bc"))
    assert way.calls[0].body == b"abc"


@pytest.mark.parametrize(("pieces", "length"), [((b"x" * 11,), 0), ((b"x" * 6, b"x" * 6, b"x", b"x"), 0), ((b"",), 11)])
def test_a_body_over_the_limit(pieces: tuple[bytes, ...], length: int) -> None:
    """A30: nothing is read for a declared length; otherwise no further than to the first piece over the limit."""
    way, client = Way(config="server: {max_body_bytes: 10}"), Client(*pieces)
    asked(way, client, content_length=str(length))
    assert client.status == 413
    assert client.error["code"] == "body_too_large"
    assert client.headers[b"connection"] == b"close"
    assert way.calls == []
    assert client.taken == (0 if length else min(len(pieces), 2))


def test_the_limit_itself_is_allowed() -> None:
    way, client = Way(config="server: {max_body_bytes: 10}"), Client(b"x" * 5, b"x" * 5)
    asked(way, client, content_length="10")
    assert client.status == 200


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "OPTIONS"])
def test_another_method(method: str) -> None:
    way, client = Way(), Client()
    asked(way, client, method=method)
    assert (client.status, client.headers[b"allow"]) == (405, b"POST")
    assert client.taken == 0


@pytest.mark.parametrize(
    ("value", "good"),
    [
        ("Bearer a", True),
        ("bearer a", True),
        ("BEARER   a", True),
        ("Bearer", False),
        ("Basic a", False),
        ("Bearer a b", False),
    ],
)
def test_the_form_of_a_credential(value: str, good: bool) -> None:
    """Article 5.1 and RFC 9110: scheme in any case, one or more blanks; its worth is the engine's matter."""
    way, client = Way(), Client()
    asked(way, client, authorization=value)
    assert client.status == (200 if good else 401)
    if not good:
        assert "Invalid Bearer token format" in client.error["message"]
        assert client.headers[b"www-authenticate"] == b"Bearer"
        assert client.taken == 0


def test_an_api_key_is_the_bearer() -> None:
    """Facts 00b: Azure's clients; where both are sent, Authorization stands."""
    way = Way()
    asked(way, Client(), api_key="k")
    asked(way, Client(), api_key="k", authorization="Bearer b")
    assert way.calls[0].forwarded == [(b"authorization", b"Bearer k"), MARKED]
    assert way.calls[1].forwarded == [(b"authorization", b"Bearer b"), MARKED]


def test_a_deployment_in_the_path() -> None:
    """Its api-version goes to nobody; the rest of the query does."""
    way = Way()
    asked(way, Client(), "/openai/deployments/a%2Fb/embeddings", query=b"x=1&api-version=2&y=2")
    (call,) = way.calls
    assert (call.door, call.model, call.query, call.target) == (Door.EMBEDDINGS, "a/b", b"x=1&y=2", "/v1/embeddings")


@pytest.mark.parametrize(
    ("value", "encoding"), [("", ""), ("identity", ""), (" GZip ", "gzip"), ("gzip, br", "gzip, br")]
)
def test_the_encoding_of_a_body(value: str, encoding: str) -> None:
    way = Way()
    asked(way, Client(), content_encoding=value)
    assert way.calls[0].encoding == encoding


def test_multipart_is_no_json() -> None:
    client = Client()
    asked(Way(), client, content_type="Multipart/form-data; boundary=x")
    assert (client.status, client.error["code"]) == (415, "unsupported_media_type")


def _raising(error: BaseException, started: bool = False) -> Serve:
    async def serve(_call: Call, out: Out) -> None:
        if started:
            await out.start(200, [])
        raise error

    return serve


@pytest.mark.parametrize("path", [CHAT, "/v1/messages"])
def test_a_problem_is_answered_in_the_door_s_envelope(path: str) -> None:
    way, client = Way(_raising(Unavailable("later", code="queue_full", retry_after=1.5))), Client()
    asked(way, client, path, x_request_id="mine")
    assert (client.status, client.headers[b"retry-after"], client.headers[b"x-request-id"]) == (503, b"2", b"mine")
    assert client.error["message"] == "later"
    whole = json.loads(client.messages[1]["body"])
    assert whole.get("type") == ("error" if path == "/v1/messages" else None)
    assert way.tools.meters.counters[PROBLEMS] == {("queue_full",): 1}


def test_a_fault_of_ours_is_a_500_with_its_reason_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """No traceback and no text of the exception goes out."""
    way, client = Way(_raising(KeyError("sk-secret"))), Client()
    asked(way, client)
    assert (client.status, client.error["code"]) == (500, "internal_error")
    assert "secret" not in json.dumps(client.error)
    assert "request made-1" in caplog.text


@pytest.mark.parametrize("error", [BadRequest("late"), KeyError("late")])
def test_after_the_commit_a_fault_is_a_cut(error: Exception) -> None:
    """A second head cannot be sent: the client sees a cut answer, never a mixture."""
    way, client = Way(_raising(error, started=True)), Client()
    with pytest.raises(AbortResponse):
        asked(way, client)
    assert [message["type"] for message in client.messages] == ["http.response.start"]


@pytest.mark.parametrize("leaves", ["while sending", "while waiting"])
def test_a_client_that_leaves_is_counted_as_499(leaves: str) -> None:
    """The cancel runs through, nothing is answered, and the gauge is right again."""
    way = Way(_raising(asyncio.CancelledError()))
    client = Client(b"{", leaves=leaves == "while sending")
    with pytest.raises(asyncio.CancelledError):
        asked(way, client)
    assert client.messages == []
    assert len(way.calls) == (leaves == "while waiting")
    assert [labels[2] for labels in way.tools.meters.counters[REQUESTS]] == [499]
    assert way.tools.meters.in_flight == 0


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/nowhere"])
def test_what_is_no_door_is_management(path: str) -> None:
    client = Client()
    asked(Way(), client, path, "GET")
    assert client.status == 204


def test_a_line_is_written_for_every_kind(caplog: pytest.LogCaptureFixture) -> None:
    """Data path and management, with the id that was given; nothing when the log is off."""
    logging.getLogger("autohedge.access").propagate = True
    caplog.set_level(logging.INFO, "autohedge.access")
    asked(Way(), Client(), log="off")
    asked(Way(), Client(b"body"), log="info", x_request_id="mine")
    asked(Way(), Client(), "/health", "GET", log="info", x_request_id="mine")
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "autohedge.access"]
    assert [(line["path"], line["status"], line["request_id"]) for line in lines] == [
        (CHAT, 200, "mine"),
        ("/health", 204, "mine"),
    ]
    assert lines[0]["request_bytes"] == 4
    assert lines[0]["remote"] == "127.0.0.1:5"


def test_other_protocols_are_management() -> None:
    """A websocket or a lifespan is not ours."""
    seen: list[str] = []

    async def management(scope: Any, _receive: Any, _send: Any) -> None:
        seen.append(scope["type"])

    client = Client()
    edge = Edge(cast("Relay", Way()), management, AccessLog("off"), lambda: b"", MARK)
    asyncio.run(edge({"type": "websocket"}, client.receive, client.send))
    assert seen == ["websocket"]


def test_every_problem_leaves_the_gauge_right() -> None:
    way = Way(_raising(BadRequest("no")))
    for path in (CHAT, "/v1/embeddings"):
        asked(way, Client(), path)
    assert way.tools.meters.in_flight == 0
    assert {labels[:1] + labels[2:3] for labels in way.tools.meters.counters[REQUESTS]} == {
        ("chat", 400),
        ("embeddings", 400),
    }
    assert issubclass(BadRequest, Problem)


def test_nothing_is_admitted_before_the_gate_is_open() -> None:
    """Article 5.2: 503 with Retry-After and what is missing, before a byte of the body is read."""
    way, client = Way(), Client()
    edge = Edge(cast("Relay", way), _managed, AccessLog("off"), lambda: b"made-1", MARK)
    edge.gate = cast("Any", SimpleNamespace(open=False, missing=["chat", "vectors"]))
    scope = {
        "type": "http",
        "method": "POST",
        "path": CHAT,
        "raw_path": CHAT.encode(),
        "query_string": b"",
        "headers": [],
    }
    asyncio.run(edge(scope, client.receive, client.send))
    assert (client.status, client.error["code"]) == (503, "starting")
    assert "chat, vectors" in client.error["message"]
    assert int(client.headers[b"retry-after"]) >= 1
    assert client.taken == 0


def test_the_system_one_door_reads_no_credential() -> None:
    """E27, E157: eidex hands Authorization on as it came, whatever its form; the time of an attempt is its own."""
    way = Way(config="routing: {request_timeout: 7s, retry: 2}")
    for value in ("Basic a", "x", "Bearer a b"):
        client = Client()
        asked(way, client, "/v1/systemone", authorization=value, api_key="k")
        assert client.status == 200
    assert way.calls[0].forwarded == [(b"authorization", b"Basic a"), (b"api-key", b"k"), MARKED]
    assert way.calls[0].patience == 7.0
    assert way.calls[0].deadline - way.calls[0].started == 300.0 + 21.0
    asked(way, Client())
    assert way.calls[-1].patience is None


def test_the_system_one_door_refuses_in_eidex_s_words() -> None:
    """E79, E80: 405 with Allow, 413 with the seed's message, both with X-SMG-Error-Code."""
    way, client = Way(config="server: {max_body_bytes: 10}"), Client(b"x" * 11)
    asked(way, client, "/v1/systemone")
    assert (client.status, client.headers[b"x-smg-error-code"]) == (413, b"REQUEST_ENTITY_TOO_LARGE")
    assert client.error == {
        "type": "Request Entity Too Large",
        "code": "REQUEST_ENTITY_TOO_LARGE",
        "message": "request body exceeds max_body_bytes",
    }
    client = Client()
    asked(way, client, "/v1/systemone", method="GET")
    assert (client.status, client.headers[b"allow"], client.error["code"]) == (405, b"POST", "METHOD_NOT_ALLOWED")
