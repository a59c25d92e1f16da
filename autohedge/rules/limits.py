"""Which candidates can serve an ask, and the one 400 when none can.

Rules
- A request is refused only when every candidate would refuse it. What one of them serves goes there.
- Unknown is not checked. Only an engine's own count refuses a prompt for its length; bytes only prove that one fits.
- A refusal reads alone: field, value, limit, model, backend, and where the limit was learned.

It must not know: how bodies are read, how engines are asked, or anything about health.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from autohedge.core.ask import Ask
from autohedge.core.problems import Detail, Problem, gathered
from autohedge.core.types import Candidate, Kind, Route
from autohedge.providers import DIALECTS
from autohedge.providers.base import TOO_LONG
from autohedge.providers.common import who
from autohedge.rules.decisions import over, within

# Tokens that chat templates add around each message, and once per prompt (system texts, instructions for tools).
PER_PART = 64
PER_PROMPT = 512
BOUNDLESS = 1 << 62


class Fit(NamedTuple):
    """`usable` in the order given, and the others with the reasons against each."""

    usable: tuple[Candidate, ...]
    skipped: tuple[tuple[Candidate, tuple[Detail, ...]], ...]


def check(
    ask: Ask,
    findings_of: Callable[[Kind], tuple[Detail, ...]],
    candidates: Sequence[Candidate],
    tokens: Mapping[str, int],
    now: float,
) -> Fit:
    """Sort `candidates` into those that can serve `ask` and those that would refuse it.

    `findings_of` tells what a kind refuses in the body; `tokens` holds exact counts of the prompt by replica id or by
    backend name (`TOO_LONG` where the engine refused to count), and may be empty. `now` is epoch seconds.
    """
    usable: list[Candidate] = []
    skipped: list[tuple[Candidate, tuple[Detail, ...]]] = []
    by_kind: dict[Kind, tuple[Detail, ...]] = {}
    for candidate in candidates:
        kind = candidate.kind
        against = by_kind.get(kind)
        if against is None:
            against = by_kind[kind] = findings_of(kind)
        if candidate.limits.abilities:
            against = (*against, *_missing(ask, candidate, now))
        if ask.sizes is not None and candidate.limits.counts:
            against = (*against, *over(ask.sizes, candidate.limits.counts, who(ask, candidate), now))
        count = tokens.get(candidate.replica.id, tokens.get(candidate.backend.name)) if tokens else None
        unfit = DIALECTS[kind].fits(ask, count, candidate, now)
        if unfit:
            against = (*against, *unfit)
        if against:
            skipped.append((candidate, against))
        else:
            usable.append(candidate)
    return Fit(tuple(usable), tuple(skipped))


def _missing(ask: Ask, candidate: Candidate, now: float) -> list[Detail]:
    """What the ask needs and the model is known not to have."""
    abilities = candidate.limits.abilities
    wanted: list[tuple[str, str | None, str]] = [(ask.door.value, None, f"the {ask.door.value} API")]
    if ask.tools:
        wanted.append(("tools", "tools", "tools"))
    if ask.media:
        wanted.append(("vision", "messages" if ask.sizes is None else "images", "images or other media"))
    if ask.response_format:
        wanted.append(("response_format", "response_format", "response_format"))
    found = []
    for name, param, words in wanted:
        able = abilities.get(name)
        if able is not None and not able.value:
            source = able.told(now)
            message = f"{f'{param}: ' if param else ''}{who(ask, candidate)} does not support {words} ({source})"
            code = "images_not_supported" if param == "images" else "unsupported_feature"
            found.append(Detail(param, code, message, source=source))
    return found


def room(candidates: Sequence[Candidate]) -> int:
    """A number of tokens under which no candidate refuses anything for its length: the smallest figure known, less one."""
    figures = (
        fact.value
        for candidate in candidates
        for fact in (candidate.limits.context, candidate.limits.max_input, candidate.limits.max_output)
        if fact is not None
    )
    return min(figures, default=BOUNDLESS) - 1


def lacking(candidates: Sequence[Candidate]) -> frozenset[str]:
    """The abilities that at least one candidate is known not to have."""
    return frozenset(
        name for candidate in candidates for name, fact in candidate.limits.abilities.items() if not fact.value
    )


def plainly_fits(ask: Ask, route: Route, body_bytes: int) -> bool:
    """The cheap way to say that length and abilities exclude no candidate of `route`: true for nearly every request.

    Not a refusal when false: then `check` looks closely. `body_bytes` is the size of the decoded body.
    """
    if ask.sizes is not None and not (within(ask.sizes, route.candidates) and within(ask.sizes, route.spare)):
        return False
    if ask.media or (body_bytes + PER_PART * ask.parts + PER_PROMPT + max(ask.max_tokens or 0, 0)) > route.room:
        return False
    return not route.lacking or not (
        ask.door in route.lacking
        or (ask.tools and "tools" in route.lacking)
        or (ask.response_format and "response_format" in route.lacking)
    )


def refusal(fit: Fit) -> Problem:
    """The 400 for a fit without usable candidates (`fit.skipped` is not empty).

    The candidate that came closest leads: the fewest findings, then the largest limit. Findings of the others follow where
    they say something else; those that refuse alike count once, by the name of the first.
    """
    ranked = sorted(
        fit.skipped, key=lambda pair: (len(pair[1]), -max((detail.limit or 0 for detail in pair[1]), default=0))
    )
    distinct: dict[tuple[object, ...], Detail] = {}
    for _, details in ranked:
        for detail in details:
            learned = detail.limit is not None or detail.source is not None
            said = "" if learned else detail.message
            distinct.setdefault((detail.param, detail.code, detail.limit, said), detail)
    return gathered(list(distinct.values()))


def needs_count(ask: Ask, candidate: Candidate, body_bytes: int) -> bool:
    """Whether the engine's own count of the prompt could change what is found against `ask`.

    A token is at least one byte of text, and templates add little: with that upper bound the engine's arithmetic must come to
    the same findings as without any count, none as a rule; it never gives fewer for more tokens. `body_bytes` is the size of
    the decoded body. Media have no bound in bytes: they need no count only where no length is checked.
    """
    if ask.media:
        bound = TOO_LONG
    else:
        size = ask.text_bytes if ask.text_bytes and not ask.tools else max(ask.text_bytes, body_bytes)
        bound = size + PER_PART * ask.parts + PER_PROMPT
    fits = DIALECTS[candidate.kind].fits
    at_most = fits(ask, bound, candidate, 0.0)
    return bool(at_most) and [one.param for one in at_most] != [one.param for one in fits(ask, None, candidate, 0.0)]
