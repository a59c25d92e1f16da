"""Text Generation Inference 3.x: errors are strings with an error_type, validation is 422, overload is 429.

Its limit rule: input over max_input_tokens is refused, and input + min(max_new, 1024) over max_total_tokens. Here
max_total_tokens is the context and max_input_tokens one less, as TGI sets them by default. The model's name is ignored.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from autohedge.core.types import Door, Kind
from autohedge.engine.chat import STREAM_TYPE, ChatStyle
from autohedge.engine.decisions import Bad
from autohedge.engine.dialects.base import Dialect, Route, empty
from autohedge.engine.messages import Answer, Piece, Refusal, Request, What, plain, sse, text
from autohedge.engine.text import count_messages, ids, spell
from autohedge.engine.work import Work, Wrong, bound

MAX_NEW_CHECKED = 1024
_PLAIN = "plain"  # refusals of the JSON layer below TGI: bare text


class Tgi(Dialect):
    kind: ClassVar[Kind] = Kind.TGI
    doors: ClassVar[tuple[Door, ...]] = (Door.CHAT, Door.COMPLETIONS)
    server: ClassVar[bytes] = b""
    queues: ClassVar[bool] = False
    overload: ClassVar[tuple[int, str]] = (429, "Model is overloaded")
    style: ClassVar[ChatStyle] = ChatStyle(
        prefix="",
        role_each=True,
        fingerprint="3.3.6-sample",
        usage_null=True,
        one_choice=True,
    )

    def add_routes(self) -> None:
        for path in ("/health", "/ping"):
            self.get(path, lambda _: empty(), "health")
        self.get("/info", self.info)
        self.get("/metrics", self.metrics)
        self.post("/tokenize", self.tokenize, "count")
        self.post("/chat_tokenize", self.chat_tokenize, "count")
        for path, streams in (("/generate", False), ("/generate_stream", True), ("/", None)):
            self.post(path, partial(self.generate, streams), "work")

    def guarded(self, path: str) -> bool:
        return path not in {"/health", "/ping", "/info", "/metrics"}

    def unauthorized(self, request: Request) -> Answer:  # noqa: ARG002
        return empty(401)

    def no_path(self, request: Request) -> Answer:  # noqa: ARG002
        return empty(404)

    def no_method(self, request: Request, route: Route) -> Answer:  # noqa: ARG002
        answer = empty(405)
        answer.headers.append((b"allow", ",".join(route.handlers).encode()))
        return answer

    def card(self) -> dict[str, Any]:
        return {"id": self.state.model, "object": "model", "created": 0, "owned_by": self.state.model}

    def info(self, request: Request) -> Answer:  # noqa: ARG002
        model = {"model_id": self.state.model, "model_sha": None, "model_pipeline_tag": "text-generation"}
        bounds = {"max_concurrent_requests": self.state.slots or 128, "max_best_of": 2, "max_stop_sequences": 4}
        tokens = {"max_input_tokens": self.state.context - 1, "max_total_tokens": self.state.context}
        rest = {
            "validation_workers": 2,
            "auto_truncate": False,
            "max_client_batch_size": 4,
            "router": "text-generation-router",
        }
        return plain({**model, **bounds, **tokens, **rest, "version": "3.3.6", "sha": None, "docker_label": None})

    def gauges(self) -> list[tuple[str, float]]:
        return [("tgi_queue_size", self.state.waiting), ("tgi_batch_current_size", self.state.running)]

    def tokenize(self, request: Request) -> Answer:
        """Every token with its place in the text, in characters."""
        return plain(_tokens(str(self.parse(request).get("inputs", ""))))

    def chat_tokenize(self, request: Request) -> Answer:
        body = self.parse(request)
        self.validate(Door.CHAT, body)
        number = count_messages(body["messages"], body.get("tools"))
        written = " ".join(["token"] * number)
        return plain({"tokenize_response": _tokens(written), "templated_text": written})

    def inspect(self, door: Door, body: dict[str, Any]) -> None:
        if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
            raise Refusal(
                422,
                "Failed to deserialize the JSON body into the target type: duplicate field `max_tokens`",
                type=_PLAIN,
            )
        if isinstance(body.get("stop"), str) and door is Door.CHAT:
            raise self.wrong(Wrong("stop", "sequence", body["stop"]))
        top = body.get("top_p")
        if isinstance(top, int | float) and not 0 < top < 1:
            raise Refusal(422, "Input validation error: `top_p` must be > 0.0 and < 1.0", type="validation")

    def model_of(self, asked: Any) -> str:  # noqa: ARG002 - ignored
        return self.state.model

    def fit(self, work: Work) -> None:
        total = self.state.context
        if work.body.get("truncate") is not None:
            work.prompt = work.longest = min(work.longest, total - 1)
        if work.longest > total - 1:
            said = f"Input validation error: `inputs` must have less than {total - 1} tokens. Given: {work.longest}"
            raise Refusal(422, said, type="validation")
        new = min(work.limit, MAX_NEW_CHECKED) if work.limit is not None else 0
        if work.longest + new > total:
            said = (
                f"Input validation error: `inputs` tokens + `max_new_tokens` must be <= {total}. Given: {work.longest}"
                f" `inputs` tokens and {work.limit} `max_new_tokens`"
            )
            raise Refusal(422, said, type="validation")
        self.compose(work, total - work.longest)

    def generate(self, streams: bool | None, request: Request) -> Answer:
        """TGI's own API: `inputs` and `parameters`."""
        given = self.parse(request)
        if not isinstance(given.get("inputs"), str):
            raise self.wrong(Wrong("inputs", "string", missing="inputs" not in given))
        parameters = given.get("parameters") or {}
        if not isinstance(parameters, dict):
            raise self.wrong(Wrong("parameters", "map", parameters))
        body = {"max_tokens": parameters.get("max_new_tokens", 100), **parameters, "prompt": given["inputs"]}
        self.validate(Door.COMPLETIONS, body)
        work = Work(Door.COMPLETIONS, body, self.state.model, native=request.path)
        bound(work)
        work.prompt = work.longest = len(ids(given["inputs"]))
        self.fit(work)
        reason = "length" if work.finish == "length" else "eos_token"
        details = {
            "finish_reason": reason,
            "generated_tokens": len(work.words),
            "seed": None,
            "input_length": work.prompt,
        }
        whole, gap = " ".join(work.words), self.state.gap
        if not (given.get("stream") if streams is None else streams):
            obj = {"generated_text": whole}
            answer = plain([obj] if request.path == "/" else obj)
            answer.wait = self.state.latency + gap * len(work.words)
            return answer
        pieces: list[Piece] = []
        for place, word in enumerate(spell(work.words)):
            last = place == len(work.words) - 1
            token = {"id": place, "text": word, "logprob": -0.1, "special": False}
            event = {
                "index": place + 1,
                "token": token,
                "generated_text": whole if last else None,
                "details": details if last else None,
            }
            pieces.append(
                Piece(b"data:" + sse(event)[6:], What.FINISH if last else What.CONTENT, gap if place else 0.0)
            )
        return Answer(type=STREAM_TYPE, pieces=pieces, wait=self.state.latency + gap)

    def wrong(self, wrong: Wrong) -> Refusal:
        why = (
            f"missing field `{wrong.field}`"
            if wrong.missing
            else f"{wrong.field}: invalid type, expected a {wrong.want}"
        )
        return Refusal(422, f"Failed to deserialize the JSON body into the target type: {why}", type=_PLAIN)

    def bad_json(self, error: Exception) -> Refusal:
        return Refusal(400, f"Failed to parse the request body as JSON: {error}", type=_PLAIN)

    def bad_decision(self, bad: Bad) -> Refusal:
        raise AssertionError(bad)  # TGI has no such door

    def refused(self, refusal: Refusal, request: Request) -> Answer:  # noqa: ARG002
        if refusal.type == _PLAIN:
            return text(refusal.message, refusal.status)
        kind = {429: "overloaded", 424: "generation", 503: "healthcheck"}.get(refusal.status, "generation")
        known = (
            refusal.type
            if refusal.type in {"validation", "tool_error", "template_error", "incomplete_generation"}
            else kind
        )
        return plain({"error": refusal.message, "error_type": known}, refusal.status)

    def loading(self, request: Request) -> Answer:
        return self.refused(Refusal(503, "unhealthy"), request)


def _tokens(written: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    place = 0
    for number, word in zip(ids(written), written.split(), strict=True):
        start = written.index(word, place)
        place = start + len(word)
        found.append({"id": number, "text": word, "start": start, "stop": place})
    return found
