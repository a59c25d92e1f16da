"""Faults that replace or edit a whole reply: statuses, error bodies, 200s that are no answers."""

from __future__ import annotations

import base64
import json
from typing import Any

from autohedge.core.types import Door, Kind
from autohedge.engine.acts.scene import Act, Scene, edit
from autohedge.engine.dialects.base import PATHS
from autohedge.engine.messages import Answer, Piece, Refusal, dump, plain, text

HTML = "<html>\r\n<head><title>{0}</title></head>\r\n<body><center><h1>{0}</h1></center><hr><center>nginx</center></body></html>\r\n"
RETIRED_TEXT = "410 gone api access has been retired"
_VECTOR_PATHS = (PATHS[Door.EMBEDDINGS], PATHS[Door.SPARSE], PATHS[Door.BOTH])


def says(refusal: Refusal) -> Act:
    """Always this refusal, in the engine's own shape."""

    def act(scene: Scene) -> Answer:
        return scene.refuse(refusal)

    return act


def sends(obj: Any, status: int) -> Act:
    """Always this JSON, whatever the kind."""

    def act(_: Scene) -> Answer:
        return plain(obj, status)

    return act


def html(status: int, title: str) -> Act:
    def act(_: Scene) -> Answer:
        return text(HTML.format(title), status, b"text/html")

    return act


def status(scene: Scene) -> Answer:
    """The status that `arg` names, in the engine's own shape."""
    number = int(scene.number())
    return scene.refuse(Refusal(number, f"fault status={number}"))


def busy(scene: Scene) -> Answer:
    """429; the n-th refusal carries the n-th of the Retry-After values in `arg`, the last one repeats."""
    answer = scene.refuse(Refusal(429, "Rate limit reached", type="rate_limit_error", code="rate_limit_exceeded"))
    if scene.arg:
        values = scene.arg.split(",")
        answer.headers.append((b"retry-after", values[min(scene.turn, len(values)) - 1].encode()))
    return answer


def overloaded(scene: Scene) -> Answer:
    return scene.dialect.overloaded(scene.request)


def unauthorized(scene: Scene) -> Answer:
    return scene.dialect.unauthorized(scene.request)


def redirect(scene: Scene) -> Answer:
    return Answer(302, b"", b"", headers=[(b"location", scene.arg.encode())])


def empty_body(scene: Scene) -> Answer:
    """200 without a body, in the type that was expected."""
    answer = scene.answer()
    answer.status, answer.body, answer.pieces = 200, b"", [] if answer.pieces is not None else None
    return answer


def no_choices(scene: Scene) -> Answer:
    """200 with choices null or []."""
    value: list[Any] | None = [] if scene.arg == "empty" else None
    return edit(scene.answer(), lambda obj: obj.update(choices=value))


def finish_error(scene: Scene) -> Answer:
    """OpenRouter: finish_reason "error" with an error beside the choices."""

    def change(obj: dict[str, Any]) -> None:
        ends = [choice for choice in obj.get("choices") or () if choice.get("finish_reason")]
        for choice in ends:
            choice["finish_reason"] = "error"
        if ends:
            obj["error"] = {"code": 502, "message": "Provider returned error"}

    return edit(scene.answer(), change)


def short_bound(scene: Scene) -> Answer:
    """Reasoning models cannot answer within fewer than `arg` tokens: a probe of one token gets a 400 (B13)."""
    asked = scene.body.get("max_completion_tokens") or scene.body.get("max_tokens")
    if isinstance(asked, int) and asked < scene.number():
        said = "Could not finish the message because max_tokens or model output limit was reached. Please try again with higher max_tokens."
        return scene.refuse(Refusal(400, said))
    return scene.answer()


def bound_range(scene: Scene) -> Answer:
    """DeepSeek: an explicit bound over `arg` is refused with the range in the text (B50)."""
    asked = scene.body.get("max_tokens")
    if isinstance(asked, int) and not 1 <= asked <= scene.number():
        said = f"Invalid max_tokens value, the valid range of max_tokens is [1, {scene.arg}]"
        return scene.refuse(Refusal(400, said, code="invalid_request_error"))
    return scene.answer()


def no_max_tokens(scene: Scene) -> Answer:
    if "max_tokens" in scene.body:
        said = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        return scene.refuse(Refusal(400, said, param="max_tokens", code="unsupported_parameter"))
    return scene.answer()


def no_tools(scene: Scene) -> Answer:
    if not scene.body.get("tools"):
        return scene.answer()
    if scene.state.kind is Kind.OLLAMA:
        return scene.refuse(Refusal(400, f"registry.ollama.ai/library/{scene.state.model} does not support tools"))
    return scene.refuse(
        Refusal(400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')
    )


def tools_ignored(scene: Scene) -> Answer:
    """tool_choice is not obeyed: a plain text comes (B56)."""
    scene.body.pop("tool_choice", None)
    return scene.answer()


def no_developer(scene: Scene) -> Answer:
    messages = scene.body.get("messages")
    roles = (
        [message.get("role") for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []
    )
    return scene.refuse(Refusal(400, "Unexpected message role.")) if "developer" in roles else scene.answer()


def no_embeddings(scene: Scene) -> Answer:
    """The model cannot embed, in the words of its kind."""
    if scene.request.path not in (*_VECTOR_PATHS, "/api/embed"):
        return scene.answer()
    if scene.state.kind is Kind.LLAMACPP:
        return scene.refuse(Refusal(501, "This server does not support embeddings. Start it with `--embeddings`"))
    if scene.state.kind is Kind.VLLM:
        return scene.dialect.no_path(scene.request)
    return scene.refuse(Refusal(400, f'"{scene.state.model}" does not support embeddings'))


def no_chat(scene: Scene) -> Answer:
    """An embedding server asked to chat; llama.cpp dresses the client's mistake as a 500."""
    if scene.request.path in (*_VECTOR_PATHS, "/api/embed"):
        return scene.answer()
    if scene.state.kind is Kind.LLAMACPP:
        return scene.refuse(Refusal(500, "the current context does not support logits computation. skipping"))
    if scene.state.kind is Kind.VLLM:
        return scene.dialect.no_path(scene.request)
    return scene.refuse(Refusal(400, f'"{scene.state.model}" does not support chat'))


def no_decisions(scene: Scene) -> Answer:
    if scene.request.path != PATHS[Door.SYSTEMONE]:
        return scene.answer()
    if scene.state.kind is Kind.VLLM:
        return scene.refuse(Refusal(501, "The model does not support the structured decision API"))
    return scene.refuse(Refusal(501, "This model is not a decision model"))


def truncates(scene: Scene) -> Answer:
    """A prompt over `arg` tokens is cut without a word: usage says exactly `arg` (B46)."""

    def change(obj: dict[str, Any]) -> None:
        usage = obj.get("usage")
        if usage and usage["prompt_tokens"] > scene.number():
            usage["prompt_tokens"] = int(scene.number())
            usage["total_tokens"] = usage["prompt_tokens"] + usage.get("completion_tokens", 0)

    return edit(scene.answer(), change)


def total_is(scene: Scene) -> Answer:
    """The window is full: total_tokens is exactly `arg` and the answer ends with "length" (B47)."""

    def change(obj: dict[str, Any]) -> None:
        usage = obj.get("usage")
        if usage:
            usage["total_tokens"] = int(scene.number())
            usage["completion_tokens"] = usage["total_tokens"] - usage["prompt_tokens"]
        for choice in obj.get("choices") or ():
            choice["finish_reason"] = choice.get("finish_reason") and "length"

    return edit(scene.answer(), change)


def says_retired(scene: Scene) -> Answer:
    """A good answer whose content sounds like a retirement (B116)."""
    answer = scene.answer()
    told = f"answers: {RETIRED_TEXT}".encode()
    answer.body = answer.body.replace(b"answers:", told)
    for piece in answer.pieces or ():
        piece.data = piece.data.replace(b"answers:", told)
    return answer


def names_model(scene: Scene) -> Answer:
    """A 400 that repeats the model's name, which the caller chose (B116)."""
    return scene.refuse(Refusal(400, f"Invalid value for model: {scene.body.get('model')}"))


def echo(scene: Scene) -> Answer:
    """The healthy answer with all that was received inside: a field `echo` of the JSON, or a comment ahead of a stream."""
    request = scene.request
    seen = {
        "method": request.method,
        "target": request.target.decode("latin-1"),
        "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in request.headers],
        "body": request.body.decode("utf-8", "replace"),
        "body_base64": base64.b64encode(request.body).decode(),
    }
    answer = scene.answer()
    if answer.pieces is not None:
        answer.pieces.insert(0, Piece(b": echo " + dump(seen) + b"\n\n"))
        return answer
    try:
        obj = json.loads(answer.body)
    except ValueError:
        obj = None
    return plain(
        {**(obj if isinstance(obj, dict) else {}), "echo": seen}, answer.status if isinstance(obj, dict) else 200
    )
