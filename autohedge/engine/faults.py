"""The faults of the sample engine: one row each, by fact id and by name.

How to read a row: names (the id of the bug log first, any of them works, in any case) | what it does | where it acts
("work", "health", "models", "count", "all") | the default of its argument.

How to order one: NAME, NAME=ARG, and behind it any of
    :times=N   only the first N requests that it meets        :after=N   not before N requests were met
    :for=S     only for S seconds after it was set            :on=WHERE  another place, or a path ("/v1/models")
A row marked `timed` takes its argument as that number of seconds: `B22=10` is 503 for ten seconds, then well.

Rows of the bug log that need no fault, because the engine does it by itself or the row is about the proxy alone:
B19 (count paid calls: `received`), B49 (a word may be long: text.py), B53, B59, B64, B65, B97, B98 and B110's retry (the
counters `cancelled` and `received` tell), B100, B101 (`--key`, `echo`), B103 (an unknown path is 404).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from autohedge.engine.acts import replies, streams, times, wire
from autohedge.engine.acts.replies import html, says, sends
from autohedge.engine.acts.scene import Act
from autohedge.engine.messages import Refusal, Request
from autohedge.engine.state import State

NEED_NO_FAULT = frozenset(["B19", "B49", "B53", "B59", "B64", "B65", "B97", "B98", "B100", "B101", "B103"])


@dataclass(frozen=True, slots=True)
class Row:
    """One fault. `arg` None: it takes no argument; "": it may have one. `early`: it acts when the head is read."""

    names: str
    act: Act
    what: str
    arg: str | None = None
    on: str = "work"
    times: int | None = None
    timed: bool = False
    early: bool = False
    start: Callable[[State, str], None] | None = None


def _unload(state: State, _: str) -> None:
    state.loaded_until = 0.0


def _idle(state: State, arg: str) -> None:
    state.idle = float(arg)


HF = {
    "error": "https://api-inference.huggingface.co is no longer supported. Please use https://router.huggingface.co instead."
}
BROWNOUT = {
    "error": {
        "code": "github_models_retirement_brownout",
        "message": "This model is temporarily unavailable as part of a scheduled retirement brownout",
    }
}
POLICY = {
    "id": "gen-1",
    "object": "chat.completion",
    "model": "",
    "choices": [],
    "error": {"code": 502, "message": "Provider returned error: blocked by content policy"},
}
CODE_400 = {
    "error": {"message": "invalid params, context window exceeds limit", "type": "invalid_request_error", "code": 400}
}
ANTHROPIC_404 = {
    "type": "error",
    "error": {"type": "not_found_error", "message": "model: claude-3-sonnet-20240229"},
    "request_id": "req_1",
}
ANTHROPIC_529 = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "req_1"}
AZURE_404 = {
    "error": {
        "code": "DeploymentNotFound",
        "message": "The API deployment for this resource does not exist. If you created the deployment within the last 5 minutes, please wait a moment and try again.",
    }
}
GROQ = {
    "error": {
        "message": "The model `llama2-70b` has been decommissioned and is no longer supported.",
        "type": "invalid_request_error",
        "code": "model_decommissioned",
    }
}
UNKNOWN = {"error": {"code": "unknown_model", "message": "Unknown model: gpt-4o", "details": "Unknown model: gpt-4o"}}
QUEUE = "server busy, please try again.  maximum pending requests exceeded"
RUNNER = "llama runner process has terminated: CUDA error: out of memory"
DEPRECATED = "The model `gpt-4-vision-preview` has been deprecated, learn more here: https://platform.openai.com/docs/deprecations"

# One row is one line, whatever its length: the table is read as a table.
# fmt: off
TABLE = (
    # --- health lies, hung engines
    Row("B01 B07 hang-before-headers hang", times.hang, "work is never answered, everything else is well"),
    Row("B02 freeze-after", times.freeze_after, "N content chunks, then silence, also for all later work", "3"),
    Row("stall-after", times.stall_after, "N content chunks, then silence", "3"),
    Row("B04 cuda-error", says(Refusal(500, "CUDA error: an illegal memory access was encountered", type="InternalServerError")), "500 CUDA error; health is well"),
    Row("B05 engine-dead", times.dead, "500 EngineCore, then the listener closes; back after S seconds", ""),
    Row("engine-dead-kept", times.dead_kept, "work 500 for ever, health 200 for 0.9 s and then 503, the rest well (vLLM keep-alive)", None, "all"),
    Row("B08 slow-health-503", times.slow_health, "health: 503 after S1; work: well after S2", "20,25", "all"),
    Row("B10 slow-health", times.slow, "health S late", "1.001", "health"),
    Row("B11 burst-slow", times.burst, "all paths S late while N or more are in progress", "12,100", "all"),
    Row("B13 min-tokens", replies.short_bound, "400 when the bound is under N tokens", "16"),
    Row("B14 cold", times.cold, "loaded by the first work, unloaded after S1 idle; loading takes S2", "300,0", start=_unload),
    Row("B16 load-restarts", times.load_restarts, "a load of S that begins again when the client leaves", "20", start=_unload),
    Row("B17 slow-first-byte", times.slow, "the head S late", "60"),
    Row("B20 wedge", times.wedge, "a second request in progress stops both for ever"),
    Row("B22 loading-503", times.loading, "503 loading on every path for S seconds", "10", "all", timed=True),
    Row("health-503", replies.status, "health 503, work well", "503", "health"),
    # --- crash texts
    Row("B23 runner-oom", says(Refusal(500, RUNNER)), "500 llama runner has terminated"),
    Row("B25 load-timeout", times.late_error("timed out waiting for llama runner to start - progress 0.00 - "), "500 after S", "300"),
    Row("llama-server-gone", says(Refusal(500, "llama-server process has terminated: exit status 1: error loading model")), "500, Ollama of 2026"),
    Row("cuda-oom", says(Refusal(500, "CUDA out of memory. Tried to allocate 2.00 GiB", type="InternalServerError")), "500 out of memory"),
    Row("generation-424", says(Refusal(424, "Request failed during generation: CUDA error")), "TGI: a 4xx that is the engine's failure"),
    Row("B26 error-event", streams.error_event(done=True), "N content chunks, the kind's error event, [DONE]; 500 when not streamed", "2"),
    # --- overload
    Row("B28 queue-full-503", says(Refusal(503, QUEUE)), "503 with Ollama's text"),
    Row("overloaded", replies.overloaded, "the kind's own overload answer"),
    Row("B29 queue-grows", times.queue_grows, "S later for every request in progress", "0.1"),
    Row("B31 busy-once", replies.busy, "429 with Retry-After once, then well", "1", times=1),
    Row("B32 busy-429", replies.busy, "429 always, with Retry-After when given", ""),
    Row("B34 overloaded-529", sends(ANTHROPIC_529, 529), "529 overloaded_error"),
    Row("B35 busy-growing", replies.busy, "429 whose Retry-After grows", "1,60"),
    Row("B37 slow", times.slow, "S late", "0.5"),
    Row("B38 credit-400", says(Refusal(400, "Your credit balance is too low to access the API.")), "400 that is a quota"),
    Row("quota-429", says(Refusal(429, streams.QUOTA, type="insufficient_quota", code="insufficient_quota")), "429 insufficient_quota"),
    Row("cancelled-499", says(Refusal(499, "request canceled")), "Ollama's 499"),
    # --- context and parameters
    Row("B40 negative-max-tokens", says(Refusal(400, "max_tokens must be at least 1, got -7584.")), "vLLM's wrong text for a long prompt"),
    Row("B41 context-40960", says(Refusal(400, "The input (61709 tokens) is longer than the model's context length (40960 tokens).")), "teaches 40960"),
    Row("B43 json-error-200", sends(CODE_400, 200), "200 JSON with an error of code 400, also for streams"),
    Row("B44 error-event-string", streams.string_error, "200, N chunks, an error that is a string; 422 when not streamed", "0"),
    Row("B46 truncates", replies.truncates, "usage says exactly N for a longer prompt", "2048"),
    Row("B47 total-4096", replies.total_is, "total_tokens N, finish_reason length", "4096"),
    Row("B50 max-tokens-range", replies.bound_range, "400 valid range [1, N]", "8192"),
    Row("B52 no-max-tokens", replies.no_max_tokens, "400 unsupported_parameter max_tokens"),
    Row("B55 no-tools", replies.no_tools, "400 when tools are sent"),
    Row("B56 tools-ignored", replies.tools_ignored, "tool_choice is not obeyed"),
    Row("B58 no-developer", replies.no_developer, "400 for the role developer"),
    Row("no-embeddings", replies.no_embeddings, "the model cannot embed"),
    Row("no-chat", replies.no_chat, "the model can only embed"),
    Row("no-systemone", replies.no_decisions, "501 not a decision model"),
    Row("B61 B62 echo", replies.echo, "the answer carries what was received"),
    # --- streams
    Row("B67 error-event-cut", streams.error_event(done=False), "N content chunks, the kind's error event, clean end without [DONE]", "1"),
    Row("B68 B70 error-event-first", streams.error_event(done=False), "an error event before any content, clean end (NDJSON on /api)", "0"),
    Row("error-event-flat", streams.flat_error, "N content chunks, an error without the key error, [DONE]", "2"),
    Row("B71 swallowed-crash", streams.swallowed_crash, "N content chunks, an empty delta, clean end", "3"),
    Row("B73 azure-preamble", streams.azure_preamble, "first a chunk with choices [] and prompt_filter_results"),
    Row("B74 no-delta", streams.no_delta, "first a chunk whose choice has no delta"),
    Row("B76 policy-200", sends(POLICY, 200), "200 JSON, choices [] and an error of code 502"),
    Row("B77 response-created-then-error preamble-then-error", streams.preamble_then_error, "the preamble, then an error event"),
    Row("response-failed", streams.response_failed, "response.created, then response.failed"),
    Row("B79 role-then-stall", streams.preamble_then_stall, "the preamble, then silence"),
    Row("B80 reset-after", streams.reset_after, "N content chunks, then RST", "5"),
    Row("B82 cut-after", streams.cut_after, "N content chunks, then FIN inside the body", "3"),
    Row("B83 split-bytes", streams.split_bytes, "every non-ASCII byte a chunk of its own"),
    Row("B85 comments", streams.comments, "a comment before every content chunk"),
    Row("B86 ping-after-id", streams.ping_after_id, "an id: field, then a comment with a blank line"),
    Row("B88 comments-first", streams.comments_first, "a comment every S1, the first chunk after S2", "5,40"),
    Row("B89 no-done", streams.no_done, "finish_reason, but no [DONE]"),
    Row("no-finish", streams.no_finish, "neither finish_reason nor [DONE]"),
    Row("done-alone", streams.done_alone, "[DONE] and nothing else"),
    Row("crlf", streams.respell(b"\n", b"\r\n"), "CRLF line ends"),
    Row("tight-data", streams.respell(b"data: ", b"data:"), "no blank after data:"),
    Row("keepalive-data", streams.keepalive_data, "data: : keepalive"),
    Row("lump", streams.lump, "all events in one chunk"),
    Row("long-event", streams.long_event, "a content event of N bytes", "1000000"),
    Row("empty-body", replies.empty_body, "200 with nothing"),
    Row("no-choices", replies.no_choices, "200 with choices null, or [] with =empty", ""),
    Row("finish-error", replies.finish_error, "finish_reason error beside an error (OpenRouter)"),
    # --- HTTP
    Row("B91 close-on-reuse", wire.close_on_reuse, "the second request of a connection gets FIN without a byte", None, "all"),
    Row("silent-close", wire.close_silently, "FIN without a byte", None, "work"),
    Row("reset", wire.reset, "RST without a byte"),
    Row("B92 idle-close", lambda scene: scene.answer(), "an idle connection is closed after S", "0.2", "all", start=_idle),
    Row("B94 wrong-content-length", wire.long_length, "Content-Length 999, two bytes, FIN; or silence with =open", ""),
    Row("short-content-length", wire.short_length, "Content-Length 2 and a longer body"),
    Row("B95 gzip", wire.encoded, "Content-Encoding gzip"),
    Row("dribble", wire.dribble, "one byte at a time, S between", "0.001"),
    Row("until-close", wire.until_close, "no framing, the body ends by closing"),
    Row("informational", wire.informational, "103 Early Hints first"),
    Row("trailers", wire.trailers, "chunked with a trailer"),
    Row("big-head", wire.big_head, "a header of N bytes", "70000"),
    Row("garbage", wire.raw(b"\x16\x03\x01 this is not HTTP\r\n\r\n"), "bytes that are not HTTP"),
    Row("bad-chunk", wire.raw(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"), "a chunk size that is no number"),
    Row("length-and-chunked", wire.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), "both framings at once"),
    Row("set-cookie", wire.headers((b"set-cookie", b"a=1; Path=/"), (b"set-cookie", b"b=2; Path=/")), "Set-Cookie twice"),
    Row("connection-header", wire.headers((b"connection", b"x-foo"), (b"x-foo", b"hop"), (b"keep-alive", b"timeout=5")), "Connection names X-Foo"),
    Row("redirect-302", replies.redirect, "302 to the argument", "http://127.0.0.1:9/"),
    Row("html-200", html(200, "Welcome to nginx!"), "200 HTML"),
    Row("html-502", html(502, "502 Bad Gateway"), "502 HTML"),
    Row("B104 html-413", html(413, "413 Request Entity Too Large"), "413 HTML after the body"),
    Row("early-413", wire.early_413, "413 before the body was read", early=True),
    Row("status", replies.status, "this status in the kind's shape", "500"),
    Row("auth-401", replies.unauthorized, "the kind's own 401"),
    # --- retirement
    Row("B106 brownout-410", sends(BROWNOUT, 410), "410 brownout for S seconds, then well", "30", timed=True),
    Row("B107 retired-410", sends(HF, 410), "410 for ever"),
    Row("B109 retired-404", says(Refusal(404, DEPRECATED, code="model_not_found")), "404 model_not_found, deprecated"),
    Row("decommissioned-400", sends(GROQ, 400), "400 model_decommissioned"),
    Row("B110 anthropic-404", sends(ANTHROPIC_404, 404), "404 not_found_error"),
    Row("B112 non-serverless-400", says(Refusal(400, "Unable to access non-serverless model meta-llama/Llama-2-70b-chat-hf.")), "Together's 400"),
    Row("B113 unknown-model", sends(UNKNOWN, 404), "404 unknown_model for S seconds, then well", "30", timed=True),
    Row("B115 deployment-404", sends(AZURE_404, 404), "404 DeploymentNotFound for S seconds, then well", "300", timed=True),
    Row("B116 says-retired", replies.says_retired, "a good answer whose text speaks of a 410"),
    Row("names-model-400", replies.names_model, "a 400 that repeats the caller's model name"),
)
# fmt: on

BY_NAME = {name.lower(): row for row in TABLE for name in row.names.split()}
_OPTION = re.compile(r":(times|for|after|on)=([^:]+)$")


@dataclass(slots=True)
class Fault:
    """A row in action. `met` counts the requests that came to its place."""

    row: Row
    text: str
    arg: str
    set_at: float
    on: str = "work"
    options: dict[str, float] = field(default_factory=dict)
    met: int = 0

    def takes(self, request: Request, now: float) -> bool:
        """Whether this request gets the fault; counts it."""
        if self.on not in ("all", request.on, request.path):
            return False
        age = now - self.set_at
        if (self.row.timed and age >= float(self.arg)) or age >= self.options.get("for", age + 1):
            return False
        self.met += 1
        skipped = self.options.get("after", 0)
        return skipped < self.met <= skipped + self.options.get("times", self.met)

    @property
    def turn(self) -> int:
        """Which of its requests this is, from 1."""
        return self.met - int(self.options.get("after", 0))


def order(text: str, now: float = 0.0) -> Fault:
    """A fault from its text, see the head of this file. `now` in loop seconds. Raises ValueError with a full sentence."""
    rest, options = text.strip(), {}
    while found := _OPTION.search(rest):
        options[found[1]] = found[2]
        rest = rest[: found.start()]
    name, mark, arg = rest.partition("=")
    row = BY_NAME.get(name.lower())
    if row is None:
        raise ValueError(f"no fault is named {name!r}; see `autohedge engine --list-faults`")
    if mark and row.arg is None:
        raise ValueError(f"the fault {name!r} takes no argument")
    fault = Fault(row, text, arg if mark else row.arg or "", now, options.pop("on", row.on))
    try:
        fault.options = {key: float(value) for key, value in options.items()}
        wanted = len(_numbers(row.arg)) if row.arg and row.arg[0].isdigit() else 0
        given = len(_numbers(fault.arg)) if wanted else 0
    except ValueError:
        raise ValueError(f"the fault {text!r} has a number that is none") from None
    if given != wanted:
        raise ValueError(f"the fault {text!r} takes numbers as in {row.arg!r}")
    if row.times is not None:
        fault.options.setdefault("times", row.times)
    return fault


def _numbers(arg: str) -> list[float]:
    return [float(part) for part in arg.split(",")]


def listing() -> str:
    """The table as text."""
    return "\n".join(f"{row.names:55} {row.arg or '':18} {row.on:7} {row.what}" for row in TABLE)
