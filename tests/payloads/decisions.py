"""System One bodies for tests: short ways to write them, a strategy for valid ones, and recorded verdicts of two engines."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from hypothesis import strategies as st

from autohedge.core.problems import Detail, Problem
from autohedge.core.types import Door, Kind
from autohedge.payloads.reading import Bounds, Reading, examine
from autohedge.providers import USUAL
from autohedge.rules.decisions import over
from tests.payloads.bodies import HERE

MEDIA = "application/json"
NOUL: dict[str, Any] = {"type": "noul", "instructions": "Billing?"}
KINDS = (Kind.SYSTEMONE, Kind.TYPESAFE, Kind.SGLANG, Kind.OLLAMA, Kind.LLAMACPP, Kind.VLLM, Kind.AUTO, Kind.OPENAI)


def asking(question: Any, **more: Any) -> dict[str, Any]:
    """A request with one question, "q"."""
    return {"model": "m", "state": "doc", "questions": {"q": question}, **more}


def choice(*options: str, **more: Any) -> dict[str, Any]:
    return asking({"type": "choice", "instructions": "Tone?", "criteria": dict.fromkeys(options), **more})


def score(*levels: Any, **more: Any) -> dict[str, Any]:
    return asking({"type": "score", "instructions": "Urgent?", "criteria": list(levels), **more})


def read(body: Any, encoding: str = "", media: str = MEDIA) -> Reading:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return examine(Door.SYSTEMONE, raw, encoding, Bounds(), media)


def against(kind: Kind, body: Any, media: str = MEDIA) -> list[Detail]:
    """What a server of this kind refuses, its usual limits included; a body that nobody can read as its one problem."""
    try:
        reading = read(body, media=media)
    except Problem as problem:
        return [Detail(problem.param, problem.code, problem.message)]
    assert reading.ask.sizes is not None
    place = f"model m on {kind.value}"
    return [*reading.findings(kind), *over(reading.ask.sizes, USUAL[kind].counts, place, 0.0)]


def codes(kind: Kind, body: Any, media: str = MEDIA) -> list[str]:
    return [detail.code for detail in against(kind, body, media)]


@cache
def recorded() -> tuple[tuple[dict[str, Any], bool, bool], ...]:
    """700 bodies, half of them broken by chance, and whether SGLang 0.5.23's own request classes and a real llama.cpp b11549
    with a decision model took them.
    """
    rows = json.loads((HERE / "systemone_answers.json").read_text(encoding="utf-8"))
    return tuple((body, sglang, llamacpp) for body, sglang, llamacpp in rows)


# --- valid requests: what every server of the protocol takes ------------------------------------------------------------

WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=12
).filter(str.strip)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
OPTIONS = st.lists(WORDS, min_size=2, max_size=26, unique_by=lambda word: word.strip().casefold()).flatmap(
    lambda names: st.fixed_dictionaries({name: st.none() | WORDS for name in names})
)
QUESTION = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("noul"), "instructions": WORDS},
        optional={"criteria": st.fixed_dictionaries({}, optional={"true": WORDS, "false": WORDS})},
    ),
    st.fixed_dictionaries({"type": st.just("choice"), "instructions": WORDS, "criteria": OPTIONS}),
    st.fixed_dictionaries(
        {"type": st.just("score"), "instructions": WORDS, "criteria": st.lists(WORDS, min_size=2, max_size=10)}
    ),
)
STATE = (
    WORDS | st.dictionaries(st.text(max_size=8), JSON, min_size=1, max_size=4) | st.lists(JSON, min_size=1, max_size=4)
)
VALID: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {
        "model": WORDS,
        "state": STATE,
        "questions": st.dictionaries(WORDS, QUESTION, min_size=1, max_size=5),
    }
)
