"""System One (/v1/systemone): questions about a state, answered with probabilities. Never streams.

Rules
- Probabilities depend on state, instructions and options alone (not on a question's id), so all engines agree.
- Confidence as in SGLang, TypeSafe and llama.cpp: peak over uniform; a score loses with its distance from the mode.
- What is refused differs per kind: `Rules` says what, the dialect words it. Sources: facts systemone 1-3, real_backends 4.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from autohedge.core.types import Kind
from autohedge.engine.messages import CREATED, Answer, dump, plain
from autohedge.engine.state import State
from autohedge.engine.work import Work

TYPES = ("choice", "score", "noul")


@dataclass(frozen=True, slots=True)
class Rules:
    """What one kind takes. `closed`: unknown keys of a question are refused. `noul_needs`: what a noul must have:
    "ask" (instructions or criteria), "instructions", or "" (nothing).
    """

    questions: int | None = None
    options: int = 255
    least: int = 1
    levels: int = 10
    least_levels: int = 1
    model_needed: bool = False
    any_state: bool = False
    closed: bool = False
    noul_needs: str = "ask"


@dataclass(frozen=True, slots=True)
class Bad:
    """One fault of a decision request, in FastAPI's words. `late`: found after parsing (TypeSafe answers 400, not 422)."""

    type: str
    loc: tuple[str | int, ...]
    msg: str
    late: bool = False

    def detail(self) -> dict[str, Any]:
        return {"type": self.type, "loc": list(self.loc), "msg": self.msg}


def first_bad(body: dict[str, Any], rules: Rules) -> Bad | None:
    """The first fault of the body, or None."""
    return next(_bads(body, rules), None)


def _bads(body: dict[str, Any], rules: Rules) -> Iterator[Bad]:
    if rules.model_needed and not isinstance(body.get("model"), str):
        yield Bad("missing" if "model" not in body else "string_type", ("body", "model"), "Field required")
    if "state" not in body:
        yield Bad("missing", ("body", "state"), "Field required")
    elif not rules.any_state and not isinstance(body["state"], str | dict | list):
        yield Bad("string_type", ("body", "state"), "must be a string, object, or array")
    questions = body.get("questions")
    if not isinstance(questions, dict):
        kind = "missing" if "questions" not in body else "dict_type"
        yield Bad(
            kind, ("body", "questions"), "Field required" if kind == "missing" else "Input should be a valid dictionary"
        )
        return
    if not questions:
        yield Bad("too_short", ("body", "questions"), "Dictionary should have at least 1 item after validation, not 0")
    if rules.questions is not None and len(questions) > rules.questions:
        yield Bad("too_long", ("body", "questions"), f"questions must contain 1-{rules.questions} fields")
    for name, question in questions.items():
        yield from _bad_question(name, question, rules)


def _bad_question(name: str, question: Any, rules: Rules) -> Iterator[Bad]:
    where: tuple[str | int, ...] = ("body", "questions", name)
    if not isinstance(question, dict):
        yield Bad("model_attributes_type", where, "Input should be a valid dictionary or object to extract fields from")
        return
    kind = question.get("type")
    if "type" not in question:
        yield Bad("union_tag_not_found", where, "Unable to extract tag using discriminator 'type'")
        return
    if kind not in TYPES:
        tags = ", ".join(f"'{tag}'" for tag in TYPES)
        found = f"Input tag {kind!r} found using 'type' does not match any of the expected tags: {tags}"
        yield Bad("union_tag_invalid", where, found, late=True)
        return
    criteria, asked = question.get("criteria"), question.get("instructions")
    where = (*where, kind)
    if kind == "noul":
        short = rules.noul_needs == "instructions" and not asked
        if short or (rules.noul_needs == "ask" and not asked and not criteria):
            yield Bad("value_error", where, f"Noul question must have criteria or instructions: {name}", late=True)
    elif kind == "choice":
        yield from _bad_choice(criteria, where, rules)
    else:
        yield from _bad_score(criteria, where, rules)
    for key in question:
        if rules.closed and key not in {"type", "instructions", "criteria"}:
            yield Bad("extra_forbidden", (*where, key), "Extra inputs are not permitted")


def _bad_choice(criteria: Any, where: tuple[str | int, ...], rules: Rules) -> Iterator[Bad]:
    if not isinstance(criteria, dict):
        yield Bad("missing" if criteria is None else "dict_type", (*where, "criteria"), "Field required")
    elif len(criteria) < rules.least:
        yield Bad("too_short", (*where, "criteria"), f"criteria must contain {rules.least}-{rules.options} candidates")
    elif len(criteria) > rules.options:
        said = f"Too many choices. Must have at most {rules.options} choices."
        yield Bad("too_long", (*where, "criteria"), said, late=True)


def _bad_score(criteria: Any, where: tuple[str | int, ...], rules: Rules) -> Iterator[Bad]:
    if not isinstance(criteria, list) or len(criteria) < rules.least_levels:
        said = f'"criteria" must be an array of {rules.least_levels} to {rules.levels} levels'
        yield Bad("missing" if criteria is None else "list_type", (*where, "criteria"), said)
    elif len(criteria) > rules.levels:
        said = f"Too many score levels. Must have at most {rules.levels} levels."
        yield Bad("too_long", (*where, "criteria"), said, late=True)


def decide(work: Work, state: State) -> Answer:
    """Answer every question of a body that `first_bad` passed."""
    about = zlib.crc32(dump(work.body["state"]))
    answers = {name: _answer(question, about, state.kind) for name, question in work.body["questions"].items()}
    obj: dict[str, Any] = {"model": work.model, "answers": answers}
    obj["usage"] = {"input_tokens": work.prompt, "output_tokens": 0}
    headers: list[tuple[bytes, bytes]] = []
    if state.kind is Kind.VLLM:
        envelope = {"id": state.next_id("sdec-"), "object": "structured_decision", "created": CREATED}
        obj = {**envelope, **obj, "diagnostics": {"label_mass": 1.0, "argmax_is_label": True}}
    if state.kind is Kind.SYSTEMONE:
        headers.append((b"x-typesafe-request-id", state.next_id("req_").encode()))
    answer = plain(obj, headers=headers)
    answer.wait = state.latency
    return answer


def _answer(question: dict[str, Any], about: int, kind: Kind) -> dict[str, Any]:
    asked = zlib.crc32(dump([question["type"], question.get("instructions")]))
    criteria = question.get("criteria")
    if question["type"] == "noul":
        share = shares(["yes", "no"], about, asked)[0]
        answer: dict[str, Any] = {"type": "noul", "noul": share}
        if kind is Kind.VLLM:
            answer |= {
                "probabilities": {"true": share, "false": round(1 - share, 6)},
                "confidence": round(abs(2 * share - 1), 6),
            }
    elif question["type"] == "choice":
        options = list(criteria or ())
        found = shares(options, about, asked)
        best = options[found.index(max(found))]
        probabilities = dict(zip(options, found, strict=True))
        answer = {"type": "choice", "choice": best, "probabilities": probabilities, "confidence": peak(found)}
    else:
        levels = [level if isinstance(level, str) else json.dumps(level) for level in criteria or ()]
        found = shares(levels, about, asked)
        answer = {"type": "score", "score": round(sum(place * share for place, share in enumerate(found)), 6)}
        answer["confidence"] = closeness(found)
        answer["legend"] = {str(place): level for place, level in enumerate(levels)}
        answer["probabilities"] = {str(place): share for place, share in enumerate(found)}
    if kind is Kind.SGLANG:
        answer["x_label_mass"] = 1.0
    return answer


def shares(options: list[str], about: int, asked: int) -> list[float]:
    """Probabilities of the options: they add up to 1 and depend on what is asked about what alone."""
    weights = [
        1 + zlib.crc32(f"{about}/{asked}/{place}/{option}".encode("utf-8", "replace")) % 97
        for place, option in enumerate(options)
    ]
    whole = sum(weights)
    found = [round(weight / whole, 6) for weight in weights]
    found[-1] = round(1 - sum(found[:-1]), 6)
    return found


def peak(found: list[float]) -> float:
    """Confidence of a choice: (n max - 1) / (n - 1); one option alone is certain."""
    number = len(found)
    return 1.0 if number == 1 else round((number * max(found) - 1) / (number - 1), 6)


def closeness(found: list[float]) -> float:
    """Confidence of a score: 1 - E|i - mode| / mean|i - middle|, floor 0."""
    if len(found) == 1:
        return 1.0
    mode = found.index(max(found))
    spread = sum(share * abs(place - mode) for place, share in enumerate(found))
    middle = (len(found) - 1) / 2
    usual = sum(abs(place - middle) for place in range(len(found))) / len(found)
    return round(max(0.0, 1 - spread / usual), 6)
