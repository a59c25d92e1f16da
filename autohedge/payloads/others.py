"""The doors whose schemas engines do not share: responses, messages, rerank.

Rules as in chat.py, but only the common part is checked: the types of the few fields that every engine reads alike.
llama.cpp alone reads them strictly (measured on its /v1/responses and /v1/messages: numbers in quotes are refused, while
`messages` may be a string there).
"""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from autohedge.core.types import Kind
from autohedge.payloads import shapes as s
from autohedge.payloads.chat import CppSampling

ITEMS = "a string or an array of objects"
Items = Annotated[list[dict[str, Any]], Field(fail_fast=True)]


class Responses(TypedDict, total=False):
    model: s.Text
    input: Annotated[str | Items | None, s.Expect(ITEMS)]
    max_output_tokens: s.Number
    temperature: s.Number
    top_p: s.Number
    stream: s.Flag


class CppResponses(CppSampling):
    input: Annotated[str | Items, s.Expect(ITEMS)]
    max_output_tokens: NotRequired[s.CppUpToAll]


class Speaker(TypedDict):
    role: s.TextSet
    content: NotRequired[Annotated[str | list[Any] | None, s.Expect("a string or an array of blocks")]]


class Messages(TypedDict):
    messages: list[Speaker]
    model: NotRequired[s.Text]
    max_tokens: NotRequired[s.Number]
    temperature: NotRequired[s.Number]
    top_p: NotRequired[s.Number]
    top_k: NotRequired[s.Number]
    stream: NotRequired[s.Flag]


class CppMessages(CppSampling):
    messages: Any


class Rerank(TypedDict, total=False):
    model: s.Text
    query: Annotated[str | list[Any] | dict[str, Any], s.Expect("a string")]
    documents: Annotated[list[Any] | dict[str, Any] | None, s.Expect("an array")]
    top_n: s.Number


RESPONSES: Any = Responses
RESPONSES_BY_KIND: dict[Kind, Any] = {Kind.LLAMACPP: CppResponses}
MESSAGES: Any = Messages
MESSAGES_BY_KIND: dict[Kind, Any] = {Kind.LLAMACPP: CppMessages}
RERANK: Any = Rerank
