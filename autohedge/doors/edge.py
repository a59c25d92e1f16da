"""The front of the house: a plain ASGI app that admits a request, takes its way, and answers every Problem in its envelope.

Rules
- admit: find the door, the id (the client's X-Request-ID or a new one), the deadline, the credential's form.
- The body is read here, whole, up to `server.max_body_bytes`; one byte more is a 413 and nothing further is kept.
- What is no data path goes to the management app (FastAPI). No middleware, lock or copy stands before the data path.
- A request that went through this service before goes in a circle (two AutoHedges that have each other as backends): it is
  refused with a 503, so that who sent it asks somebody else. What goes on carries our mark in CDN-Loop (RFC 8586) to tell.
- A client that leaves cancels this task (wire/server.py); the cancel runs through and nothing is answered.

It must not know: engines, candidates, verdicts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

from autohedge.call import Call, Header, Out, Send
from autohedge.core.problems import (
    BadRequest,
    InternalError,
    MethodNotAllowed,
    Problem,
    TooLarge,
    Unauthorized,
    Unavailable,
    Unprocessable,
    Unsupported,
)
from autohedge.core.types import Door
from autohedge.doors.access import CREDENTIALS, Gatekeeper
from autohedge.doors.access_log import CODE, AccessLog, Line
from autohedge.doors.envelope import ENVELOPES, code_at, openai, rendered
from autohedge.doors.openai import Entry, find
from autohedge.relay import Relay
from autohedge.settings.people import Auth
from autohedge.watchers.gate import Gate
from autohedge.wire.heads import HOP_BY_HOP, end_to_end, header_lines
from autohedge.wire.server import AbortResponse
from autohedge.wire.server_again import KEPT

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOGGER = logging.getLogger("autohedge.edge")
# Not handed on: the upstream has its own Host and framing, and the expectation was answered here.
FRAMING = HOP_BY_HOP | {b"host", b"content-length", b"expect"}  # eidex hands on all the rest, unread
OWN = FRAMING | {b"api-key"}
MINE = OWN | CREDENTIALS
ID_LIMIT = 200
SYSTEMONE = Door.SYSTEMONE  # looked up in its enum it costs every request
LOOP = b"cdn-loop"


class Onward(NamedTuple):
    """What of a client's head goes on: the headers, the same as they stand in a head, and how the body is encoded."""

    headers: list[Header]
    lines: bytes
    encoding: str


class Edge:
    """`new_id` makes request ids; `mark` names this service to itself; `log` is replaced on reload."""

    def __init__(self, relay: Relay, management: App, log: AccessLog, new_id: Callable[[], bytes], mark: bytes) -> None:
        self.relay = relay
        self.management = management
        self.log = log
        self._new_id = new_id
        self._mark = mark
        self.gate: Gate | None = None  # requests are refused until it is open
        self.keeper = Gatekeeper(Auth(), relay.tools.clock)  # lets anybody in; replaced when its settings are known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: C901 - one frame per request
        if scope["type"] != "http":
            await self.management(scope, receive, send)
            return
        entry = find(scope["raw_path"].decode("latin-1"))
        if entry is None:
            await self._manage(scope, receive, send)
            return
        tools, log = self.relay.tools, self.log
        clock, meters = tools.clock, tools.meters
        started = clock()
        fields: dict[bytes, bytes] = dict(scope["headers"])
        out = Out(send, log.keep, count=log.on)
        call: Call | None = None
        code, body, request_id = "", b"", b""
        meters.began()
        try:
            request_id = fields.get(b"x-request-id", b"")[:ID_LIMIT] or self._new_id()
            if scope["method"] != "POST":
                raise MethodNotAllowed(f"{entry.target} takes POST", headers=[(b"allow", b"POST")])
            got = self.keeper.admit(fields, started)
            if got.unverified:
                got = await self.keeper.verify(fields)
            call = self._admit(entry, scope, fields, request_id, started, strip=got.strip)
            limit = tools.settings.server.max_body_bytes
            if int(fields.get(b"content-length", b"0")) > limit:
                raise _too_large(limit, entry.door)
            message = await receive()
            body = await _rest(message, receive, limit) if message.get("more_body") else message["body"]
            if len(body) > limit:
                raise _too_large(limit, entry.door)
            call.body = body
            await self.relay.serve(call, out)
        except Problem as problem:
            problem.__traceback__ = None  # of frames that hold the problem: only the cycle collector would part them
            code = code_at(entry.door, problem)
            await self._refuse(problem, entry, request_id, out)
        except (AbortResponse, asyncio.CancelledError):
            out.status = out.status or 499
            raise
        except Exception:
            code = "internal_error"
            LOGGER.exception("a fault of AutoHedge itself, request %s", request_id.decode("latin-1"))
            await self._refuse(
                InternalError("AutoHedge failed on this request; the log has the reason"), entry, request_id, out
            )
        finally:
            status, elapsed = out.status, clock() - started
            meters.ended(entry.door, call, status, code, elapsed)
            if log.wants(status):
                log.write(_line(scope, status, elapsed, body, request_id, code), out, call)

    def _admit(
        self, entry: Entry, scope: Scope, fields: dict[bytes, bytes], request_id: bytes, started: float, *, strip: bool
    ) -> Call:
        if self.gate is not None and not self.gate.open:
            raise _not_yet(self.gate)
        decides = entry.door is SYSTEMONE
        kept = scope.get(KEPT, {})
        onward: Onward | None = kept.get(strip)
        if onward is None:
            onward = kept[strip] = _onward(entry, scope["headers"], fields, self._mark, strip=strip)
        call = Call(
            door=entry.door,
            target=entry.target,
            query=scope["query_string"],
            headers=scope["headers"],
            forwarded=onward.headers,
            body=b"",
            encoding=onward.encoding,
            id=request_id,
            started=started,
            deadline=started + self.relay.tools.settings.timeouts.total,
            lines=onward.lines,
            model=entry.model,
        )
        if decides:
            self._admit_decision(call, fields)
        elif entry.azure and b"api-version" in call.query:
            call.query = b"&".join(part for part in call.query.split(b"&") if not part.startswith(b"api-version="))
        return call

    def _admit_decision(self, call: Call, fields: dict[bytes, bytes]) -> None:
        """eidex: any credential and any kind of body goes on as it came, and every attempt has a time of its own."""
        routing = self.relay.tools.settings.routing
        call.media = fields.get(b"content-type", b"").decode("latin-1")
        call.patience = routing.request_timeout
        call.deadline += routing.request_timeout * (routing.retry + 1)

    async def _refuse(self, problem: Problem, entry: Entry, request_id: bytes, out: Out) -> None:
        if out.started:
            raise AbortResponse
        if type(problem) is BadRequest and entry.door is SYSTEMONE:
            problem = self._numbered(problem)
        status, headers, body = rendered(problem, request_id, ENVELOPES.get(entry.door, openai))
        if isinstance(problem, TooLarge):
            headers.append((b"connection", b"close"))
        await out.whole(status, headers, body)

    def _numbered(self, problem: BadRequest) -> BadRequest:
        """The refusal under the status that the operator wants System One clients to see."""
        if self.relay.tools.settings.systemone.validation_status == BadRequest.status:
            return problem
        return Unprocessable(problem.message, code=problem.code, param=problem.param, details=problem.details)

    async def _manage(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A management request: logged like the others, at no cost when the log is off."""
        if not self.log.on:
            await self.management(scope, receive, send)
            return
        log, clock = self.log, self.relay.tools.clock
        started = clock()
        out = Out(send, log.keep, count=True)
        asked = bytearray()
        codes: list[str] = []
        scope[CODE] = codes

        async def heard() -> MutableMapping[str, Any]:
            message = await receive()
            asked.extend(message.get("body", b""))
            return message

        async def counted(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                out.status = message["status"]
            else:
                out.passed(message.get("body", b""))
            await send(message)

        try:
            await self.management(scope, heard, counted)
        finally:
            if log.wants(out.status):
                line = _line(
                    scope, out.status, clock() - started, bytes(asked), _id_of(scope["headers"]), "".join(codes[-1:])
                )
                log.write(line, out, None)


def _onward(entry: Entry, headers: list[Header], fields: dict[bytes, bytes], mark: bytes, *, strip: bool) -> Onward:
    """What of a head goes on to an engine; raises Problem for a head that nobody serves. It follows from the head alone."""
    decides = entry.door is SYSTEMONE
    if LOOP in fields and any(mark in value for name, value in headers if name == LOOP):
        message = "this request has been here before: AutoHedge and one of its backends send it to each other"
        raise Unavailable(message, code="request_loop", retry_after=1)
    forwarded = end_to_end(headers, fields, MINE if strip else FRAMING if decides else OWN)
    if not decides:
        if fields.get(b"content-type", b"")[:10].lower() == b"multipart/":
            raise Unsupported(f"{entry.target} takes a JSON body, not multipart", param="content-type")
        if not strip:
            if b"authorization" in fields:
                _check_bearer(fields[b"authorization"])
            elif key := fields.get(b"api-key"):
                forwarded.append((b"authorization", b"Bearer " + key))
    forwarded.append((LOOP, mark))
    encoding = _encoding(fields[b"content-encoding"]) if b"content-encoding" in fields else ""
    return Onward(forwarded, header_lines(forwarded), encoding)


def _line(scope: Scope, status: int, elapsed: float, body: bytes, request_id: bytes, code: str) -> Line:
    """What the access log says of any request."""
    named = request_id.decode("latin-1")
    return Line(scope["method"], scope["path"], status, elapsed, _remote(scope), body, scope["headers"], named, code)


async def _rest(message: MutableMapping[str, Any], receive: Receive, limit: int) -> bytes:
    """A body that comes in pieces, from its first `message` on; no further than to the first byte over `limit`."""
    pieces, size = [message["body"]], len(message["body"])
    while message.get("more_body") and size <= limit:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise asyncio.CancelledError
        pieces.append(message["body"])
        size += len(message["body"])
    return b"".join(pieces)


def _not_yet(gate: Gate) -> Unavailable:
    missing = ", ".join(gate.missing[:5]) or "its backends"
    return Unavailable(f"AutoHedge is starting and waits for {missing}", code="starting", retry_after=5)


def _too_large(limit: int, door: Door) -> TooLarge:
    if door is Door.SYSTEMONE:
        return TooLarge("request body exceeds max_body_bytes")
    return TooLarge(f"the request body is over {limit} bytes (server.max_body_bytes)")


def _encoding(value: bytes) -> str:
    encoding = value.decode("latin-1").strip().lower()
    return "" if encoding == "identity" else encoding


def _check_bearer(value: bytes) -> None:
    """The form of the credential, not its worth. RFC 9110: the scheme's case does not matter; spaces may repeat."""
    scheme, _, token = value.strip().partition(b" ")
    if scheme.lower() != b"bearer" or not token.strip() or b" " in token.strip():
        raise Unauthorized(
            "Invalid Bearer token format: expected 'Authorization: Bearer <token>'",
            code="invalid_token_format",
            headers=[(b"www-authenticate", b"Bearer")],
        )


def _id_of(headers: list[Header]) -> bytes:
    for name, value in headers:
        if name == b"x-request-id":
            return value[:ID_LIMIT]
    return b""


def _remote(scope: Scope) -> str:
    client = scope.get("client")
    return f"{client[0]}:{client[1]}" if client else ""
