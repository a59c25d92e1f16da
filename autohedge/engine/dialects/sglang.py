"""SGLang 0.5.23: flat errors, a health path that generates, and System One with FastAPI's 422.

Its limit rule: a prompt of the whole window is refused; prompt plus bound may fill the window but not pass it
(measured on its own request checks, facts 00). It ignores the model's name on the chat route.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

from autohedge.core.types import Door, Kind
from autohedge.engine.chat import ChatStyle
from autohedge.engine.decisions import Bad, Rules
from autohedge.engine.dialects.base import GENERATING, PATHS, Dialect, empty
from autohedge.engine.messages import CREATED, Answer, Refusal, Request, plain, sse
from autohedge.engine.text import count, count_messages, ids
from autohedge.engine.work import Work, Wrong

HEALTH_TAKES = 1.0  # seconds: the handler looks for a token once per second (B10)
_NOT_NULL = ("stream", "n", "frequency_penalty", "presence_penalty", "logprobs", "parallel_tool_calls")


class Sglang(Dialect):
    kind: ClassVar[Kind] = Kind.SGLANG
    rules: ClassVar[Rules] = Rules(model_needed=True, closed=True)
    style: ClassVar[ChatStyle] = ChatStyle(
        prefix="",
        usage_null=True,
        message={"reasoning_content": None, "tool_calls": None},
        choice={"matched_stop": None},
        chunk_choice={"matched_stop": None},
        whole={"metadata": {"weight_version": "default"}},
    )

    def add_routes(self) -> None:
        for path in ("/health", "/health_generate"):
            self.get(path, self.health, "health")
        for path in ("/ready", "/ping"):
            self.get(path, lambda _: empty(), "health")
        for path in ("/get_model_info", "/model_info"):
            self.get(path, self.model_info)
        for path in ("/get_server_info", "/server_info"):
            self.get(path, self.server_info)
        self.get(
            "/get_load",
            lambda _: plain([{"dp_rank": 0, "num_reqs": self.state.running, "num_waiting_reqs": self.state.waiting}]),
        )
        self.get("/metrics", self.metrics)
        for path in ("/tokenize", "/v1/tokenize"):
            self.post(path, self.tokenize, "count")

    def guarded(self, path: str) -> bool:
        return not path.startswith(("/health", "/ready", "/metrics"))

    def health(self, request: Request) -> Answer:  # noqa: ARG002
        """Empty, and never in less than a second (B10)."""
        answer = empty()
        answer.wait = HEALTH_TAKES
        return answer

    def model_info(self, request: Request) -> Answer:  # noqa: ARG002
        name = self.state.model
        return plain(
            {
                "model_path": name,
                "tokenizer_path": name,
                "is_generation": True,
                "preferred_sampling_params": None,
                "weight_version": "default",
            }
        )

    def server_info(self, request: Request) -> Answer:  # noqa: ARG002
        """The large page that asks the scheduler. The key stands in it, as in the real one: never log it."""
        state = self.state
        room = {"max_total_num_tokens": 16 * state.context, "max_req_input_len": state.context - 6}
        arguments = {
            "model_path": state.model,
            "served_model_name": state.model,
            "context_length": None,
            "api_key": state.key,
        }
        return plain(
            {**arguments, **room, "internal_states": [{"last_gen_throughput": state.pace}], "version": "0.5.23"}
        )

    def gauges(self) -> list[tuple[str, float]]:
        label = f'{{model_name="{self.state.model}"}}'
        return [
            (f"sglang:num_running_reqs{label}", self.state.running),
            (f"sglang:num_queue_reqs{label}", self.state.waiting),
            (f"sglang:token_usage{label}", 0.0),
        ]

    def card(self) -> dict[str, Any]:
        name = self.state.model
        head = {"id": name, "object": "model", "created": CREATED, "owned_by": "sglang", "root": name, "parent": None}
        return {**head, "max_model_len": self.state.context}

    def one_model(self, request: Request) -> Answer:
        """Nested here, though the chat route's errors are flat."""
        asked = request.tail("/v1/models/")
        if asked == self.state.model:
            return plain(self.card())
        said = f"The model '{asked}' does not exist"
        return plain(
            {"error": {"message": said, "type": "invalid_request_error", "param": "model", "code": "model_not_found"}},
            404,
        )

    def tokenize(self, request: Request) -> Answer:
        body = self.parse(request)
        if "messages" in body:
            self.validate(Door.CHAT, body)
            number = count_messages(body["messages"], body.get("tools"))
            tokens = list(range(number))
        else:
            prompt = str(body.get("prompt", ""))
            number, tokens = count(prompt), ids(prompt)
        return plain({"tokens": tokens, "count": number, "max_model_len": self.state.context})

    def parse(self, request: Request) -> dict[str, Any]:
        kind = (request.header("content-type") or "").partition(";")[0].strip()
        if kind != "application/json":
            said = "Unsupported media type: Content-Type must be 'application/json'"
            if request.path == PATHS[Door.SYSTEMONE]:
                raise _detail("value_error", ("header", "content-type"), said)
            raise Refusal(400, said)
        return super().parse(request)

    def inspect(self, door: Door, body: dict[str, Any]) -> None:
        names = _NOT_NULL if door is Door.CHAT else (*_NOT_NULL, "temperature", "echo", "max_tokens")
        for name in names if door in (Door.CHAT, Door.COMPLETIONS) else ():
            if name in body and body[name] is None:
                raise self.wrong(Wrong(name, "value that is not null"))
        if door is Door.CHAT and not body["messages"]:
            raise Refusal(400, "Messages cannot be empty.")

    def model_of(self, asked: Any) -> str:  # noqa: ARG002 - any name is served
        return self.state.model

    def fit(self, work: Work) -> None:
        window, asked = self.state.context, work.limit
        if work.longest >= window:
            raise Refusal(
                400, f"The input ({work.longest} tokens) is longer than the model's context length ({window} tokens)."
            )
        total = work.longest + (asked or 0)
        if work.door in GENERATING and asked is not None and total > window:
            said = (
                f"Requested token count exceeds the model's maximum context length of {window} tokens. You requested a total"
                f" of {total} tokens: {work.longest} tokens from the input messages and {asked} tokens for the completion."
            )
            raise Refusal(400, said)
        self.compose(work, window - work.longest)

    def wrong(self, wrong: Wrong) -> Refusal:
        what = "Field required" if wrong.missing else f"Input should be a valid {wrong.want}"
        return Refusal(400, f"1 validation error for request: body.{wrong.field}: {what}")

    def bad_json(self, error: Exception) -> Refusal:
        place = error.pos if isinstance(error, json.JSONDecodeError) else 0
        if isinstance(error, json.JSONDecodeError):
            return _detail("json_invalid", ("body", place), "JSON decode error")
        return Refusal(400, "There was an error parsing the body")

    def bad_decision(self, bad: Bad) -> Refusal:
        return _detail(bad.type, bad.loc, bad.msg)

    def refused(self, refusal: Refusal, request: Request) -> Answer:
        if "detail" in refusal.extra:
            return plain(refusal.extra, refusal.status)
        flat = self._flat(refusal)
        if request.path == PATHS[Door.RESPONSES]:
            return plain({"error": {key: value for key, value in flat.items() if key != "object"}}, refusal.status)
        return plain(flat, refusal.status)

    def _flat(self, refusal: Refusal) -> dict[str, Any]:
        kind = refusal.type or ("BadRequestError" if refusal.status < 500 else "InternalServerError")
        return {"object": "error", "message": refusal.message, "type": kind, "param": None, "code": refusal.status}

    def error_event(self, refusal: Refusal, request: Request) -> bytes:  # noqa: ARG002
        """Nested inside a stream, with the flat object's fields."""
        return sse({"error": self._flat(refusal)})

    def loading(self, request: Request) -> Answer:  # noqa: ARG002
        """The port is open before the scheduler is ready: empty 503."""
        return empty(503)


def _detail(kind: str, loc: tuple[str | int, ...], said: str) -> Refusal:
    return Refusal(422, said, extra={"detail": [{"type": kind, "loc": list(loc), "msg": said}]})
