"""Habits of clients that no recording here shows, one request each (facts 00b). Written by hand, as the wire has them.

`tiny` chats and `vectors` embeds; HELLO keeps answers short. The real engine serves all of SERVED; what it makes of ODD, it
says itself, and AutoHedge says the same.
"""

from __future__ import annotations

import gzip
import zlib

import brotli
import zstandard

from tests.e2e.habits.exchange import post

CHAT, AZURE = "/v1/chat/completions", "/openai/deployments/tiny/chat/completions"
HELLO = b'{"model":"tiny","messages":[{"role":"user","content":"hello"}],"max_tokens":2}'


def chat(members: str, *headers: str) -> bytes:
    """A chat with these members, and a short answer where they do not bound it."""
    bound = "" if "max_" in members else ',"max_tokens":2'
    return post(CHAT, f'{{"model":"tiny",{members}{bound}}}'.encode(), *headers)


def said(messages: str) -> bytes:
    return chat(f'"messages":[{messages}]')


HI = '"messages":[{"role":"user","content":"hello"}]'
TOOL = '{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{}}}}'
CALL = '{"id":"c1","index":0,"type":"function","function":{"name":"f","arguments":"{\\"a\\": 1}"}}'
FOURTEEN = (
    '["<|endoftext|>","<|fim_prefix|>","<|fim_middle|>","<|fim_suffix|>","/src/","#- coding: utf-8","```","\\n\\n",'
    '"\\nfunction","\\nclass","\\nmodule","\\nexport","\\nimport","<|im_end|>"]'
)
NULLS = ",".join(
    f'"{name}":null'
    for name in (
        "temperature", "top_p", "n", "stop", "seed", "stream", "stream_options", "logprobs", "top_logprobs", "logit_bias",
        "presence_penalty", "frequency_penalty", "user", "tools", "tool_choice", "response_format", "functions",
        "function_call", "parallel_tool_calls", "metadata", "store", "service_tier", "reasoning_effort", "modalities",
    )
)  # fmt: skip

DIALECTS: dict[str, bytes] = {
    "every optional field null": chat(f"{HI},{NULLS}"),
    "assistant with every key null": said(
        '{"role":"user","content":"a"},{"role":"assistant","content":"b","refusal":null,"annotations":null,"audio":null,'
        '"function_call":null,"tool_calls":null,"name":"bot","reasoning_content":"thought"},{"role":"user","content":"c"}'
    ),
    "agent: tools []": chat(f'{HI},"tools":[]'),
    "agent: tools [] and tool_choice auto": chat(f'{HI},"tools":[],"tool_choice":"auto"'),
    "agent: a whole round of tools": said(
        f'{{"role":"user","content":"a"}},{{"role":"assistant","content":null,"tool_calls":[{CALL}]}},'
        '{"role":"tool","tool_call_id":"c1","name":"f","content":"sunny"}'
    ),
    "agent: tool calls without content": said(
        f'{{"role":"user","content":"a"}},{{"role":"assistant","tool_calls":[{CALL}]}},'
        '{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"sunny"}]}'
    ),
    "editor: 14 stop strings": chat(f'{HI},"stop":{FOURTEEN}'),
    "editor: prediction": chat(f'{HI},"prediction":{{"type":"content","content":"hello"}}'),
    "Together: logprobs integer": chat(f'{HI},"logprobs":1'),
    "Together: repetition_penalty, top_k": chat(f'{HI},"repetition_penalty":1.0,"top_k":50'),
    "Mistral: tool_choice object without type": chat(
        f'{HI},"tools":[{TOOL}],"tool_choice":{{"function":{{"name":"f"}}}}'
    ),
    "Mistral: safe_prompt, random_seed": chat(f'{HI},"safe_prompt":false,"random_seed":7'),
    "Mistral: prefix": said('{"role":"user","content":"a"},{"role":"assistant","content":"b","prefix":true}'),
    "open-webui: user as object": chat(f'{HI},"user":{{"name":"Ann","id":"1","email":"a@b.c","role":"admin"}}'),
    "open-webui: metadata": chat(f'{HI},"chat_id":"1","id":"2","session_id":"3","features":{{"web_search":false}}'),
    "Vercel: camelCase": chat(f'{HI},"reasoningEffort":"low","maxTokens":5,"topP":0.9'),
    "DeepSeek: thinking": chat(f'{HI},"thinking":{{"type":"disabled"}},"reasoning_effort":"low"'),
    "vLLM: extra sampling": chat(f'{HI},"min_p":0.05,"best_of":1,"use_beam_search":false,"ignore_eos":false'),
    "vLLM: guided": chat(f'{HI},"guided_json":null,"structured_outputs":null,"chat_template_kwargs":{{"enable_thinking":false}}'),
    "OpenRouter: provider, transforms": chat(f'{HI},"provider":{{"order":["a"]}},"transforms":[],"models":["a","b"]'),
    "OpenAI: metadata, store, service_tier": chat(f'{HI},"metadata":{{"a":"b"}},"store":true,"service_tier":"auto"'),
    "developer role": said('{"role":"developer","content":"be short"},{"role":"user","content":"a"}'),
    "part lists everywhere": said(
        '{"role":"system","content":[{"type":"text","text":"s"}]},{"role":"user","content":[{"type":"text","text":"a"}]},'
        '{"role":"assistant","content":[{"type":"text","text":"b"}]},{"role":"user","content":[{"type":"text","text":"c"},'
        '{"type":"text","text":"d","cache_control":{"type":"ephemeral"}}]}'
    ),
    "user content empty": said('{"role":"user","content":""}'),
    "max_completion_tokens with max_tokens": chat(f'{HI},"max_completion_tokens":2,"max_tokens":2'),
    "max_tokens -1": chat(f'{HI},"max_tokens":-1,"stop":["a","e","i","o","u"," "]'),
    "max_tokens beyond the window": chat(f'{HI},"max_tokens":1000000,"stop":["a","e","i","o","u"," "]'),
    "json_schema": chat(
        f'{HI},"response_format":{{"type":"json_schema","json_schema":{{"name":"a","strict":true,"schema":'
        '{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}}}'
    ),
    "llama.cpp: schema beside the type": chat(f'{HI},"response_format":{{"type":"json_object","schema":{{"type":"object"}}}}'),
    "numbers": chat(
        f'{HI},"temperature":1e0,"presence_penalty":-0.0,"top_p":0.70000000000000001,"seed":9007199254740993,"max_tokens":2'
    ),
    "escapes": said('{"role":"user","content":"\\u4f60\\u597d \\ud83c\\udf0d \\/ \\u00e9 \\"q\\" \\\\ \\t"}'),
    "raw UTF-8": said('{"role":"user","content":"你好 🌍 é"}'),
    "pretty-printed": post(
        CHAT, b'{\r\n\t"model" : "tiny" ,\n  "messages" : [ {\n "role" : "user", "content" : "a" } ] , "max_tokens" : 2 }\n'
    ),
    "duplicate keys": chat(f'{HI},"temperature":"cold","temperature":0'),
    "duplicate model": post(CHAT, b'{"model":"other","messages":[{"role":"user","content":"a"}],"max_tokens":2,"model":"tiny"}'),
    "escaped key": post(CHAT, b'{"mod\\u0065l":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":2}'),
    "byte order mark": post(CHAT, b"\xef\xbb\xbf" + HELLO),
    "completion of token ids": post("/v1/completions", b'{"model":"tiny","prompt":[1,2,3],"max_tokens":2}'),
    "completions of several prompts": post("/v1/completions", b'{"model":"tiny","prompt":["a","b"],"max_tokens":2}'),
    "completion with echo and logprobs": post("/v1/completions", b'{"model":"tiny","prompt":"a","max_tokens":2,"echo":false,"logprobs":0}'),
    "embeddings in base64": post("/v1/embeddings", b'{"model":"vectors","input":["a"],"encoding_format":"base64"}'),
    "embeddings of token ids": post("/v1/embeddings", b'{"model":"vectors","input":[[1,2],[3]]}'),
    "embeddings with user and dimensions null": post("/v1/embeddings", b'{"model":"vectors","input":"a","user":"u","dimensions":null}'),
}  # fmt: skip

AZURES: dict[str, bytes] = {
    "model null": post(AZURE + "?api-version=2024-10-21", b'{"model":null,"messages":[{"role":"user","content":"a"}],"max_tokens":2}', "api-key: k"),
    "no model": post(AZURE + "?api-version=2024-10-21", b'{"messages":[{"role":"user","content":"a"}],"max_tokens":2}', "api-key: k"),
    "another model": post(AZURE, b'{"model":"gpt-4o","messages":[{"role":"user","content":"a"}],"max_tokens":2}', "api-key: k"),
    "v1 with preview": post("/openai/v1/chat/completions?api-version=preview", HELLO, "api-key: k"),
    "embeddings": post("/openai/deployments/vectors/embeddings?api-version=2024-10-21", b'{"input":["a"]}', "api-key: k"),
}  # fmt: skip


def wire(line: str, *headers: str, body: bytes = HELLO) -> bytes:
    return "\r\n".join((line, *headers)).encode("latin-1") + b"\r\n\r\n" + body


HOST, JSON, LENGTH = "Host: autohedge.test", "Content-Type: application/json", f"Content-Length: {len(HELLO)}"
POST = f"POST {CHAT} HTTP/1.1"
CHUNKS = b"".join(b"%x;ext=1\r\n%b\r\n" % (len(piece), piece) for piece in (HELLO[:1], HELLO[1:40], HELLO[40:]))

WIRES: dict[str, bytes] = {
    "no Content-Type": wire(POST, HOST, LENGTH),
    "form-encoded": wire(POST, HOST, "Content-Type: application/x-www-form-urlencoded", LENGTH),
    "charset": wire(POST, HOST, "Content-Type: application/json; charset=UTF-8", LENGTH),
    "text/plain": wire(POST, HOST, "Content-Type: text/plain;charset=UTF-8", LENGTH),
    "lower-case bearer": wire(POST, HOST, JSON, LENGTH, "authorization: bearer sk-1"),
    "spaces before the token": wire(POST, HOST, JSON, LENGTH, "Authorization: Bearer   sk-1"),
    "no Authorization": wire(POST, HOST, JSON, LENGTH),
    "Anthropic's key": wire(POST, HOST, JSON, LENGTH, "x-api-key: sk-ant-1", "anthropic-version: 2023-06-01"),
    "second secrets": wire(POST, HOST, JSON, LENGTH, "x-portkey-api-key: pk-1", "X-Custom-Token: t", "Cookie: a=1; b=2"),
    "an agent's local path": wire(POST, HOST, JSON, LENGTH, "X-Workspace: C:\\Users\\ann\\code", "X-Repo: caf\xe9"),
    "repeated headers": wire(POST, HOST, JSON, LENGTH, "X-Tag: a", "x-tag: b", "X-TAG:  c  "),
    "empty header": wire(POST, HOST, JSON, LENGTH, "X-Empty:"),
    "trace": wire(POST, HOST, JSON, LENGTH, "traceparent: 00-" + "a" * 32 + "-" + "b" * 16 + "-01", "tracestate: a=b"),
    "chunked": wire(POST, HOST, JSON, "Transfer-Encoding: chunked", body=CHUNKS + b"0\r\n\r\n"),
    "chunked with a trailer": wire(POST, HOST, JSON, "Transfer-Encoding: chunked", body=CHUNKS + b"0\r\nX-T: 1\r\n\r\n"),
    "connection: close": wire(POST, HOST, JSON, LENGTH, "Connection: close"),
    "connection names a header": wire(POST, HOST, JSON, LENGTH, "Connection: keep-alive, X-Hop", "X-Hop: 1", "Keep-Alive: timeout=5"),
    "HTTP/1.0": wire(f"POST {CHAT} HTTP/1.0", JSON, LENGTH),
    "HTTP/1.0 keep-alive": wire(f"POST {CHAT} HTTP/1.0", HOST, JSON, LENGTH, "Connection: keep-alive"),
    "identity": wire(POST, HOST, JSON, LENGTH, "Content-Encoding: identity"),
    "a trailing slash": wire(f"POST {CHAT}/ HTTP/1.1", HOST, JSON, LENGTH),
    "a query": wire(f"POST {CHAT}?v=1&x=%20a+b HTTP/1.1", HOST, JSON, LENGTH),
    "absolute form": wire("POST http://autohedge.test" + CHAT + " HTTP/1.1", HOST, JSON, LENGTH),
    "TE and Accept-Encoding": wire(POST, HOST, JSON, LENGTH, "TE: trailers", "Accept-Encoding: gzip, deflate, br, zstd"),
}  # fmt: skip


def packed(name: str, body: bytes) -> bytes:
    return post(CHAT, body, f"Content-Encoding: {name}")


PACKED: dict[str, bytes] = {
    "gzip": packed("gzip", gzip.compress(HELLO, mtime=0)),
    "zstd": packed("zstd", zstandard.compress(HELLO)),
    "br": packed("br", brotli.compress(HELLO)),
    "deflate": packed("deflate", zlib.compress(HELLO)),
}
