"""What engines were seen to answer, and the verdict on each: one row per fact."""

from __future__ import annotations

import json
from typing import Any

from autohedge.core.types import Kind, Outcome, Verdict

V, K = Verdict, Kind


def answered(status: int, body: Any = b"", **more: Any) -> Outcome:
    excerpt = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Outcome(status=status, excerpt=excerpt, **{"finished": True, "content_type": "application/json", **more})


def openai(
    message: str, type_: str = "invalid_request_error", code: Any = None, param: str | None = None
) -> dict[str, Any]:
    return {"error": {"message": message, "type": type_, "param": param, "code": code}}


def flat(message: str, code: int, type_: str = "BadRequestError") -> dict[str, Any]:
    return {"object": "error", "message": message, "type": type_, "param": None, "code": code}


def llama(message: str, code: int, type_: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "type": type_}}


# id, kind, status, body, verdict
# fmt: off
ERRORS: list[tuple[str, Kind, int, Any, Verdict]] = [
    # engines that died or failed (B23 to B26, B04, B05, real 5).
    ("B05-enginecore", K.VLLM, 500, openai("EngineCore encountered an issue. See stack trace (above) for the root cause.", "InternalServerError", 500), V.DEAD),
    ("B04-cuda", K.VLLM, 500, openai("CUDA error: an illegal memory access was encountered", "InternalServerError", 500), V.DEAD),
    ("d2-vllm-oom", K.VLLM, 500, openai("CUDA out of memory. Tried to allocate 2.00 GiB", "InternalServerError", 500), V.DEAD),
    ("d2-vllm-old", K.VLLM, 500, flat("Background loop has errored already.", 500, "InternalServerError"), V.DEAD),
    ("B23-ollama", K.OLLAMA, 500, openai("llama runner process has terminated: CUDA error: out of memory", "api_error"), V.DEAD),
    ("d2-ollama-head", K.OLLAMA, 500, openai("llama-server process has terminated: exit status 1: error loading model: x", "api_error"), V.DEAD),
    ("d2-ollama-gone", K.OLLAMA, 500, openai("llama-server process no longer running", "api_error"), V.DEAD),
    ("article-500", K.OPENAI, 500, b"llama-server process has terminated", V.DEAD),
    ("B25-ollama-start", K.OLLAMA, 500, openai("timed out waiting for llama runner to start - progress 0.00 -", "api_error"), V.SICK),
    ("d2-ollama-memory", K.OLLAMA, 500, openai("model requires more system memory (5.6 GiB) than is available (3.1 GiB)", "api_error"), V.SICK),
    ("d2-tgi-424", K.TGI, 424, {"error": "Request failed during generation: Server error: x", "error_type": "generation"}, V.SICK),
    ("d2-tgi-424-cuda", K.TGI, 424, {"error": "Request failed during generation: Server error: CUDA error: x", "error_type": "generation"}, V.DEAD),
    ("d2-tgi-500", K.TGI, 500, {"error": "Incomplete generation", "error_type": "incomplete_generation"}, V.SICK),
    ("d2-tgi-4xx", K.TGI, 422, {"error": "Incomplete generation", "error_type": "incomplete_generation"}, V.SICK),
    ("d2-sglang-500", K.SGLANG, 500, flat("Internal server error: list index out of range", 500, "InternalServerError"), V.SICK),
    ("plain-500", K.OPENAI, 500, b"Internal Server Error", V.SICK),
    ("html-502", K.OPENAI, 502, b"<html>502 Bad Gateway</html>", V.SICK),
    ("empty-503", K.VLLM, 503, b"", V.SICK),
    ("unknown-599", K.OPENAI, 599, b"", V.SICK),
    ("azure-424", K.AZURE, 424, openai("dependency failed"), V.SICK),
    # a full queue or a limit (B28, B31, B32, B34).
    ("B28-ollama", K.OLLAMA, 503, openai("server busy, please try again.  maximum pending requests exceeded", "api_error"), V.BUSY),
    ("d2-ollama-cloud", K.OLLAMA, 503, openai("Server overloaded, please retry shortly (ref: 1b4e28ba)", "api_error"), V.BUSY),
    ("d2-sglang-queue", K.SGLANG, 503, flat("The request queue is full.", 503, "ServiceUnavailableError"), V.BUSY),
    ("d2-tgi-429", K.TGI, 429, {"error": "Model is overloaded", "error_type": "overloaded"}, V.BUSY),
    ("B32-429", K.OPENAI, 429, openai("Rate limit reached for requests", "requests", "rate_limit_exceeded"), V.BUSY),
    ("B34-529", K.OPENAI, 529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "r"}, V.BUSY),
    ("408", K.OPENAI, 408, b"", V.BUSY),
    ("d2-ollama-499", K.OLLAMA, 499, {"error": "request canceled"}, V.BUSY),
    ("groq-498", K.OPENAI, 498, b"", V.BUSY),
    # A model that loads: B22.
    ("B22-llamacpp", K.LLAMACPP, 503, llama("Loading model", 503, "unavailable_error"), V.LOADING),
    ("B22-behind-a-gateway", K.OPENAI, 503, llama("Loading model", 503, "unavailable_error"), V.LOADING),
    ("d2-hf-loading", K.OPENAI, 503, {"error": "Model x/y is currently loading", "estimated_time": 20.0}, V.LOADING),
    # Keys and money: B38.
    ("quota-429", K.OPENAI, 429, openai("You exceeded your current quota, please check your plan", "insufficient_quota", "insufficient_quota"), V.MISCONFIGURED),
    ("B38-credit", K.OPENAI, 400, openai("Your credit balance is too low to access the API."), V.MISCONFIGURED),
    ("402", K.OPENAI, 402, openai("Insufficient Balance", "unknown_error"), V.MISCONFIGURED),
    ("d1-billing", K.OPENAI, 402, {"type": "error", "error": {"type": "billing_error", "message": "x"}}, V.MISCONFIGURED),
    # the client's own faults (B40, B41, B50, B52, d2).
    ("ctx-vllm", K.VLLM, 400, openai("This model's maximum context length is 400 tokens. However, your prompt contains at least 401 input tokens", "BadRequestError", 400, "input_tokens"), V.CLIENT_FAULT),
    ("B40", K.VLLM, 400, openai("max_tokens must be at least 1, got -7584", "BadRequestError", 400), V.CLIENT_FAULT),
    ("B41", K.SGLANG, 400, flat("The input (61709 tokens) is longer than the model's context length (40960 tokens).", 400), V.CLIENT_FAULT),
    ("B50", K.OPENAI, 400, openai("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", code="invalid_request_error"), V.CLIENT_FAULT),
    ("B52", K.OPENAI, 400, openai("Unsupported parameter: 'max_tokens' is not supported with this model.", code="unsupported_parameter", param="max_tokens"), V.CLIENT_FAULT),
    ("openai-value", K.OPENAI, 400, openai("Unsupported value: 'temperature' does not support 0.2 with this model.", code="unsupported_value", param="temperature"), V.CLIENT_FAULT),
    ("B13", K.OPENAI, 400, openai("Could not finish the message because max_tokens or model output limit was reached."), V.CLIENT_FAULT),
    ("tgi-422", K.TGI, 422, {"error": "Input validation error: `inputs` must have less than 1024 tokens. Given: 2000", "error_type": "validation"}, V.CLIENT_FAULT),
    ("B58-role", K.LLAMACPP, 400, llama("Unexpected message role.", 400, "invalid_request_error"), V.CLIENT_FAULT),
    ("422-detail", K.OPENAI, 422, {"detail": [{"type": "missing", "loc": ["body", "x"], "msg": "Field required"}]}, V.CLIENT_FAULT),
    ("B104-413", K.OPENAI, 413, b"<html>413 Request Entity Too Large</html>", V.CLIENT_FAULT),
    ("409", K.OPENAI, 409, {"type": "error", "error": {"type": "conflict_error", "message": "x"}}, V.CLIENT_FAULT),
    ("content-filter", K.AZURE, 400, openai("The response was filtered", code="content_filter"), V.CLIENT_FAULT),
    # a client's fault dressed as 5xx (real 3, facts 00).
    ("llamacpp-role", K.LLAMACPP, 500, llama("Failed to parse messages: [json.exception.type_error.302] type must be string, but is number", 500, "server_error"), V.CLIENT_FAULT),
    ("llamacpp-tools", K.LLAMACPP, 500, llama("Failed to parse tools: Missing tool type: 5; tools = [\n  5\n]", 500, "server_error"), V.CLIENT_FAULT),
    ("llamacpp-tools-trick", K.LLAMACPP, 500, llama("Failed to parse tools: Missing tool type: CUDA error; tools = []", 500, "server_error"), V.CLIENT_FAULT),
    ("llamacpp-batch", K.LLAMACPP, 500, llama("input (602 tokens) is too large to process. increase the physical batch size (current batch size: 512)", 500, "server_error"), V.CLIENT_FAULT),
    ("llamacpp-ctx-500", K.LLAMACPP, 500, llama("request (621 tokens) exceeds the available context size (400 tokens), try increasing it", 500, "exceed_context_size_error"), V.CLIENT_FAULT),
    ("vllm-ctx-500", K.VLLM, 500, openai("The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure", "InternalServerError", 500), V.CLIENT_FAULT),
    ("vllm-surrogate", K.VLLM, 500, openai("'utf-8' codec can't encode character '\\ud800' in position 0: surrogates not allowed", "InternalServerError", 500), V.CLIENT_FAULT),
    # what this backend cannot do (B55, real 3).
    ("B55-tools", K.VLLM, 400, openai('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', "BadRequestError", 400), V.CAPABILITY),
    ("ollama-tools", K.OLLAMA, 400, openai("registry.ollama.ai/library/llama2 does not support tools"), V.CAPABILITY),
    ("ollama-chat", K.OLLAMA, 400, openai('"nomic-embed-text" does not support chat'), V.CAPABILITY),
    ("llamacpp-501", K.LLAMACPP, 501, llama("This server does not support embeddings. Start it with `--embeddings`", 501, "not_supported_error"), V.CAPABILITY),
    ("llamacpp-decision", K.LLAMACPP, 501, llama("This model is not a decision model", 501, "not_supported_error"), V.CAPABILITY),
    ("vllm-decision", K.VLLM, 501, openai("The model does not support the structured decision API", "NotImplementedError", 501), V.CAPABILITY),
    ("llamacpp-chat-on-emb", K.LLAMACPP, 500, llama("the current context does not support logits computation. skipping", 500, "server_error"), V.CAPABILITY),
    ("llamacpp-image", K.LLAMACPP, 500, llama("image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", 500, "server_error"), V.CAPABILITY),
    ("llamacpp-gzip", K.LLAMACPP, 415, b"", V.CAPABILITY),
    ("route-absent", K.VLLM, 404, {"detail": "Not Found"}, V.CAPABILITY),
    ("route-llamacpp", K.LLAMACPP, 404, llama("File Not Found", 404, "not_found_error"), V.CAPABILITY),
    ("405", K.VLLM, 405, {"detail": "Method Not Allowed"}, V.CAPABILITY),
    # models that are not there (B110, B112, B113, B115).
    ("vllm-404", K.VLLM, 404, openai("The model `nope` does not exist. Valid aliases: tiny-qwen.", "NotFoundError", 404, "model"), V.CAPABILITY),
    ("ollama-404", K.OLLAMA, 404, openai("model 'x' not found", "not_found_error"), V.CAPABILITY),
    ("B110-anthropic", K.OPENAI, 404, {"type": "error", "error": {"type": "not_found_error", "message": "model: claude-2"}}, V.CAPABILITY),
    ("B112-together", K.OPENAI, 400, openai("Unable to access non-serverless model x. Please visit"), V.CAPABILITY),
    ("B113-unknown", K.OPENAI, 400, openai("Unknown model: x", code="unknown_model"), V.CAPABILITY),
    ("B115-azure", K.AZURE, 404, {"error": {"code": "DeploymentNotFound", "message": "The API deployment for this resource does not exist. If you created"}}, V.CAPABILITY),
    ("azure-operation", K.AZURE, 400, {"error": {"code": "OperationNotSupported", "message": "The chatCompletion operation does not work with the specified model, x."}}, V.CAPABILITY),
    ("llm7", K.OPENAI, 400, openai("x", code="model_unavailable"), V.CAPABILITY),
    ("transformers-pinned", K.OPENAI, 400, {"detail": "Server is pinned to 'a'; requested 'b'."}, V.CAPABILITY),
    ("typesafe-unknown", K.SYSTEMONE, 400, {"detail": {"error_type": "api_usage_error", "message": "Unknown model: X"}}, V.CAPABILITY),
    ("deepseek-unknown", K.OPENAI, 400, openai("Model Not Exist", code="invalid_request_error"), V.CAPABILITY),
    # Retired: d3, B106, B107, B109.
    ("article-410", K.OPENAI, 410, b"walkai.top api access has been retired", V.RETIRED),
    ("hf-410", K.OPENAI, 410, {"error": "https://api-inference.huggingface.co is no longer supported. Please use https://router.huggingface.co instead."}, V.RETIRED),
    ("410-empty", K.OPENAI, 410, b"", V.RETIRED),
    ("410-html", K.OPENAI, 410, b"<html>Gone</html>", V.RETIRED),
    ("B106-brownout", K.OPENAI, 410, openai("temporarily unavailable as part of a scheduled retirement brownout", code="github_models_retirement_brownout"), V.RETIRED),
    ("groq-400", K.OPENAI, 400, openai("The model `mixtral-8x7b-32768` has been decommissioned and is no longer supported.", code="model_decommissioned"), V.RETIRED),
    ("wording-400", K.OPENAI, 400, openai("The model `mixtral` has been decommissioned and is no longer supported."), V.RETIRED),
    ("B109-openai", K.OPENAI, 404, openai("The model `text-davinci-003` has been deprecated, learn more here: https://platform.openai.com/docs/deprecations", code="model_not_found"), V.RETIRED),
    ("wording-404", K.OPENAI, 404, openai("This model version reached its end-of-life on 2026-01-01"), V.RETIRED),
    ("wording-404-name-alone", K.OPENAI, 404, openai("gpt-3.5-turbo-0301 has been deprecated"), V.RETIRED),
    ("wording-404-end-of-life", K.OPENAI, 404, openai("claude-instant-1 reached its end-of-life on 2024-11-06"), V.RETIRED),
    ("wording-404-available", K.OPENAI, 404, openai("text-bison is no longer available."), V.RETIRED),
    ("wording-404-sunset", K.OPENAI, 404, openai("PaLM has been sunset"), V.RETIRED),
    ("wording-400-name-alone", K.OPENAI, 400, openai("`mistral-tiny` has been decommissioned."), V.RETIRED),
    ("wording-400-is-retired", K.OPENAI, 400, openai("This model is retired, see the docs"), V.RETIRED),
    ("azure-management", K.AZURE, 400, {"error": {"code": "ServiceModelDeprecated", "message": "The model 'gpt-35-turbo' has been deprecated since 2024-06-13."}}, V.RETIRED),
    # not retired, though the words stand there (B116).
    ("B116-field-alone", K.OPENAI, 400, openai("functions has been deprecated, use tools"), V.CLIENT_FAULT),
    ("B116-a-name-that-is-a-word", K.OPENAI, 404, openai("sunset-7b does not exist"), V.CAPABILITY),
    ("B116-backticks", K.VLLM, 404, openai("The model `x has been retired` does not exist.", "NotFoundError", 404, "model"), V.CAPABILITY),
    ("B116-quotes-inside", K.OPENAI, 404, openai("The model 'x' has been retired 'y' does not exist"), V.CAPABILITY),
    ("B116-mixed-quotes", K.OPENAI, 404, openai('The model `api has been retired "` does not exist, see "docs"'), V.CAPABILITY),
    ("B116-unquoted", K.OPENAI, 404, {"type": "error", "error": {"type": "not_found_error", "message": "model: api has been retired"}}, V.CAPABILITY),
    ("B116-parse-error", K.LLAMACPP, 400, llama("[json.exception.parse_error.101] parse error at line 1, column 30: last read: '\"the model has been retired'", 400, "invalid_request_error"), V.CLIENT_FAULT),
    ("B116-field", K.OPENAI, 400, openai("The model has changed: parameter functions is no longer supported", param="functions"), V.CLIENT_FAULT),
    ("B116-field-in-text", K.OPENAI, 400, openai("For this model the functions parameter is no longer supported"), V.CLIENT_FAULT),
    ("wording-403", K.OPENAI, 500, openai("The model has been retired"), V.SICK),
    ("dead-in-a-name", K.VLLM, 404, openai("The model `CUDA error` does not exist.", "NotFoundError", 404), V.CAPABILITY),
    ("dead-in-quotes", K.VLLM, 500, openai("bad value 'CUDA error' in x", "InternalServerError", 500), V.SICK),
]
# fmt: on

# id, kind, body, streamed, verdict, status to show
# fmt: off
INSIDE: list[tuple[str, Kind, Any, bool, Verdict, int]] = [
    ("B43", K.OPENAI, {"error": {"code": 400, "message": "x"}}, False, V.CLIENT_FAULT, 400),
    ("B44-tgi-stream", K.TGI, {"error": "Input validation error: `inputs` must have less than 5 tokens. Given: 9", "error_type": "validation"}, True, V.CLIENT_FAULT, 422),
    ("B44-no-type", K.TGI, {"error": "Input validation error: `inputs` must be non-empty"}, True, V.CLIENT_FAULT, 400),
    ("B67-object", K.VLLM, openai("x", "InternalServerError", 500), True, V.SICK, 500),
    ("B26-xgrammar", K.VLLM, openai("FSM failed to advance", "InternalServerError", 500), True, V.SICK, 500),
    ("real5-killed", K.VLLM, openai("EngineCore encountered an issue. See stack trace", "InternalServerError", 500), True, V.DEAD, 500),
    ("d4-flat", K.SGLANG, flat("The input (9 tokens) is longer than the model's context length (4 tokens).", 400), True, V.CLIENT_FAULT, 400),
    ("d4-string", K.OPENAI, {"error": "something broke"}, True, V.SICK, 502),
    ("14566-llamacpp", K.LLAMACPP, llama("the request exceeds the available context size. try increasing", 400, "exceed_context_size_error"), True, V.CLIENT_FAULT, 400),
    ("sglang-queue", K.SGLANG, openai("The request queue is full.", "ServiceUnavailableError", 503), True, V.BUSY, 503),
    ("anthropic-overload", K.OPENAI, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, True, V.BUSY, 529),
    ("B77-quota", K.OPENAI, {"type": "error", "code": "insufficient_quota", "message": "You exceeded your current quota"}, True, V.MISCONFIGURED, 429),
    ("response.failed", K.OPENAI, {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "x"}}}, True, V.SICK, 502),
    ("B76-policy", K.OPENAI, {"error": {"message": "content policy", "code": 502}, "user_id": "u"}, False, V.SICK, 502),
    ("openrouter", K.OPENAI, {"choices": [{"finish_reason": "error", "message": {"content": "x"}, "error": {"code": 429, "message": "x"}}]}, False, V.BUSY, 429),
    ("finish-error", K.OPENAI, {"choices": [{"finish_reason": "error", "message": {"content": "x"}}]}, False, V.SICK, 502),
    ("no-code-404", K.OPENAI, openai("x", "not_found_error"), False, V.CAPABILITY, 404),
    ("410-inside", K.OPENAI, {"error": {"message": "the api has been retired", "code": 410}}, False, V.CLIENT_FAULT, 410),
    ("B116-inside", K.OPENAI, {"error": {"message": "the model has been retired", "code": 404}}, False, V.CAPABILITY, 404),
    ("ollama-ndjson", K.OLLAMA, b'{"message":{"content":"a"}}\n{"error":"llama runner process has terminated"}\n', False, V.DEAD, 502),
    ("vllm-bad-schema", K.VLLM, openai("Invalid json schema", "BadRequestError", 400), True, V.CLIENT_FAULT, 400),
]
# fmt: on
