"""Bug log (f), schema false rejects: what clients send arrives, byte by byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.house import CHAT, HELLO, SERVER, alone, run

TOOL: dict[str, Any] = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CALL: dict[str, Any] = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize("content", ["", None, ...], ids=["empty", "null", "absent"])
def test_an_assistant_without_content(content: Any) -> None:
    """B59: "", null and nothing at all are history that agents send after a tool call."""

    async def main() -> None:
        said: dict[str, Any] = {"role": "assistant", "tool_calls": [CALL]}
        if content is not ...:
            said["content"] = content
        result = {"role": "tool", "tool_call_id": "c1", "content": "4"}
        async with alone() as edge:
            heard = await edge.chat(messages=[*HELLO["messages"], said, result], tools=[TOOL])
            assert heard.status == 200

    run(main())


# Numbers, spelling, spacing, order, repeats and unknown keys as clients write them (facts 00b).
ODD = (
    b'\xef\xbb\xbf {\r\n\t"stop" : ["a","b"], "seed":9007199254740993,"n": 1e0, "logprobs": true , "top_p":0.70000000000000001,\n'
    b'"model":"m","stream_options": null, "max_completion_tokens":7, "temperature":-0.0, "x_unknown": {"a":[1,{"b":null}]},'
    b'"messages":[{"content":"a\\/b \\u4f60\\ud83c\\udf0d","role":"user","prefix":true}], "top_p": 0.5, "user":"\\u00e9" }\n\n'
)


def test_nothing_of_a_body_is_lost_or_changed() -> None:
    """B61: n, stop, seed, logprobs and everything else arrive as they were written, down to the last blank."""

    async def main() -> None:
        async with alone("B61") as edge:
            heard = await edge.post(ODD)
            assert heard.status == 200
            request = edge.one.last_request
            assert request is not None
            assert request.body == ODD
            assert request.header("content-length") == str(len(ODD))

    run(main())


def test_a_named_tool_choice_is_kept() -> None:
    """B62: {"type": "function", "function": {"name": "f"}} reaches the engine, which obeys it."""

    async def main() -> None:
        choice = {"type": "function", "function": {"name": "f"}}
        async with alone("B62") as edge:
            heard = await edge.chat(tools=[TOOL], tool_choice=choice)
            assert json.loads(heard.json["echo"]["body"])["tool_choice"] == choice
            assert heard.json["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "f"

    run(main())


def test_ten_megabytes_of_picture_pass() -> None:
    """B64: a body of 10 MB with a picture is no 413 and no 404; it arrives whole, and its bytes are not counted as text (T1)."""

    async def main() -> None:
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 10_000_000}}
        content = [{"type": "text", "text": "what is this?"}, picture]
        body = json.dumps(HELLO | {"messages": [{"role": "user", "content": content}]}).encode()
        async with alone(context=400) as edge:
            assert (await edge.post(body)).status == 200
            request = edge.one.last_request
            assert request is not None
            assert request.body == body

    run(main())


@pytest.mark.parametrize("framing", ["content-length", "chunked"])
def test_a_body_over_the_limit_is_a_clear_413(framing: str) -> None:
    """B64: JSON that names the limit and its setting, whether the length was declared or not; nothing goes upstream."""

    async def main() -> None:
        config = (
            SERVER.replace("grace", "max_body_bytes: 1000, grace") + 'upstream_registry:\n  alone: {host: "${ONE}"}\n'
        )
        async with alone(config=config) as edge:
            body = b"x" * 1001
            if framing == "chunked":
                sent = b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
            else:
                sent = b"content-length: %d\r\n\r\n%b" % (len(body), body)
            got = await edge.raw(b"POST %b HTTP/1.1\r\nhost: h\r\n%b" % (CHAT.encode(), sent))
            head, _, answer = got.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 413 ")
            error = json.loads(answer)["error"]
            assert error["code"] == "body_too_large"
            assert "1000" in error["message"]
            assert "server.max_body_bytes" in error["message"]
            assert edge.work["one"] == 0

    run(main())


def test_a_system_message_among_the_messages() -> None:
    """B65: newer clients of /v1/messages send role system inside of messages."""

    async def main() -> None:
        async with alone() as edge:
            body = {
                "model": "m",
                "max_tokens": 9,
                "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
            }
            assert (await edge.post(body, "/v1/messages")).status == 200

    run(main())
