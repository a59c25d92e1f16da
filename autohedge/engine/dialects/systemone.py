"""A System One decision server as TypeSafe hosts it: 422 with FastAPI's `detail` list, 400 in two more shapes.

Source: facts systemone 1-3 (six independent reports of the hosted API). It serves decisions only.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

from autohedge.core.types import Door, Kind
from autohedge.engine.decisions import Bad, Rules
from autohedge.engine.dialects.base import Dialect, empty
from autohedge.engine.messages import CREATED, Answer, Refusal, Request, plain
from autohedge.engine.work import Work, Wrong


class SystemOne(Dialect):
    kind: ClassVar[Kind] = Kind.SYSTEMONE
    doors: ClassVar[tuple[Door, ...]] = (Door.SYSTEMONE,)
    rules: ClassVar[Rules] = Rules(model_needed=True)
    encodings: ClassVar[frozenset[str]] = frozenset({"zstd", "gzip"})
    overload: ClassVar[tuple[int, str]] = (529, "overloaded")

    def add_routes(self) -> None:
        self.get("/health", lambda _: plain({"status": "ok", "model": self.state.model, "version": "1.13.0"}), "health")
        self.get("/health_generate", lambda _: empty(), "health")
        self.get("/ready", lambda _: empty(), "health")

    def unauthorized(self, request: Request) -> Answer:
        """403 without a header, 401 with a bad key."""
        status = 403 if request.header("authorization") is None else 401
        return plain({"detail": {"error_type": "authentication_error", "message": "Not authenticated"}}, status)

    def models(self, request: Request) -> Answer:  # noqa: ARG002
        """Both shapes at once, so that typesafe-sdk and OpenAI clients can read it."""
        name = self.state.model
        card = {"name": name, "description": "sample decision model", "release_date": "2026-10-02"}
        return plain({"models": [card], "object": "list", "data": [self.card()]})

    def card(self) -> dict[str, Any]:
        return {
            "id": self.state.model,
            "object": "model",
            "created": CREATED,
            "owned_by": "systemone",
            "max_model_len": self.state.context,
        }

    def model_of(self, asked: Any) -> str:
        if asked not in (self.state.model, "jev-latest"):
            raise self.unknown_model(str(asked))
        return self.state.model

    def unknown_model(self, asked: str) -> Refusal:
        return Refusal(400, f"Unknown model: {asked}", type="api_usage_error")

    def fit(self, work: Work) -> None:
        if work.longest > self.state.context:
            raise Refusal(400, "", type="max_tokens_exceeded")  # the real one sends no message

    def wrong(self, wrong: Wrong) -> Refusal:
        return self.bad_decision(Bad("model_attributes_type", ("body",), f"Input should be a valid {wrong.want}"))

    def bad_json(self, error: Exception) -> Refusal:
        place = error.pos if isinstance(error, json.JSONDecodeError) else 0
        return self.bad_decision(Bad("json_invalid", ("body", place), "JSON decode error"))

    def bad_decision(self, bad: Bad) -> Refusal:
        if not bad.late:
            return Refusal(422, bad.msg, extra={"detail": [bad.detail()]})
        if bad.type == "union_tag_invalid":
            return Refusal(400, "Invalid request.", type="api_usage_error")
        return Refusal(400, bad.msg, extra={"detail": bad.msg})

    def refused(self, refusal: Refusal, request: Request) -> Answer:  # noqa: ARG002
        if "detail" in refusal.extra:
            return plain(refusal.extra, refusal.status)
        detail = {"error_type": refusal.type or "api_error"}
        if refusal.message:
            detail["message"] = refusal.message
        return plain({"detail": detail}, refusal.status)
