"""OpenAI-compatible providers in general, and Azure OpenAI.

The plain kind also stands for bge-m3-embedding-server (its /health, sparse and both doors) and, on /v1/messages, for
Anthropic. Limit rule: prompt plus bound over the window is refused with code context_length_exceeded.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any, ClassVar

from autohedge.core.types import Door, Kind
from autohedge.engine.chat import ChatStyle
from autohedge.engine.dialects.base import GENERATING, PATHS, Dialect, Route
from autohedge.engine.messages import Answer, Refusal, Request, plain, sse
from autohedge.engine.work import Work

_ANTHROPIC = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_MESSAGES = PATHS[Door.MESSAGES]


class OpenAi(Dialect):
    kind: ClassVar[Kind] = Kind.OPENAI
    server: ClassVar[bytes] = b""
    style: ClassVar[ChatStyle] = ChatStyle(
        fingerprint="fp_sample",
        message={"refusal": None, "annotations": []},
        usage={
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
        whole={"service_tier": "default"},
    )

    def add_routes(self) -> None:
        self.get("/health", self.health, "health")
        self.post(f"{_MESSAGES}/count_tokens", self.count_tokens, "count")

    def health(self, request: Request) -> Answer:  # noqa: ARG002
        """As bge-m3-embedding-server answers: the router of seed 001 reads status, workers.live and queue_depth."""
        total = self.state.slots or 1
        workers = {"live": total, "total": total}
        return plain(
            {
                "status": "ok",
                "workers": workers,
                "queue_depth": self.state.waiting,
                "max_seq_length": self.state.context,
            }
        )

    def count_tokens(self, request: Request) -> Answer:
        work = self.read(Door.MESSAGES, request)
        return plain({"input_tokens": work.prompt})

    def admitted(self, request: Request) -> bool:
        return super().admitted(request) or request.header("x-api-key") == self.state.key

    def unauthorized(self, request: Request) -> Answer:
        said = "Incorrect API key provided."
        return self.refused(Refusal(401, said, type="invalid_request_error", code="invalid_api_key"), request)

    def no_path(self, request: Request) -> Answer:
        said = f"Invalid URL ({request.method} {request.path})"
        return self.refused(Refusal(404, said, code="unknown_url"), request)

    def no_method(self, request: Request, route: Route) -> Answer:
        answer = self.refused(
            Refusal(405, f"Not allowed to {request.method} on {request.path}.", code="method_not_supported"), request
        )
        answer.headers.append((b"allow", ", ".join(route.handlers).encode()))
        return answer

    def inspect(self, door: Door, body: dict[str, Any]) -> None:
        if "model" not in body and door not in (Door.SPARSE, Door.BOTH):
            raise Refusal(400, "you must provide a model parameter")
        if door is Door.MESSAGES and not isinstance(body.get("max_tokens"), int):
            raise Refusal(400, "max_tokens: Field required")

    def fit(self, work: Work) -> None:
        window, asked = self.state.context, work.limit
        if work.longest > window or (work.door in GENERATING and asked is not None and work.longest + asked > window):
            raise self._too_long(work, asked)
        self.compose(work, window - work.longest if work.door in GENERATING else None)

    def _too_long(self, work: Work, asked: int | None) -> Refusal:
        window = self.state.context
        if work.door is Door.MESSAGES:
            return Refusal(400, f"prompt is too long: {work.longest} tokens > {window} maximum")
        if asked is not None and work.door in GENERATING:
            told = (
                f"you requested {work.longest + asked} tokens ({work.longest} in the messages, {asked} in the completion)."
                " Please reduce the length of the messages or completion."
            )
        else:
            told = f"your messages resulted in {work.longest} tokens. Please reduce the length of the messages."
        said = f"This model's maximum context length is {window} tokens. However, {told}"
        return Refusal(400, said, param="messages", code="context_length_exceeded")

    def refused(self, refusal: Refusal, request: Request) -> Answer:
        if not request.path.startswith(_MESSAGES):
            return super().refused(refusal, request)
        error = {"type": _ANTHROPIC.get(refusal.status, "api_error"), "message": refusal.message}
        return plain({"type": "error", "error": error, "request_id": self.state.next_id("req_")}, refusal.status)

    def error_event(self, refusal: Refusal, request: Request) -> bytes:
        obj = json.loads(self.refused(refusal, request).body)
        if request.path == PATHS[Door.RESPONSES]:
            code = refusal.code or "server_error"
            return sse(
                {"type": "error", "code": code, "message": refusal.message, "param": None, "sequence_number": 1},
                "error",
            )
        return sse(obj, "error" if request.path == _MESSAGES else "")


class Azure(OpenAi):
    """Deployments in the path, `api-key` as the header, no `model` needed in the body. The deployment is the model's name."""

    kind: ClassVar[Kind] = Kind.AZURE
    doors: ClassVar[tuple[Door, ...]] = ()
    style: ClassVar[ChatStyle] = ChatStyle(
        fingerprint="fp_sample",
        message={"refusal": None, "annotations": []},
        choice={"content_filter_results": {}},
        chunk_choice={"content_filter_results": {}},
        preamble={"prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}]},
    )
    deployed: ClassVar[tuple[Door, ...]] = (Door.CHAT, Door.COMPLETIONS, Door.EMBEDDINGS)

    def add_routes(self) -> None:
        self.routes.clear()
        for door in (*self.deployed, Door.RESPONSES):
            self.post(f"/openai{PATHS[door]}", partial(self._named, door), "work")
        self.get("/openai/v1/models", self.models, "models")
        self.get("/openai/models", self.models, "models")

    def find(self, path: str) -> Route | None:
        prefix = "/openai/deployments/"
        if not path.startswith(prefix):
            return None
        deployment, _, rest = path[len(prefix) :].partition("/")
        for door in self.deployed:
            if f"/v1/{rest}" == PATHS[door]:
                return Route("work", {"POST": partial(self._deployed, door, deployment)})
        return None

    def _deployed(self, door: Door, deployment: str, request: Request) -> Answer:
        if "api-version" not in request.query:
            return self.no_path(request)
        if deployment != self.state.model:
            raise self.unknown_model(deployment)
        return self.work(door, request)

    def _named(self, door: Door, request: Request) -> Answer:
        """The /openai/v1 paths: the body names the deployment."""
        asked = self.parse(request).get("model")
        if asked != self.state.model:
            raise self.unknown_model(str(asked))
        return self.work(door, request)

    def inspect(self, door: Door, body: dict[str, Any]) -> None:
        """Nothing more: `model` may be null or missing."""

    def model_of(self, asked: Any) -> str:  # noqa: ARG002 - the deployment decides
        return self.state.model

    def guarded(self, path: str) -> bool:  # noqa: ARG002
        return True

    def admitted(self, request: Request) -> bool:
        return request.header("api-key") == self.state.key

    def unauthorized(self, request: Request) -> Answer:  # noqa: ARG002
        said = "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for an active subscription."
        return plain({"error": {"code": "401", "message": said}}, 401)

    def no_path(self, request: Request) -> Answer:  # noqa: ARG002
        return plain({"error": {"code": "404", "message": "Resource not found"}}, 404)

    def unknown_model(self, asked: str) -> Refusal:  # noqa: ARG002
        said = "The API deployment for this resource does not exist. If you created the deployment within the last 5 minutes, please wait a moment and try again."
        return Refusal(404, said, code="DeploymentNotFound")

    def refused(self, refusal: Refusal, request: Request) -> Answer:
        if refusal.code == "DeploymentNotFound":
            return plain({"error": {"code": refusal.code, "message": refusal.message}}, refusal.status)
        return super().refused(refusal, request)
