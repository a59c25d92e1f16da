"""Messages, content parts, tool calls and tools of a chat: what each kind of engine takes.

Rules
- Unknown keys pass everywhere. Roles are any string, except where an engine has a closed list (SGLang).
- `Common...` is what llama.cpp b11549, vLLM 0.32 and SGLang 0.5 all need, widened by what the OpenAI reference and the
  dialects of hosted services allow, because an unknown engine may stand behind an address.
- A part without `type` is read by vLLM alone, from the name of its media key.
- What depends on two fields at once (content of a user, a media part's inner object) is in checks.py.

It must not know: sampling fields, other doors.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Discriminator, Field
from typing_extensions import TypedDict

from autohedge.payloads.shapes import Array, Expect, Flag, Object, Text, TextSet

# every name that an engine or a hosted service is known to read; a name outside of it is a mistake everywhere
PartType = Literal[
    "text", "image_url", "input_audio", "file", "refusal", "input_text", "output_text", "input_image", "input_file",
    "input_video", "video_url", "video", "audio_url", "audio", "image", "image_base64", "image_embeds", "audio_embeds",
    "video_embeds", "prompt_embeds", "image_pil", "thinking", "redacted_thinking", "reasoning", "tool_reference",
    "tool_use", "tool_result", "document", "document_url", "search_result", "pdf", "reference", "guard_content",
]  # fmt: skip
PART_WORDS = (
    'a type that is known, such as "text", "image_url", "input_audio", "video_url" or "file"'  # the full list is long
)


Nothing = Annotated[
    dict[str, Any], Field(max_length=0), Expect("an array")
]  # {} in the place of an array is read as an empty one


class CommonPart(TypedDict, total=False):
    type: Annotated[PartType, Expect(PART_WORDS)]
    text: Text


class CommonFunction(TypedDict):
    name: TextSet


class CalledFunction(TypedDict, total=False):
    name: Text


class CommonCall(TypedDict, total=False):
    id: Text
    function: CalledFunction


class CommonMessage(TypedDict):
    role: TextSet
    content: NotRequired[str | list[CommonPart | str] | Nothing | None]
    tool_calls: NotRequired[list[CommonCall] | Nothing | None]


class CommonTool(TypedDict, total=False):
    function: CommonFunction


# --- vLLM ---------------------------------------------------------------------------------------------------------------


class VllmPart(TypedDict, total=False):
    type: Annotated[
        Literal[
            "text", "image_url", "input_audio", "refusal", "input_text", "output_text", "input_image", "video_url",
            "audio_url", "image_embeds", "audio_embeds", "video_embeds", "prompt_embeds", "image_pil", "thinking",
            "tool_reference",
        ],
        Expect('"text", "image_url", "input_audio", "audio_url", "video_url" or "refusal"'),
    ]  # fmt: skip
    text: Text


class VllmCalled(TypedDict):
    name: TextSet
    arguments: TextSet


class VllmCall(TypedDict):
    id: TextSet
    type: Annotated[Literal["function"], Expect('"function"')]
    function: VllmCalled


class VllmMessage(TypedDict):
    role: TextSet
    content: NotRequired[str | list[VllmPart | str] | Nothing | None]
    name: NotRequired[TextSet]
    tool_call_id: NotRequired[Text]
    tool_calls: NotRequired[list[VllmCall] | Nothing | None]


class VllmFunction(TypedDict):
    name: TextSet
    description: NotRequired[Text]
    parameters: NotRequired[Object]
    strict: NotRequired[Flag]


class VllmTool(TypedDict):
    type: NotRequired[Annotated[Literal["function"], Expect('"function"')]]
    function: VllmFunction


# --- SGLang -------------------------------------------------------------------------------------------------------------


class SglangText(TypedDict):
    type: Literal["text"]
    text: TextSet


class SglangThought(TypedDict):
    type: Literal["thinking", "reasoning"]
    thinking: NotRequired[Text]
    text: NotRequired[Text]


class SglangLink(TypedDict):
    url: TextSet


class SglangImageLink(SglangLink):
    detail: NotRequired[Annotated[Literal["auto", "low", "high", "default"] | None, Expect('"auto", "low" or "high"')]]


class SglangImage(TypedDict):
    type: Literal["image_url"]
    image_url: SglangImageLink


class SglangVideo(TypedDict):
    type: Literal["video_url"]
    video_url: SglangLink


class SglangAudio(TypedDict):
    type: Literal["audio_url"]
    audio_url: SglangLink


class SglangSound(TypedDict):
    data: TextSet
    format: Annotated[Literal["wav", "mp3"], Expect('"wav" or "mp3"')]


class SglangInlineAudio(TypedDict):
    type: Literal["input_audio"]
    input_audio: SglangSound


class SglangReference(TypedDict):
    type: Literal["tool_reference"]
    name: TextSet


SglangPart = Annotated[
    SglangText | SglangThought | SglangImage | SglangVideo | SglangAudio | SglangInlineAudio | SglangReference,
    Discriminator("type"),
]


class SglangCalled(TypedDict, total=False):
    name: Text
    arguments: Annotated[str | dict[str, Any] | None, Expect("a string or an object")]


class SglangCall(TypedDict):
    id: NotRequired[Text]
    type: NotRequired[Annotated[Literal["function"], Expect('"function"')]]
    function: SglangCalled


SGLANG_ROLES = "^((?i:system|assistant|tool|function|developer|latest_reminder|root)|user)$"


class SglangMessage(TypedDict):
    role: Annotated[
        str, Field(pattern=SGLANG_ROLES), Expect('"system", "developer", "user", "assistant", "tool" or "function"')
    ]
    content: NotRequired[str | list[SglangPart] | None]
    name: NotRequired[Text]
    tool_call_id: NotRequired[Text]
    reasoning_content: NotRequired[Text]
    tool_calls: NotRequired[list[SglangCall] | None]


class SglangFunction(TypedDict):
    name: TextSet
    description: NotRequired[Text]
    parameters: NotRequired[Annotated[dict[str, Any] | bool | None, Expect("an object")]]
    strict: NotRequired[Flag]


class SglangTool(TypedDict):
    type: NotRequired[TextSet]
    function: SglangFunction


# --- llama.cpp ----------------------------------------------------------------------------------------------------------


class CppText(TypedDict):
    type: Literal["text"]
    text: TextSet


class CppMedia(TypedDict):
    type: Literal["image_url", "input_audio", "input_video", "video_url"]


CppPart = Annotated[CppText | CppMedia, Discriminator("type")]


class CppCalled(TypedDict):
    name: TextSet
    arguments: Any


class CppCall(TypedDict):
    id: NotRequired[TextSet]
    type: Annotated[Literal["function"], Expect('"function"')]
    function: CppCalled


class CppMessage(TypedDict):
    role: TextSet
    content: NotRequired[str | list[CppPart] | None]
    name: NotRequired[TextSet]
    tool_call_id: NotRequired[TextSet]
    reasoning_content: NotRequired[TextSet]
    tool_calls: NotRequired[list[CppCall] | Nothing | None]


class CppFunction(TypedDict):
    name: TextSet
    description: NotRequired[TextSet]


class CppTool(TypedDict):
    type: Annotated[Literal["function"], Expect('"function"')]
    function: CppFunction


# --- Ollama and TGI -----------------------------------------------------------------------------------------------------


class OllamaCalled(TypedDict, total=False):
    name: Text
    arguments: Text


class OllamaCall(TypedDict, total=False):
    id: Text
    type: Text
    function: OllamaCalled | None


class OllamaMessage(TypedDict, total=False):
    role: Text
    content: str | list[CommonPart] | None
    name: Text
    tool_call_id: Text
    tool_calls: list[OllamaCall] | None


class OllamaFunction(TypedDict, total=False):
    name: Text
    description: Text
    parameters: Object


class OllamaTool(TypedDict, total=False):
    type: Text
    function: OllamaFunction | None


class TgiMessage(TypedDict):
    role: TextSet
    content: NotRequired[str | list[CommonPart] | None]
    tool_calls: NotRequired[Array]
