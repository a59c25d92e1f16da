"""Rules over several fields of a message, a tool or a tool choice. Each is a function: (body, notes) -> findings.

Rules
- A check looks only at what is there and leaves to the schema what has the wrong type.
- Measured on llama.cpp b11549 and vLLM 0.32, read from SGLang 0.5.23's request classes; Ollama and TGI from their sources.

It must not know: which kind gets which check (checks.py), how findings are shown (wording.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autohedge.core.problems import Detail
from autohedge.payloads.asking import MEDIA_KEYS, Notes
from autohedge.payloads.wording import listed, missing, refused, said

CHOICES = ("none", "auto", "required")


def hollow_vllm(obj: dict[str, Any], notes: Notes) -> Iterator[Detail]:
    """vLLM: an absent content passes, a null one only for an assistant whose tool_calls are not null as well."""
    for i in notes.hollow:
        message = obj["messages"][i]
        if message.get("content", "") is not None:
            continue
        if message.get("role") != "assistant":
            yield refused(("messages", i, "content"), "a string or an array of parts", None)
        elif message.get("tool_calls", ()) is None:
            yield said(("messages", i), "content and tool_calls are both null; one of them is needed")


def hollow_sglang(obj: dict[str, Any], notes: Notes) -> Iterator[Detail]:
    """SGLang: only the user must say something."""
    for i in notes.hollow:
        message = obj["messages"][i]
        if message.get("role") == "user" and message.get("content") is None:
            yield missing(("messages", i, "content"), "a string or an array of parts")


def hollow_cpp(obj: dict[str, Any], notes: Notes) -> Iterator[Detail]:
    """llama.cpp: a null content passes, an absent one only for an assistant with tool_calls."""
    for i in notes.hollow:
        message = obj["messages"][i]
        if "content" in message:
            continue
        if message.get("role") != "assistant":
            yield missing(("messages", i, "content"), "a string or an array of parts")
        elif "tool_calls" not in message:
            yield said(("messages", i), "an assistant message needs content or tool_calls")


def hollow_any(obj: dict[str, Any], notes: Notes) -> Iterator[Detail]:
    """Ollama, TGI: content or tool_calls, whoever speaks."""
    for i in notes.hollow:
        message = obj["messages"][i]
        if message.get("content") is None and message.get("tool_calls") is None:
            yield said(("messages", i), "a message needs content or tool_calls")


def only_strings(obj: dict[str, Any], notes: Notes) -> Iterator[Detail]:
    """Nobody takes a content list of plain strings. vLLM does in a tool's answer, mixed with parts, or beside other keys."""
    for i in notes.wordy:
        message = obj["messages"][i]
        if message.get("role") != "tool" and message.keys() <= {"role", "content"}:
            yield refused(("messages", i, "content", 0), "a part like {type: text, text: ...}", "")


def typeless(_obj: dict[str, Any], notes: Notes) -> Iterator[Detail]:
    """A part says its type; vLLM also knows one by its media key."""
    for i, j, part in notes.parts:
        if "type" not in part and not any(key in part for key in MEDIA_KEYS):
            yield missing(("messages", i, "content", j, "type"), 'one like "text" or "image_url"')


def untyped(_obj: dict[str, Any], notes: Notes) -> Iterator[Detail]:
    """Ollama, TGI: a part says its type."""
    for i, j, part in notes.parts:
        if part.get("type") is None:
            yield missing(("messages", i, "content", j, "type"), 'one like "text" or "image_url"')


def links(_obj: dict[str, Any], notes: Notes) -> Iterator[Detail]:
    """vLLM: a media part holds its link in an object; a plain string passes only without a type."""
    for i, j, part in notes.parts:
        name = part.get("type")
        if name not in ("image_url", "video_url", "audio_url") or part.get("uuid") is not None:
            continue
        link = part.get(name)
        where = ("messages", i, "content", j, name)
        if name not in part:
            yield missing(where, "an object with url")
        elif not isinstance(link, dict):
            yield refused(where, "an object with url", "" if isinstance(link, str) else link)
        elif not isinstance(link.get("url"), str):
            yield refused((*where, "url"), "a string", link.get("url"))


# --- tools --------------------------------------------------------------------------------------------------------------


def functions(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    """A tool of type function, or of none, has a function. Other types belong to hosted services."""
    for i, tool in enumerate(dicts(obj.get("tools"))):
        if "function" not in tool and tool.get("type", "function") == "function":
            yield missing(("tools", i, "function"), "an object with name")


def parameters_cpp(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    """llama.cpp builds a grammar of the parameters, unless no tool may be called."""
    if obj.get("tool_choice") == "none":
        return
    for i, tool in enumerate(dicts(obj.get("tools"))):
        function = tool.get("function")
        parameters = function.get("parameters") if isinstance(function, dict) else None
        if parameters is not None and not isinstance(parameters, dict):
            yield refused(("tools", i, "function", "parameters"), "an object", parameters)


def choice_word(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    """llama.cpp reads three words; whatever is no string it takes as "auto"."""
    choice = obj.get("tool_choice")
    if isinstance(choice, str) and choice not in CHOICES:
        yield refused(("tool_choice",), listed(CHOICES), choice)


def choice_word_any(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    """The three words, and "any", as hosted services call "required"."""
    choice = obj.get("tool_choice")
    if isinstance(choice, str) and choice not in CHOICES and choice != "any":
        yield refused(("tool_choice",), listed(CHOICES), choice)


def choice_vllm(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    """vLLM: any choice but "none" needs tools."""
    choice = obj.get("tool_choice")
    if choice is None or choice == "none":
        return
    if obj.get("tools") is None:
        yield said(("tool_choice",), "needs tools, and the request has none")
        return
    yield from _named(choice, _names(obj.get("tools")))


def choice_sglang(obj: dict[str, Any], _notes: Notes) -> Iterator[Detail]:
    """SGLang: "required" and a named tool need tools; they may also stand in a message."""
    choice = obj.get("tool_choice")
    if choice is None or choice in ("none", "auto"):
        return
    names = _names(obj.get("tools"))
    for message in dicts(obj.get("messages")):
        names |= _names(message.get("tools"))
    if not names and (choice == "required" or isinstance(choice, dict)):
        yield said(("tool_choice",), "needs tools, and the request has none")
        return
    yield from _named(choice, names)


def _named(choice: Any, names: set[Any]) -> Iterator[Detail]:
    """A word that is known, or a function that is among the tools."""
    if not isinstance(choice, dict):
        if choice not in CHOICES:
            words = f"{listed(CHOICES)}, or an object that names a function"
            yield refused(("tool_choice",), words, choice)
        return
    function = choice.get("function")
    if choice.get("type", "function") != "function":
        yield refused(("tool_choice", "type"), '"function"', choice["type"])
    elif not isinstance(function, dict) or not isinstance(function.get("name"), str):
        yield missing(("tool_choice", "function", "name"), "the name of one of the tools")
    elif function["name"] not in names:
        yield said(("tool_choice", "function", "name"), "names a function that is not among the tools")


def _names(tools: Any) -> set[Any]:
    functions_ = (tool.get("function") for tool in dicts(tools))
    return {name for f in functions_ if isinstance(f, dict) and isinstance(name := f.get("name"), str)}


def dicts(value: Any) -> Iterator[dict[str, Any]]:
    """The objects of an array; whatever else stands there keeps its place as an empty one."""
    if isinstance(value, list):
        yield from (item if isinstance(item, dict) else {} for item in value)
