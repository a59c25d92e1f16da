"""What each kind of System One server takes: plain data, one `Taste` a kind.

Sources: SGLang 0.5.23's request classes (tests compare every verdict with them), llama.cpp b11549 (asked), TypeSafe's published
schema as typesafe-sdk 0.7.5 carries it, Ollama's handler at two commits.

Rules
- What is not known of a kind is not demanded. A kind that is not in the table gets what every server refuses.
- How many questions, options and levels are limits of a model, not taste: `Dialect.counts`.

It must not know: bodies, findings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from autohedge.core.types import Kind


class Needs(Enum):
    """What a question must say."""

    ANYTHING = auto()  # a noul: instructions or a description that is not null
    WORDS = auto()  # a noul: one of them with something in it
    INSTRUCTIONS = auto()  # every question: instructions that are not null
    WORDED_INSTRUCTIONS = auto()  # every question: instructions with something in them


TYPES = ("noul", "choice", "score")
WITH_BOX = (*TYPES, "box")  # where an image is looked at


@dataclass(frozen=True, slots=True)
class Taste:
    """`textual`: state, instructions and descriptions are strings, objects or arrays; elsewhere anything goes.
    `closed`: a question has no other fields, noul criteria no other keys. `images`: whether a field that is no array is
    refused, null included or not. `json_only`: Content-Type must say application/json; `multipart`: False where such a
    body surely fails. `deepest`: levels of nesting that can be read, 0 where any number can.
    """

    model: bool = False  # must be there
    textual: bool = False
    empty_state: bool = True
    needs: Needs = Needs.ANYTHING
    types: tuple[str, ...] = WITH_BOX
    closed: bool = False
    plain_options: bool = False  # names are not blank, break no line and differ by more than case
    worded_levels: bool = False  # levels are not blank
    string_descriptions: bool = False  # of a noul
    images: bool = False
    null_images: bool = True
    data_images: bool = False  # images stand in the body as data: URLs
    videos: bool = True
    assets: bool = False
    extras: bool = False  # chat_template_kwargs is an object
    refused: frozenset[str] = frozenset()  # fields of another API
    json_only: bool = False
    multipart: bool = True
    deepest: int = 0


COMMON = Taste()
# of unknown make: what the published schema says and every server of the kind that was read holds to
PROTOCOL = Taste(textual=True)

TASTES: dict[Kind, Taste] = {
    Kind.SYSTEMONE: PROTOCOL,
    Kind.TYPESAFE: replace(PROTOCOL, model=True, assets=True),
    Kind.SGLANG: Taste(
        model=True,
        textual=True,
        needs=Needs.WORDS,
        types=TYPES,
        closed=True,
        plain_options=True,
        worded_levels=True,
        images=True,
        null_images=False,
        extras=True,
        refused=frozenset({"temperature", "prompt_format_version", "return_prompt_token_ids"}),
        json_only=True,
        multipart=False,
        deepest=990,
    ),
    Kind.OLLAMA: Taste(
        model=True,
        textual=True,
        empty_state=False,
        needs=Needs.WORDED_INSTRUCTIONS,
        types=TYPES,
        string_descriptions=True,
        images=True,
        multipart=False,
        deepest=10_000,
    ),
    Kind.LLAMACPP: Taste(
        needs=Needs.INSTRUCTIONS, types=TYPES, images=True, data_images=True, videos=False, multipart=False
    ),
    Kind.VLLM: Taste(types=TYPES, deepest=990),
}


def taste_of(kind: Kind) -> Taste:
    """What a server of this kind takes."""
    return TASTES.get(kind, COMMON)
