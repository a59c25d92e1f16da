"""llama.cpp b11549: measured answers (facts real_backends 3-4).

Its limit rule: a prompt of the whole slot window is refused; the bound on the answer is not checked at all. The model's name
is ignored. It answers 500 to several mistakes of the client.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any, ClassVar

from autohedge.core.types import Door, Kind
from autohedge.engine.chat import ChatStyle
from autohedge.engine.decisions import Bad, Rules
from autohedge.engine.dialects.base import GENERATING, Dialect, Route
from autohedge.engine.messages import CREATED, Answer, Refusal, Request, plain
from autohedge.engine.text import ids
from autohedge.engine.work import Work, Wrong, weigh

BATCH = 512  # tokens of one embedding input; more is a 500
_TYPES = {401: "authentication_error", 404: "not_found_error", 501: "not_supported_error", 503: "unavailable_error"}
_DRESSED_AS_500 = ("role", "tools", "content", "tool_calls")  # the client's mistake, a server_error here


class LlamaCpp(Dialect):
    kind: ClassVar[Kind] = Kind.LLAMACPP
    doors: ClassVar[tuple[Door, ...]] = tuple(door for door in Door if door not in (Door.SPARSE, Door.BOTH))
    rules: ClassVar[Rules] = Rules(options=52, least_levels=2, any_state=True, noul_needs="instructions")
    server: ClassVar[bytes] = b"llama.cpp"
    json_type: ClassVar[bytes] = b"application/json; charset=utf-8"
    strict_numbers: ClassVar[bool] = True
    style: ClassVar[ChatStyle] = ChatStyle(
        opening=None,
        choices_first=True,
        fingerprint="b11549-sample",
        timings=True,
        usage={"prompt_tokens_details": {"cached_tokens": 0}},
    )

    def add_routes(self) -> None:
        for path in ("/health", "/v1/health"):
            self.get(path, lambda _: plain({"status": "ok"}), "health")
        self.get("/models", self.models, "models")
        self.get("/props", self.props)
        self.get("/slots", self.slots)
        self.get("/metrics", self.metrics)
        self.post("/tokenize", self.tokenize, "count")
        self.post(
            "/detokenize", lambda r: plain({"content": " ".join(map(str, self.parse(r).get("tokens") or ()))}), "count"
        )
        self.post("/apply-template", self.apply_template, "count")
        for door, path in (
            (Door.CHAT, "/v1/chat/completions/input_tokens"),
            (Door.RESPONSES, "/v1/responses/input_tokens"),
        ):
            self.post(path, partial(self.input_tokens, door), "count")
        self.post("/v1/messages/count_tokens", partial(self.input_tokens, Door.MESSAGES), "count")
        for path in ("/chat/completions", "/embeddings", "/rerank"):
            self.post(path, self.routes[f"/v1{path}"].handlers["POST"], "work")

    def guarded(self, path: str) -> bool:
        return path not in {"/health", "/v1/health"}

    def unauthorized(self, request: Request) -> Answer:
        return self.refused(Refusal(401, "Invalid API Key"), request)

    def no_path(self, request: Request) -> Answer:
        return self.refused(Refusal(404, "File Not Found"), request)

    def no_method(self, request: Request, route: Route) -> Answer:  # noqa: ARG002
        return self.no_path(request)

    def models(self, request: Request) -> Answer:  # noqa: ARG002
        """Two lists in one: Ollama's `models` before OpenAI's `data`."""
        name = self.state.model
        old = {
            "name": name,
            "model": name,
            "modified_at": "",
            "size": "",
            "digest": "",
            "type": "model",
            "capabilities": ["completion"],
        }
        return plain({"models": [old], "object": "list", "data": [self.card()]})

    def card(self) -> dict[str, Any]:
        name, window = self.state.model, self.state.context
        meta = {
            "vocab_type": 1,
            "n_vocab": 32_000,
            "n_ctx": window,
            "n_ctx_train": window,
            "n_embd": self.state.dimensions,
            "n_params": 145_472,
            "size": 581_888,
        }
        modalities = {"input_modalities": ["text"], "output_modalities": ["text", "decisions"]}
        head = {"id": name, "aliases": [name], "tags": [], "object": "model", "architecture": modalities}
        return {**head, "created": CREATED, "owned_by": "llamacpp", "meta": meta}

    def props(self, request: Request) -> Answer:  # noqa: ARG002
        """`n_ctx` is the window of one slot; n_predict is always -1 and says nothing."""
        settings = {
            "id": 0,
            "id_task": -1,
            "n_ctx": self.state.context,
            "is_processing": False,
            "params": {"n_predict": -1},
        }
        rest = {"total_slots": self.state.slots or 4, "model_path": self.state.model, "modalities": {"vision": False}}
        return plain(
            {
                "default_generation_settings": settings,
                **rest,
                "chat_template": "",
                "is_sleeping": False,
                "build_info": "b11549",
            }
        )

    def slots(self, request: Request) -> Answer:
        total, busy = self.state.slots or 4, self.state.running
        if request.query.get("fail_on_no_slot") and busy >= total:
            return self.refused(Refusal(503, "no slot available"), request)
        return plain(
            [
                {"id": place, "id_task": -1, "n_ctx": self.state.context, "is_processing": place < busy}
                for place in range(total)
            ]
        )

    def gauges(self) -> list[tuple[str, float]]:
        return [
            ("llamacpp:requests_processing", self.state.running),
            ("llamacpp:requests_deferred", self.state.waiting),
            ("llamacpp:tokens_predicted_total", self.state.generated),
        ]

    def tokenize(self, request: Request) -> Answer:
        content = str(self.parse(request).get("content", ""))
        return plain({"tokens": ids(content)})

    def apply_template(self, request: Request) -> Answer:
        body = self.parse(request)
        self.validate(Door.CHAT, body)
        turns = [f"<{message['role']}> {message.get('content') or ''} <end>" for message in body["messages"]]
        return plain({"prompt": "\n".join([*turns, "<assistant>"])})

    def input_tokens(self, door: Door, request: Request) -> Answer:
        """The exact count of a body, without generating."""
        body = self.parse(request)
        self.validate(door, body)
        work = Work(door, body, self.state.model)
        weigh(work)
        if door is Door.MESSAGES:
            return plain({"input_tokens": work.prompt})
        return plain({"input_tokens": work.prompt, "object": "response.input_tokens"})

    def parse(self, request: Request) -> dict[str, Any]:
        if request.header("content-encoding"):
            raise Refusal(415, "Unsupported Content-Encoding", type="invalid_request_error")
        return super().parse(request)

    def inspect(self, door: Door, body: dict[str, Any]) -> None:
        if not isinstance(body.get("stream"), bool | None):
            raise self.wrong(Wrong("stream", "boolean", body["stream"]))
        if door is Door.CHAT and body.get("top_logprobs") and not body.get("logprobs"):
            raise Refusal(400, "top_logprobs requires logprobs to be set to true")
        number = body.get("n")
        if isinstance(number, int) and number > (self.state.slots or 4):
            raise Refusal(400, f"n_cmpl ({number}) cannot be greater than the number of slots")

    def model_of(self, asked: Any) -> str:  # noqa: ARG002 - ignored; the answer names the loaded model
        return self.state.model

    def fit(self, work: Work) -> None:
        window = self.state.context
        if work.door in (Door.EMBEDDINGS, Door.RERANK):
            batch = min(BATCH, window)
            if work.longest > batch:
                said = f"input ({work.longest} tokens) is too large to process. increase the physical batch size (current batch size: {batch})"
                raise Refusal(500, said, type="server_error")
        elif work.longest >= window:
            said = f"request ({work.longest} tokens) exceeds the available context size ({window} tokens), try increasing it"
            extra = {"n_prompt_tokens": work.longest, "n_ctx": window}
            raise Refusal(400, said, type="exceed_context_size_error", extra=extra)
        self.compose(work, window - work.longest if work.door in GENERATING else None)

    def wrong(self, wrong: Wrong) -> Refusal:
        if wrong.field == "tool_choice":
            return Refusal(400, f"Invalid tool_choice: {wrong.value}")
        if wrong.missing and "." not in wrong.field:
            return Refusal(400, f"'{wrong.field}' is required")
        status = 500 if wrong.field.rpartition(".")[2] in _DRESSED_AS_500 else 400
        got = {str: "string", bool: "boolean", dict: "object", list: "array", type(None): "null"}.get(
            type(wrong.value), "number"
        )
        said = f"Field '{wrong.field}': [json.exception.type_error.302] type must be {wrong.want}, but is {got}"
        return Refusal(status, said, type="server_error" if status == 500 else "")

    def bad_json(self, error: Exception) -> Refusal:
        place = (
            f"line {error.lineno}, column {error.colno}"
            if isinstance(error, json.JSONDecodeError)
            else "line 1, column 1"
        )
        return Refusal(
            400, f"[json.exception.parse_error.101] parse error at {place}: syntax error while parsing value"
        )

    def bad_decision(self, bad: Bad) -> Refusal:
        steps = [str(step) for step in bad.loc[1:] if step not in {"questions", "choice", "score", "noul", "criteria"}]
        if bad.loc[1:] in {("state",), ("questions",)} and bad.type == "missing":
            return Refusal(400, f'"{bad.loc[1]}" must be provided')
        if bad.type in {"union_tag_invalid", "union_tag_not_found"}:
            return Refusal(400, f'questions.{steps[0]}: "type" must be one of: choice, score, noul')
        if bad.type == "too_long" and "choice" in bad.loc:
            return Refusal(
                400, f"questions.{steps[0]}: too many options, this model supports at most {self.rules.options}"
            )
        return Refusal(400, f"questions.{'.'.join(steps)}: {bad.msg}")

    def refused(self, refusal: Refusal, request: Request) -> Answer:  # noqa: ARG002
        kind = refusal.type or _TYPES.get(
            refusal.status, "invalid_request_error" if refusal.status < 500 else "server_error"
        )
        answer = plain(
            {"error": {"code": refusal.status, "message": refusal.message, "type": kind, **refusal.extra}},
            refusal.status,
        )
        answer.close = "n_ctx" in refusal.extra  # measured: "Connection: close" after a prompt that is too long
        return answer
