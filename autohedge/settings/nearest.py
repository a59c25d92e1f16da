"""The nearest known word to an unknown one: the "did you mean" of every error about a name.

It must not know: what the words stand for.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that looks most like `word`, or None when none does. Case and "-" against "_" count for nothing."""
    spelled = {_bare(name): name for name in known}
    found = get_close_matches(_bare(word), list(spelled), n=1, cutoff=0.6)
    return spelled[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a sentence: a question with the nearest word, or the list of all when none is near."""
    names = list(known)
    near = nearest(word, names)
    return f'; did you mean "{near}"?' if near else f" (known: {', '.join(names)})"


def _bare(word: str) -> str:
    return word.lower().replace("-", "_")
