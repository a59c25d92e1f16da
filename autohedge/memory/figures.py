"""Which figure counts when several places name the same limit of a model.

Rules
- The higher `Rank` wins: engine > arguments > environment > label > configuration; of equal ranks the newer one, then
  the first.
- What an engine names while it refuses a request (`Rank.ERROR`) and what it answers when asked (`Rank.ENGINE`) are the
  same voice: the newer of the two counts. So a figure that became stale (Ollama shrinks num_ctx, a container came back
  with another --max-model-len: trap T6) heals with the next answer.
- `max_output` alone may also be restricted by the operator: a configured or labelled figure below everything that is
  known of the engine is a ceiling of its own and wins. Above it, it means nothing and the engine's figure stands.
  The context is the engine's word only: a stale hint there would refuse what the engine would have served.
- Unknown (None) never beats a figure.

It must not know: replicas, sources, or how a figure was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from autohedge.core.types import NOTHING, UNKNOWN_LIMITS, Fact, Limits, Rank

T = TypeVar("T")

TAUGHT = ("context", "max_input", "max_output", "max_options")  # the limits that an engine's error text can name
COUNTED = ("max_options",)  # those of them that `Limits.counts` holds
REFUSAL = "named by the engine when it refused a request"


def stronger(first: Fact[T] | None, second: Fact[T] | None) -> Fact[T] | None:
    """The one of two statements that counts."""
    if first is None or second is None:
        return first if second is None else second
    if min(first.rank, second.rank) >= Rank.ENGINE and first.at != second.at:
        return first if first.at > second.at else second
    if first.rank != second.rank:
        return first if first.rank > second.rank else second
    return second if second.at > first.at else first


def _output(first: Fact[int] | None, second: Fact[int] | None) -> Fact[int] | None:
    """As `stronger`, but an operator's lower figure stays a ceiling."""
    if first is not None and second is not None:
        low, high = (first, second) if first.value < second.value else (second, first)
        if low.value < high.value and low.rank <= Rank.LABEL < high.rank:
            return low
    return stronger(first, second)


def _each(first: Mapping[str, Fact[T]], second: Mapping[str, Fact[T]]) -> Mapping[str, Fact[T]]:
    if not second or not first:
        return first or second
    merged = dict(first)
    for name, fact in second.items():
        counts = stronger(merged.get(name), fact)
        assert counts is not None
        merged[name] = counts
    return MappingProxyType(merged)


def combined(first: Limits, second: Limits) -> Limits:
    """The limits that follow from two sets of statements about the same model; the order matters for exact ties only."""
    if second is UNKNOWN_LIMITS or second == UNKNOWN_LIMITS:
        return first
    if first is UNKNOWN_LIMITS or first == UNKNOWN_LIMITS:
        return second
    return Limits(
        context=stronger(first.context, second.context),
        max_input=stronger(first.max_input, second.max_input),
        max_output=_output(first.max_output, second.max_output),
        abilities=_each(first.abilities, second.abilities),
        counts=_each(first.counts, second.counts),
    )


def taught(teaches: Mapping[str, int], now: float) -> Limits:
    """What an engine's refusal said, as limits. `now` is epoch seconds. Figures below 1 and unknown names are dropped."""
    facts = {
        name: Fact(value, REFUSAL, Rank.ERROR, now) for name, value in teaches.items() if name in TAUGHT and value > 0
    }
    return Limits(
        context=facts.get("context"),
        max_input=facts.get("max_input"),
        max_output=facts.get("max_output"),
        counts={name: fact for name, fact in facts.items() if name in COUNTED} or NOTHING,
    )


def says(limits: Limits, other: Limits) -> bool:
    """Whether `limits` name the same number wherever `other` names one."""
    pairs = [
        (limits.context, other.context),
        (limits.max_input, other.max_input),
        (limits.max_output, other.max_output),
        *((limits.counts.get(name), fact) for name, fact in other.counts.items()),
    ]
    return all(two is None or (one is not None and one.value == two.value) for one, two in pairs)
