"""The questions of a System One request: what a kind of server refuses in them, all findings at once.

Rules
- A question is a noul, a choice, a score or a box; its type is spelled in lower case. What else it must hold is the taste of
  the kind. A question without a type is refused everywhere, so its misnamed fields are told as well.
- How many options and levels there may be is a limit of the model; that there is none is refused everywhere.

It must not know: kinds by name, limits of models.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from autohedge.core.problems import Detail
from autohedge.payloads.systemone_says import FIELDS, MOST, Steps, as_object, at, listed, of, shown, typed, unknown
from autohedge.payloads.systemone_tastes import Needs, Taste

TEXT = frozenset({str, dict, list})
TEXTS = "a string, object or array"
TEXTS_OR_NULL = "string, object, array or null"
NOUL = frozenset({"true", "false"})
BREAKS = frozenset({"Cc", "Zl", "Zp"})


def question(name: str, value: Any, taste: Taste, found: list[Detail]) -> None:
    """Adds to `found` what is wrong with one question."""
    if type(value) is not dict:
        found.append(typed(("questions", name), f"question {shown(name)}", "an object", value))
        return
    kind = value.get("type")
    check = CHECKS.get(kind) if type(kind) is str else None
    if check is None or kind not in taste.types:
        _no_type(name, value, taste, found)
        return
    if taste.closed and not value.keys() <= FIELDS:
        found += islice((unknown(name, key, kind, value[key]) for key in value if key not in FIELDS), MOST)
    instructions = value.get("instructions")
    if taste.textual and instructions is not None and type(instructions) not in TEXT:
        steps: Steps = ("questions", name, "instructions")
        found.append(typed(steps, f"instructions of question {shown(name)}", TEXTS_OR_NULL, instructions))
    elif taste.needs is Needs.INSTRUCTIONS or taste.needs is Needs.WORDED_INSTRUCTIONS:
        if instructions is None or (taste.needs is Needs.WORDED_INSTRUCTIONS and blank(instructions)):
            _no_instructions(name, kind, found)
    elif kind == "noul":
        _something(name, instructions, value.get("criteria"), taste, found)
    check(name, value, taste, found)


def blank(value: Any) -> bool:
    """Whether a text says nothing."""
    return not (value.strip() if type(value) is str else value)


def _no_type(name: str, value: dict[str, Any], taste: Taste, found: list[Detail]) -> None:
    found += (unknown(name, key, "", value[key]) for key in value if key not in FIELDS and len(found) < len(FIELDS) + 8)
    steps: Steps = ("questions", name, "type")
    types = listed(taste.types)
    if "type" not in value:
        found.append(at(steps, "missing_type", f"question {shown(name)} has no type; use one of {types}"))
        return
    kind = value["type"]
    came = shown(kind) if type(kind) is str else of(kind)
    found.append(at(steps, "invalid_question_type", f"{came} is not one of {types} (names are lower-case)"))


def _no_instructions(name: str, kind: str, found: list[Detail]) -> None:
    steps: Steps = ("questions", name, "instructions")
    code = "nothing_to_decide" if kind == "noul" else "missing_field"
    found.append(at(steps, code, f"{kind} question {shown(name)} needs instructions (string, object or array)"))


def _something(name: str, instructions: Any, criteria: Any, taste: Taste, found: list[Detail]) -> None:
    texts = [instructions]
    if type(criteria) is dict:
        texts += criteria.get("true"), criteria.get("false")
    nothing = blank if taste.needs is Needs.WORDS else _absent
    if all(nothing(text) for text in texts):
        sentence = f"noul question {shown(name)} needs instructions or a true/false description"
        found.append(at(("questions", name), "nothing_to_decide", sentence))


def _absent(value: Any) -> bool:
    return value is None


# --- by type ------------------------------------------------------------------------------------------------------------


def _noul(name: str, value: dict[str, Any], taste: Taste, found: list[Detail]) -> None:
    criteria = value.get("criteria")
    if criteria is None:
        return
    steps: Steps = ("questions", name, "criteria")
    if type(criteria) is not dict:
        wanted = "an object with 'true' and 'false', or null"
        found.append(typed(steps, f"criteria of noul question {shown(name)}", wanted, criteria))
        return
    if taste.closed and not criteria.keys() <= NOUL:
        for key in islice((key for key in criteria if key not in NOUL), MOST):
            sentence = f"noul criteria takes only 'true' and 'false', got {shown(key)}"
            found.append(at((*steps, key), "unknown_field", sentence))
    if taste.textual:
        found += _sides(steps, criteria, taste)


def _sides(steps: Steps, criteria: dict[str, Any], taste: Taste) -> Iterator[Detail]:
    for key in ("true", "false"):
        text = criteria.get(key)
        if text is None:
            continue
        if type(text) not in TEXT:
            yield typed((*steps, key), f"description {key!r}", TEXTS_OR_NULL, text)
        elif taste.string_descriptions and type(text) is not str:
            yield typed((*steps, key), f"description {key!r}", "a string", text)


def _choice(name: str, value: dict[str, Any], taste: Taste, found: list[Detail]) -> None:
    criteria = value.get("criteria")
    steps: Steps = ("questions", name, "criteria")
    if type(criteria) is not dict:
        if "criteria" not in value:
            sentence = f"choice question {shown(name)} needs criteria (object, option -> description or null)"
            found.append(at(steps, "missing_field", sentence))
            return
        form = as_object(criteria if type(criteria) is list else [])
        message = f"criteria of a choice must be an object, got {of(criteria)}; write {form}"
        found.append(at(steps, "invalid_type", message))
        return
    if not criteria:
        found.append(at(steps, "too_few_options", f"choice question {shown(name)} needs at least 1 option, got 0"))
        return
    if taste.textual:
        odd = ((name, text) for name, text in criteria.items() if text is not None and type(text) not in TEXT)
        for option, text in islice(odd, MOST):
            found.append(typed((*steps, option), f"description of option {shown(option)}", TEXTS_OR_NULL, text))
    if taste.plain_options:
        found += islice(_names(steps, criteria), MOST)


def _names(steps: Steps, options: dict[str, Any]) -> Iterator[Detail]:
    seen: dict[str, str] = {}
    for option in options:
        key = option.strip().casefold()
        if not key:
            yield at((*steps, option), "invalid_option_name", "an option's name must not be blank")
        elif not option.isprintable() and any(unicodedata.category(char) in BREAKS for char in option):
            sentence = f"option {shown(option)} must not hold a line break or another control character"
            yield at((*steps, option), "invalid_option_name", sentence)
        elif key in seen:
            sentence = f"{shown(option)} repeats {shown(seen[key])} (case and outer spaces do not count)"
            yield at((*steps, option), "duplicate_option", sentence)
        else:
            seen[key] = option


def _score(name: str, value: dict[str, Any], taste: Taste, found: list[Detail]) -> None:
    criteria = value.get("criteria")
    steps: Steps = ("questions", name, "criteria")
    if type(criteria) is not list:
        if "criteria" not in value:
            sentence = f"score question {shown(name)} needs criteria (array of level descriptions, lowest first)"
            found.append(at(steps, "missing_field", sentence))
            return
        wanted = "an array of level descriptions, lowest first"
        found.append(typed(steps, "criteria of a score", wanted, criteria))
        return
    if not criteria:
        found.append(at(steps, "too_few_levels", f"score question {shown(name)} needs at least 1 level, got 0"))
        return
    if not taste.textual:
        return
    wanted = "a non-blank string, object or array" if taste.worded_levels else TEXTS
    odd = (
        (i, level)
        for i, level in enumerate(criteria)
        if type(level) not in TEXT or (taste.worded_levels and blank(level))
    )
    for i, level in islice(odd, MOST):
        came = of(level) if type(level) not in TEXT else f"an empty {of(level)}"
        found.append(at((*steps, i), "invalid_level", f"level {i} must be {wanted}, got {came}"))


def _box(_name: str, _value: dict[str, Any], _taste: Taste, _found: list[Detail]) -> None:
    """Instructions are all that it has."""


CHECKS: dict[str, Callable[[str, dict[str, Any], Taste, list[Detail]], None]] = {
    "noul": _noul,
    "choice": _choice,
    "score": _score,
    "box": _box,
}
