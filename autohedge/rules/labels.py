"""What a service says about itself by labels: which labels count, what each may hold, and which were meant but are not ours.

Rules
- Anybody who may deploy a service writes labels, so they are bounded in length and number and never name a place: no host,
  no URL, no path of an API. Where a backend listens is the engine's business, only its port may be told.
- Labels of the service (`deploy.labels` in Compose) stand over those of its containers (`labels`). The latter count too, and
  a note says where they belong: that is what most people get wrong.
- A label that is nearly ours (autohedge.enabled, autohdge.model, AutoHedge.port) is named with the one that was meant.
- A value that cannot be read is left out with a note; the service stays. No note repeats a value.

It must not know: Docker's answers, networks, other services.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from autohedge.core.types import NOTHING, Kind
from autohedge.settings.nearest import nearest
from autohedge.settings.scalars import kind_of

PREFIX = "autohedge."
LONGEST = 2048  # characters of one value
MANY = 64  # models or aliases of one service
LONGEST_NAME = 256
MOST_TOKENS = 100_000_000
SHOWN = 64  # characters of a label's name in a note
TOO_MANY = 500  # labels of one service that are looked at

_MODEL = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./:@+-]*", re.ASCII)
_POOL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_WHOLE = re.compile(r"[0-9]{1,12}", re.ASCII)
_YES, _NO = {"true", "1", "yes", "on"}, {"false", "0", "no", "off"}
_OURS = "autohedge"


@dataclass(frozen=True, slots=True)
class Marks:
    """What the labels of one service say; None and "" are not said. `aliases` maps a public name to the engine's name, ""
    for the only model. `notes` are half sentences about labels that were ignored or are in the wrong place.
    """

    enable: bool | None = None
    models: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    port: int | None = None
    provider: Kind | None = None
    max_model_len: int | None = None
    pool: str = ""
    priority: int | None = None
    weight: int | None = None
    concurrency: int | None = None
    notes: tuple[str, ...] = ()


BLANK = Marks()


def is_model(name: str) -> bool:
    """Whether a text may be the name of a model: a word of the usual characters, no URL."""
    return len(name) <= LONGEST_NAME and "://" not in name and _MODEL.fullmatch(name) is not None


def read(service: Mapping[str, Any], container: Mapping[str, Any] = NOTHING) -> Marks:
    """The marks of a service with these labels on itself and on its containers."""
    notes: list[str] = []
    ours: dict[str, str] = {}
    for labels, misplaced in ((service, False), (container, True)):
        for key in list(labels)[:TOO_MANY]:
            if key.startswith(PREFIX) and key.removeprefix(PREFIX) in _READERS:
                if misplaced:
                    notes.append(
                        f"label {key} stands on the container; it counts, but belongs to the service (deploy.labels)"
                    )
                ours.setdefault(key.removeprefix(PREFIX), str(labels[key]))
            elif (meant := _meant(key)) is not None:
                notes.append(f"label {_shown(key)} is not known{meant}")
    if not ours:
        return replace(BLANK, notes=tuple(notes)) if notes else BLANK
    said: dict[str, Any] = {}
    for name, text in ours.items():
        try:
            said |= _value(name, text)
        except ValueError as error:
            notes.append(f"label {PREFIX}{name} is ignored: it {error}")
    return Marks(**said, notes=tuple(notes))


def _value(name: str, text: str) -> Mapping[str, Any]:
    """The field of `Marks` that a label sets."""
    if len(text) > LONGEST:
        raise ValueError(f"is longer than {LONGEST} characters")
    return _READERS[name](text.strip())


def _meant(key: str) -> str | None:
    """The end of a note about a label that is nearly ours, None for a label of somebody else."""
    if key.startswith(PREFIX):
        head, tail = _OURS, key.removeprefix(PREFIX)
    else:
        head, _, tail = key.partition(".")
        bare = head.lower().replace("-", "").replace("_", "")
        if bare.startswith(_OURS):
            tail = tail or bare.removeprefix(_OURS)
        elif not (bare[:1] == "a" and 7 <= len(bare) <= 11 and nearest(bare, [_OURS]) and _close(bare)):
            return None
    near = nearest(tail.lower(), _READERS)
    return f"; did you mean {PREFIX}{near}?" if near else f"; known are {', '.join(PREFIX + name for name in _READERS)}"


def _close(word: str) -> bool:
    """Whether a word is ours with at most two letters more, less or wrong."""
    before = list(range(len(_OURS) + 1))
    for i, letter in enumerate(word, 1):
        row = [i]
        for j, ours in enumerate(_OURS, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (letter != ours)))
        before = row
    return before[-1] <= 2


def _shown(key: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in key[:SHOWN])


# --- one reader per label ----------------------------------------------------------------------------------------------


def _whole(name: str, least: int, most: int) -> Callable[[str], Mapping[str, Any]]:
    def reader(text: str) -> Mapping[str, Any]:
        if _WHOLE.fullmatch(text) is None or not least <= int(text) <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return {name: int(text)}

    return reader


def _enable(text: str) -> Mapping[str, Any]:
    if text.lower() not in _YES | _NO:
        raise ValueError("must be true or false")
    return {"enable": text.lower() in _YES}


def _provider(text: str) -> Mapping[str, Any]:
    try:
        kind = kind_of(text)
    except ValueError:
        near = nearest(text, [kind.value for kind in Kind])
        raise ValueError(f"names no provider{f'; did you mean {near}?' if near else ''}") from None
    return {"provider": None if kind is Kind.AUTO else kind}


def _pool(text: str) -> Mapping[str, Any]:
    if _POOL.fullmatch(text) is None:
        raise ValueError("must be a word of letters, digits, dots and dashes")
    return {"pool": text}


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names or len(names) > MANY:
        raise ValueError(f"must name 1 to {MANY} models")
    if not all(map(is_model, names)):
        raise ValueError("must hold names of models: letters, digits and ._-/:@+, and no URL")
    return names


def _models(text: str) -> Mapping[str, Any]:
    return {"models": _names(text)}


def _model(text: str) -> Mapping[str, Any]:
    if "," in text:
        raise ValueError(f"must name one model; {PREFIX}models takes several")
    return _models(text)


def _aliases(text: str) -> Mapping[str, Any]:
    pairs = [one.partition("=") for one in text.split(",") if one.strip()]
    for public, sign, served in pairs:
        _names(public)
        if sign:
            _names(served)
    if not pairs or len(pairs) > MANY:
        raise ValueError(f"must hold 1 to {MANY} aliases")
    return {"aliases": MappingProxyType({public.strip(): served.strip() for public, _, served in pairs})}


_READERS: Mapping[str, Callable[[str], Mapping[str, Any]]] = {
    "enable": _enable,
    "models": _models,  # before `model`: where both stand, the one model is the one that counts
    "model": _model,
    "aliases": _aliases,
    "port": _whole("port", 1, 65535),
    "provider": _provider,
    "max_model_len": _whole("max_model_len", 1, MOST_TOKENS),
    "pool": _pool,
    "priority": _whole("priority", 0, 1000),
    "weight": _whole("weight", 1, 1000),
    "concurrency": _whole("concurrency", 1, 100_000),
}
