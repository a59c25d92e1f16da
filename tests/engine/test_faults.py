"""The table of faults: every row, on a real socket, does what its line says; and orders are read as written."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autohedge.engine.faults import BY_NAME, NEED_NO_FAULT, TABLE, listing, order
from autohedge.engine.messages import Request
from tests.engine.calls import ASKED, CHAT, HELLO, LONG, NORMAL, SHORT, Heard, Serve, ask, request, talk

Check = Callable[[Heard], bool]
STREAM: dict[str, Any] = {**HELLO, "stream": True}
TOOLS: dict[str, Any] = {**HELLO, "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "required"}


def status(number: int, *texts: str) -> Check:
    """This status, and these texts in the body."""
    return lambda heard: heard.status == number and all(text.encode() in heard.body for text in texts)


def silent(heard: Heard) -> bool:
    return heard.data == b"" and heard.end == "open"


def late(seconds: float) -> Check:
    return lambda heard: heard.status == 200 and heard.first >= seconds - 0.02


def pieces(heard: Heard) -> int:
    """How many chunks with text came."""
    choices = [choice for event in heard.events if isinstance(event, dict) for choice in event.get("choices") or ()]
    return sum(bool((choice.get("delta") or {}).get("content")) for choice in choices)


def stalled(number: int) -> Check:
    return lambda heard: pieces(heard) == number and heard.end == "open" and "[DONE]" not in heard.events


def ends(number: int, error: str, *, done: bool) -> Check:
    """`number` content chunks, an error event with this text, [DONE] or not, and a proper end of the body."""

    def check(heard: Heard) -> bool:
        errors = [
            event
            for event in heard.events
            if isinstance(event, dict) and ("error" in event or event.get("object") == "error")
        ]
        told = len(errors) == 1 and error in str(errors[0])
        return pieces(heard) == number and told and ("[DONE]" in heard.events) is done and heard.chunks[-1] == b""

    return check


def well(heard: Heard) -> bool:
    return heard.status == 200 and b"sample" in heard.body


# order, kind, path, body, what must come
CASES: list[tuple[str, str, str, Any, Check]] = [
    ("B01", "vllm", CHAT, HELLO, silent),
    ("b07", "sglang", CHAT, STREAM, silent),
    ("hang", "vllm", "/health", None, status(200)),
    ("B02=2", "vllm", CHAT, STREAM, stalled(2)),
    ("stall-after=3", "vllm", CHAT, STREAM, stalled(3)),
    ("stall-after", "vllm", CHAT, HELLO, lambda h: h.status == 200 and h.end == "open" and int(re.findall(rb"content-length: (\d+)", h.head)[0]) > len(h.body) > 0),
    ("B04", "vllm", CHAT, HELLO, status(500, "CUDA error", '"code":500', "InternalServerError")),
    ("B05", "vllm", CHAT, HELLO, lambda h: status(500, "EngineCore encountered an issue")(h) and h.end == "closed"),
    ("engine-dead-kept", "vllm", CHAT, STREAM, status(500, "EngineCore")),
    ("engine-dead-kept", "vllm", "/v1/models", None, status(200)),
    ("B08=0.2,0.3", "sglang", "/health", None, lambda h: h.status == 503 and h.first >= 0.18),
    ("B08=0.2,0.3", "sglang", CHAT, HELLO, late(0.3)),
    ("B10=0.3", "vllm", "/health", None, late(0.3)),
    ("B11=0.3,0", "vllm", "/v1/models", None, late(0.3)),
    ("B11=5,1", "vllm", CHAT, HELLO, well),
    ("B13", "openai-compatible", CHAT, {**HELLO, "max_tokens": 1}, status(400, "Could not finish the message")),
    ("B13", "openai-compatible", CHAT, {**HELLO, "max_tokens": 16}, well),
    ("B14", "ollama", "/api/ps", None, status(200, '"models":[]')),
    ("B16=0.3", "ollama", CHAT, HELLO, late(0.3)),
    ("B17=0.3", "ollama", CHAT, STREAM, late(0.3)),
    ("B20", "vllm", CHAT, HELLO, well),
    ("B22", "llamacpp", "/v1/models", None, status(503, "Loading model", "unavailable_error", '"code":503')),
    ("B22", "sglang", "/health", None, lambda h: h.status == 503 and h.body == b""),
    ("health-503", "vllm", "/health", None, status(503)),
    ("B23", "ollama", CHAT, HELLO, status(500, "llama runner process has terminated: CUDA error: out of memory", "api_error", '"code":null')),
    ("B25=0.2", "ollama", CHAT, HELLO, lambda h: status(500, "timed out waiting for llama runner")(h) and h.first >= 0.18),
    ("llama-server-gone", "ollama", "/api/chat", HELLO, status(500, '{"error":"llama-server process has terminated')),
    ("cuda-oom", "vllm", CHAT, HELLO, status(500, "CUDA out of memory")),
    ("generation-424", "tgi", CHAT, HELLO, status(424, "Request failed during generation", '"error_type":"generation"')),
    ("B26=2", "vllm", CHAT, STREAM, ends(2, "EngineCore", done=True)),
    ("error-event", "vllm", CHAT, HELLO, status(500, "EngineCore")),
    ("B28", "ollama", CHAT, HELLO, status(503, "server busy, please try again.  maximum pending requests exceeded")),
    ("overloaded", "tgi", CHAT, HELLO, status(429, "Model is overloaded", '"error_type":"overloaded"')),
    ("B29=0.2", "ollama", CHAT, HELLO, late(0.2)),
    ("B31", "vllm", CHAT, HELLO, lambda h: h.status == 429 and b"retry-after: 1" in h.head),
    ("B32", "vllm", CHAT, HELLO, lambda h: h.status == 429 and b"retry-after" not in h.head),
    ("busy-429=7", "openai-compatible", CHAT, HELLO, lambda h: b"retry-after: 7" in h.head and b"rate_limit_exceeded" in h.body),
    ("B34", "openai-compatible", "/v1/messages", HELLO, status(529, "overloaded_error")),
    ("B35", "vllm", CHAT, HELLO, lambda h: b"retry-after: 1\r\n" in h.head + b"\r\n"),
    ("B37=0.2", "vllm", CHAT, HELLO, late(0.2)),
    ("B38", "openai-compatible", CHAT, HELLO, status(400, "credit balance is too low")),
    ("quota-429", "openai-compatible", CHAT, HELLO, status(429, '"code":"insufficient_quota"')),
    ("cancelled-499", "ollama", "/api/chat", HELLO, status(499, '{"error":"request canceled"}')),
    ("B40", "vllm", CHAT, HELLO, status(400, "max_tokens must be at least 1, got -7584")),
    ("B41", "sglang", CHAT, HELLO, status(400, "The input (61709 tokens) is longer than the model's context length (40960 tokens).")),
    ("B43", "vllm", CHAT, STREAM, lambda h: status(200, '"code":400')(h) and b"application/json" in h.head),
    ("B44", "tgi", CHAT, STREAM, ends(0, "Input validation error", done=False)),
    ("B44", "tgi", CHAT, HELLO, status(422, '"error":"Input validation error', '"error_type":"validation"')),
    ("B46=3", "ollama", CHAT, HELLO, lambda h: h.json["usage"]["prompt_tokens"] == 3),
    ("B47", "ollama", CHAT, HELLO, lambda h: h.json["usage"]["total_tokens"] == 4096 and h.json["choices"][0]["finish_reason"] == "length"),
    ("B50", "openai-compatible", CHAT, {**HELLO, "max_tokens": 9000}, status(400, "the valid range of max_tokens is [1, 8192]")),
    ("B52", "openai-compatible", CHAT, {**HELLO, "max_tokens": 9}, status(400, "unsupported_parameter", '"param":"max_tokens"')),
    ("B55", "vllm", CHAT, TOOLS, status(400, "--enable-auto-tool-choice")),
    ("B55", "ollama", CHAT, TOOLS, status(400, "does not support tools")),
    ("B56", "vllm", CHAT, TOOLS, lambda h: well(h) and "tool_calls" not in h.json["choices"][0]["message"]),
    ("B58", "vllm", CHAT, {"model": "m", "messages": [{"role": "developer", "content": "x"}]}, status(400, "Unexpected message role.")),
    ("no-embeddings", "llamacpp", "/v1/embeddings", {"input": "a"}, status(501, "not_supported_error", "--embeddings")),
    ("no-embeddings", "vllm", "/v1/embeddings", {"input": "a"}, status(404, '{"detail":"Not Found"}')),
    ("no-chat", "llamacpp", CHAT, HELLO, status(500, "does not support logits computation")),
    ("no-systemone", "llamacpp", "/v1/systemone", ASKED, status(501, "not a decision model")),
    ("no-systemone", "vllm", "/v1/systemone", ASKED, status(501, "NotImplementedError")),
    ("B61", "vllm", CHAT, {**HELLO, "top_p": 0.5}, lambda h: '"top_p": 0.5' in h.json["echo"]["body"] and "sample" in str(h.json["choices"])),
    ("B62", "vllm", CHAT, STREAM, lambda h: h.chunks[0].startswith(b": echo {") and h.events[-1] == "[DONE]"),
    ("B67", "vllm", CHAT, STREAM, ends(1, "EngineCore", done=False)),
    ("B68", "sglang", CHAT, STREAM, ends(0, "EngineCore", done=False)),
    ("B70", "ollama", "/api/chat", HELLO, lambda h: h.body.endswith(b'"}\n') and b'{"error":"EngineCore' in h.body and b'"done":true' not in h.body),
    ("error-event-string=2", "tgi", CHAT, STREAM, ends(2, "Input validation error", done=False)),
    ("error-event-flat", "sglang", CHAT, STREAM, ends(2, "EngineCore", done=True)),
    ("B71", "ollama", CHAT, STREAM, lambda h: h.events[-1]["choices"][0]["delta"]["content"] == "" and h.events[-1]["choices"][0]["finish_reason"] is None),
    ("B73", "openai-compatible", CHAT, STREAM, lambda h: h.events[0]["choices"] == [] and "prompt_filter_results" in h.events[0]),
    ("B74", "openai-compatible", CHAT, STREAM, lambda h: "delta" not in h.events[0]["choices"][0]),
    ("B76", "openai-compatible", CHAT, HELLO, status(200, '"code":502', '"choices":[]')),
    ("B77", "openai-compatible", "/v1/responses", {"model": "m", "input": "hi", "stream": True}, lambda h: h.events[0]["type"] == "response.created" and h.events[-1]["code"] == "insufficient_quota"),
    ("preamble-then-error", "vllm", CHAT, STREAM, ends(0, "quota", done=False)),
    ("response-failed", "openai-compatible", "/v1/responses", {"model": "m", "input": "hi", "stream": True}, lambda h: h.events[-1]["response"]["status"] == "failed"),
    ("B79", "vllm", CHAT, STREAM, lambda h: len(h.events) == 1 and h.events[0]["choices"][0]["delta"]["role"] == "assistant" and h.end == "open"),
    ("B80", "vllm", CHAT, STREAM, lambda h: pieces(h) == 5 and h.end == "reset"),
    ("B82", "vllm", CHAT, STREAM, lambda h: pieces(h) == 3 and h.end == "closed" and h.chunks[-1] != b""),
    ("cut-after", "vllm", CHAT, HELLO, lambda h: h.end == "closed" and int(re.findall(rb"content-length: (\d+)", h.head)[0]) > len(h.body) > 0),
    ("B83", "vllm", CHAT, STREAM, lambda h: "你好 🌍" in h.text and all(len(c) == 1 or c.isascii() for c in h.chunks) and h.chunks[-1] == b""),
    ("B85", "openai-compatible", CHAT, STREAM, lambda h: h.body.count(b": OPENROUTER PROCESSING\n\n") == 14),
    ("B86", "openai-compatible", CHAT, STREAM, lambda h: h.body.startswith(b"id: 1\ndata: ") and b"\n\n: ping\n\n" in h.body),
    ("B88=0.05,0.2", "openai-compatible", CHAT, STREAM, lambda h: h.body.startswith(b": ping\n\n" * 4) and h.whole >= 0.18),
    ("B89", "vllm", CHAT, STREAM, lambda h: h.events[-1]["choices"][0]["finish_reason"] == "stop" and h.chunks[-1] == b""),
    ("no-finish", "openai-compatible", CHAT, STREAM, lambda h: all(e["choices"][0]["finish_reason"] is None for e in h.events)),
    ("done-alone", "vllm", CHAT, STREAM, lambda h: h.events == ["[DONE]"]),
    ("crlf", "vllm", CHAT, STREAM, lambda h: b"\r\n\r\ndata: " in h.body and b"}\n" not in h.body),
    ("tight-data", "vllm", CHAT, STREAM, lambda h: b"data:{" in h.body and b"data: " not in h.body),
    ("keepalive-data", "vllm", CHAT, STREAM, lambda h: h.events[0] == ": keepalive"),
    ("lump", "vllm", CHAT, STREAM, lambda h: len(h.chunks) == 2 and h.events[-1] == "[DONE]"),
    ("long-event=70000", "vllm", CHAT, STREAM, lambda h: len(h.text) > 70000),
    ("empty-body", "vllm", CHAT, STREAM, lambda h: h.status == 200 and h.body == b"" and b"text/event-stream" in h.head),
    ("no-choices", "vllm", CHAT, HELLO, lambda h: h.json["choices"] is None),
    ("no-choices=empty", "vllm", CHAT, HELLO, lambda h: h.json["choices"] == []),
    ("finish-error", "openai-compatible", CHAT, STREAM, lambda h: h.events[-2]["choices"][0]["finish_reason"] == "error" and "error" in h.events[-2]),
    ("B91", "vllm", CHAT, HELLO, well),
    ("silent-close", "vllm", CHAT, HELLO, lambda h: h.data == b"" and h.end == "closed"),
    ("reset", "vllm", CHAT, HELLO, lambda h: h.data == b"" and h.end == "reset"),
    ("B92=0.05", "vllm", CHAT, HELLO, lambda h: well(h) and h.end == "closed"),
    ("B94", "vllm", CHAT, HELLO, lambda h: b"content-length: 999" in h.head and h.body == b"{}" and h.end == "closed"),
    ("wrong-content-length=open", "vllm", CHAT, HELLO, lambda h: h.body == b"{}" and h.end == "open"),
    ("short-content-length", "vllm", CHAT, HELLO, lambda h: b"content-length: 2" in h.head and len(h.body) > 2),
    ("B95", "vllm", CHAT, HELLO, lambda h: b"content-encoding: gzip" in h.head and h.body[:2] == b"\x1f\x8b"),
    ("dribble=0", "vllm", CHAT, HELLO, well),
    ("until-close", "vllm", CHAT, HELLO, lambda h: well(h) and b"content-length" not in h.head and h.end == "closed"),
    ("informational", "vllm", CHAT, HELLO, lambda h: h.status == 103 and b"HTTP/1.1 200 OK" in h.data),
    ("trailers", "vllm", CHAT, STREAM, lambda h: h.data.endswith(b"0\r\nx-trailer: kept\r\n\r\n")),
    ("big-head=70000", "vllm", CHAT, HELLO, lambda h: len(h.head) > 70000),
    ("garbage", "vllm", CHAT, HELLO, lambda h: not h.data.startswith(b"HTTP") and h.end == "closed"),
    ("bad-chunk", "vllm", CHAT, STREAM, lambda h: h.data.endswith(b"zz\r\n")),
    ("length-and-chunked", "vllm", CHAT, STREAM, lambda h: b"content-length: 2" in h.head and b"transfer-encoding" in h.head),
    ("set-cookie", "vllm", CHAT, HELLO, lambda h: h.head.count(b"set-cookie: ") == 2),
    ("connection-header", "vllm", CHAT, HELLO, lambda h: b"connection: x-foo" in h.head and b"x-foo: hop" in h.head),
    ("redirect-302=http://other:80/x", "vllm", CHAT, HELLO, lambda h: h.status == 302 and b"location: http://other:80/x" in h.head),
    ("html-200", "vllm", CHAT, STREAM, lambda h: h.status == 200 and b"text/html" in h.head),
    ("html-502", "vllm", CHAT, HELLO, status(502, "<html>")),
    ("B104", "openai-compatible", CHAT, HELLO, status(413, "<html>")),
    ("early-413", "vllm", CHAT, HELLO, status(413)),
    ("status=418", "vllm", CHAT, HELLO, status(418, '"code":418')),
    ("auth-401", "llamacpp", CHAT, HELLO, status(401, "Invalid API Key")),
    ("B106", "openai-compatible", CHAT, HELLO, status(410, "github_models_retirement_brownout")),
    ("B107", "openai-compatible", CHAT, HELLO, status(410, "no longer supported")),
    ("B109", "openai-compatible", CHAT, HELLO, status(404, "model_not_found", "has been deprecated")),
    ("decommissioned-400", "openai-compatible", CHAT, HELLO, status(400, "model_decommissioned")),
    ("B110", "openai-compatible", CHAT, HELLO, status(404, "not_found_error", "model: claude-")),
    ("B112", "openai-compatible", CHAT, HELLO, status(400, "Unable to access non-serverless model")),
    ("B113", "openai-compatible", CHAT, HELLO, status(404, "unknown_model")),
    ("B115", "azure", "/openai/deployments/m/chat/completions?api-version=1", HELLO, status(404, "DeploymentNotFound")),
    ("B116", "vllm", CHAT, STREAM, lambda h: "410 gone api access has been retired" in h.text and h.events[-1] == "[DONE]"),
    ("says-retired", "openai-compatible", CHAT, HELLO, status(200, "410 gone api access has been retired")),
    ("names-model-400", "vllm", CHAT, HELLO, status(400, "Invalid value for model: m")),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES])
def test_row(serve: Serve, case: tuple[str, str, str, Any, Check]) -> None:
    """The fault does on the wire what its row says."""
    text, kind, path, body, check = case
    heard = talk(
        serve(kind, faults=[text]), request(path, body), SHORT if check is silent else LONG if "B92" in text else NORMAL
    )
    assert check(heard), (heard.end, heard.first, heard.data[:1500])


def test_every_row_is_tested() -> None:
    """No row stands in the table without a case."""
    tested = {id(BY_NAME[re.split("[=:]", case[0])[0].lower()]) for case in CASES}
    assert [row.names for row in TABLE if id(row) not in tested] == []


def test_every_fact_has_a_row_or_a_reason() -> None:
    """Each id of the bug log is a row, or is named among those that need none."""
    facts = re.findall(
        r"B\d+",
        "B01 B02 B04 B05 B07 B08 B10 B11 B13 B14 B16 B17 B19 B20 B22 B23 B25 B26 B28 B29 B31 B32 B34 B35 B37 B38 B40 B41"
        " B43 B44 B46 B47 B49 B50 B52 B53 B55 B56 B58 B59 B61 B62 B64 B65 B67 B68 B70 B71 B73 B74 B76 B77 B79 B80 B82 B83"
        " B85 B86 B88 B89 B91 B92 B94 B95 B97 B98 B100 B101 B103 B104 B106 B107 B109 B110 B112 B113 B115 B116",
    )
    assert [fact for fact in facts if fact.lower() not in BY_NAME and fact not in NEED_NO_FAULT] == []
    assert [fact for fact in NEED_NO_FAULT if fact.lower() in BY_NAME] == []


def test_without_faults_all_is_well(serve: Serve) -> None:
    assert "sample" in ask(serve("vllm"), CHAT, HELLO).text


def test_times_bounds_the_requests(serve: Serve) -> None:
    """`:times=2` hits the first two requests of its place, and only that place."""
    engine = serve("vllm", faults=["status=500:times=2"])
    assert ask(engine, "/health").status_code == 200
    assert [ask(engine, CHAT, HELLO).status_code for _ in range(3)] == [500, 500, 200]


def test_after_lets_requests_pass(serve: Serve) -> None:
    engine = serve("vllm", faults=["status=503:after=1:times=1"])
    assert [ask(engine, CHAT, HELLO).status_code for _ in range(3)] == [200, 503, 200]


def test_on_aims_at_another_place(serve: Serve) -> None:
    """`:on=models` and `:on=PATH` move a fault."""
    engine = serve("vllm", faults=["status=500:on=models", "status=418:on=/v1/embeddings"])
    assert ask(engine, "/v1/models").status_code == 500
    assert ask(engine, "/v1/embeddings", {"input": "a"}).status_code == 418
    assert ask(engine, CHAT, HELLO).status_code == 200


def test_faults_can_be_added_up(serve: Serve) -> None:
    """Later faults change what earlier ones left: 500 after a wait."""
    heard = talk(serve("vllm", faults=["status=500", "slow=0.2"]), request(CHAT, HELLO))
    assert heard.status == 500
    assert heard.first >= 0.18


def work() -> Request:
    found = Request(1)
    found.on = "work"
    return found


def test_a_timed_row_ends_by_itself() -> None:
    """B22=10: ten seconds of 503, then well. B106 likewise."""
    fault = order("B22=10", now=100.0)
    assert fault.takes(work(), 109.9)
    assert not fault.takes(work(), 110.0)


def test_for_ends_any_fault() -> None:
    fault = order("hang:for=2", now=0.0)
    assert fault.takes(work(), 1.9)
    assert not fault.takes(work(), 2.0)


def test_names_are_free_of_case() -> None:
    assert order("B26=4").row is order("Error-Event=1").row
    assert order("b26").arg == "2"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no-such-fault", "no fault is named"),
        ("hang=3", "takes no argument"),
        ("slow=1:times=many", "a number that is none"),
        ("B22=soon", "a number that is none"),
        ("slow=fast", "a number that is none"),
        ("cold=5", "takes numbers as in '300,0'"),
    ],
)
def test_bad_orders_are_refused_with_a_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        order(text)


@given(st.text(max_size=40))
def test_any_text_is_an_order_or_a_value_error(text: str) -> None:
    """Nothing but ValueError comes out, whatever is typed."""
    try:
        fault = order(text)
    except ValueError:
        return
    assert fault.row in TABLE


def test_listing_names_every_row() -> None:
    told = listing()
    assert all(row.names in told for row in TABLE)
