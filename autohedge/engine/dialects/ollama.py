"""Ollama (mid 2026): its own /api and an OpenAI-like /v1, both over a runner that is loaded on demand.

Its limit rule: none; a prompt over the allocated window is truncated in silence. /v1 knows max_tokens only: it has no
max_completion_tokens, n, tool_choice or num_ctx. The window is told by /api/ps while the model is loaded (facts a, 0.16).
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any, ClassVar

from autohedge.core.types import Door, Kind
from autohedge.engine.chat import ChatStyle
from autohedge.engine.decisions import Bad, Rules
from autohedge.engine.dialects.base import GENERATING, Dialect, Route
from autohedge.engine.messages import CREATED, Answer, Piece, Refusal, Request, What, dump, plain, sse, text
from autohedge.engine.text import spell
from autohedge.engine.vectors import vector
from autohedge.engine.work import Work, Wrong

STAMP = "2026-11-30T09:00:00Z"
TRAINED = 40_960  # the model's own window: what /api/show tells, an upper bound only
DECISION_BODY = 65_536  # bytes; one more is a 413
_TYPES = {400: "invalid_request_error", 404: "not_found_error"}


class Ollama(Dialect):
    kind: ClassVar[Kind] = Kind.OLLAMA
    doors: ClassVar[tuple[Door, ...]] = (
        Door.CHAT,
        Door.COMPLETIONS,
        Door.EMBEDDINGS,
        Door.RESPONSES,
        Door.MESSAGES,
        Door.SYSTEMONE,
    )
    rules: ClassVar[Rules] = Rules(
        questions=64, options=26, least=2, levels=26, least_levels=2, model_needed=True, noul_needs="instructions"
    )
    encodings: ClassVar[frozenset[str]] = frozenset({"zstd"})
    overload: ClassVar[tuple[int, str]] = (503, "server busy, please try again.  maximum pending requests exceeded")
    style: ClassVar[ChatStyle] = ChatStyle(role_each=True, fingerprint="fp_ollama", one_choice=True)

    def add_routes(self) -> None:
        self.get("/", lambda _: text("Ollama is running"), "health")
        self.get("/api/version", lambda _: plain({"version": "0.32.1"}))
        self.get("/api/tags", lambda _: plain({"models": [self._disk()]}), "models")
        self.get("/api/ps", lambda _: plain({"models": [self._loaded()] if self.state.loaded else []}))
        self.post("/api/show", self.show)
        self.post("/api/chat", partial(self.native, Door.CHAT), "work")
        self.post("/api/generate", partial(self.native, Door.COMPLETIONS), "work")
        self.post("/api/embed", partial(self.native, Door.EMBEDDINGS), "work")

    def guarded(self, path: str) -> bool:
        return path != "/"

    def unauthorized(self, request: Request) -> Answer:
        return self.refused(Refusal(401, "unauthorized"), request)

    def no_path(self, request: Request) -> Answer:  # noqa: ARG002
        return text("404 page not found", 404, b"text/plain")

    def no_method(self, request: Request, route: Route) -> Answer:  # noqa: ARG002
        answer = text("405 method not allowed", 405, b"text/plain")
        answer.headers.append((b"allow", ", ".join(route.handlers).encode()))
        return answer

    # --- what it tells -------------------------------------------------------------------------------------------------

    def card(self) -> dict[str, Any]:
        return {"id": self.state.model, "object": "model", "created": CREATED, "owned_by": "library"}

    def _disk(self) -> dict[str, Any]:
        details = {
            "parent_model": "",
            "format": "gguf",
            "family": "sample",
            "families": ["sample"],
            "parameter_size": "1M",
            "quantization_level": "F32",
        }
        name = self.state.model
        return {
            "name": name,
            "model": name,
            "modified_at": STAMP,
            "size": 581_888,
            "digest": "5a" * 32,
            "details": details,
        }

    def _loaded(self) -> dict[str, Any]:
        entry = {key: value for key, value in self._disk().items() if key != "modified_at"}
        return {**entry, "expires_at": STAMP, "size_vram": 581_888, "context_length": self.state.context}

    def show(self, request: Request) -> Answer:
        """What stands in the model's file: the trained window. It does not load the model."""
        body = self.parse(request)
        self.model_of(body.get("model") or body.get("name"))
        details, trained = self._disk()["details"], max(TRAINED, self.state.context)
        info = {
            "general.architecture": "sample",
            "sample.context_length": trained,
            "sample.embedding_length": self.state.dimensions,
        }
        rest = {"model_info": info, "capabilities": ["completion", "tools", "embedding"], "modified_at": STAMP}
        return plain({"modelfile": "", "parameters": "", "template": "{{ .Prompt }}", "details": details, **rest})

    # --- work ------------------------------------------------------------------------------------------------------------

    def parse(self, request: Request) -> dict[str, Any]:
        if len(request.body) > DECISION_BODY and request.path == "/v1/systemone":
            raise Refusal(413, "request body too large")
        return super().parse(request)

    def inspect(self, door: Door, body: dict[str, Any]) -> None:
        if door is Door.EMBEDDINGS:
            given = body["input"]
            if not isinstance(given, str) and not (
                isinstance(given, list) and all(isinstance(one, str) for one in given)
            ):
                raise Refusal(400, "invalid input type")
        if door is Door.COMPLETIONS and not isinstance(body["prompt"], str):
            raise self.wrong(Wrong("prompt", "string", body["prompt"]))

    def model_of(self, asked: Any) -> str:
        if not isinstance(asked, str) or not asked:
            raise Refusal(400, "model is required")
        if asked.removesuffix(":latest") != self.state.model.removesuffix(":latest"):
            raise self.unknown_model(asked)
        return asked

    def unknown_model(self, asked: str) -> Refusal:
        return Refusal(404, f"model '{asked}' not found")

    def fit(self, work: Work) -> None:
        window = self.state.context
        work.body.pop("tool_choice", None)
        if work.limit_field == "max_completion_tokens":
            kept = work.body.get("max_tokens")
            work.limit = kept if isinstance(kept, int) else None
        options = work.body.get("options")
        if work.native and isinstance(options, dict):
            work.limit = options.get("num_predict", work.limit)
            window = options.get("num_ctx", window)
        if work.longest > window:
            if work.door is Door.EMBEDDINGS and work.body.get("truncate") is False:
                raise Refusal(400, "the input length exceeds the context length")
            work.prompt = work.longest = window - 1
        self.compose(work, max(1, window - work.longest) if work.door in GENERATING else None)

    def native(self, door: Door, request: Request) -> Answer:
        """The engine's own chat, generate and embed. Streams are NDJSON and the default."""
        body = self.parse(request)
        if door is Door.COMPLETIONS:
            body.setdefault("prompt", "")
        work = self.read(door, request, request.path)
        work.stream = door is not Door.EMBEDDINGS and body.get("stream") is not False
        head: dict[str, Any] = {"model": work.model, "created_at": STAMP}
        gap, count = self.state.gap, len(work.words)
        if door is Door.EMBEDDINGS:
            found = [vector(one, self.state.dimensions) for one in work.inputs]
            answer = plain(
                {"model": work.model, "embeddings": found, "total_duration": 1, "prompt_eval_count": work.prompt}
            )
            answer.wait = self.state.latency
            return answer
        tail = {"done": True, "done_reason": work.finish, "total_duration": 1, "load_duration": 1}
        tail |= {"prompt_eval_count": work.prompt, "prompt_eval_duration": 1, "eval_count": count, "eval_duration": 1}
        if not work.stream:
            answer = plain({**head, **_said(door, " ".join(work.words)), **tail})
            answer.wait = self.state.latency + gap * count
            return answer
        pieces = [
            Piece(dump({**head, **_said(door, word), "done": False}) + b"\n", What.CONTENT, gap if place else 0.0)
            for place, word in enumerate(spell(work.words))
        ]
        pieces.append(Piece(dump({**head, **_said(door, ""), **tail}) + b"\n", What.FINISH))
        return Answer(type=b"application/x-ndjson", pieces=pieces, wait=self.state.latency + gap)

    # --- refusals --------------------------------------------------------------------------------------------------------

    def wrong(self, wrong: Wrong) -> Refusal:
        if wrong.missing:
            return Refusal(400, f"[] is too short - '{wrong.field}'")
        got = {str: "string", bool: "bool", dict: "object", list: "array"}.get(type(wrong.value), "number")
        return Refusal(400, f"json: cannot unmarshal {got} into Go struct field .{wrong.field} of type {wrong.want}")

    def bad_json(self, error: Exception) -> Refusal:
        said = "unexpected EOF"
        if isinstance(error, json.JSONDecodeError) and error.pos < len(error.doc):
            said = f"invalid character {error.doc[error.pos]!r} looking for beginning of value"
        return Refusal(400, said)

    def bad_decision(self, bad: Bad) -> Refusal:
        if bad.loc == ("body", "model"):
            return Refusal(400, "model is required")
        if bad.loc == ("body", "questions"):
            return Refusal(400, f"questions must contain 1-{self.rules.questions} fields")
        return Refusal(400, bad.msg if bad.msg.startswith(str(bad.loc[-1])) else f"{bad.loc[-1]}: {bad.msg}")

    def refused(self, refusal: Refusal, request: Request) -> Answer:
        """A string on /api and /v1/systemone, OpenAI's object on /v1, Anthropic's on /v1/messages."""
        if not request.path.startswith("/v1/") or request.path == "/v1/systemone":
            return plain({"error": refusal.message}, refusal.status)
        kind = refusal.type or _TYPES.get(refusal.status, "api_error")
        if request.path == "/v1/messages":
            kind = "overloaded_error" if refusal.status in (503, 529) else kind
            error = {"type": kind, "message": refusal.message}
            return plain({"type": "error", "error": error, "request_id": self.state.next_id("req_")}, refusal.status)
        return plain({"error": {"message": refusal.message, "type": kind, "param": None, "code": None}}, refusal.status)

    def error_event(self, refusal: Refusal, request: Request) -> bytes:
        """NDJSON on /api; an event on /v1 (the real one swallows it, see the fault B71)."""
        if request.path.startswith("/api/"):
            return dump({"error": refusal.message}) + b"\n"
        return sse(json.loads(self.refused(refusal, request).body))


def _said(door: Door, word: str) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": word}} if door is Door.CHAT else {"response": word}
