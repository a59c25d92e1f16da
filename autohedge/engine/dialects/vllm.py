"""vLLM 0.32.0: measured answers (facts real_backends 3-4, engines a-d).

Its limit rule: a prompt of the whole window or more is refused, and an explicit bound over the window; a bound that does
not fit behind the prompt is cut silently. It stops counting one token over the window.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

from autohedge.core.types import Door, Kind
from autohedge.engine.chat import STREAM_TYPE, ChatStyle
from autohedge.engine.decisions import Bad, Rules
from autohedge.engine.dialects.base import GENERATING, Dialect, empty
from autohedge.engine.messages import CREATED, Answer, Refusal, Request, plain
from autohedge.engine.text import count, count_messages, ids
from autohedge.engine.work import Work, Wrong

_TYPES = {400: "BadRequestError", 404: "NotFoundError", 501: "NotImplementedError", 503: "ServiceUnavailableError"}
_UNPARSED = {"number": ", unable to parse string as a number", "integer": ", unable to parse string as an integer"}
_PARSING = {"number": "float_parsing", "integer": "int_parsing", "array": "list_type", "object": "model_type"}


class Vllm(Dialect):
    kind: ClassVar[Kind] = Kind.VLLM
    rules: ClassVar[Rules] = Rules(questions=64, options=26, any_state=True, closed=True, noul_needs="")
    style: ClassVar[ChatStyle] = ChatStyle(
        finish_with_text=True,
        stream_type=STREAM_TYPE + b"; charset=utf-8",
        message={
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
            "reasoning": None,
        },
        choice={"stop_reason": None, "token_ids": None},
        chunk_choice={"token_ids": None},
        fingerprint="vllm-0.32.0-sample",
        whole={"prompt_logprobs": None, "prompt_token_ids": None, "kv_transfer_params": None},
    )

    def add_routes(self) -> None:
        self.get("/health", lambda _: empty(), "health")
        self.get("/ping", lambda _: empty(), "health")
        self.post("/ping", lambda _: empty(), "health")
        self.get("/version", lambda _: plain({"version": "0.32.0"}))
        self.get("/load", lambda _: plain({"server_load": self.state.running + self.state.waiting}))
        self.get("/metrics", self.metrics)
        self.post("/tokenize", self.tokenize, "count")
        self.post(
            "/detokenize", lambda r: plain({"prompt": " ".join(map(str, self.parse(r).get("tokens") or ()))}), "count"
        )
        for path in ("/rerank", "/v2/rerank"):
            self.post(path, lambda request: self.work(Door.RERANK, request), "work")

    def card(self) -> dict[str, Any]:
        permission = {
            "id": "modelperm-sample",
            "object": "model_permission",
            "created": CREATED,
            "allow_create_engine": False,
            "allow_sampling": True,
            "allow_logprobs": True,
            "allow_search_indices": False,
            "allow_view": True,
            "allow_fine_tuning": False,
            "organization": "*",
            "group": None,
            "is_blocking": False,
        }
        state = self.state
        head = {"id": state.model, "object": "model", "created": CREATED, "owned_by": "vllm", "root": state.model}
        return {**head, "parent": None, "max_model_len": state.context, "permission": [permission]}

    def tokenize(self, request: Request) -> Answer:
        """Count a prompt or a chat. Works without a key and with a dead engine."""
        body = self.parse(request)
        self.model_of(body.get("model"))
        if "messages" in body:
            self.validate(Door.CHAT, body)
            number = count_messages(body["messages"], body.get("tools"))
            tokens = list(range(number))
        else:
            prompt = str(body.get("prompt", ""))
            number, tokens = count(prompt), ids(prompt)
        return plain({"count": number, "max_model_len": self.state.context, "tokens": tokens, "token_strs": None})

    def gauges(self) -> list[tuple[str, float]]:
        label = f'{{engine="0",model_name="{self.state.model}"}}'
        return [
            (f"vllm:num_requests_running{label}", self.state.running),
            (f"vllm:num_requests_waiting{label}", self.state.waiting),
            (f"vllm:kv_cache_usage_perc{label}", 0.0),
            (f"vllm:generation_tokens_total{label}", self.state.generated),
        ]

    def inspect(self, door: Door, body: dict[str, Any]) -> None:
        heat = body.get("temperature")
        if isinstance(heat, int | float) and not 0 <= heat <= 2:
            raise Refusal(
                400,
                f"temperature must be in [0, 2], got {heat}. (parameter=temperature, value={heat})",
                param="temperature",
            )
        if body.get("stream_options") and not body.get("stream"):
            raise Refusal(
                400,
                "Stream options can only be defined when `stream=True`. (parameter=stream_options)",
                param="stream_options",
            )
        if door is Door.CHAT:
            self._inspect_tools(body)

    def _inspect_tools(self, body: dict[str, Any]) -> None:
        tools, choice = body.get("tools"), body.get("tool_choice")
        if tools == []:
            raise Refusal(400, "`tools` must not be an empty array. (parameter=tools)", param="tools")
        if choice not in (None, "none") and not tools:
            raise Refusal(
                400, "When using `tool_choice`, `tools` must be set. (parameter=tool_choice)", param="tool_choice"
            )
        if isinstance(choice, dict) and isinstance(choice.get("function"), dict):
            names = {tool["function"]["name"] for tool in tools or () if isinstance(tool.get("function"), dict)}
            if choice["function"].get("name") not in names:
                said = "The tool specified in `tool_choice` does not match any of the specified `tools`"
                raise Refusal(400, said, param="tool_choice")

    def fit(self, work: Work) -> None:
        window = self.state.context
        if work.door is Door.SYSTEMONE or work.door not in GENERATING:
            window += 1  # a whole window of input is fine where nothing is generated
        asked = work.limit
        if work.door in GENERATING and asked is not None and asked > window:
            said = (
                f"max_tokens={asked} cannot be greater than max_model_len={window}. Please request fewer output tokens."
            )
            raise Refusal(400, f"{said} (parameter=max_tokens, value={asked})", param="max_tokens")
        if work.body.get("truncate_prompt_tokens") is not None:
            work.prompt = work.longest = min(work.longest, window - 1)
        if work.longest >= window:
            seen = min(work.longest, window + 1)
            said = (
                f"This model's maximum context length is {self.state.context} tokens. However, your prompt contains at least"
                f" {seen} input tokens, which exceeds this limit even without any output tokens. Please reduce the length"
                f" of the input prompt. (parameter=input_tokens, value={seen})"
            )
            raise Refusal(400, said, param="input_tokens")
        self.compose(work, window - work.longest)

    def unknown_model(self, asked: str) -> Refusal:
        said = f"The model `{asked}` does not exist. Valid aliases: {self.state.model}."
        return Refusal(404, said, param="model")

    def wrong(self, wrong: Wrong) -> Refusal:
        if wrong.field == "tool_choice":
            said = f'Invalid value for `tool_choice`: {wrong.value}! Only named tools, "none", "auto" or "required" are supported.'
            return Refusal(400, f"{said} (parameter=tool_choice)", param="tool_choice")
        where = ".".join(["body", *wrong.field.replace("[", ".").replace("]", "").split(".")]).rstrip(".")
        if wrong.missing:
            shown = {"type": "missing", "loc": where, "msg": "Field required", "input": "<dict>"}
        else:
            kind = _PARSING.get(wrong.want, f"{wrong.want.replace(' ', '_')}_type")
            shown = {
                "type": kind,
                "loc": where,
                "msg": f"Input should be a valid {wrong.want}{_UNPARSED.get(wrong.want, '')}",
                "input": str(wrong.value)[:80],
            }
        return Refusal(400, f"1 validation error:\n  {shown}", type="Bad Request", param=where)

    def bad_json(self, error: Exception) -> Refusal:
        place = error.pos if isinstance(error, json.JSONDecodeError) else 0
        why = {"error": error.msg if isinstance(error, json.JSONDecodeError) else "bad encoding"}
        shown = {
            "type": "json_invalid",
            "loc": f"body.{place}",
            "msg": "JSON decode error",
            "input": "<dict of 0 items>",
            "ctx": why,
        }
        return Refusal(400, f"1 validation error:\n  {shown}", type="Bad Request", param=f"body.{place}")

    def bad_decision(self, bad: Bad) -> Refusal:
        where = ".".join(str(step) for step in bad.loc)
        if bad.late:
            return Refusal(400, bad.msg.replace("Input tag", "unknown question type"), param=where)
        shown = {"type": bad.type, "loc": where, "msg": bad.msg, "input": "<dict>"}
        return Refusal(400, f"1 validation error:\n  {shown}", type="Bad Request", param=where)

    def refused(self, refusal: Refusal, request: Request) -> Answer:  # noqa: ARG002
        kind = refusal.type or _TYPES.get(refusal.status, "InternalServerError")
        body = {
            "message": refusal.message,
            "type": kind,
            "param": refusal.param,
            "code": refusal.status,
            **refusal.extra,
        }
        return plain({"error": body}, refusal.status)

    def error_event(self, refusal: Refusal, request: Request) -> bytes:
        """Blanks stand in this one event, and vLLM sends [DONE] after it (measured with a killed engine)."""
        return b"data: %s\n\n" % json.dumps(json.loads(self.refused(refusal, request).body)).encode()
