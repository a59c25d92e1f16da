"""How many and how much a System One request may hold: its sizes against the limits of a model.

Rules
- A limit that nobody knows is not checked. What an operator wrote or an engine said stands over what is usual for its kind.
- Every limit that is broken is told, of options and levels once per question.

It must not know: how a body is read, kinds, where a limit was learned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter

from autohedge.core.ask import Sizes
from autohedge.core.problems import Detail
from autohedge.core.types import Candidate, Fact

Counts = Mapping[str, Fact[int]]
Steps = tuple[str | int, ...]
MOST = 32  # questions that are told, characters of an id that are shown

# limits of the whole request: what is measured, the code, the field, how it is called
WHOLE: dict[str, tuple[Callable[[Sizes], int], str, Steps, str]] = {
    "max_questions": (
        attrgetter("questions"),
        "too_many_questions",
        ("questions",),
        "{} questions (split the request)",
    ),
    "max_images": (attrgetter("images"), "too_many_images", ("images",), "{} images"),
    "max_state_bytes": (attrgetter("state_bytes"), "limit_exceeded", ("state",), "a state of {} bytes"),
    "max_body_bytes": (attrgetter("body_bytes"), "limit_exceeded", (), "a body of {} bytes"),
}
# limits of each question: (question id, how many), the code, how it is called
EACH: dict[str, tuple[Callable[[Sizes], tuple[tuple[str, int], ...]], str, str]] = {
    "min_options": (attrgetter("options"), "too_few_options", "option"),
    "max_options": (attrgetter("options"), "too_many_options", "option"),
    "min_levels": (attrgetter("levels"), "too_few_levels", "level"),
    "max_levels": (attrgetter("levels"), "too_many_levels", "level"),
}


def within(sizes: Sizes, candidates: Iterable[Candidate]) -> bool:
    """Whether the request breaks no limit of any candidate: true for nearly every request."""
    last: Counts | None = None
    for candidate in candidates:
        counts = candidate.limits.counts
        if counts is not last and counts:
            last = counts
            if any(_broken(name, fact.value, sizes) for name, fact in counts.items()):
                return False
    return True


def over(sizes: Sizes, counts: Counts, place: str, now: float) -> list[Detail]:
    """A finding per limit in `counts` that the request breaks; `place` is whose limits they are: "model m on backend b".
    `now` is epoch seconds.
    """
    return [detail for name, fact in counts.items() for detail in _told(name, fact, sizes, place, now)]


def _broken(name: str, limit: int, sizes: Sizes) -> bool:
    if name in WHOLE:
        return WHOLE[name][0](sizes) > limit
    pairs = EACH[name][0](sizes)
    if name[:3] == "min":
        return any(number < limit for _, number in pairs)
    return any(number > limit for _, number in pairs)


def _told(name: str, fact: Fact[int], sizes: Sizes, place: str, now: float) -> Iterator[Detail]:
    limit, source = fact.value, fact.told(now)
    if not _broken(name, limit, sizes):
        return
    bound = f"{place} takes at {'least' if name[:3] == 'min' else 'most'} {limit} ({source})"
    if name in WHOLE:
        measure, code, steps, words = WHOLE[name]
        value = measure(sizes)
        yield Detail(_path(steps), code, f"{words.format(value)}, {bound}", value, limit, source, steps)
        return
    pairs, code, word = EACH[name]
    bad = [(question, n) for question, n in pairs(sizes) if (n < limit if name[:3] == "min" else n > limit)]
    for question, number in bad[:MOST]:
        shown = question if len(question) <= MOST else question[:MOST] + "..."
        steps = ("questions", question, "criteria")
        said = f"question {shown!r} has {number} {word}{'' if number == 1 else 's'}, {bound}"
        yield Detail(_path(steps), code, said, number, limit, source, steps)


def _path(steps: Steps) -> str | None:
    return ".".join(str(step) for step in steps)[:200].encode("utf-8", "replace").decode() or None
