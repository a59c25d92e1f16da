"""POST /v1/systemone: what a kind of server refuses in a request, all at once.

Rules
- Pure: a parsed body and how it came, in; findings with path, sentence and code, out. At most `MOST`.
- A kind is held to its own taste (systemone_tastes.py); what two kinds see differently is refused only where both would.
- Fields at the top that nobody knows are ignored, as every server does.

It must not know: bytes, limits of models, who serves what.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from autohedge.core.problems import Detail
from autohedge.core.types import Kind
from autohedge.payloads.deep import deeper
from autohedge.payloads.findings import QUIRKS
from autohedge.payloads.parse import SHALLOW, Parsed, Quirk
from autohedge.payloads.systemone_body import MULTIPART, Sent
from autohedge.payloads.systemone_questions import TEXT, question
from autohedge.payloads.systemone_says import MOST, Steps, at, shown, typed
from autohedge.payloads.systemone_tastes import Taste, taste_of

STATE = "string, object or array"
MAPPING = "an object that maps your id to a question"
RARE = frozenset({
    "images", "files", "videos", "assets", "chat_template_kwargs", "temperature", "prompt_format_version",
    "return_prompt_token_ids",
})  # fmt: skip


def against(kind: Kind, parsed: Parsed, sent: Sent, deepest: int) -> tuple[Detail, ...]:
    """What a server of this kind refuses; empty when it takes the request. `deepest` is the bound in levels of nesting for
    servers of unknown make.
    """
    taste = taste_of(kind)
    obj = parsed.obj
    found: list[Detail] = []
    if taste.json_only or not taste.multipart:
        found += _media(sent, taste)
    if parsed.quirks or parsed.depth or sent.twice or kind is Kind.SYSTEMONE:
        found += _unusual(kind, parsed, sent, taste.deepest or (deepest if kind is Kind.SYSTEMONE else 0))
    _model_and_state(obj, taste, found)
    questions = obj.get("questions")
    if type(questions) is dict and questions:
        for name, value in questions.items():
            if not name or (name[0] <= " " and not name.strip()):
                _blank_id(name, kind, found)
            question(name, value, taste, found)
            if len(found) >= MOST:
                break
    else:
        found.append(_no_questions(obj))
    if not RARE.isdisjoint(obj):
        found += islice(_rare(obj, taste, sent), MOST)
    return tuple(found[:MOST]) if found else ()


def _model_and_state(obj: dict[str, Any], taste: Taste, found: list[Detail]) -> None:
    if taste.model and type(obj.get("model")) is not str:
        if "model" not in obj:
            found.append(at(("model",), "missing_field", "model is required (string)"))
        else:
            found.append(typed(("model",), "model", "a string", obj["model"]))
    state = obj.get("state")
    if type(state) in TEXT:
        if not state and not taste.empty_state:
            found.append(at(("state",), "empty_state", "the model's server needs a state that is not empty"))
    elif "state" not in obj:
        found.append(at(("state",), "missing_field", f"state is required ({STATE})"))
    elif taste.textual:
        found.append(typed(("state",), "state", f"a {STATE}", state))


def _no_questions(obj: dict[str, Any]) -> Detail:
    if "questions" not in obj:
        return at(("questions",), "missing_field", f"questions is required ({MAPPING})")
    questions = obj["questions"]
    if type(questions) is dict:
        return at(("questions",), "empty_questions", "questions needs at least 1 entry")
    return typed(("questions",), "questions", MAPPING, questions)


def _blank_id(name: str, kind: Kind, found: list[Detail]) -> None:
    """SGLang and llama.cpp take any id; who else does is not known, and the answer stands under it."""
    if kind is Kind.SYSTEMONE:
        found.append(at(("questions", name), "invalid_question_id", "a question's id must not be empty or blank"))


# --- what is seldom there -------------------------------------------------------------------------------------------------


def _media(sent: Sent, taste: Taste) -> Iterator[Detail]:
    media = sent.media.partition(";")[0].lower()
    if (taste.json_only and media != "application/json") or media.startswith(MULTIPART):
        said = f"got {shown(media)}" if media else "got none"
        message = f"Content-Type must be application/json for the model's server, {said}"
        yield Detail("content-type", "unsupported_media_type", message, steps=("content-type",))


def _unusual(kind: Kind, parsed: Parsed, sent: Sent, deepest: int) -> Iterator[Detail]:
    for key in sent.twice:
        yield at((key,), "duplicate_key", f"{key!r} appears twice (parsers disagree on which wins)")
    for quirk in parsed.quirks:
        kinds, sentence = QUIRKS[quirk]
        if kind in kinds:
            code = "invalid_number" if quirk in {Quirk.NOT_FINITE, Quirk.HUGE} else "invalid_json"
            yield Detail(None, code, sentence)
    if deepest and (parsed.depth > deepest or (not parsed.depth and _deep(parsed, sent.text, deepest))):
        levels = f"{parsed.depth} levels" if parsed.depth else "more levels"
        yield Detail(None, "too_deep", f"body nests {levels} of objects and arrays, at most {deepest} can be read")


def _deep(parsed: Parsed, text: bytes, deepest: int) -> bool:
    """Whether a body that the fast parser took nests deeper; one with few brackets is not walked."""
    return text.count(b"{") + text.count(b"[") > deepest < SHALLOW and deeper(parsed.obj, deepest)


def _rare(obj: dict[str, Any], taste: Taste, sent: Sent) -> Iterator[Detail]:
    if taste.images:
        yield from _images(obj, taste)
    if not taste.videos and obj.get("videos"):
        yield at(("videos",), "unsupported_field", "the model's server takes no videos")
    if taste.extras and type(obj.get("chat_template_kwargs", {})) is not dict:
        yield typed(("chat_template_kwargs",), "chat_template_kwargs", "an object", obj["chat_template_kwargs"])
    for name in ("temperature", "prompt_format_version", "return_prompt_token_ids"):
        if name in taste.refused and obj.get(name) is not None:
            message = f"{name!r} belongs to /v1/decisions, the model's server refuses it here"
            yield at((name,), "unsupported_field", message)
    if taste.assets:
        yield from _assets(obj.get("assets"), sent)


def _images(obj: dict[str, Any], taste: Taste) -> Iterator[Detail]:
    for name in ("images", "files") if taste.data_images else ("images",):
        images = obj.get(name, [])
        if type(images) is not list:
            if images is not None or not taste.null_images:
                yield typed((name,), name, "an array", images)
            continue
        for i, image in enumerate(images):
            if taste.data_images and not (type(image) is str and image.startswith("data:")):
                yield at((name, i), "invalid_type", f"{name}[{i}] must be a data: URL with the image in it")
            elif type(image) is not str and not (type(image) is dict and type(image.get("url")) is str):
                yield typed((name, i), f"{name}[{i}]", "a URL string or an object with url", image)
            else:
                continue
            break


def _assets(assets: Any, sent: Sent) -> Iterator[Detail]:
    if assets is None:
        return
    if type(assets) is not dict or not assets:
        wanted = "an object that maps a placeholder to an image, with at least 1 entry"
        yield typed(("assets",), "assets", wanted, assets)
        return
    for name, asset in assets.items():
        steps: Steps = ("assets", name)
        if type(asset) is not dict:
            yield typed(steps, f"asset {shown(name)}", "an object", asset)
        else:
            yield from _asset(steps, f"asset {shown(name)}", asset, sent)


def _asset(steps: Steps, named: str, asset: dict[str, Any], sent: Sent) -> Iterator[Detail]:
    for field in ("data_base64", "part"):
        if asset.get(field) is not None and type(asset[field]) is not str:
            yield typed((*steps, field), f"{field} of {named}", "a string", asset[field])
    if asset.get("type") not in (None, "image"):
        yield at((*steps, "type"), "invalid_value", f"type of {named} must be 'image'")
    if asset.get("format") not in (None, "png", "jpg", "jpeg"):
        yield at((*steps, "format"), "invalid_value", f"format of {named} must be png, jpg or jpeg")
    part = asset.get("part")
    if type(part) is str and sent.files is not None and part not in sent.files:
        message = f"{named} points to a part {shown(part)} that the body does not hold"
        yield at((*steps, "part"), "missing_field", message)
    elif part is None and asset.get("data_base64") is None:
        yield at(steps, "missing_field", f"{named} needs data_base64 or part")
