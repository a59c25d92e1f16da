"""Odd bodies, field by field: wrong types, bounds, odd shapes (facts 00 and e1). Written as JSON text, since some are no JSON.

Each row is (door, name, body). What an engine makes of a row is not written here: the real one is asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

CHAT, COMPLETIONS, EMBEDDINGS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"


class Odd(NamedTuple):
    path: str
    name: str
    body: bytes


HELLO = '[{"role":"user","content":"hello"}]'
TOOL = '{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}}'
CALL = '{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}'

NUMBERS = [
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1.5",
    "1e2",
    "-0.0",
    "1e400",
    "NaN",
    "Infinity",
    "99999999999999999999",
    '"1"',
    '""',
    '"hot"',
    "[]",
    "[1]",
    "{}",
]
FLAGS = ["null", "1", "0", "2", "1.0", '"true"', '"yes"', '""', "[]", "{}"]
TEXTS = ["null", "5", "true", '""', "[]", "{}", '["a"]']
OBJECTS = ["null", "5", "true", '"a"', "[]", "{}", "[{}]"]

CHAT_NUMBERS = (
    "temperature", "top_p", "top_k", "min_p", "n", "seed", "frequency_penalty", "presence_penalty",
    "max_completion_tokens", "top_logprobs", "repeat_penalty",
)  # fmt: skip
CHAT_FLAGS = ("stream", "logprobs", "parallel_tool_calls", "store", "cache_prompt", "ignore_eos", "echo")
CHAT_TEXTS = ("model", "user", "service_tier", "reasoning_effort", "reasoning_format", "grammar", "verbosity")
CHAT_OBJECTS = (
    "metadata", "stream_options", "logit_bias", "response_format", "json_schema", "chat_template_kwargs", "prediction",
    "functions", "function_call", "modalities", "audio", "tools", "tool_choice",
)  # fmt: skip

CHAT_SHAPES: dict[str, str] = {
    "max_tokens 100000": '"max_tokens":100000',
    "max_tokens -1": '"max_tokens":-1',
    "max_tokens -2": '"max_tokens":-2',
    "max_tokens 0": '"max_tokens":0',
    "max_tokens text": '"max_tokens":"5"',
    "max_tokens 1.5": '"max_tokens":1.5',
    "max_tokens object": '"max_tokens":{}',
    "max_tokens shadowed": '"max_completion_tokens":2,"max_tokens":{}',
    "max_tokens not shadowed by null": '"max_completion_tokens":null,"max_tokens":{}',
    "max_completion_tokens shadowed": '"n_predict":2,"max_completion_tokens":[]',
    "n_predict shadows nothing": '"max_tokens":2,"n_predict":"x"',
    "n shadowed": '"n":{},"n_cmpl":1',
    "reasoning_format of Groq": '"reasoning_format":"hidden"',
    "stop 14 words": '"stop":["a","b","c","d","e","f","g","h","i","j","k","l","m","n"]',
    "stop number": '"stop":5',
    "stop of numbers": '"stop":[5]',
    "stop of null": '"stop":[null]',
    "stop of objects": '"stop":[{"a":1}]',
    "stop empty word": '"stop":[""]',
    "stop empty": '"stop":""',
    "stop object": '"stop":{"a":1}',
    "top_logprobs alone": '"top_logprobs":2',
    "top_logprobs 0 alone": '"top_logprobs":0',
    "top_logprobs with": '"logprobs":true,"top_logprobs":2',
    "top_logprobs 21": '"logprobs":true,"top_logprobs":21',
    "logprobs integer": '"logprobs":3',
    "n 3": '"n":3',
    "tools empty": '"tools":[]',
    "tools of strings": '"tools":["f"]',
    "tools of null": '"tools":[null]',
    "tool without type": '"tools":[{"function":{"name":"f"}}]',
    "tool type custom": '"tools":[{"type":"custom","custom":{"name":"f"}}]',
    "tool type number": '"tools":[{"type":5,"function":{"name":"f"}}]',
    "tool without function": '"tools":[{"type":"function"}]',
    "tool function null": '"tools":[{"type":"function","function":null}]',
    "tool name number": '"tools":[{"type":"function","function":{"name":5}}]',
    "tool name missing": '"tools":[{"type":"function","function":{}}]',
    "tool name long": '"tools":[{"type":"function","function":{"name":"' + "f" * 200 + '"}}]',
    "tool parameters null": '"tools":[{"type":"function","function":{"name":"f","parameters":null}}]',
    "tool parameters text": '"tools":[{"type":"function","function":{"name":"f","parameters":"x"}}]',
    "tool parameters list": '"tools":[{"type":"function","function":{"name":"f","parameters":[]}}]',
    "tool description number": '"tools":[{"type":"function","function":{"name":"f","description":5}}]',
    "tool strict null": '"tools":[{"type":"function","function":{"name":"f","strict":null,"parameters":{"type":"object"}}}]',
    "choice banana": '"tool_choice":"banana"',
    "choice banana with tools": f'"tools":[{TOOL}],"tool_choice":"banana"',
    "choice AUTO": '"tool_choice":"AUTO"',
    "choice empty": '"tool_choice":""',
    "choice any": f'"tools":[{TOOL}],"tool_choice":"any"',
    "choice auto alone": '"tool_choice":"auto"',
    "choice required alone": '"tool_choice":"required"',
    "choice none with tools": f'"tools":[{TOOL}],"tool_choice":"none"',
    "choice named": f'"tools":[{TOOL}],"tool_choice":{{"type":"function","function":{{"name":"f"}}}}',
    "choice named unknown": f'"tools":[{TOOL}],"tool_choice":{{"type":"function","function":{{"name":"g"}}}}',
    "choice without type": f'"tools":[{TOOL}],"tool_choice":{{"function":{{"name":"f"}}}}',
    "choice type autoXYZ": f'"tools":[{TOOL}],"tool_choice":{{"type":"autoXYZ"}}',
    "choice allowed_tools": '"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}',
    "format text": '"response_format":{"type":"text"}',
    "format json_object": '"response_format":{"type":"json_object"}',
    "format xml": '"response_format":{"type":"xml"}',
    "format JSON upper": '"response_format":{"type":"JSON_OBJECT"}',
    "format string": '"response_format":"json"',
    "format type number": '"response_format":{"type":5}',
    "format type null": '"response_format":{"type":null}',
    "format schema": '"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object"}}}',
    "format schema bare": '"response_format":{"type":"json_schema","schema":{"type":"object"}}',
    "format schema nothing": '"response_format":{"type":"json_schema"}',
    "format schema null": '"response_format":{"type":"json_schema","json_schema":null}',
    "format schema text": '"response_format":{"type":"json_schema","json_schema":"x"}',
    "format schema of text": '"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":"x"}}',
    "format schema type 5": '"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":5}}}',
    "format schema unknown": '"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"banana"}}}',
    "bias list": '"logit_bias":[[5,1.0]]',
    "bias 101": '"logit_bias":{"5":101}',
    "bias text key": '"logit_bias":{"abc":1}',
    "bias text value": '"logit_bias":{"5":"x"}',
    "bias false": '"logit_bias":[[5,false]]',
    "usage without stream": '"stream_options":{"include_usage":true}',
    "usage text": '"stream":true,"stream_options":{"include_usage":"yes"}',
    "usage number": '"stream":true,"stream_options":{"include_usage":1}',
    "usage null": '"stream":true,"stream_options":{"include_usage":null}',
    "options text": '"stream":true,"stream_options":"a"',
    "grammar bad": '"grammar":"root ::= ("',
    "grammar good": '"grammar":"root ::= \\"a\\""',
    "grammar with tools": f'"tools":[{TOOL}],"grammar":"root ::= \\"a\\""',
    "continue and generate": '"continue_final_message":true,"add_generation_prompt":true',
    "thinking in quotes": '"chat_template_kwargs":{"enable_thinking":"false"}',
    "unknown field": '"reasoningEffort":"low","foo":{"bar":[1,2,{}]}',
    "samplers number": '"samplers":5',
    "samplers list": '"samplers":["top_k","banana"]',
    "lora text": '"lora":"x"',
    "lora list": '"lora":[{"id":0,"scale":1.0}]',
    "mirostat text": '"mirostat":"x"',
    "id_slot 99": '"id_slot":99',
    "id_slot text": '"id_slot":"x"',
    "n_predict text": '"n_predict":"5"',
    "dry_sequence_breakers text": '"dry_sequence_breakers":"x"',
    "dry_sequence_breakers empty": '"dry_sequence_breakers":[]',
    "t_max_predict_ms null": '"t_max_predict_ms":null',
    "reasoning_format banana": '"reasoning_format":"banana"',
    "response_fields": '"response_fields":["content"]',
}  # fmt: skip

MESSAGES_SHAPES: dict[str, str] = {
    "nothing": "",
    "null": '"messages":null',
    "text": '"messages":"hello"',
    "number": '"messages":5',
    "object": '"messages":{"role":"user","content":"a"}',
    "empty": '"messages":[]',
    "of null": '"messages":[null]',
    "of strings": '"messages":["hello"]',
    "of lists": '"messages":[["user","hello"]]',
    "empty object": '"messages":[{}]',
    "no role": '"messages":[{"content":"a"}]',
    "role null": '"messages":[{"role":null,"content":"a"}]',
    "role number": '"messages":[{"role":5,"content":"a"}]',
    "role list": '"messages":[{"role":["user"],"content":"a"}]',
    "role empty": '"messages":[{"role":"","content":"a"}]',
    "role USER": '"messages":[{"role":"USER","content":"a"}]',
    "role banana": '"messages":[{"role":"banana","content":"a"}]',
    "role developer": '"messages":[{"role":"developer","content":"a"},{"role":"user","content":"b"}]',
    "role function": '"messages":[{"role":"user","content":"b"},{"role":"function","name":"f","content":"a"}]',
    "only system": '"messages":[{"role":"system","content":"a"}]',
    "system last": '"messages":[{"role":"user","content":"b"},{"role":"system","content":"a"}]',
    "two users": '"messages":[{"role":"user","content":"b"},{"role":"user","content":"a"}]',
    "assistant first": '"messages":[{"role":"assistant","content":"b"},{"role":"user","content":"a"}]',
    "assistant last": '"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]',
    "content null": '"messages":[{"role":"user","content":null}]',
    "content absent": '"messages":[{"role":"user"}]',
    "content empty": '"messages":[{"role":"user","content":""}]',
    "content number": '"messages":[{"role":"user","content":5}]',
    "content true": '"messages":[{"role":"user","content":true}]',
    "content object": '"messages":[{"role":"user","content":{"type":"text","text":"a"}}]',
    "content empty object": '"messages":[{"role":"user","content":{}}]',
    "content empty list": '"messages":[{"role":"user","content":[]}]',
    "content of strings": '"messages":[{"role":"user","content":["a"]}]',
    "content of null": '"messages":[{"role":"user","content":[null]}]',
    "content mixed": '"messages":[{"role":"user","content":["a",{"type":"text","text":"b"}]}]',
    "part text": '"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]',
    "part text number": '"messages":[{"role":"user","content":[{"type":"text","text":5}]}]',
    "part text null": '"messages":[{"role":"user","content":[{"type":"text","text":null}]}]',
    "part text missing": '"messages":[{"role":"user","content":[{"type":"text"}]}]',
    "part no type": '"messages":[{"role":"user","content":[{"text":"a"}]}]',
    "part type null": '"messages":[{"role":"user","content":[{"type":null,"text":"a"}]}]',
    "part type number": '"messages":[{"role":"user","content":[{"type":5,"text":"a"}]}]',
    "part type banana": '"messages":[{"role":"user","content":[{"type":"banana","text":"a"}]}]',
    "part image": '"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]',
    "part image string": '"messages":[{"role":"user","content":[{"type":"image_url","image_url":"http://127.0.0.1:9/a.png"}]}]',
    "part image nothing": '"messages":[{"role":"user","content":[{"type":"image_url"}]}]',
    "part audio": '"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}]}]',
    "part file": '"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]',
    "part refusal": '"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]},{"role":"user","content":"b"}]',
    "system parts": '"messages":[{"role":"system","content":[{"type":"text","text":"a"}]},{"role":"user","content":"b"}]',
    "assistant hollow": '"messages":[{"role":"user","content":"a"},{"role":"assistant"},{"role":"user","content":"b"}]',
    "assistant null": '"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null},{"role":"user","content":"b"}]',
    "assistant calls": f'"messages":[{{"role":"user","content":"a"}},{{"role":"assistant","content":null,"tool_calls":[{CALL}]}},{{"role":"tool","tool_call_id":"c1","content":"x"}}]',
    "assistant calls only": f'"messages":[{{"role":"user","content":"a"}},{{"role":"assistant","tool_calls":[{CALL}]}},{{"role":"tool","tool_call_id":"c1","content":"x"}}]',
    "assistant calls null": '"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","tool_calls":null}]',
    "assistant calls empty": '"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","tool_calls":[]}]',
    "assistant calls object": '"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","tool_calls":{"a":1}}]',
    "assistant calls text": '"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","tool_calls":"x"}]',
    "assistant calls of null": '"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","tool_calls":[null]}]',
    "call without function": '"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c","type":"function"}]}]',
    "call without type": '"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]}]',
    "call arguments object": '"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":{}}}]},{"role":"tool","tool_call_id":"c","content":"x"}]',
    "call arguments broken": '"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{"}}]},{"role":"tool","tool_call_id":"c","content":"x"}]',
    "call arguments missing": '"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f"}}]}]',
    "call name number": '"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":5,"arguments":"{}"}}]}]',
    "call id number": '"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":5,"type":"function","function":{"name":"f","arguments":"{}"}}]}]',
    "tool alone": '"messages":[{"role":"tool","tool_call_id":"c1","content":"x"}]',
    "tool without id": '"messages":[{"role":"user","content":"a"},{"role":"tool","content":"x"}]',
    "tool id number": '"messages":[{"role":"user","content":"a"},{"role":"tool","tool_call_id":5,"content":"x"}]',
    "tool parts": '"messages":[{"role":"user","content":"a"},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"x"}]}]',
    "tool content object": '"messages":[{"role":"user","content":"a"},{"role":"tool","tool_call_id":"c","content":{"a":1}}]',
    "name number": '"messages":[{"role":"user","name":5,"content":"a"}]',
    "name null": '"messages":[{"role":"user","name":null,"content":"a"}]',
    "extra keys": '"messages":[{"role":"user","content":"a","prefix":true,"annotations":null,"audio":null,"refusal":null,"id":"m1"}]',
    "reasoning echoed": '"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","reasoning_content":"c"},{"role":"user","content":"d"}]',
    "reasoning number": '"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","reasoning_content":5},{"role":"user","content":"d"}]',
    "reasoning null": '"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","reasoning_content":null},{"role":"user","content":"d"}]',
}  # fmt: skip

WHOLE: dict[str, bytes] = {
    "empty": b"",
    "blank": b"  \r\n",
    "null": b"null",
    "array": b"[]",
    "text": b'"a"',
    "number": b"5",
    "empty object": b"{}",
    "cut": b'{"model":"tiny","messages":',
    "trailing comma": b'{"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":2,}',
    "trailing data": b'{"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":2} x',
    "two objects": b'{"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":2}{"a":1}',
    "comment": b'{"model":"tiny",/* a */"messages":[{"role":"user","content":"a"}],"max_tokens":2}',
    "single quotes": b"{'model':'tiny'}",
    "unquoted key": b'{model:"tiny"}',
    "BOM": b'\xef\xbb\xbf{"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":2}',
    "two BOMs": b'\xef\xbb\xbf\xef\xbb\xbf{"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":2}',
    "UTF-16": '{"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":2}'.encode("utf-16"),
    "UTF-32": '{"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":2}'.encode("utf-32"),
    "latin-1": '{"model":"tiny","messages":[{"role":"user","content":"é"}],"max_tokens":2}'.encode("latin-1"),
    "UTF-8 surrogate": b'{"model":"tiny","messages":[{"role":"user","content":"\xed\xa0\x80"}],"max_tokens":2}',
    "UTF-8 overlong": b'{"model":"tiny","messages":[{"role":"user","content":"\xc0\xaf"}],"max_tokens":2}',
    "lone surrogate": b'{"model":"tiny","messages":[{"role":"user","content":"\\ud800"}],"max_tokens":2}',
    "pair": b'{"model":"tiny","messages":[{"role":"user","content":"\\ud83d\\ude00"}],"max_tokens":2}',
    "escapes": b'{"model":"tiny","messages":[{"role":"user","content":"\\/ \\u00e9 \\b\\f\\n\\r\\t"}],"max_tokens":2}',
    "bad escape": b'{"model":"tiny","messages":[{"role":"user","content":"\\x"}],"max_tokens":2}',
    "raw newline": b'{"model":"tiny","messages":[{"role":"user","content":"a\nb"}],"max_tokens":2}',
    "raw tab": b'{"model":"tiny","messages":[{"role":"user","content":"a\tb"}],"max_tokens":2}',
    "DEL": b'{"model":"tiny","messages":[{"role":"user","content":"a\x7fb"}],"max_tokens":2}',
    "NUL escaped": b'{"model":"tiny","messages":[{"role":"user","content":"a\\u0000b"}],"max_tokens":2}',
    "NUL behind": b'{"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":2}\x00',
    "NUL and more behind": b'{"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":2}\x00 rest',
    "NUL inside": b'{"model":"tiny",\x00"messages":[{"role":"user","content":"a"}],"max_tokens":2}',
    "duplicate messages": b'{"model":"tiny","messages":5,"messages":[{"role":"user","content":"a"}],"max_tokens":2}',
    "duplicate messages bad last": b'{"model":"tiny","messages":[{"role":"user","content":"a"}],"messages":5,"max_tokens":2}',
    "duplicate roles": b'{"model":"tiny","messages":[{"role":"x","role":"user","content":"a"}],"max_tokens":2}',
    "leading zero": b'{"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":02}',
    "plus sign": b'{"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":+2}',
    "point alone": b'{"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":2.}',
    "hex": b'{"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":0x2}',
    "True": b'{"model":"tiny","messages":[{"role":"user","content":"a"}],"stream":True}',
    "deep unknown": b'{"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":2,"x":' + b"[" * 3000 + b"]" * 3000 + b"}",
    "unbalanced deep": b'{"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":2,"x":' + b"[" * 3000 + b"]" * 2999 + b"}",
    "pretty": b'{\r\n\t"model" : "tiny" ,\r\n\t"messages" : [ { "role" : "user" , "content" : "a" } ] ,\r\n\t"max_tokens" : 2\r\n}\r\n',
    "exponent": b'{"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":2e0,"temperature":-0.0,"top_p":0.70000000000000001,"seed":9007199254740993}',
    "a long number": b'{"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":2,"seed":' + b"9" * 5000 + b"}",
    "huge exponent": b'{"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":2,"temperature":1e999}',
}  # fmt: skip

PROMPTS: dict[str, str] = {
    "nothing": "", "null": '"prompt":null', "empty": '"prompt":""', "empty list": '"prompt":[]', "number": '"prompt":5',
    "true": '"prompt":true', "object": '"prompt":{}', "prompt_string": '"prompt":{"prompt_string":"a"}',
    "texts": '"prompt":["a","b"]', "ids": '"prompt":[1,2,3]', "lists of ids": '"prompt":[[1,2],[3]]',
    "mixed": '"prompt":[1,"a"]', "mixed inside": '"prompt":[[1,"a"]]', "of null": '"prompt":[null]',
    "of floats": '"prompt":[1.5]', "of negative": '"prompt":[-1]', "of huge": '"prompt":[99999999]',
    "of empty list": '"prompt":[[]]', "of empty text": '"prompt":[""]', "of objects": '"prompt":[{"prompt_string":"a"}]',
    "of objects without": '"prompt":[{}]', "text and more": '"prompt":"a","suffix":5', "echo": '"prompt":"a","echo":true',
    "echo text": '"prompt":"a","echo":"x"', "best_of": '"prompt":"a","best_of":5', "logprobs 5": '"prompt":"a","logprobs":5',
    "logprobs true": '"prompt":"a","logprobs":true', "logprobs text": '"prompt":"a","logprobs":"5"',
    "max_tokens 0": '"prompt":"a","max_tokens":0', "max_tokens text": '"prompt":"a","max_tokens":"x"',
    "stop number list": '"prompt":"a","stop":[1]', "stream text": '"prompt":"a","stream":"x"',
    "temperature text": '"prompt":"a","temperature":"x"', "n 2": '"prompt":"a","n":2', "n 0": '"prompt":"a","n":0',
}  # fmt: skip

INPUTS: dict[str, str] = {
    "nothing": "", "null": '"input":null', "empty": '"input":""', "empty list": '"input":[]', "number": '"input":5',
    "true": '"input":true', "object": '"input":{}', "texts": '"input":["a","b"]', "ids": '"input":[1,2,3]',
    "lists of ids": '"input":[[1,2],[3]]', "mixed": '"input":[1,"a"]', "of null": '"input":[null]',
    "of floats": '"input":[1.5]', "of negative": '"input":[-1]', "of empty list": '"input":[[]]',
    "of empty text": '"input":["","a"]', "of objects": '"input":[{"content":"a"}]', "content": '"content":"a"',
    "content list": '"content":["a"]', "format float": '"input":"a","encoding_format":"float"',
    "format base64": '"input":"a","encoding_format":"base64"', "format int8": '"input":"a","encoding_format":"int8"',
    "format null": '"input":"a","encoding_format":null', "format number": '"input":"a","encoding_format":5',
    "format empty": '"input":"a","encoding_format":""', "dimensions 8": '"input":"a","dimensions":8',
    "dimensions text": '"input":"a","dimensions":"x"', "user number": '"input":"a","user":5',
    "normalize text": '"input":"a","embd_normalize":"x"', "normalize": '"input":"a","embd_normalize":2',
}  # fmt: skip

RESPONSES_SHAPES: dict[str, str] = {
    "text": '"input":"a"', "nothing": "", "null": '"input":null', "number": '"input":5', "empty list": '"input":[]',
    "items": '"input":[{"role":"user","content":"a"}]', "parts": '"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]}]',
    "items of strings": '"input":["a"]', "instructions": '"input":"a","instructions":"b"',
    "bound text": '"input":"a","max_output_tokens":"5"', "bound": '"input":"a","max_output_tokens":3',
    "temperature text": '"input":"a","temperature":"x"', "stream text": '"input":"a","stream":"x"',
}  # fmt: skip

ANTHROPIC: dict[str, str] = {
    "plain": '"messages":[{"role":"user","content":"a"}]', "nothing": "", "null": '"messages":null',
    "number": '"messages":5', "empty": '"messages":[]', "of strings": '"messages":["a"]',
    "blocks": '"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]',
    "system": '"system":"b","messages":[{"role":"user","content":"a"}]',
    "system blocks": '"system":[{"type":"text","text":"b"}],"messages":[{"role":"user","content":"a"}]',
    "system role": '"messages":[{"role":"system","content":"b"},{"role":"user","content":"a"}]',
    "no role": '"messages":[{"content":"a"}]', "role number": '"messages":[{"role":5,"content":"a"}]',
    "temperature text": '"temperature":"x","messages":[{"role":"user","content":"a"}]',
    "stream text": '"stream":"x","messages":[{"role":"user","content":"a"}]',
    "stop_sequences": '"stop_sequences":["a"],"messages":[{"role":"user","content":"a"}]',
    "stop_sequences text": '"stop_sequences":"a","messages":[{"role":"user","content":"a"}]',
}  # fmt: skip


def table() -> Iterator[Odd]:
    """Every row."""
    for fields, values in ((CHAT_NUMBERS, NUMBERS), (CHAT_FLAGS, FLAGS), (CHAT_TEXTS, TEXTS), (CHAT_OBJECTS, OBJECTS)):
        for field in fields:
            for value in values:
                yield _chat(f"{field} {value}", f'"messages":{HELLO},"{field}":{value}')
    for name, members in CHAT_SHAPES.items():
        yield _chat(name, f'"messages":{HELLO},{members}')
    for name, members in MESSAGES_SHAPES.items():
        yield _chat(f"messages {name}", members)
    for name, body in WHOLE.items():
        yield Odd(CHAT, f"body {name}", body)
    for path, shapes, bound in (
        (COMPLETIONS, PROMPTS, '"max_tokens":2'),
        (RESPONSES, RESPONSES_SHAPES, '"max_output_tokens":2'),
        (MESSAGES, ANTHROPIC, '"max_tokens":2'),
    ):
        for name, members in shapes.items():
            yield Odd(path, f"{path[4:]} {name}", _object('"model":"tiny"', bound, members))
    for name, members in INPUTS.items():
        yield Odd(EMBEDDINGS, f"input {name}", _object('"model":"vectors"', members))


def _chat(name: str, members: str) -> Odd:
    model = "" if members.count('"model":') else '"model":"tiny"'
    bound = "" if "max_" in members or "n_predict" in members else '"max_tokens":2'
    return Odd(CHAT, name, _object(model, bound, members))


def _object(*members: str) -> bytes:
    return ("{" + ",".join(member for member in members if member) + "}").encode()


def shown(row: Odd) -> str:
    """A row as a failed test prints it."""
    return f"{row.name}: {json.dumps(row.body[:200].decode('utf-8', 'replace'))}"
