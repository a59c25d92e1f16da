"""What all the engines' dialects share: routes, the way of one piece of work, and the OpenAI shapes where they agree.

Rules
- A dialect turns a request into an `Answer`, at once and without waiting. Faults change the answer afterwards.
- A refusal is raised as `Refusal` and shaped in one place per dialect, `refused`.
- `Route.on` says what a path is for: "work", "health", "models", "count" or "other"; faults are aimed by it.

It must not know: sockets or faults.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, ClassVar, NamedTuple

import zstandard

from autohedge.core.types import Door, Kind
from autohedge.engine.chat import ChatStyle, completion
from autohedge.engine.decisions import Bad, Rules, decide, first_bad
from autohedge.engine.messages import CREATED, Answer, Refusal, Request, dump, plain, sse, text
from autohedge.engine.state import State
from autohedge.engine.text import compose
from autohedge.engine.turns import message, response
from autohedge.engine.vectors import rerank, vectors
from autohedge.engine.work import Work, Wrong, bound, first_wrong, forced_tool, weigh

Handler = Callable[[Request], Answer]
GENERATING = frozenset({Door.CHAT, Door.COMPLETIONS, Door.RESPONSES, Door.MESSAGES})
MEMORY, MEMORY_BODY = 64, 16_384  # works remembered, and the largest body of one in bytes
PATHS: Mapping[Door, str] = {
    Door.CHAT: "/v1/chat/completions",
    Door.COMPLETIONS: "/v1/completions",
    Door.EMBEDDINGS: "/v1/embeddings",
    Door.SPARSE: "/v1/sparse-embeddings",
    Door.BOTH: "/v1/embeddings:both",
    Door.RESPONSES: "/v1/responses",
    Door.MESSAGES: "/v1/messages",
    Door.RERANK: "/v1/rerank",
    Door.SYSTEMONE: "/v1/systemone",
}


class Route(NamedTuple):
    on: str
    handlers: dict[str, Handler]


class Dialect:
    """One engine's way to speak. A subclass names its doors and fills in what differs."""

    kind: ClassVar[Kind]
    doors: ClassVar[tuple[Door, ...]] = tuple(PATHS)
    style: ClassVar[ChatStyle] = ChatStyle()
    rules: ClassVar[Rules] = Rules()
    server: ClassVar[bytes] = b"uvicorn"
    json_type: ClassVar[bytes] = b"application/json"
    strict_numbers: ClassVar[bool] = False
    encodings: ClassVar[frozenset[str]] = frozenset()  # request bodies it decompresses
    queues: ClassVar[bool] = True  # more work than slots waits; else it is refused
    overload: ClassVar[tuple[int, str]] = (503, "The request queue is full")

    def __init__(self, state: State) -> None:
        self.state = state
        self.routes: dict[str, Route] = {}
        self._known: dict[Hashable, Work] = {}
        for door in self.doors:
            self.post(PATHS[door], partial(self.work, door), "work")
        self.get("/v1/models", self.models, "models")
        self.add_routes()

    # --- routes ---------------------------------------------------------------------------------------------------

    def get(self, path: str, handler: Handler, on: str = "other") -> None:
        self.routes.setdefault(path, Route(on, {})).handlers["GET"] = handler

    def post(self, path: str, handler: Handler, on: str = "other") -> None:
        self.routes.setdefault(path, Route(on, {})).handlers["POST"] = handler

    def add_routes(self) -> None:
        """Add the engine's own paths."""

    def route(self, request: Request) -> Route | None:
        """The route of a path, or None."""
        found = self.routes.get(request.path)
        if found is None and "%3" in request.path:  # "/v1/embeddings%3Aboth": some clients encode the colon
            found = self.routes.get(request.tail(""))
        return found or self.find(request.path)

    def find(self, path: str) -> Route | None:
        """Routes with a name inside the path."""
        if path.startswith("/v1/models/") and len(path) > len("/v1/models/"):
            return Route("models", {"GET": self.one_model})
        return None

    def answer(self, request: Request, route: Route | None) -> Answer:
        """What a healthy engine of this kind answers."""
        if self.state.key is not None and self.guarded(request.path) and not self.admitted(request):
            return self.unauthorized(request)
        if route is None:
            return self.no_path(request)
        handler = route.handlers.get("GET" if request.method == "HEAD" else request.method)
        if handler is None:
            return self.no_method(request, route)
        try:
            return handler(request)
        except Refusal as refusal:
            return self.refused(refusal, request)

    # --- who may ---------------------------------------------------------------------------------------------------

    def guarded(self, path: str) -> bool:
        """Whether the path needs the key."""
        return path.startswith("/v1/")

    def admitted(self, request: Request) -> bool:
        scheme, _, token = (request.header("authorization") or "").partition(" ")
        return scheme.lower() == "bearer" and token.strip() == self.state.key

    def unauthorized(self, request: Request) -> Answer:  # noqa: ARG002 - some kinds answer by path
        return plain({"error": "Unauthorized"}, 401)

    def no_path(self, request: Request) -> Answer:  # noqa: ARG002
        return plain({"detail": "Not Found"}, 404)

    def no_method(self, request: Request, route: Route) -> Answer:  # noqa: ARG002
        return plain({"detail": "Method Not Allowed"}, 405, [(b"allow", ", ".join(route.handlers).encode())])

    # --- the way of one piece of work --------------------------------------------------------------------------------

    def work(self, door: Door, request: Request) -> Answer:
        """Read, check, compose, write. A body that was read before is not read again: the bench sends few different ones."""
        if len(request.body) > MEMORY_BODY or request.parsed:
            return self.write(self.read(door, request))
        state = self.state
        framing = (request.header("content-type"), request.header("content-encoding"))
        key = (door, request.body, framing, state.context, state.words, state.name, state.model)
        work = self._known.get(key)
        if work is None:
            work = self.read(door, request)
            if len(self._known) >= MEMORY:
                self._known.clear()
            self._known[key] = work
        return self.write(work)

    def read(self, door: Door, request: Request, native: str = "") -> Work:
        """The request as checked, counted work with its answer's words. Raises Refusal."""
        body = self.parse(request)
        self.validate(door, body)
        work = Work(door, body, self.model_of(body.get("model")), native=native)
        work.stream = door in GENERATING and body.get("stream") in (True, 1, "true", "yes")
        weigh(work)
        bound(work)
        self.fit(work)
        return work

    def validate(self, door: Door, body: dict[str, Any]) -> None:
        """Raise the Refusal of the first thing that is wrong with the body."""
        if door is Door.SYSTEMONE:
            bad = first_bad(body, self.rules)
            if bad is not None:
                raise self.bad_decision(bad)
            return
        wrong = first_wrong(door, body, strict=self.strict_numbers)
        if wrong is not None:
            raise self.wrong(wrong)
        self.inspect(door, body)

    def parse(self, request: Request) -> dict[str, Any]:
        """The body as an object. Raises Refusal."""
        encoding = (request.header("content-encoding") or "").lower()
        try:
            obj = request.json(_expand(encoding, request.body) if encoding in self.encodings else None)
        except (ValueError, OSError, RecursionError, zstandard.ZstdError) as error:
            raise self.bad_json(error) from None
        if not isinstance(obj, dict):
            raise self.wrong(Wrong("", "object", obj))
        return obj

    def compose(self, work: Work, room: int | None) -> None:
        """Give the work its answer: at most `room` tokens (None: any number). Nothing for doors that do not generate."""
        if work.door not in GENERATING:
            return
        state, body = self.state, work.body
        budget = (
            room if work.limit is None or work.limit < 0 else min(work.limit, room if room is not None else work.limit)
        )
        least = body.get("min_tokens")
        natural = max(state.words, least) if isinstance(least, int) else state.words
        work.words, work.finish = compose(state.name, natural, budget, go_on=body.get("ignore_eos") is True)
        wanted = body.get("response_format")
        if isinstance(wanted, dict) and wanted.get("type") in ("json_object", "json_schema"):
            work.words, work.finish = json.dumps({"engine": state.name}).split(" "), "stop"
        _stop_at(work, body.get("stop") or body.get("stop_sequences"))
        if work.door is Door.CHAT:
            work.tool, named = forced_tool(body)
            if work.tool is not None:
                work.finish = "stop" if named else "tool_calls"

    def write(self, work: Work) -> Answer:
        """The answer in the shape of its door."""
        state = self.state
        state.generated += len(work.words)
        if work.door in (Door.CHAT, Door.COMPLETIONS):
            return completion(work, self.style, state)
        if work.door is Door.RESPONSES:
            return response(work, state)
        if work.door is Door.MESSAGES:
            return message(work, state)
        if work.door is Door.RERANK:
            return rerank(work, state)
        return decide(work, state) if work.door is Door.SYSTEMONE else vectors(work, state)

    # --- what differs ------------------------------------------------------------------------------------------------

    def inspect(self, door: Door, body: dict[str, Any]) -> None:
        """Refuse what this engine alone refuses."""

    def model_of(self, asked: Any) -> str:
        """The model's name in the answer. Raises Refusal for a model that is not served."""
        if isinstance(asked, str) and asked != self.state.model:
            raise self.unknown_model(asked)
        return self.state.model

    def fit(self, work: Work) -> None:
        """Apply the engine's own limit rule and compose the answer. Raises Refusal."""
        self.compose(work, max(0, self.state.context - work.longest) if work.door in GENERATING else None)

    def wrong(self, wrong: Wrong) -> Refusal:
        said = f"Missing required parameter: '{wrong.field}'." if wrong.missing else _mistyped(wrong)
        code = "missing_required_parameter" if wrong.missing else "invalid_type"
        return Refusal(400, said, param=wrong.field or None, code=code)

    def bad_json(self, error: Exception) -> Refusal:  # noqa: ARG002 - others quote the place
        return Refusal(400, "We could not parse the JSON body of your request.")

    def bad_decision(self, bad: Bad) -> Refusal:
        return Refusal(400, bad.msg, param=".".join(str(step) for step in bad.loc[1:]))

    def unknown_model(self, asked: str) -> Refusal:
        said = f"The model `{asked}` does not exist or you do not have access to it."
        return Refusal(404, said, param="model", code="model_not_found")

    def refused(self, refusal: Refusal, request: Request) -> Answer:  # noqa: ARG002
        """The OpenAI envelope."""
        kind = refusal.type or ("invalid_request_error" if refusal.status < 500 else "server_error")
        body = {"message": refusal.message, "type": kind, "param": refusal.param, "code": refusal.code, **refusal.extra}
        return plain({"error": body}, refusal.status)

    def error_event(self, refusal: Refusal, request: Request) -> bytes:
        """An error inside a stream that has begun with 200."""
        return sse(json.loads(self.refused(refusal, request).body))

    def overloaded(self, request: Request) -> Answer:
        status, said = self.overload
        return self.refused(Refusal(status, said, type="overloaded_error"), request)

    def loading(self, request: Request) -> Answer:
        """What the engine says while the model loads."""
        return self.refused(Refusal(503, "Loading model", type="unavailable_error"), request)

    def models(self, request: Request) -> Answer:  # noqa: ARG002
        return plain({"object": "list", "data": [self.card()]})

    def card(self) -> dict[str, Any]:
        """The entry in the models list."""
        return {"id": self.state.model, "object": "model", "created": CREATED, "owned_by": "sample-engine"}

    def one_model(self, request: Request) -> Answer:
        asked = request.tail("/v1/models/")
        if asked != self.state.model:
            raise self.unknown_model(asked)
        return plain(self.card())

    def metrics(self, request: Request) -> Answer:  # noqa: ARG002
        lines = [f"{name} {value}" for name, value in self.gauges()]
        return text("\n".join(lines) + "\n", kind=b"text/plain; version=0.0.4; charset=utf-8")

    def gauges(self) -> list[tuple[str, float]]:
        """Names and values on the metrics page."""
        return []


def empty(status: int = 200) -> Answer:
    """An answer without a body and without a type."""
    return Answer(status, b"", b"")


def _mistyped(wrong: Wrong) -> str:
    what = f"an {wrong.want}" if wrong.want[:1] in "aio" and " " not in wrong.want else wrong.want
    got = dump(wrong.value)[:80].decode("utf-8", "ignore")
    return f"Invalid type for '{wrong.field}': expected {what}, but got {got} instead."


def _stop_at(work: Work, stops: Any) -> None:
    """Cut the words at the first stop sequence."""
    whole = " ".join(work.words)
    places = [
        place
        for stop in (stops if isinstance(stops, list) else [stops])
        if isinstance(stop, str) and stop and (place := whole.find(stop)) >= 0
    ]
    if places:
        work.words, work.finish = whole[: min(places)].split(" "), "stop"


def _expand(encoding: str, body: bytes) -> bytes:
    if encoding == "gzip":
        return gzip.decompress(body)
    return zstandard.ZstdDecompressor().decompressobj().decompress(body)
